"""When sequences are due: those that change with every message keep their places among the due."""

import pytest

from gateway.reliability.records import IncomingSequence
from gateway.reliability.steps import due_now
from mediation.reliable_messaging.policy import Policy
from tests.rigs.reliable_ends import Ends


@pytest.mark.parametrize(
    ("before", "due"),
    [
        pytest.param(None, 7.0, id="it was never due"),
        pytest.param(3.0, 3.0, id="it is due already"),
        pytest.param(9.0, 7.0, id="it was due later"),
    ],
)
def test_due_now(before: float | None, due: float) -> None:
    assert due_now(before, 7.0) == due


def test_messages_that_are_stored_together_make_their_sequence_due_once() -> None:
    ends = Ends()
    times: list[float | None] = []
    for content in ("a", "b", "c"):
        ends.send(ends.channel(), content)
        times.append(ends.client.endpoint.next_due())
        ends.now += 1.0
    assert times == [times[0]] * 3


def _incoming(ends: Ends) -> IncomingSequence:
    with ends.service.store.look() as look:
        [found] = look.incoming_page("", 2)
    return found


def test_a_quiet_sequence_is_looked_at_in_time() -> None:
    """Messages leave the time of the look as it is, while it is little too early."""
    ends = Ends(service={"policy": Policy(inactivity=160.0)})
    channel = ends.channel("anonymous")
    ends.send(channel, "a")
    ends.settle()
    first = _incoming(ends).due_at
    ends.now += 5.0
    ends.send(channel, "b")
    ends.settle()
    assert _incoming(ends).due_at == first == ends.now - 5.0 + 160.0
    ends.now += 10.0
    ends.send(channel, "c")
    ends.settle()
    assert _incoming(ends).due_at == ends.now + 160.0
    quiet_since = ends.now
    ends.loses = lambda line: line.startswith("client")
    ends.settle(159.0)
    assert _incoming(ends).ended_at is None
    ends.settle(2.0)
    assert _incoming(ends).ended_at == quiet_since + 160.0
