"""What others' programs say, in whole conversations: gSOAP's way, WCF's way (the notes of its
documentation, "Reliable Messaging Protocol version 1.0"), and one who asks for too much."""

from dataclasses import dataclass, field, replace

import pytest

from gateway.reliability.party import anonymous
from gateway.reliability.records import Wire
from gateway.reliability.values import NoticeKind, Reply
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.names import WSA_NONE
from mediation.reliable_messaging import (
    MAX_RANGES,
    AcknowledgementAlone,
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
    Offer,
    Ranges,
    ReliableMessage,
    RmFault,
    SequenceHeader,
    TerminateSequence,
    read_message,
    sequence_block,
    with_blocks,
)
from mediation.reliable_messaging.application import write_application_message
from tests.gateway.reliability.test_faults import Peer, acknowledged, answered
from tests.rigs.reliable_ends import CLIENT, SERVICE, WIRE_1_0, WIRE_1_1, Ends, content_of

GSOAP_1_0 = Wire(WIRE_1_0.rm, Wsa.V2005_08, Soap.V1_1)
WCF_1_0 = Wire(WIRE_1_0.rm, Wsa.V2005_08, Soap.V1_2)
VERSIONS = [pytest.param(WIRE_1_0, id="1.0"), pytest.param(WIRE_1_1, id="1.1")]


def said(wire: Wire, identifier: str, number: int, reply_to: EndpointReference | None) -> bytes:
    """A message of an application."""
    envelope = write_application_message(
        wire.soap,
        wire.wsa,
        action="urn:example:Order",
        body=f'<o xmlns="urn:example">order {number}</o>'.encode(),
        to=EndpointReference(SERVICE, wire.wsa),
        message_id=f"urn:peer:message:{number}",
        reply_to=reply_to,
    )
    header = SequenceHeader(identifier, number)
    return with_blocks(envelope, [sequence_block(wire.rm, wire.soap, header)])


# ------------------------------------------------------------------------- too many ranges


@pytest.mark.parametrize("wire", VERSIONS)
def test_more_ranges_than_an_acknowledgement_lists(wire: Wire) -> None:
    """The number that would make one more is dropped, and comes again."""
    ends = Ends(wire)
    peer = Peer(ends)
    made = peer.create()
    every_other = "".join(f"{number}," for number in range(1, 2 * MAX_RANGES, 2))
    with ends.service.store.transaction() as tx:
        sequence = tx.incoming.find(made)
        assert sequence is not None
        tx.incoming.put(replace(sequence, received=Ranges.parse(every_other)))
    beyond = 2 * MAX_RANGES + 1
    assert peer.message(made, beyond).answer is None
    listed = acknowledged(peer.ask(made))
    assert listed.count(",") == MAX_RANGES - 1 and str(beyond) not in listed
    # One that joins two ranges makes room.
    assert acknowledged(peer.message(made, 2)).startswith("1-3,5")
    assert acknowledged(peer.message(made, beyond)).endswith(f",{beyond}")


# ------------------------------------------------------------------- replies on connections


def test_a_request_that_does_not_say_where_its_reply_goes() -> None:
    """gSOAP's; WS-Addressing 1.0 Core, section 3.2: back to the sender."""
    ends = Ends(echoes=True)
    peer = Peer(ends)
    made = peer.create(offer=Offer("urn:peer:offered", anonymous(ends.wire.wsa)))
    reply = peer.take(said(ends.wire, made, 1, None))
    assert reply.answer is not None
    assert content_of(reply.answer.envelope) == "order 1"
    read = answered(reply)
    assert read.sequence == SequenceHeader("urn:peer:offered", 1)
    assert [str(each.ranges) for each in read.acknowledgements] == ["1"]


def test_before_2005_a_request_says_where_its_reply_goes() -> None:
    ends = Ends(WIRE_1_0, echoes=True)
    peer = Peer(ends)
    made = peer.create(offer=Offer("urn:peer:offered"))
    assert isinstance(answered(peer.take(said(WIRE_1_0, made, 1, None))).body, AcknowledgementAlone)


@pytest.mark.parametrize("wire", VERSIONS)
def test_no_connection_is_held_for_an_application_that_has_nothing_to_say(wire: Wire) -> None:
    ends = Ends(wire)
    peer = Peer(ends)
    made = peer.create()
    reply = peer.take(said(wire, made, 1, anonymous(wire.wsa)))
    assert ends.service.got == ["order 1"]
    assert reply.awaited is None and acknowledged(reply) == "1"
    # That before which one is missing may be answered yet.
    assert peer.take(said(wire, made, 3, anonymous(wire.wsa))).awaited is not None


def test_nothing_is_sent_to_nowhere() -> None:
    """CXF names it in messages that are one-way."""
    ends = Ends(echoes=True)
    peer = Peer(ends)
    made = peer.create()
    peer.take(said(ends.wire, made, 1, EndpointReference(WSA_NONE, ends.wire.wsa)))
    ends.settle(10)
    assert ends.service.got == ["order 1"]
    assert [notice.kind for notice in ends.service.notices] == [NoticeKind.UNANSWERED]
    assert ends.log == []


def test_an_offer_of_1_0_with_an_empty_endpoint() -> None:
    """As gSOAP writes it."""
    ends = Ends(GSOAP_1_0)
    envelope = CREATE.format(
        ns=GSOAP_1_0.rm.namespace, s=Soap.V1_1.value, a=Wsa.V2005_08.value, client=CLIENT
    ).replace("</r:Identifier>", "</r:Identifier><r:Endpoint></r:Endpoint>")
    reply = ends.service.endpoint.received(envelope.encode(), ends.now)
    [answer] = reply.outgoing
    made = read_message(answer.envelope).body
    assert isinstance(made, CreateSequenceResponse) and made.accept_acks_to is not None


# --------------------------------------------------------------------- WCF's reliable sessions

CREATE = """<s:Envelope xmlns:s="{s}" xmlns:a="{a}"><s:Header>
<a:Action s:mustUnderstand="1">{ns}/CreateSequence</a:Action>
<a:MessageID>urn:uuid:3d6b9a1e-0000-4000-8000-000000000001</a:MessageID>
<a:ReplyTo><a:Address>{client}</a:Address></a:ReplyTo>
<a:To s:mustUnderstand="1">http://service.example/rm</a:To></s:Header><s:Body>
<r:CreateSequence xmlns:r="{ns}"><r:AcksTo><a:Address>{client}</a:Address></r:AcksTo>
<r:Offer><r:Identifier>urn:uuid:3d6b9a1e-0000-4000-8000-00000000000f</r:Identifier></r:Offer>
</r:CreateSequence></s:Body></s:Envelope>"""

MESSAGE = """<s:Envelope xmlns:s="{s}" xmlns:r="{ns}" xmlns:a="{a}"><s:Header>{ack}
<r:Sequence s:mustUnderstand="1"><r:Identifier>{made}</r:Identifier>
<r:MessageNumber>{number}</r:MessageNumber>{last}</r:Sequence>
<a:Action s:mustUnderstand="1">{action}</a:Action>{id}
<a:To s:mustUnderstand="1">http://service.example/rm</a:To></s:Header><s:Body>{body}</s:Body>
</s:Envelope>"""

ACKNOWLEDGEMENT = """<r:SequenceAcknowledgement><r:Identifier>{offered}</r:Identifier>
<r:AcknowledgementRange Lower="{lower}" Upper="{upper}"></r:AcknowledgementRange>
<netrm:BufferRemaining xmlns:netrm="http://schemas.microsoft.com/ws/2006/05/rm">8</netrm:BufferRemaining>
</r:SequenceAcknowledgement>"""

TERMINATE = """<s:Envelope xmlns:s="{s}" xmlns:a="{a}"><s:Header>{ack}
<a:Action s:mustUnderstand="1">{ns}/TerminateSequence</a:Action>
<a:To s:mustUnderstand="1">http://service.example/rm</a:To></s:Header><s:Body>
<r:TerminateSequence xmlns:r="{ns}"><r:Identifier>{made}</r:Identifier></r:TerminateSequence>
</s:Body></s:Envelope>"""

OFFERED = "urn:uuid:3d6b9a1e-0000-4000-8000-00000000000f"


@dataclass
class Session:
    """A client in WCF's way. With *client* anonymous its replies come on its connections."""

    ends: Ends
    client: str
    made: str = ""
    got: list[ReliableMessage] = field(default_factory=list)

    def _say(self, template: str, **more: str) -> Reply:
        wire = self.ends.wire
        values = {"s": wire.soap.value, "a": wire.wsa.value, "ns": wire.rm.namespace}
        values |= {"made": self.made, "client": self.client, "ack": ""}
        text = template.format(**{**values, **more})
        reply = self.ends.service.endpoint.received(text.encode(), self.ends.now)
        self._take(reply)
        return reply

    def _take(self, reply: Reply) -> None:
        sent = [reply.answer, *reply.outgoing]
        self.got += [read_message(each.envelope) for each in sent if each is not None]

    def settle(self) -> None:
        """Take what the service sends by itself."""
        self.ends.now += 1
        for each in self.ends.service.endpoint.due(self.ends.now):
            self.got.append(read_message(each.envelope))

    def create(self) -> CreateSequenceResponse:
        self._say(CREATE)
        body = self.got.pop().body
        assert isinstance(body, CreateSequenceResponse)
        self.made = body.identifier
        return body

    def request(self, number: int, ack: str = "") -> Reply:
        id_ = f"<a:MessageID>urn:uuid:{number}</a:MessageID>"
        id_ += f"<a:ReplyTo><a:Address>{self.client}</a:Address></a:ReplyTo>"
        body = f'<o xmlns="urn:example">order {number}</o>'
        action = "urn:example:Order"
        return self._say(
            MESSAGE, number=str(number), id=id_, body=body, action=action, ack=ack, last=""
        )

    def last(self, number: int, ack: str = "") -> Reply:
        action = f"{self.ends.wire.rm.namespace}/LastMessage"
        last = "<r:LastMessage></r:LastMessage>"
        return self._say(
            MESSAGE, number=str(number), id="", body="", action=action, ack=ack, last=last
        )

    def terminate(self) -> Reply:
        return self._say(TERMINATE)

    def acknowledgement(self, lower: int, upper: int) -> str:
        return ACKNOWLEDGEMENT.format(offered=OFFERED, lower=lower, upper=upper)


@pytest.mark.parametrize("client", [CLIENT, Wsa.V2005_08.anonymous], ids=["duplex", "anonymous"])
def test_wcf_session(client: str) -> None:
    """CreateSequence again, requests and one of them again, an empty last message, the end."""
    ends = Ends(WCF_1_0, echoes=True)
    session = Session(ends, client)
    first = session.create()
    assert session.create() == first
    # [R1108] The very address that CreateSequence was sent to.
    assert first.accept_acks_to is not None
    assert first.accept_acks_to.address == "http://service.example/rm"
    # Nothing came yet: 0-0.
    session.request(1, session.acknowledgement(0, 0))
    session.request(1)
    session.request(2, session.acknowledgement(1, 1))
    session.settle()
    replies = [each for each in session.got if each.headers.action == "urn:example:Reply"]
    assert {each.sequence for each in replies} == {
        SequenceHeader(OFFERED, 1),
        SequenceHeader(OFFERED, 2),
    }
    assert {each.headers.relates_to for each in replies} == {"urn:uuid:1", "urn:uuid:2"}
    assert ends.service.got == ["order 1", "order 2"]
    session.got.clear()
    session.last(3, session.acknowledgement(1, 2))
    session.settle()
    assert any(str(ack.ranges) == "1-3" for each in session.got for ack in each.acknowledgements)
    session.got.clear()
    session.terminate()
    session.settle()
    assert not any(isinstance(each.fault, RmFault) for each in session.got)
    assert ends.service.got == ["order 1", "order 2"]
    if client != CLIENT:
        # The other side's end comes on the connection.
        assert [each.body for each in session.got] == [TerminateSequence(OFFERED)]


def test_wcf_client_that_is_late() -> None:
    """What comes after the end is refused, and changes nothing."""
    ends = Ends(WCF_1_0)
    session = Session(ends, Wsa.V2005_08.anonymous)
    session.create()
    session.request(1)
    session.last(2)
    session.terminate()
    session.got.clear()
    session.request(1)
    [answer] = session.got
    assert isinstance(answer.fault, RmFault)
    assert answer.fault.name is FaultName.UNKNOWN_SEQUENCE
    assert ends.service.got == ["order 1"]


def test_wcf_sees_octet_identical_addresses() -> None:
    """[R1105] ReplyTo, AcksTo and the like name our client by the same octets."""
    ends = Ends(WCF_1_0, echoes=True)
    ends.send(ends.channel(offers=True), "order 1", wants_reply=True)
    ends.settle(1)
    create = next(m for m in ends.sent if isinstance(m.body, CreateSequence))
    assert isinstance(create.body, CreateSequence) and create.headers.reply_to is not None
    assert create.headers.reply_to.address == create.body.acks_to.address == CLIENT
    assert create.headers.message_id is not None
