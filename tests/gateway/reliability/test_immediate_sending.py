"""Messages that are sent by who stores them."""

import pytest

from gateway.reliability.immediate_sending import send_at_once
from gateway.reliability.party import Channel
from gateway.reliability.source import Message, Sent
from gateway.reliability.steps import Step
from gateway.reliability.values import Outgoing
from mediation.reliable_messaging.machines import SourceState
from mediation.reliable_messaging.policy import Policy
from tests.rigs.reliable_ends import Ends

POLICY = Policy(interval=2.0, window=4)


def at_once(
    ends: Ends, channel: Channel, content: str, *, last: bool = False
) -> tuple[Sent, Outgoing | None]:
    message = Message("urn:a", f'<o xmlns="urn:example">{content}</o>'.encode(), last=last)
    with ends.client.store.transaction() as tx:
        step = Step(ends.client.endpoint.party, tx, ends.now)
        return send_at_once(step, "orders", channel, message)


def made(ends: Ends) -> Channel:
    """A sequence that was made, and is idle."""
    channel = ends.channel()
    ends.send(channel, "first")
    ends.settle(1.0)
    assert ends.service.got == ["first"]
    return channel


@pytest.fixture
def ends() -> Ends:
    return Ends(client={"policy": POLICY})


def test_nobody_looks_for_it(ends: Ends) -> None:
    channel = made(ends)
    for content in ("a", "b"):
        _, outgoing = at_once(ends, channel, content)
        assert outgoing is not None
        assert ends.client.endpoint.due(ends.now) == []
        ends.post(ends.client, outgoing)
    ends.settle(10.0)
    assert ends.service.got == ["first", "a", "b"]
    assert ends.log.count("client: message 2") == ends.log.count("client: message 3") == 1
    assert not any(line.endswith("again") for line in ends.log)


def test_one_that_nobody_sends_goes_again(ends: Ends) -> None:
    """The process ended after the commit, say."""
    channel = made(ends)
    sent, outgoing = at_once(ends, channel, "a")
    assert outgoing is not None
    with ends.client.store.transaction() as tx:
        kept = tx.outgoing.message(sent.key, sent.number)
        sequence = tx.outgoing.find(sent.key)
    assert kept is not None and (kept.tries, kept.next_at) == (1, ends.now + POLICY.interval)
    assert sequence is not None and sequence.state is SourceState.SENDING
    ends.restart(ends.client)
    ends.settle(POLICY.interval * 2)
    assert ends.service.got == ["first", "a"]
    assert "client: message 2 again" in ends.log


def test_as_many_as_the_window_has(ends: Ends) -> None:
    channel = made(ends)
    found = [at_once(ends, channel, str(number))[1] for number in range(6)]
    assert [each is not None for each in found] == [True] * 4 + [False] * 2
    for each in found:
        if each is not None:
            ends.post(ends.client, each)
    ends.settle(10.0)
    assert ends.service.got == ["first", *map(str, range(6))]


def test_before_its_sequence_is_there(ends: Ends) -> None:
    channel = ends.channel()
    assert at_once(ends, channel, "a")[1] is None
    assert at_once(ends, channel, "b")[1] is None
    ends.settle(1.0)
    assert ends.service.got == ["a", "b"]


def test_behind_one_that_waits(ends: Ends) -> None:
    """It would overtake it."""
    channel = made(ends)
    ends.send(channel, "a")
    assert at_once(ends, channel, "b")[1] is None
    ends.settle(1.0)
    assert ends.service.got == ["first", "a", "b"]


def test_the_last_one_ends_its_sequence(ends: Ends) -> None:
    channel = made(ends)
    assert at_once(ends, channel, "a", last=True)[1] is None
    ends.settle(10.0)
    assert ends.service.got == ["first", "a"]
    assert "client: TerminateSequence" in ends.log


def test_where_acknowledgements_travel_with_messages(ends: Ends) -> None:
    channel = ends.channel(offers=True)
    ends.send(channel, "first")
    ends.settle(1.0)
    assert at_once(ends, channel, "a")[1] is None
    ends.settle(1.0)
    assert ends.service.got == ["first", "a"]
