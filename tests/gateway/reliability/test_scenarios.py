"""The interoperability scenarios of the OASIS WS-RX TC (1.1 to 2.3) and of Apache Sandesha2 (3.1 to
4.2), over both versions, where they have the messages for it: what goes over the wire, in its
order; and each of its messages lost, doubled, or late."""

from itertools import permutations

import pytest

from gateway.reliability.party import Offers, anonymous
from gateway.reliability.records import Wire
from gateway.reliability.values import Outgoing
from mediation.model.messages import EndpointReference
from mediation.reliable_messaging import (
    Acknowledgement,
    AcknowledgementAlone,
    Body,
    CloseSequence,
    CreateSequence,
    Offer,
    Ranges,
    SequenceHeader,
    TerminateSequence,
    acknowledgement_block,
    read_message,
    sequence_block,
    with_blocks,
    write_make_connection,
    write_message,
)
from mediation.reliable_messaging.application import write_application_message
from tests.rigs.reliable_ends import (
    CLIENT,
    FETCHED,
    SERVICE,
    WIRE_1_0,
    WIRE_1_1,
    End,
    Ends,
    content_of,
    losing,
)

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


def test_2_3_an_offer_that_1_0_cannot_decline_stays_empty() -> None:
    ends = Ends(WIRE_1_0, echoes=True, service={"offers": Offers.DECLINE})
    ends.send(ends.channel(offers=True), "event 1")
    ends.settle(1)
    assert ends.log[:2] == ["client: CreateSequence", "service: CreateSequenceResponse"]
    assert not ends.client.given_up
    assert "service: CreateSequence" not in ends.log


@pytest.mark.parametrize("wire", VERSIONS)
def test_3_1_request_reply_anonymous(wire: Wire) -> None:
    ends = Ends(wire, echoes=True)
    echoes(ends, "anonymous")
    exchanges = [
        line for n in (1, 2, 3) for line in (f"client: message {n}", f"service: reply {n}")
    ]
    assert [line for line in ends.log if "message" in line or "reply" in line][:6] == exchanges


@pytest.mark.parametrize("wire", VERSIONS)
def test_request_reply_anonymous_without_an_offer(wire: Wire) -> None:
    """The reply is in no sequence, and acknowledges its request."""
    ends = Ends(wire, echoes=True)
    echoes(ends, "anonymous", offers=False)
    replies = [said for said in ends.sent if said.headers.action == "urn:example:Reply"]
    assert [said.sequence for said in replies] == [None] * 3
    assert [str(said.acknowledgements[0].ranges) for said in replies] == ["1", "1-2", "1-3"]
    assert "client: message 1 again" not in ends.log


@pytest.mark.parametrize("wire", VERSIONS)
def test_3_1_request_reply_listening_client(wire: Wire) -> None:
    """Acknowledgements go to the client's listener, though replies come on its connections."""
    ends = Ends(wire, echoes=True)
    made = create(ends, EndpointReference(CLIENT, wire.wsa))
    answers = [message(ends, made, number, replies=True) for number in (1, 2, 3)]
    assert [answer and content_of(answer) for answer in answers] == ["ping 1", "ping 2", "ping 3"]
    ends.settle(1)
    assert ends.log.count("service: Acknowledgement") >= 1
    assert all(said.headers.to == CLIENT for said in ends.sent if said.acknowledgements)


def test_4_1_one_way_fetched() -> None:
    """Acknowledgements, and what ends the sequence, are fetched (WS-MakeConnection)."""
    ends = Ends(WIRE_1_1)
    pings(ends, FETCHED)
    ends.settle(60)
    assert ends.service.got == ["ping 1", "ping 2", "ping 3"]
    assert "client: MakeConnection" in ends.log
    told = [line for line in ends.log if line.startswith("service: ")]
    assert told.count("service: CreateSequenceResponse") == 1
    assert "service: TerminateSequenceResponse" in told
    ends.settle(3 * 3600)
    assert ends.is_empty()


def test_4_2_request_reply_fetched() -> None:
    ends = Ends(WIRE_1_1, echoes=True)
    echoes(ends, FETCHED)
    assert "client: MakeConnection" in ends.log


@pytest.mark.parametrize("pending", [0, 1, 3])
def test_what_waits_for_who_fetches(pending: int) -> None:
    """Each answer has one message, and says whether more wait; none is 202 with nothing in it."""
    ends = Ends(WIRE_1_1, echoes=True)
    fetched = EndpointReference(FETCHED, WIRE_1_1.wsa)
    made = create(ends, fetched, offer=Offer("urn:peer:offered", fetched))
    for number in range(1, pending + 1):
        answer = message(ends, made, number, replies=fetched)
        assert answer is not None and isinstance(read_message(answer).body, AcknowledgementAlone)
    ends.service.endpoint.due(ends.now)
    got: list[tuple[int, bool | None]] = []
    while (answer := fetch(ends)) is not None:
        said = read_message(answer)
        assert said.sequence is not None
        got.append((said.sequence.number, said.message_pending))
        back = Acknowledgement("urn:peer:offered", Ranges.of([(1, said.sequence.number)]))
        request(ends, AcknowledgementAlone(), acknowledgement_block(WIRE_1_1.rm, back))
    assert [number for number, _ in got] == list(range(1, pending + 1))
    assert [more for _, more in got] == [True] * (pending - 1) + [False] * bool(pending)


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


class Doubling(Ends):
    """Sends what a line of the log says twice, with what comes back on each connection."""

    line = ""

    def post(self, end: End, outgoing: Outgoing) -> None:
        super().post(end, outgoing)
        if f"{end.name}: {outgoing.label}" == self.line:
            self.line = ""
            super().post(end, outgoing)


@pytest.mark.parametrize("wire", VERSIONS)
@pytest.mark.parametrize("acks_to", ["http://client.example/rm", "anonymous"])
def test_any_message_may_come_twice(wire: Wire, acks_to: str) -> None:
    smooth = Ends(wire, echoes=True)
    echoes(smooth, acks_to)
    for line in dict.fromkeys(smooth.log):
        ends = Doubling(wire, echoes=True)
        ends.line = line
        echoes(ends, acks_to)


@pytest.mark.parametrize("wire", VERSIONS)
@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_messages_may_overtake_each_other(wire: Wire, order: tuple[int, ...]) -> None:
    ends = Ends(wire)
    made = create(ends)
    for number in order:
        message(ends, made, number)
    ends.settle()
    assert ends.service.got == ["ping 1", "ping 2", "ping 3"]


def create(
    ends: Ends, acks_to: EndpointReference | None = None, *, offer: Offer | None = None
) -> str:
    """Make a sequence; without *acks_to*, as a client does that can be called by nobody."""
    wire = ends.wire
    answer = request(ends, CreateSequence(acks_to or anonymous(wire.wsa), offer=offer))
    assert answer is not None
    return answer.split(b"Identifier>")[1].split(b"<")[0].decode()


def request(ends: Ends, body: Body, *blocks: bytes) -> bytes | None:
    """Send a protocol message, for what comes back on its connection."""
    _, envelope = write_message(
        ends.wire,
        body,
        to=EndpointReference(SERVICE, ends.wire.wsa),
        message_id=f"urn:test:{len(ends.log)}:{type(body).__name__}",
        reply_to=anonymous(ends.wire.wsa),
        blocks=blocks,
    )
    answer = ends.take(ends.service, envelope).answer
    return answer.envelope if answer else None


def fetch(ends: Ends) -> bytes | None:
    """Fetch one message that waits."""
    _, envelope = write_make_connection(
        FETCHED,
        to=EndpointReference(SERVICE, ends.wire.wsa),
        message_id="urn:test:fetch",
        soap=ends.wire.soap,
        wsa=ends.wire.wsa,
    )
    answer = ends.take(ends.service, envelope).answer
    return answer.envelope if answer else None


def message(
    ends: Ends, identifier: str, number: int, *, replies: bool | EndpointReference = False
) -> bytes | None:
    """Send message *number* of a sequence.

    Args:
        replies: Where its reply goes; True: back on the connection.
    """
    wire = ends.wire
    reply_to = anonymous(wire.wsa) if replies is True else replies or None
    envelope = write_application_message(
        wire.soap,
        wire.wsa,
        action="urn:example:Ping",
        body=f'<p xmlns="urn:example">ping {number}</p>'.encode(),
        to=EndpointReference(SERVICE, wire.wsa),
        message_id=f"urn:test:message:{number}",
        reply_to=reply_to,
    )
    block = sequence_block(wire.rm, wire.soap, SequenceHeader(identifier, number))
    answer = ends.take(ends.service, with_blocks(envelope, [block])).answer
    return answer.envelope if answer else None
