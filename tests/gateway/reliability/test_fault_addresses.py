"""Faults go where their messages say, and where no answer can go, to the other side; what mixes
versions, or has no address for acknowledgements, is refused."""

from dataclasses import replace

import pytest

from filters import Refused
from gateway.reliability.party import anonymous
from gateway.reliability.records import Wire
from gateway.reliability.values import NoticeKind, Reply
from mediation.model.messages import EndpointReference
from mediation.model.versions import Wsa
from mediation.names import WSA_NONE
from mediation.reliable_messaging import (
    Acknowledgement,
    AcknowledgementAlone,
    CreateSequence,
    FaultName,
    Ranges,
    RmFault,
    SequenceHeader,
    acknowledgement_block,
    read_message,
    sequence_block,
    with_blocks,
    write_message,
)
from tests.gateway.reliability.test_faults import VERSIONS, Peer, acknowledged, fault_in
from tests.rigs.cases import for_each
from tests.rigs.reliable_ends import SERVICE, WIRE_1_0, WIRE_1_1, Ends

FAULTS, REPLIES = "http://client.example/faults", "http://client.example/replies"
ALLOWED = {"allows": lambda address: address.startswith("http://client.example/")}


def addressed(envelope: bytes, wsa: Wsa, **addresses: str) -> bytes:
    """*envelope* with FaultTo, ReplyTo."""
    blocks = [
        f'<w:{name} xmlns:w="{wsa.value}"><w:Address>{address}</w:Address></w:{name}>'.encode()
        for name, address in addresses.items()
    ]
    return with_blocks(envelope, blocks)


def create(wire: Wire, acks_to: str = "", *, token: bool = False) -> bytes:
    """CreateSequence without ReplyTo, that is refused where it wants a *token*."""
    to = EndpointReference(acks_to or wire.wsa.anonymous, wire.wsa)
    asked = CreateSequence(to)
    if token:
        secext = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"
        block = f'<o:SecurityTokenReference xmlns:o="{secext}"/>'
        asked = replace(asked, token=block.encode())
    service = EndpointReference(SERVICE, wire.wsa)
    return write_message(wire, asked, to=service, message_id="urn:peer:create")[1]


WAYS = [
    pytest.param({"FaultTo": FAULTS}, FAULTS, id="FaultTo"),
    pytest.param({"ReplyTo": REPLIES}, REPLIES, id="ReplyTo"),
    pytest.param({"FaultTo": FAULTS, "ReplyTo": REPLIES}, FAULTS, id="FaultTo before ReplyTo"),
    pytest.param({"FaultTo": "anonymous", "ReplyTo": REPLIES}, "", id="FaultTo, here"),
    pytest.param({"FaultTo": "http://10.0.0.1/"}, "", id="not allowed"),
    pytest.param({}, "", id="nowhere"),
]


def told_at(reply: Reply) -> tuple[str, RmFault]:
    """The address that a fault went to, empty for the connection, and the fault."""
    if reply.fault:
        return "", fault_in(reply)
    assert reply.answer is None
    [outgoing] = reply.outgoing
    fault = read_message(outgoing.envelope).fault
    assert isinstance(fault, RmFault)
    return outgoing.to.address, fault


@for_each(("addresses", "where"), WAYS)
@for_each("about", ["a header", "a request"])
@for_each("wire", VERSIONS)
def test_a_fault_goes_where_its_message_says(
    wire: Wire, about: str, addresses: dict[str, str], where: str
) -> None:
    peer = Peer(Ends(wire, service=ALLOWED))
    named = {
        name: wire.wsa.anonymous if address == "anonymous" else address
        for name, address in addresses.items()
    }
    if about == "a header":
        octets, name = peer.written("urn:nobody", 1), FaultName.UNKNOWN_SEQUENCE
    elif "http://10.0.0.1/" in addresses.values():
        return  # Its sequence would be refused for that.
    else:
        octets, name = create(wire, token=True), FaultName.CREATE_SEQUENCE_REFUSED
    address, fault = told_at(peer.take(addressed(octets, wire.wsa, **named)))
    assert (address, fault.name) == (where, name)


def test_a_stranger_who_guesses_is_told_once_a_second_wherever_that_is() -> None:
    ends = Ends(WIRE_1_1, service=ALLOWED)
    peer = Peer(ends, address="192.0.2.1")
    octets = addressed(peer.written("urn:nobody", 1), WIRE_1_1.wsa, FaultTo=FAULTS)
    assert len(peer.take(octets).outgoing) == 1
    assert peer.take(octets).outgoing == ()
    ends.now += 1.0
    assert len(peer.take(octets).outgoing) == 1


@pytest.mark.parametrize("wire", VERSIONS)
def test_an_answer_that_acknowledges_what_was_never_sent(wire: Wire) -> None:
    """Its fault is sent, for no answer can go on that connection, and people are told."""
    ends = Ends(wire)
    channel = ends.channel("anonymous")
    ends.send(channel, "order 1")
    [create] = ends.client.endpoint.due(ends.now)
    ends.post(ends.client, create)
    [message] = ends.client.endpoint.due(ends.now)
    with ends.client.store.look() as look:
        [sequence] = look.outgoing_page("", 10)
    assert sequence.identifier is not None

    def answer(ranges: Ranges) -> Reply:
        said = acknowledgement_block(wire.rm, Acknowledgement(sequence.identifier or "", ranges))
        _, envelope = write_message(
            wire, AcknowledgementAlone(), to=anonymous(wire.wsa), blocks=[said]
        )
        return ends.client.endpoint.sent(message, ends.now, delivered=True, answer=envelope)

    address, fault = told_at(answer(Ranges.of([(1, 99)])))
    assert (address, fault.name) == (SERVICE, FaultName.INVALID_ACKNOWLEDGEMENT)
    assert b"99" in fault.detail
    told_at(answer(Ranges.of([(1, 99)])))
    [notice] = ends.client.notices  # Once, however often it does that.
    assert (notice.kind, notice.sequence) == (NoticeKind.REFUSED, sequence.identifier)
    assert "1-99" in notice.text
    ends.settle(10)
    assert ends.service.got == ["order 1"], "the message is not taken for acknowledged"


@pytest.mark.parametrize("wire", VERSIONS)
def test_a_sequence_is_not_made_in_a_sequence(wire: Wire) -> None:
    ends = Ends(wire)
    peer = Peer(ends)
    made = peer.create()
    block = sequence_block(wire.rm, wire.soap, SequenceHeader(made, 1))
    with pytest.raises(Refused, match="never a message of a sequence"):
        peer.take(with_blocks(create(wire), [block]))
    ends.settle(1)
    assert ends.service.got == []
    with ends.service.store.look() as look:
        assert len(look.incoming_page("", 10)) == 1


def test_a_message_in_another_version_of_ws_addressing_than_its_sequence() -> None:
    ends = Ends(WIRE_1_0)
    peer = Peer(ends)
    made = peer.create()
    peer.wire = replace(WIRE_1_0, wsa=Wsa.V2005_08)
    assert fault_in(peer.message(made, 1)).name is FaultName.UNKNOWN_SEQUENCE
    peer.wire = WIRE_1_0
    assert acknowledged(peer.message(made, 1)) == "1"


def test_acknowledgements_go_somewhere() -> None:
    peer = Peer(Ends(WIRE_1_1))
    reply = peer.take(create(WIRE_1_1, WSA_NONE))
    assert fault_in(reply).name is FaultName.CREATE_SEQUENCE_REFUSED
