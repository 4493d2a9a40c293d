"""The interoperability scenarios of the OASIS WS-RX TC (1.1 to 2.3) and of Apache Sandesha2 (3.1),
over both versions, where they have the messages for it: what goes over the wire, in its order."""

import pytest

from gateway.reliability.party import Offers, anonymous
from gateway.reliability.records import Wire
from mediation import EndpointReference
from mediation.reliable_messaging import (
    Body,
    CloseSequence,
    CreateSequence,
    SequenceHeader,
    TerminateSequence,
    sequence_block,
    with_blocks,
    write_message,
)
from mediation.reliable_messaging.application import write_application_message
from tests.rigs.reliable_ends import FETCHED, SERVICE, WIRE_1_0, WIRE_1_1, Ends, losing

VERSIONS = [pytest.param(WIRE_1_0, id="1.0"), pytest.param(WIRE_1_1, id="1.1")]
START = ["client: CreateSequence", "service: CreateSequenceResponse"]
END = {
    WIRE_1_0: ["client: message 4", "service: Acknowledgement", "client: TerminateSequence"],
    WIRE_1_1: [
        "client: CloseSequence",
        "service: CloseSequenceResponse",
        "client: TerminateSequence",
        "service: TerminateSequenceResponse",
    ],
}
"""The end of a sequence of three messages: in 1.0, where nobody marked the last, an empty one."""


def pings(ends: Ends, acks_to: str) -> None:
    channel = ends.channel(acks_to)
    for number in (1, 2, 3):
        ends.send(channel, f"ping {number}")
        ends.settle(1)
    ends.end(channel)
    ends.settle(1)


@pytest.mark.parametrize("wire", VERSIONS)
def test_1_1_one_way_anonymous(wire: Wire) -> None:
    ends = Ends(wire)
    pings(ends, "anonymous")
    exchanges = [
        line for n in (1, 2, 3) for line in (f"client: message {n}", "service: Acknowledgement")
    ]
    assert ends.log == [*START, *exchanges, *END[wire]]
    assert ends.service.got == ["ping 1", "ping 2", "ping 3"]


@pytest.mark.parametrize("wire", VERSIONS)
def test_1_2_no_messages(wire: Wire) -> None:
    ends = Ends(wire)
    made = create(ends)
    told = request(ends, TerminateSequence(made))
    if wire is WIRE_1_1:
        assert told is not None and b"TerminateSequenceResponse" in told
    else:
        assert told is None
    assert ends.service.got == []


def test_1_3_close_of_an_incomplete_sequence() -> None:
    ends = Ends(WIRE_1_1)
    made = create(ends)
    for number in (1, 3):
        message(ends, made, number)
    closed = request(ends, CloseSequence(made, 3))
    assert closed is not None
    assert b'Upper="1" Lower="1"' in closed and b'Upper="3" Lower="3"' in closed
    assert b"Final" in closed
    refused = message(ends, made, 2)
    assert refused is not None and b"SequenceClosed" in refused
    assert b"TerminateSequenceResponse" in (request(ends, TerminateSequence(made, 3)) or b"")
    ends.settle()
    assert ends.service.got == ["ping 1", "ping 3"]
    assert [notice.text for notice in ends.service.notices] == ["2 never came"]


@pytest.mark.parametrize("wire", VERSIONS)
def test_1_4_one_way_addressable(wire: Wire) -> None:
    ends = Ends(wire)
    pings(ends, "http://client.example/rm")
    exchanges = [
        line for n in (1, 2, 3) for line in (f"client: message {n}", "service: Acknowledgement")
    ]
    assert ends.log == [*START, *exchanges, *END[wire]]
    assert ends.service.got == ["ping 1", "ping 2", "ping 3"]


def echoes(ends: Ends, acks_to: str, *, offers: bool = True) -> None:
    channel = ends.channel(acks_to, offers=offers)
    for number in (1, 2, 3):
        ends.send(channel, f"echo {number}", wants_reply=True)
        ends.settle(1)
    ends.end(channel)
    ends.settle(5)
    assert ends.service.got == ["echo 1", "echo 2", "echo 3"]
    assert ends.client.got == ["echo 1", "echo 2", "echo 3"]
    ends.settle(3 * 3600)
    assert ends.is_empty()


@pytest.mark.parametrize("wire", VERSIONS)
def test_2_1_request_reply_addressable(wire: Wire) -> None:
    ends = Ends(wire, echoes=True)
    echoes(ends, "http://client.example/rm")
    assert ends.log.count("client: CreateSequence") == 1
    assert "service: CreateSequence" not in ends.log
    replies = [message for message in ends.sent if message.headers.action == "urn:example:Reply"]
    assert [reply.sequence and reply.sequence.number for reply in replies] == [1, 2, 3]
    # An acknowledgement of the requests travels on each reply.
    assert all(reply.acknowledgements for reply in replies)


@pytest.mark.parametrize("wire", VERSIONS)
def test_2_2_request_reply_without_an_offer(wire: Wire) -> None:
    ends = Ends(wire, echoes=True)
    echoes(ends, "http://client.example/rm", offers=False)
    assert ends.log.count("service: CreateSequence") == 1


def test_2_3_request_reply_offer_declined() -> None:
    ends = Ends(WIRE_1_1, echoes=True, service={"offers": Offers.DECLINE})
    echoes(ends, "http://client.example/rm")
    assert ends.log.count("service: CreateSequence") == 1
    assert [notice.kind.name for notice in ends.client.notices] == ["DECLINED"]


def test_2_3_an_offer_that_1_0_cannot_decline_is_refused() -> None:
    ends = Ends(WIRE_1_0, echoes=True, service={"offers": Offers.DECLINE})
    ends.send(ends.channel(offers=True), "echo 1", wants_reply=True)
    ends.settle(1)
    assert ends.log == ["client: CreateSequence", "service: CreateSequenceRefused"]
    assert ends.client.given_up


@pytest.mark.parametrize("wire", VERSIONS)
def test_3_1_request_reply_anonymous(wire: Wire) -> None:
    ends = Ends(wire, echoes=True)
    echoes(ends, "anonymous")
    exchanges = [
        line for n in (1, 2, 3) for line in (f"client: message {n}", f"service: reply {n}")
    ]
    assert [line for line in ends.log if "message" in line or "reply" in line][:6] == exchanges


def test_request_reply_fetched() -> None:
    ends = Ends(WIRE_1_1, echoes=True)
    echoes(ends, FETCHED)
    assert "client: MakeConnection" in ends.log


@pytest.mark.parametrize("wire", VERSIONS)
@pytest.mark.parametrize("acks_to", ["http://client.example/rm", "anonymous"])
@pytest.mark.parametrize("times", [1, 2])
def test_any_message_may_be_lost(wire: Wire, acks_to: str, times: int) -> None:
    smooth = Ends(wire, echoes=True)
    echoes(smooth, acks_to)
    for line in dict.fromkeys(smooth.log):
        ends = Ends(wire, echoes=True)
        ends.loses = losing(*[line] * times)
        echoes(ends, acks_to)


def create(ends: Ends) -> str:
    """Make a sequence, as a client does that can be called by nobody."""
    wire = ends.wire
    answer = request(ends, CreateSequence(anonymous(wire.wsa)))
    assert answer is not None
    return answer.split(b"Identifier>")[1].split(b"<")[0].decode()


def request(ends: Ends, body: Body) -> bytes | None:
    """Send a protocol message, for what comes back on its connection."""
    _, envelope = write_message(
        ends.wire,
        body,
        to=EndpointReference(SERVICE, ends.wire.wsa),
        message_id=f"urn:test:{len(ends.log)}:{type(body).__name__}",
        reply_to=anonymous(ends.wire.wsa),
    )
    answer = ends.take(ends.service, envelope).answer
    return answer.envelope if answer else None


def message(ends: Ends, identifier: str, number: int) -> bytes | None:
    """Send message *number* of a sequence."""
    wire = ends.wire
    envelope = write_application_message(
        wire.soap,
        wire.wsa,
        action="urn:example:Ping",
        body=f'<p xmlns="urn:example">ping {number}</p>'.encode(),
        to=EndpointReference(SERVICE, wire.wsa),
        message_id=f"urn:test:message:{number}",
    )
    block = sequence_block(wire.rm, wire.soap, SequenceHeader(identifier, number))
    answer = ends.take(ends.service, with_blocks(envelope, [block])).answer
    return answer.envelope if answer else None
