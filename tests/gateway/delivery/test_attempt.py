"""What one attempt makes of an answer."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.delivery.attempt import Attempts
from gateway.delivery.outbox import Outbox, PendingDelivery
from gateway.delivery.partition_share import everything
from gateway.delivery.pending import Message
from gateway.delivery.schedule import Outcome, Verdict
from gateway.delivery.scheduler import SendScheduler
from gateway.egress import Answer, Request
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
