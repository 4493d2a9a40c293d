"""What one attempt makes of an answer."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.delivery.attempt import Attempts
from gateway.delivery.outbox import Outbox, PendingDelivery
from gateway.delivery.partition_share import everything
from gateway.delivery.pending import Message
from gateway.delivery.scheduler import SendScheduler
from gateway.delivery.verdicts import Outcome, Verdict
from gateway.egress import Answer, Request, Target
from gateway.parsing import SMALL
from mediation.model.versions import DataForm, EventForm, Spec, Version
from mediation.rendering import prepare
from tests.rigs.dispatching import engine, notification


class Answering:
    """A transport with one answer."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def send(self, request: Request) -> Answer:
        return self._answer

    async def close(self) -> None:
        """Nothing is open."""


class Owner:
    """An owner of outboxes that keeps nothing."""

    patience = 1.0
    share = everything()

    def patience_for(self, tenant: str) -> float:
        return self.patience

    def next(self, outbox: Outbox) -> PendingDelivery | None:
        return None

    def completed(self, pending: PendingDelivery, outcome: Outcome) -> None:
        pending.outbox.finish(pending)

    def stalled(self, outbox: Outbox) -> None:
        """Nobody keeps it."""


async def attempted(folder: Path, answer: Answer) -> tuple[Outcome, int]:
    """The outcome, and the attachments that were counted as left out."""
    async with engine(folder) as e:
        entry = await e.subscribe("http://127.0.0.1/")
        attempts = Attempts(Answering(answer), producer="")
        scheduler = SendScheduler(attempts)
        outbox = Outbox(entry, scheduler.destination(entry.target), Owner())
        pending = PendingDelivery(Message(notification("1"), None), outbox, 1, 0.0)
        return await attempts.send(pending), attempts.attachments_dropped


@pytest.mark.parametrize(("status", "counted"), [(202, 2), (503, 0)])
async def test_attachments_left_out_of_what_was_delivered_are_counted(
    tmp_path: Path, status: int, counted: int
) -> None:
    assert (await attempted(tmp_path, Answer(status, dropped=2)))[1] == counted


async def test_an_answer_that_cannot_be_counted_is_an_error_inside(tmp_path: Path) -> None:
    wrong: Any = "3"
    with capture_logs() as logs:
        outcome, _ = await attempted(tmp_path, Answer(202, dropped=wrong))
    assert outcome.verdict is Verdict.RETRY
    assert [log["event"] for log in logs if log["log_level"] == "error"] == ["delivery.error"]


class _Posting(Answering):
    """One that would take messages at once."""

    def __init__(self) -> None:
        super().__init__(Answer(202))
        self.lane_of: list[Target] = []

    def lane(self, target: Target) -> None:
        self.lane_of.append(target)


async def test_a_large_message_is_made_json_in_a_thread_and_once(tmp_path: Path) -> None:
    async with engine(tmp_path) as e:
        entry = await e.subscribe("http://127.0.0.1/")
        spec = Spec(Version.CLOUDEVENTS, EventForm.STRUCTURED, None)
        policy = replace(entry.subscription.policy, data=DataForm.JSON)
        entry.subscription = replace(entry.subscription, spec=spec, policy=policy)
        entry.recipient = prepare(entry.subscription)
        transport = _Posting()
        attempts = Attempts(transport, producer="http://127.0.0.1/")
        scheduler = SendScheduler(attempts)
        outbox = Outbox(entry, scheduler.destination(entry.target), Owner())
        small = Message(notification("1"), None)
        assert attempts.post(PendingDelivery(small, outbox, 1, 0.0), _hear) is None
        assert transport.lane_of, "it would have begun at once"
        transport.lane_of.clear()

        large = Message(notification("2", filling=SMALL), None)
        several = [PendingDelivery(large, outbox, number, 0.0) for number in range(2, 12)]
        assert attempts.post(several[0], _hear) is None
        assert not transport.lane_of and not large.renderings
        sending = [asyncio.create_task(attempts.send(one)) for one in several]
        await asyncio.sleep(0)
        assert len(large.preparing) == 1
        outcomes = await asyncio.gather(*sending)
        assert all(outcome.verdict is Verdict.DELIVERED for outcome in outcomes)
        assert list(large.renderings) == [entry.recipient.shape] and not large.preparing
        assert attempts.post(several[0], _hear) is None
        assert transport.lane_of, "it is made, so it would begin at once"


def _hear(_: PendingDelivery, __: Outcome) -> None: ...
