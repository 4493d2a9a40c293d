"""Nack: a destination asks for what is missing when the first message behind it comes, and a source
sends that at once."""

from dataclasses import replace

import pytest

from gateway.reliability.records import Wire
from gateway.reliability.simulation.run import simulate
from gateway.reliability.simulation.scenarios import Exchange, Scenario
from gateway.reliability.values import Reply
from mediation.reliable_messaging import (
    Acknowledgement,
    AckRequested,
    Ranges,
    ack_requested_block,
    acknowledgement_block,
    read_message,
    with_blocks,
)
from mediation.reliable_messaging.policy import Policy
from tests.gateway.reliability.test_faults import VERSIONS, Peer, acknowledged, answered
from tests.rigs.reliable_ends import CLIENT, WIRE_1_1, Ends, losing


def ends_of(wire: Wire) -> Ends:
    return Ends(wire, service={"nacks": True})


def nacked(reply: Reply) -> tuple[int, ...]:
    """What the answer asks for, which says nothing of what came."""
    assert reply.answer is not None
    [said] = answered(reply).acknowledgements
    assert not said.ranges and not said.final
    for word in (b"AcknowledgementRange", b"None", b"Final"):
        assert word not in reply.answer.envelope
    return tuple(said.nacks)


@pytest.mark.parametrize("wire", VERSIONS)
def test_what_is_missing_is_asked_for_once(wire: Wire) -> None:
    peer = Peer(ends_of(wire))
    made = peer.create()
    assert acknowledged(peer.message(made, 1)) == "1"
    assert nacked(peer.message(made, 4)) == (2, 3)
    # The gap is known; what comes behind it is acknowledged, as is what comes again.
    assert acknowledged(peer.message(made, 5)) == "1,4-5"
    assert acknowledged(peer.message(made, 4)) == "1,4-5"
    assert acknowledged(peer.message(made, 3)) == "1,3-5"
    assert nacked(peer.message(made, 7)) == (6,)
    assert acknowledged(peer.message(made, 2)) == "1-5,7"


@pytest.mark.parametrize("wire", VERSIONS)
def test_at_an_address_it_goes_beside_the_acknowledgement(wire: Wire) -> None:
    ends = ends_of(wire)
    peer = Peer(ends)
    made = peer.create_at(CLIENT)
    reply = peer.message(made, 3)
    assert reply.answer is None
    [told] = reply.outgoing
    assert (told.to.address, told.label) == (CLIENT, "Nack")
    [said] = read_message(told.envelope).acknowledgements
    assert said == Acknowledgement(made, Ranges(), nacks=(1, 2))
    [later] = ends.service.endpoint.due(ends.now + 1)
    assert [str(each.ranges) for each in read_message(later.envelope).acknowledgements] == ["3"]


@pytest.mark.parametrize("wire", VERSIONS)
def test_who_asks_for_an_acknowledgement_gets_one(wire: Wire) -> None:
    peer = Peer(ends_of(wire))
    made = peer.create()
    asking = ack_requested_block(wire.rm, AckRequested(made))
    reply = peer.take(with_blocks(peer.written(made, 2), [asking]))
    assert acknowledged(reply) == "2"


def test_so_many_are_asked_for() -> None:
    peer = Peer(ends_of(WIRE_1_1))
    made = peer.create()
    assert nacked(peer.message(made, 1000)) == tuple(range(1, 65))


def test_who_was_not_told_to_ask_does_not() -> None:
    peer = Peer(Ends(WIRE_1_1))
    made = peer.create()
    assert acknowledged(peer.message(made, 3)) == "3"


@pytest.mark.parametrize("wire", VERSIONS)
@pytest.mark.parametrize("acks_to", [CLIENT, "anonymous"])
def test_what_was_lost_is_sent_at_once(wire: Wire, acks_to: str) -> None:
    ends = ends_of(wire)
    channel = ends.channel(acks_to)
    ends.send(channel, "order 1")
    ends.settle()
    ends.loses = losing("client: message 2")
    for number in (2, 3):
        ends.send(channel, f"order {number}")
        ends.settle()  # No time passes.
    assert "service: Nack" in ends.log
    assert ends.log.count("client: message 2 again") == 1
    assert ends.service.got == ["order 1", "order 2", "order 3"]


def test_who_asks_all_the_time_uses_no_tries_up() -> None:
    """A destination may ask with each of 64 messages that come behind the one that was lost."""
    ends = Ends(WIRE_1_1, client={"policy": Policy(tries=10, jitter=0.0)})
    channel = ends.channel("anonymous")
    ends.send(channel, "order 1")
    ends.settle()
    ends.loses = lambda line: line.startswith("client: message 2")
    ends.send(channel, "order 2")
    ends.settle()
    with ends.client.store.look() as look:
        [sequence] = look.outgoing_page("", 10)
    said = Acknowledgement(sequence.identifier or "", Ranges(), nacks=(2,))
    asking = acknowledgement_block(WIRE_1_1.rm, said)
    for _ in range(64):
        nack = Peer(ends).empty(CLIENT, asking)
        ends.client.endpoint.received(nack, ends.now)
        ends.settle(0.01)
    assert ends.log.count("client: message 2 again") == 1
    ends.loses = lambda line: False
    ends.settle(10)
    assert ends.service.got == ["order 1", "order 2"]
    assert not ends.client.given_up


def test_the_simulator_draws_it() -> None:
    drawn = Scenario.drawn(1, Exchange.ANONYMOUS_ONE_WAY)
    lossy = replace(drawn, messages=12, pace=0.01, loss=0.3, nacks=True, names=1, together=1)
    outcome = simulate(lossy)
    assert outcome.broken is None
    assert "Nack" in outcome.diagram
    assert "Nack for what is missing" in str(lossy)
    assert any(Scenario.drawn(seed).nacks for seed in range(10))
