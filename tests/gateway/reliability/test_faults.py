"""The faults of WS-ReliableMessaging, each where it belongs, and what the other end does then."""

from dataclasses import replace
from functools import partial

import pytest

from gateway.reliability import back_channel
from gateway.reliability.batches import ReceivedMessage
from gateway.reliability.party import Offers, anonymous
from gateway.reliability.records import Wire
from gateway.reliability.values import Reply
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap
from mediation.reliable_messaging import (
    Acknowledgement,
    AcknowledgementAlone,
    AckRequested,
    AckRequestedAlone,
    Body,
    CloseSequence,
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
    IncompleteBehaviour,
    Offer,
    Ranges,
    RmFault,
    SequenceHeader,
    TerminateSequence,
    ack_requested_block,
    acknowledgement_block,
    read_message,
    sequence_block,
    with_blocks,
    write_message,
)
from mediation.reliable_messaging.application import write_application_message
from mediation.reliable_messaging.policy import Policy
from tests.rigs.cases import for_each
from tests.rigs.reliable_ends import CLIENT, FETCHED, SERVICE, WIRE_1_0, WIRE_1_1, Ends, losing

VERSIONS = [
    pytest.param(replace(wire, soap=soap), id=f"{wire.rm.number} SOAP {soap.name}")
    for wire in (WIRE_1_0, WIRE_1_1)
    for soap in Soap
]


class Peer:
    """A client whose every message a test writes; it is at the other end of a connection, and
    nowhere else."""

    def __init__(self, ends: Ends, owner: str | None = None, address: str = "") -> None:
        self.ends = ends
        self.address = address
        self.wire: Wire = ends.wire
        self.owner = owner
        self._sent = 0

    def take(self, envelope: bytes) -> Reply:
        [reply] = self.ends.service.endpoint.received_all(
            [ReceivedMessage(envelope, self.owner, peer=self.address)], self.ends.now
        )
        if isinstance(reply, Exception):
            raise reply
        return reply

    def say(self, body: Body, *blocks: bytes, message_id: str | None = None) -> Reply:
        self._sent += 1
        _, envelope = write_message(
            self.wire,
            body,
            to=EndpointReference(SERVICE, self.wire.wsa),
            message_id=message_id or f"urn:peer:{self._sent}",
            reply_to=anonymous(self.wire.wsa),
            blocks=blocks,
        )
        return self.take(envelope)

    def create(self, **more: object) -> str:
        body = CreateSequence(anonymous(self.wire.wsa), **more)  # type: ignore[arg-type]
        answer = answered(self.say(body)).body
        assert isinstance(answer, CreateSequenceResponse)
        return answer.identifier

    def create_at(self, address: str) -> str:
        """Make a sequence whose acknowledgements go to an address."""
        body = CreateSequence(EndpointReference(address, self.wire.wsa))
        answer = answered(self.say(body)).body
        assert isinstance(answer, CreateSequenceResponse)
        return answer.identifier

    def message(self, identifier: str, number: int, *, last: bool = False) -> Reply:
        return self.take(self.written(identifier, number, last=last))

    def written(self, identifier: str, number: int, *, last: bool = False) -> bytes:
        envelope = write_application_message(
            self.wire.soap,
            self.wire.wsa,
            action="urn:example:Order",
            body=f'<o xmlns="urn:example">order {number}</o>'.encode(),
            to=EndpointReference(SERVICE, self.wire.wsa),
            message_id=f"urn:peer:message:{number}",
        )
        header = SequenceHeader(identifier, number, last)
        block = sequence_block(self.wire.rm, self.wire.soap, header)
        return with_blocks(envelope, [block])

    def empty(self, to: str, *blocks: bytes) -> bytes:
        """A message that is only there for its header."""
        body, target = AcknowledgementAlone(), EndpointReference(to, self.wire.wsa)
        return write_message(self.wire, body, to=target, blocks=blocks)[1]

    def ask(self, identifier: str) -> Reply:
        block = ack_requested_block(self.wire.rm, AckRequested(identifier))
        return self.say(AckRequestedAlone(), block)

    def acknowledge(self, identifier: str, ranges: Ranges) -> Reply:
        said = Acknowledgement(identifier, ranges)
        return self.say(AcknowledgementAlone(), acknowledgement_block(self.wire.rm, said))


def answered(reply: Reply):  # type: ignore[no-untyped-def]
    assert reply.answer is not None
    return read_message(reply.answer.envelope)


def fault_in(reply: Reply) -> RmFault:
    assert reply.fault
    fault = answered(reply).fault
    assert isinstance(fault, RmFault)
    return fault


def acknowledged(reply: Reply) -> str:
    [said] = answered(reply).acknowledgements
    return str(said.ranges)


@pytest.mark.parametrize("wire", VERSIONS)
def test_what_nobody_made_is_unknown(wire: Wire) -> None:
    peer = Peer(Ends(wire))
    replies = [
        peer.message("urn:nobody", 1),
        peer.ask("urn:nobody"),
        peer.acknowledge("urn:nobody", Ranges.of([(1, 1)])),
        peer.say(TerminateSequence("urn:nobody")),
    ]
    if wire.rm.rules.closes:
        replies.append(peer.say(CloseSequence("urn:nobody")))
    for reply in replies:
        fault = fault_in(reply)
        assert (fault.name, fault.identifier) == (FaultName.UNKNOWN_SEQUENCE, "urn:nobody")


@pytest.mark.parametrize("wire", VERSIONS)
def test_what_somebody_else_made_is_unknown(wire: Wire) -> None:
    ends = Ends(wire)
    made = Peer(ends, "alice").create()
    for owner in ("mallory", None):
        other = Peer(ends, owner)
        replies = [
            other.message(made, 1),
            other.ask(made),
            other.say(TerminateSequence(made)),
        ]
        assert {fault_in(reply).name for reply in replies} == {FaultName.UNKNOWN_SEQUENCE}
    assert acknowledged(Peer(ends, "alice").message(made, 1)) == "1"


def test_a_number_above_the_last_ends_a_sequence_of_1_0() -> None:
    peer = Peer(Ends(WIRE_1_0))
    made = peer.create()
    peer.message(made, 1, last=True)
    fault = fault_in(peer.message(made, 2))
    assert (fault.name, fault.identifier) == (FaultName.LAST_MESSAGE_NUMBER_EXCEEDED, made)
    assert fault_in(peer.message(made, 3)).name is FaultName.UNKNOWN_SEQUENCE


def test_a_last_message_below_a_known_number_ends_a_sequence_of_1_0() -> None:
    peer = Peer(Ends(WIRE_1_0))
    made = peer.create()
    peer.message(made, 3)
    fault = fault_in(peer.message(made, 2, last=True))
    assert fault.name is FaultName.LAST_MESSAGE_NUMBER_EXCEEDED


def test_a_closed_sequence_takes_no_new_number() -> None:
    peer = Peer(Ends(WIRE_1_1))
    made = peer.create()
    peer.message(made, 1)
    peer.say(CloseSequence(made, 3))
    for number in (2, 4):
        reply = peer.message(made, number)
        assert fault_in(reply).name is FaultName.SEQUENCE_CLOSED
        [said] = answered(reply).acknowledgements
        assert (str(said.ranges), said.final) == ("1", True)
    # What it has is acknowledged again.
    assert acknowledged(peer.message(made, 1)) == "1"


@pytest.mark.parametrize("wire", VERSIONS)
def test_no_number_is_that_large(wire: Wire) -> None:
    peer = Peer(Ends(wire))
    made = peer.create()
    envelope = b"".join(
        [
            f'<s:Envelope xmlns:s="{wire.soap.value}" xmlns:w="{wire.rm.namespace}">'.encode(),
            f"<s:Header><w:Sequence><w:Identifier>{made}</w:Identifier>".encode(),
            f"<w:MessageNumber>{2**63}</w:MessageNumber></w:Sequence></s:Header>".encode(),
            b'<s:Body><o xmlns="urn:example"/></s:Body></s:Envelope>',
        ]
    )
    fault = fault_in(peer.take(envelope))
    assert (fault.name, fault.identifier) == (FaultName.MESSAGE_NUMBER_ROLLOVER, made)
    after = peer.message(made, 1)
    if wire.rm.rules.closes:
        assert acknowledged(after) == "1"
    else:
        assert fault_in(after).name is FaultName.UNKNOWN_SEQUENCE


def test_a_message_without_a_sequence_where_one_is_required() -> None:
    wire = WIRE_1_1
    envelope = write_application_message(
        wire.soap,
        wire.wsa,
        action="urn:example:Order",
        body=b'<o xmlns="urn:example"/>',
        to=EndpointReference(SERVICE, wire.wsa),
        message_id="urn:peer:1",
    )
    assert Peer(Ends(wire)).take(envelope).unreliable is not None
    requiring = Peer(Ends(wire, service={"requires": True}))
    assert fault_in(requiring.take(envelope)).name is FaultName.WSRM_REQUIRED


@pytest.mark.parametrize("wire", VERSIONS)
def test_numbers_that_were_never_sent_are_no_acknowledgement(wire: Wire) -> None:
    ends = Ends(wire)
    ends.loses = lambda line: line.startswith("client: message")
    ends.send(ends.channel(), "order 1")
    ends.settle()
    with ends.client.store.look() as look:
        [sequence] = look.outgoing_page("", 10)
    assert sequence.identifier is not None
    said = Acknowledgement(sequence.identifier, Ranges.of([(1, 2)]))
    _, envelope = write_message(
        wire,
        AcknowledgementAlone(),
        to=EndpointReference(CLIENT, wire.wsa),
        blocks=[acknowledgement_block(wire.rm, said)],
    )
    reply = ends.client.endpoint.received(envelope, ends.now)
    assert fault_in(reply).name is FaultName.INVALID_ACKNOWLEDGEMENT
    # The message is not taken for acknowledged.
    ends.loses = lambda line: False
    ends.settle(10)
    assert ends.service.got == ["order 1"]


REFUSALS = [
    pytest.param({"offers": Offers.REFUSE}, {"offer": True}, id="offers are refused"),
    pytest.param({"policy": Policy(sequences=0)}, {}, id="there are too many"),
    pytest.param({"allows": lambda address: False}, {"called": True}, id="nothing is sent there"),
    pytest.param({}, {"token": b'<t xmlns="urn:example"/>'}, id="no tokens"),
]


@for_each(("party", "asked"), REFUSALS)
@for_each("wire", VERSIONS)
def test_refused_sequences(wire: Wire, party: dict[str, object], asked: dict[str, object]) -> None:
    peer = Peer(Ends(wire, service=party))
    nobody = anonymous(wire.wsa)
    acks_to = EndpointReference(CLIENT, wire.wsa) if "called" in asked else nobody
    token = asked.get("token")
    assert token is None or isinstance(token, bytes)
    offer = Offer("urn:peer:offered", nobody) if "offer" in asked else None
    if token is not None:
        token = (
            b'<o:SecurityTokenReference xmlns:o="http://docs.oasis-open.org/wss/2004/01/'
            b'oasis-200401-wss-wssecurity-secext-1.0.xsd"/>'
        )
    reply = peer.say(CreateSequence(acks_to, offer=offer, token=token))
    assert fault_in(reply).name is FaultName.CREATE_SEQUENCE_REFUSED


def test_a_peer_has_so_many_sequences_and_others_have_theirs() -> None:
    ends = Ends(WIRE_1_1, service={"policy": Policy(sequences_per_peer=2)})
    alice = Peer(ends, "alice")
    made = [alice.create(), alice.create()]
    refused = alice.say(CreateSequence(anonymous(WIRE_1_1.wsa)))
    assert fault_in(refused).name is FaultName.CREATE_SEQUENCE_REFUSED
    Peer(ends, "bob").create()
    alice.say(TerminateSequence(made[0]))
    alice.create()


def test_an_address_has_so_many_sequences_of_nobody() -> None:
    ends = Ends(WIRE_1_1, service={"policy": Policy(sequences_per_peer=2)})
    stranger = Peer(ends, address="192.0.2.1")
    made = [stranger.create(), stranger.create()]
    asked = CreateSequence(anonymous(WIRE_1_1.wsa))
    assert fault_in(stranger.say(asked)).name is FaultName.CREATE_SEQUENCE_REFUSED
    Peer(ends, address="192.0.2.2").create()
    # Who says who it is has its own, wherever it is.
    Peer(ends, "alice", "192.0.2.1").create()
    stranger.say(TerminateSequence(made[0]))
    stranger.create()
    assert fault_in(stranger.say(asked)).name is FaultName.CREATE_SEQUENCE_REFUSED


@pytest.mark.parametrize("wire", VERSIONS)
def test_the_same_request_makes_one_sequence(wire: Wire) -> None:
    peer = Peer(Ends(wire))
    body = CreateSequence(anonymous(wire.wsa))
    replies = [peer.say(body, message_id="urn:peer:create") for _ in range(3)]
    assert len({reply.answer and reply.answer.envelope for reply in replies}) == 1
    other = peer.say(body, message_id="urn:peer:another").answer
    assert other is not None
    assert other.envelope != (replies[0].answer and replies[0].answer.envelope)


@pytest.mark.parametrize("wire", VERSIONS)
def test_a_tombstone_answers(wire: Wire) -> None:
    ends = Ends(wire)
    peer = Peer(ends)
    made = peer.create()
    peer.message(made, 1)
    peer.say(TerminateSequence(made, 1))
    ends.settle(3500)
    assert acknowledged(peer.ask(made)) == "1"
    again = peer.say(TerminateSequence(made, 1))
    late = fault_in(peer.message(made, 2)).name
    if wire.rm.rules.closes:
        assert answered(again).body is not None
        assert answered(peer.say(CloseSequence(made, 1))).body is not None
        assert late is FaultName.SEQUENCE_CLOSED
    else:
        assert again.answer is None
        assert late is FaultName.UNKNOWN_SEQUENCE
    ends.settle(200)
    assert fault_in(peer.ask(made)).name is FaultName.UNKNOWN_SEQUENCE
    assert ends.is_empty()


BEHAVIOURS = [
    pytest.param(IncompleteBehaviour.NO_DISCARD, ["order 1", "order 2", "order 4"], id="no"),
    pytest.param(
        IncompleteBehaviour.DISCARD_FOLLOWING_FIRST_GAP, ["order 1", "order 2"], id="following"
    ),
    pytest.param(IncompleteBehaviour.DISCARD_ENTIRE_SEQUENCE, [], id="entire"),
]


@pytest.mark.parametrize(("behaviour", "delivered"), BEHAVIOURS)
@pytest.mark.parametrize("closes", [True, False])
def test_a_sequence_that_ends_with_a_gap(
    behaviour: IncompleteBehaviour, delivered: list[str], closes: bool
) -> None:
    ends = Ends(WIRE_1_1, service={"incomplete": behaviour})
    peer = Peer(ends)
    made = peer.create()
    for number in (4, 2, 1):
        peer.message(made, number)
    ends.settle()
    if closes:
        peer.say(CloseSequence(made, 5))
    peer.say(TerminateSequence(made, 5))
    ends.settle()
    assert ends.service.got == delivered
    assert len(ends.service.notices) == 1
    ends.settle(3 * 3600)
    assert ends.is_empty()


def test_an_entire_sequence_is_delivered_when_it_is_whole() -> None:
    behaviour = IncompleteBehaviour.DISCARD_ENTIRE_SEQUENCE
    ends = Ends(WIRE_1_1, service={"incomplete": behaviour})
    peer = Peer(ends)
    made = peer.create()
    for number in (1, 3, 2):
        peer.message(made, number)
    ends.settle()
    assert ends.service.got == []
    peer.say(CloseSequence(made, 3))
    ends.settle()
    assert ends.service.got == ["order 1", "order 2", "order 3"]
    assert ends.service.notices == []


@pytest.mark.parametrize("wire", VERSIONS)
def test_a_sequence_that_is_forgotten_ends(wire: Wire) -> None:
    ends = Ends(wire)
    _, envelope = write_message(
        wire,
        CreateSequence(EndpointReference(CLIENT, wire.wsa)),
        to=EndpointReference(SERVICE, wire.wsa),
        message_id="urn:peer:1",
    )
    reply = ends.service.endpoint.received(envelope, ends.now)
    assert reply.answer is not None
    ends.settle(3700)
    assert ends.log == ["service: SequenceTerminated"]
    ends.settle(3700)
    assert ends.service.store.is_empty()


@pytest.mark.parametrize("wire", VERSIONS)
def test_a_destination_that_lost_everything(wire: Wire) -> None:
    ends = Ends(wire)
    channel = ends.channel()
    ends.send(channel, "order 1")
    ends.settle(1)
    ends.forget(ends.service)
    ends.send(channel, "order 2")
    ends.settle(1)
    assert len(ends.client.given_up) == 1
    # The next message goes in a new sequence.
    ends.send(channel, "order 3")
    ends.settle(1)
    assert ends.service.got == ["order 1", "order 3"]


@pytest.mark.parametrize("wire", VERSIONS)
def test_nobody_answers(wire: Wire) -> None:
    ends = Ends(wire)
    ends.loses = lambda line: line.startswith("client: message")
    ends.send(ends.channel(), "order 1")
    ends.settle(1800)
    assert ends.log.count("client: message 1 again") == 9
    assert ends.client.given_up == ["message 1 was not acknowledged"]
    # The destination need not wait for what will not come.
    assert "client: TerminateSequence" in ends.log
    ends.settle(2 * 3600)
    assert ends.is_empty()


def test_only_the_owner_fetches() -> None:
    ends = Ends(WIRE_1_1, echoes=True)
    peer = Peer(ends, "alice")
    wire = ends.wire
    back = EndpointReference(FETCHED, wire.wsa)
    made = peer.create(offer=Offer("urn:peer:offered", back))
    peer.message(made, 1)
    ends.service.endpoint.due(ends.now)
    fetch = partial(back_channel.fetch, ends.service.endpoint.party)
    assert fetch(FETCHED, ends.now, owner="mallory") == (None, False)
    found, more = fetch(FETCHED, ends.now, owner="alice")
    assert found is not None and found.action == "urn:example:Reply"
    assert not more


def test_lost_acknowledgements_are_asked_for() -> None:
    ends = Ends(WIRE_1_1)
    ends.loses = losing("service: Acknowledgement")
    ends.send(ends.channel(), "order 1")
    ends.settle(10)
    asked = [message for message in ends.sent if message.ack_requested]
    assert len(asked) == 1
    assert ends.service.got == ["order 1"]
