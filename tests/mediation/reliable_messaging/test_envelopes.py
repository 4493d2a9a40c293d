"""Envelopes as the specifications and their peers write them, and what is read of each."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from lxml import etree

from mediation.model.messages import NO_HEADERS, EndpointReference
from mediation.model.specification import Code
from mediation.model.versions import Soap, Wsa
from mediation.names import MAKE_CONNECTION_ANONYMOUS
from mediation.reliable_messaging import (
    CONNECTION_LIMIT_REACHED,
    EMPTY,
    FAULTS,
    Acknowledgement,
    AcknowledgementAlone,
    AckRequested,
    AckRequestedAlone,
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
    IncompleteBehaviour,
    LastMessage,
    Offer,
    Ranges,
    ReliableMessage,
    Rm,
    RmFault,
    SequenceHeader,
    TerminateSequence,
    TerminateSequenceResponse,
    read_message,
)
from mediation.soap.make_connection import Selection
from tests.rigs.cases import for_each
from tests.rigs.mediation import ENVELOPES

V1_0, V1_1 = Rm.V1_0, Rm.V1_1
S11, S12 = Soap.V1_1, Soap.V1_2
W4, W5 = Wsa.V2004_08, Wsa.V2005_08
BUOY, TOWER = "http://buoy.example.com/rm", "http://tower.example.com/rm"
SEQUENCE = "urn:uuid:5e9b0c0e-70f4-4a43-8f0b-4a0d0f0a7c11"
OFFERED = "urn:uuid:0d7a9d0c-3b52-4d0e-9f54-0f1c2b3a4d5e"
HOUR = timedelta(hours=1)
FINAL = Acknowledgement(SEQUENCE, Ranges.of([(1, 30)]), final=True)
UNKNOWN = RmFault(
    FaultName.UNKNOWN_SEQUENCE,
    SEQUENCE,
    Code.SENDER,
    FAULTS[FaultName.UNKNOWN_SEQUENCE].text,
)
TOKEN = (
    b'<o:SecurityTokenReference xmlns:o="http://docs.oasis-open.org/wss/2004/01/'
    b'oasis-200401-wss-wssecurity-secext-1.0.xsd"><o:Reference URI="#token"/></o:SecurityTokenReference>'
)


def plain(soap: Soap, rm: Rm) -> ReliableMessage:
    return ReliableMessage(soap, NO_HEADERS, rm)


MESSAGES: dict[str, tuple[Wsa, ReliableMessage]] = {
    "wsrm-1.1-createsequence": (
        W5,
        replace(
            plain(S11, V1_1),
            body=CreateSequence(
                EndpointReference(BUOY, W5),
                2 * HOUR,
                Offer(
                    OFFERED,
                    EndpointReference(BUOY, W5),
                    1.5 * HOUR,
                    IncompleteBehaviour.DISCARD_FOLLOWING_FIRST_GAP,
                ),
            ),
        ),
    ),
    "wsrm-1.0-createsequence": (
        W4,
        replace(
            plain(S11, V1_0),
            body=CreateSequence(
                EndpointReference(
                    BUOY, W4, properties=(b'<b:Buoy xmlns:b="urn:example:buoys">7</b:Buoy>',)
                ),
                offer=Offer(OFFERED),
            ),
        ),
    ),
    "wsrm-1.1-createsequence-token": (
        W5,
        replace(
            plain(S12, V1_1),
            body=CreateSequence(EndpointReference(BUOY, W5), token=TOKEN),
            uses_token=True,
        ),
    ),
    "wsrm-1.1-createsequenceresponse": (
        W5,
        replace(
            plain(S11, V1_1),
            body=CreateSequenceResponse(
                SEQUENCE,
                HOUR,
                IncompleteBehaviour.DISCARD_ENTIRE_SEQUENCE,
                EndpointReference(TOWER, W5),
            ),
        ),
    ),
    "wsrm-1.1-message": (
        W5,
        replace(
            plain(S11, V1_1),
            sequence=SequenceHeader(SEQUENCE, 7),
            ack_requested=(AckRequested(SEQUENCE),),
            acknowledgements=(
                Acknowledgement(OFFERED, Ranges.of([(1, 2), (4, 6)])),
                Acknowledgement("urn:example:other", EMPTY),
            ),
        ),
    ),
    "wsrm-1.0-message": (
        W5,
        replace(plain(S12, V1_0), sequence=SequenceHeader(SEQUENCE, 3, last=True)),
    ),
    "wsrm-1.1-acknowledgement": (
        W5,
        replace(plain(S12, V1_1), acknowledgements=(FINAL,), body=AcknowledgementAlone()),
    ),
    "wsrm-1.1-ackrequested": (
        W5,
        replace(
            plain(S12, V1_1), ack_requested=(AckRequested(SEQUENCE),), body=AckRequestedAlone()
        ),
    ),
    "wsrm-1.1-closesequence": (W5, replace(plain(S11, V1_1), body=CloseSequence(SEQUENCE, 30))),
    "wsrm-1.1-closesequenceresponse": (
        W5,
        replace(plain(S11, V1_1), acknowledgements=(FINAL,), body=CloseSequenceResponse(SEQUENCE)),
    ),
    "wsrm-1.1-terminatesequence": (
        W5,
        replace(plain(S11, V1_1), body=TerminateSequence(SEQUENCE, 30)),
    ),
    "wsrm-1.1-terminatesequenceresponse": (
        W5,
        replace(
            plain(S11, V1_1), acknowledgements=(FINAL,), body=TerminateSequenceResponse(SEQUENCE)
        ),
    ),
    "wsrm-1.0-terminatesequence": (W4, replace(plain(S11, V1_0), body=TerminateSequence(SEQUENCE))),
    "wsrm-1.1-unknownsequence-soap12": (W5, replace(plain(S12, V1_1), fault=UNKNOWN)),
    "wsrm-1.1-unknownsequence-soap11": (W5, replace(plain(S11, V1_1), fault=UNKNOWN)),
    "wsrm-1.0-sequenceterminated-soap11": (
        W4,
        replace(
            plain(S11, V1_0),
            fault=RmFault(
                FaultName.SEQUENCE_TERMINATED, SEQUENCE, Code.RECEIVER, "The buoy sinks."
            ),
        ),
    ),
    "wsrm-1.1-createsequencerefused-soap11": (
        W5,
        replace(
            plain(S11, V1_1),
            fault=RmFault(
                FaultName.CREATE_SEQUENCE_REFUSED,
                reason=FAULTS[FaultName.CREATE_SEQUENCE_REFUSED].text,
            ),
        ),
    ),
    "wcf-wsrm-1.0-createsequence": (
        W5,
        replace(
            plain(S12, V1_0),
            body=CreateSequence(EndpointReference(W5.anonymous, W5), offer=Offer(OFFERED)),
        ),
    ),
    "wcf-wsrm-1.0-lastmessage": (
        W5,
        replace(
            plain(S12, V1_0), sequence=SequenceHeader(SEQUENCE, 4, last=True), body=LastMessage()
        ),
    ),
    "wcf-wsrm-1.0-acknowledgement-nothing": (
        W5,
        replace(
            plain(S12, V1_0),
            acknowledgements=(Acknowledgement(SEQUENCE, EMPTY, buffer_remaining=8),),
            body=AcknowledgementAlone(),
        ),
    ),
    "wcf-wsrm-1.1-createsequencerefused-soap12": (
        W5,
        replace(
            plain(S12, V1_1),
            fault=RmFault(
                FaultName.CREATE_SEQUENCE_REFUSED,
                code=Code.RECEIVER,
                reason="The server is too busy.",
                subcode=CONNECTION_LIMIT_REACHED,
            ),
        ),
    ),
    "cxf-wsrm-1.0-acknowledgement": (
        W4,
        replace(
            plain(S11, V1_0),
            acknowledgements=(Acknowledgement(SEQUENCE, Ranges.of([(1, 3)])),),
            body=AcknowledgementAlone(),
        ),
    ),
    "sandesha2-wsrm-1.0-acknowledgement": (
        W4,
        replace(
            plain(S11, V1_0),
            acknowledgements=(
                Acknowledgement(SEQUENCE, Ranges.of([(1, 3), (6, 10)]), nacks=(4, 5)),
            ),
            body=AcknowledgementAlone(),
        ),
    ),
    "wsmc-1.1-makeconnection": (
        W5,
        ReliableMessage(
            S11,
            NO_HEADERS,
            selection=Selection(
                (f"{MAKE_CONNECTION_ANONYMOUS}550e8400-e29b-11d4-a716-446655440000",)
            ),
        ),
    ),
    "wsmc-1.1-messagepending": (
        W5,
        replace(plain(S12, V1_1), sequence=SequenceHeader(SEQUENCE, 1), message_pending=True),
    ),
}
FOLDER = ENVELOPES / "reliable_messaging"


@for_each("name", MESSAGES)
def test_what_is_read(name: str) -> None:
    wsa, expected = MESSAGES[name]
    message = read_message((FOLDER / f"{name}.xml").read_bytes())
    assert message.wsa is wsa
    assert replace(message, headers=NO_HEADERS) == expected


def test_every_envelope_is_read() -> None:
    assert {path.stem for path in FOLDER.glob("*.xml")} == set(MESSAGES)


_BLOCK = re.compile(r"^```xml\n(.*?)^```", re.DOTALL | re.MULTILINE)
_HEADERS = re.compile(r"<wsrm:(?:Sequence|AckRequested|SequenceAcknowledgement)[ >]")


def test_the_pages_examples_are_read(shared: Path) -> None:
    """Each example of the reference page: what is in its body is what is read of it. The twin of
    each is in ``tests/envelopes/reliable_messaging``."""
    blocks = _BLOCK.findall((shared / "specs" / "ws-reliablemessaging.md").read_text())
    assert len(blocks) > 10
    for block in blocks:
        octets = block.encode()
        if "<s:Envelope" not in block:
            soap = S11.value
            octets = (
                f'<s:Envelope xmlns:s="{soap}"><s:Header>{block}</s:Header><s:Body/></s:Envelope>'
            ).encode()
        message = read_message(octets)
        root = etree.fromstring(octets)
        [body] = root.findall("{*}Body")
        name = etree.QName(body[0]).localname if len(body) else ""
        if name == "MakeConnection":
            assert message.rm is None
            continue
        assert message.rm is not None
        assert message.refusals == ()
        if name == "Fault":
            assert isinstance(message.fault, RmFault)
            assert message.fault.identifier is not None
        elif name:
            assert type(message.body).__name__ == name
        blocks_read = (
            len(message.acknowledgements)
            + len(message.ack_requested)
            + (message.sequence is not None)
        )
        assert blocks_read == len(_HEADERS.findall(block))
