"""Current messages, asked for by somebody who wants to keep everybody else waiting."""

import ast
import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from adapters import Evaluated
from filters import Expression, Filter, Refused
from gateway.publishing.operations import LOOKS_AT_ONCE
from gateway.publishing.synchronization import MOST, MOST_BYTES, Synchronizing
from gateway.security.quotas import QuotaExceeded
from gateway.subscriptions.filter_budgets import OFFENCES
from mediation.model.messages import Notification
from tests.gateway.soap.test_onvif import PULLS, SECURITY, tev
from tests.rigs.consumers import consumers
from tests.rigs.dispatching import notification
from tests.rigs.envelopes import Speaker, fresh_id, message_content
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

SPEAKER = Speaker()
HOSTILE = "//*[../*[../*[../*]]]"
TOPICS = 40
LARGE = f"<a>{'<b>x</b>' * 6000}</a>"


async def synchronize(run: Running, path: str) -> int:
    octets = SPEAKER.envelope(
        tev("SetSynchronizationPoint"),
        action=f"{PULLS}/SetSynchronizationPointRequest",
        to=run.url + path,
        message_id=fresh_id(),
        headers=SECURITY,
    )
    return (await run.request("POST", path, octets, content_type=SPEAKER.type)).status


async def test_a_hostile_filter_holds_nobody_up(tmp_path: Path) -> None:
    """It was evaluated over all current messages on the event loop, 50 ms each: 22 s for 300."""
    async with consumers() as sinks, running(tmp_path, trusted=()) as run:
        for number in range(TOPICS):
            await run.publish(LARGE, path=f"/soap/topic/t{number}", source="127.0.0.2")
        body = SPEAKER.wsn_subscribe(sinks.add().url, filter=message_content(HOSTILE))
        manager = await run.subscribe(SPEAKER, body)
        evaluated = 0
        judge = run.gateway.adapter.evaluate

        async def counting(key: str, questions: object) -> Evaluated | None:
            nonlocal evaluated
            evaluated += 1
            return await judge(key, questions)  # type: ignore[arg-type]

        run.gateway.synchronizing._evaluate = counting
        for offences in range(1, OFFENCES + 1):
            asked = asyncio.create_task(synchronize(run, manager))
            turns = 0
            while not asked.done():
                await asyncio.sleep(0)
                turns += 1
            assert await asked == 200
            assert turns > 100
            # One message is enough to know that the filter exceeds its budget.
            assert evaluated == run.gateway.budgets.over_budget == offences
        await until(lambda: len(run.gateway.subscriptions) == 0)


async def test_the_rate_of_a_stranger(tmp_path: Path) -> None:
    async with running(tmp_path, trusted=()) as run:
        manager = await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe("http://c.example.org/"))
        statuses = [await synchronize(run, manager) for _ in range(int(LOOKS_AT_ONCE) * 2)]
        assert statuses[: int(LOOKS_AT_ONCE)] == [200] * int(LOOKS_AT_ONCE)
        assert 429 in statuses
        properties = (
            '<rp:GetResourcePropertyDocument xmlns:rp="http://docs.oasis-open.org/wsrf/rp-2"/>'
        )
        answers = [await run.ask(SPEAKER, properties) for _ in range(10)]
        assert 429 in {answer.status for answer in answers}
        assert (await run.ask(SPEAKER, properties, source="127.0.0.2")).status == 200


def current(number: int, filling: int = 0) -> list[Notification]:
    """The newest first."""
    return [notification(str(n), filling) for n in reversed(range(number))]


def content(text: str) -> Filter:
    return Filter(contents=(Expression(text),))


class Evaluator:
    """Stands for the process that evaluates what is dear: each message takes *seconds*."""

    def __init__(self, verdict: bool | None = True, seconds: float = 0.0) -> None:
        self.verdict = verdict
        self.seconds = seconds
        self.asked = 0

    async def __call__(self, key: str, questions: object) -> Evaluated | None:
        self.asked += 1
        await asyncio.sleep(0)
        return Evaluated([self.verdict], self.seconds)


def large(number: int) -> list[Notification]:
    """Messages on which another process evaluates what is dear."""
    return [replace(one, payload=LARGE.encode()) for one in current(number)]


@pytest.mark.parametrize(
    ("verdict", "seconds", "asked", "found", "exceeded"),
    [
        pytest.param(True, 0.0, 9, 9, None, id="cheap all the same"),
        pytest.param(False, 0.0, 9, 0, None, id="of none"),
        pytest.param(None, 1.0, 1, 0, "urn:test:8", id="over budget on the first"),
        pytest.param(True, 40.0, 3, 3, "urn:test:6", id="over budget on all together"),
    ],
)
async def test_one_budget_for_all_messages(
    verdict: bool | None, seconds: float, asked: int, found: int, exceeded: str | None
) -> None:
    evaluator = Evaluator(verdict, seconds)
    synchronizing = Synchronizing(evaluator, seconds=100.0)
    result = await synchronizing.find(large(9), content(HOSTILE), "key", "somebody")
    assert (evaluator.asked, len(result.notifications)) == (asked, found)
    assert result.exceeded == exceeded


async def test_all_that_match_in_the_order_of_their_arrival() -> None:
    found = await Synchronizing(Evaluator()).find(
        current(100), content("//n[. >= 40]"), "key", "somebody"
    )
    assert [one.id for one in found.notifications] == [f"urn:test:{n}" for n in range(40, 100)]
    assert found.exceeded is None


async def test_no_more_than_so_many() -> None:
    finding = Synchronizing(Evaluator())
    found = await finding.find(current(MOST + 50), content("true()"), "key", "somebody")
    assert [one.id for one in found.notifications] == [
        f"urn:test:{n}" for n in range(50, MOST + 50)
    ]
    large = current(20, 1024 * 1024)
    found = await finding.find(large, content("true()"), "key", None)
    assert len(found.notifications) == MOST_BYTES // 2**20


async def test_one_at_a_time_of_a_stranger() -> None:
    finding = Synchronizing(Evaluator())
    first = asyncio.create_task(finding.find(current(10), content("//n"), "key", "somebody"))
    await asyncio.sleep(0)
    with pytest.raises(QuotaExceeded):
        await finding.find(current(10), content("//n"), "key", "somebody")
    found = await finding.find(current(10), content("//n"), "key", "somebody else")
    assert len(found.notifications) == len((await first).notifications) == 10


async def test_what_cannot_be_evaluated_is_refused() -> None:
    with pytest.raises(Refused):
        await Synchronizing(Evaluator()).find(current(3), content("(("), "key", None)


def test_nothing_matches_stored_messages_on_the_event_loop() -> None:
    """`FilterSet.match` waits for another process, and `begin` is for the one message at hand.
    Filters by example, which a program's own channel has, compare strings: none waits. A named
    channel decides with `begin` about the message that is published at it, the gateway's own topics about
    each event of the gateway, a tap in a thread."""
    by_example = "gateway/client/grid_events/channels.py"
    allowed = {
        "adapters/filtering/adapter.py", "gateway/publishing/filter_thread.py", by_example,
        "gateway/channels/channel_filters.py", "gateway/web/tap_streams.py",
        "gateway/subscriptions/system_topics.py",
    }  # fmt: skip
    root = Path(__file__).parents[3]
    callers = set()
    for path in [*(root / "gateway").rglob("*.py"), *(root / "adapters").rglob("*.py")]:
        tree = ast.parse(path.read_text())
        names = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        if "FilterSet" in names and "testing" not in path.parts:
            callers.add(str(path.relative_to(root)))
        calls = [
            node.func.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        ]
        own = "cli" in path.parts or path == root / by_example
        if "FilterSet" in names and not own:
            assert "match" not in calls, path
    command_line = {name for name in callers if name.startswith("gateway/cli/")}
    assert callers - command_line == allowed
