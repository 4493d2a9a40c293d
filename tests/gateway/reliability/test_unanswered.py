"""Requests that are acknowledged and get no reply end when their time is over, wherever replies
come."""

import pytest

from gateway.reliability.records import Wire
from mediation.reliable_messaging.policy import Policy
from tests.rigs.reliable_ends import CLIENT, FETCHED, WIRE_1_0, WIRE_1_1, Ends, losing

WAYS = [
    pytest.param(wire, back, id=f"{wire.rm.number} {name}")
    for wire in (WIRE_1_0, WIRE_1_1)
    for name, back in (("anonymous", "anonymous"), ("listening", CLIENT), ("fetching", FETCHED))
    if back != FETCHED or wire is WIRE_1_1
]


def ends_of(wire: Wire, within: float | None = 30.0, *, echoes: bool = False) -> Ends:
    policy = Policy(reply_within=within, jitter=0.0)
    return Ends(wire, client={"policy": policy}, echoes=echoes)


@pytest.mark.parametrize(("wire", "back"), WAYS)
def test_no_reply(wire: Wire, back: str) -> None:
    ends = ends_of(wire)
    channel = ends.channel(back, offers=True)
    ends.send(channel, "echo 1", wants_reply=True)
    ends.settle(1)
    assert ends.service.got == ["echo 1"]
    ends.settle(26)
    assert ends.client.given_up == []
    ends.settle(6)
    assert ends.client.given_up == ["message 1 was not answered"]
    assert "client: TerminateSequence" in ends.log
    if back != "anonymous":
        assert "client: message 1 again" not in ends.log
    # What is sent then goes in a sequence of its own.
    ends.send(channel, "echo 2", wants_reply=True)
    ends.settle(1)
    assert ends.service.got == ["echo 1", "echo 2"]


@pytest.mark.parametrize(("wire", "back"), WAYS)
def test_a_reply_in_time(wire: Wire, back: str) -> None:
    ends = ends_of(wire, echoes=True)
    channel = ends.channel(back, offers=True)
    ends.loses = losing("service: message 1", "service: reply 1")
    for number in (1, 2):
        ends.send(channel, f"echo {number}", wants_reply=True)
        ends.settle(10)
    assert ends.client.got == ["echo 1", "echo 2"]
    with ends.client.store.look() as look:
        assert look.waiting() == 0
    ends.end(channel)
    ends.settle(200)
    assert ends.client.given_up == []
    ends.settle(3 * 3600)
    assert ends.is_empty()


def test_its_time_begins_when_it_is_acknowledged() -> None:
    """A destination that is away for longer is waited for."""
    ends = ends_of(WIRE_1_1, 10.0)
    ends.loses = lambda line: line.startswith("client: message")
    ends.send(ends.channel(CLIENT, offers=True), "echo 1", wants_reply=True)
    ends.settle(100)
    ends.loses = lambda line: False
    ends.settle(30)
    assert ends.service.got == ["echo 1"]
    assert ends.client.given_up == []
    ends.settle(40)
    assert ends.client.given_up == ["message 1 was not answered"]


def test_one_that_waits_for_long_is_not_forgotten() -> None:
    """The destination ends a sequence that it hears nothing of for an hour."""
    ends = ends_of(WIRE_1_1, 3 * 3600.0)
    ends.send(ends.channel(CLIENT, offers=True), "echo 1", wants_reply=True)
    ends.settle(2.9 * 3600)
    assert ends.client.given_up == []
    assert 16 <= ends.log.count("client: message 1 again") <= 18
    assert ends.service.got == ["echo 1"]
    ends.settle(700)
    assert ends.client.given_up == ["message 1 was not answered"]


def test_where_nobody_says_how_long() -> None:
    ends = ends_of(WIRE_1_1, None)
    ends.send(ends.channel(CLIENT, offers=True), "echo 1", wants_reply=True)
    ends.settle(3600)
    assert ends.client.given_up == []
    assert "client: message 1 again" not in ends.log


def test_others_of_the_sequence_are_answered_meanwhile() -> None:
    ends = ends_of(WIRE_1_1, 10.0)
    channel = ends.channel(CLIENT, offers=True)
    ends.send(channel, "echo 1", wants_reply=True)
    ends.settle(5)
    ends.echoes = True
    ends.send(channel, "echo 2", wants_reply=True)
    ends.settle(4)
    assert ends.client.got == ["echo 2"]
    ends.settle(5)
    assert ends.client.given_up == ["message 1 was not answered"]
