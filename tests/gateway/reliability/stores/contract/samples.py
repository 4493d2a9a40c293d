"""Records for tests: each says only what matters to it."""

from dataclasses import replace
from typing import Any

from gateway.reliability.records import IncomingSequence, OutgoingMessage, OutgoingSequence, Wire
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import IncompleteBehaviour, Ranges, Rm
from mediation.reliable_messaging.machines import DestinationState, SourceState

WIRE = Wire(Rm.V1_1, Wsa.V2005_08, Soap.V1_2)
ADDRESS = EndpointReference("http://consumer.example.org/rm", Wsa.V2005_08)

ODD_TEXTS = (
    "x" * 1000,
    "urn:a'b\"c;--",
    "%s %(a)s {} :name ?",
    "a\\b\tc",
    "ä€𝄞 \u202e ",
    "\u00e9",
    "e\u0301",
    "A",
    "a",
    " a",
    "a ",
    "\ufeff\uffff",
)
"""Identifiers that a peer may choose: any two of them are different."""


def incoming(identifier: str, **changes: Any) -> IncomingSequence:
    """A destination that was just created."""
    made = IncomingSequence(identifier, WIRE, ADDRESS, DestinationState.CREATED)
    return replace(made, **changes)


def outgoing(key: str, **changes: Any) -> OutgoingSequence:
    """A source whose first message waits."""
    return replace(OutgoingSequence(key, ADDRESS, WIRE, SourceState.WAITING), **changes)


def message(number: int, **changes: Any) -> OutgoingMessage:
    """Message *number* of a source."""
    made = OutgoingMessage(number, f"urn:id:{number}", "urn:action", b"<e>%d</e>" % number)
    return replace(made, **changes)


REFERENCE = EndpointReference(
    "http://consumer.example.org/rm?a=1&b=ä",
    Wsa.V2004_08,
    properties=(b'<p xmlns="urn:p">\xc3\xa4</p>',),
    parameters=(b"<a/>", b"<b>1</b>"),
    metadata=(b'<m x="&lt;"/>',),
)
FULL_INCOMING = incoming(
    "urn:full",
    wire=Wire(Rm.V1_0, Wsa.V2004_08, Soap.V1_1),
    acks_to=REFERENCE,
    state=DestinationState.GAPS,
    owner="alice",
    service="orders",
    create_id="urn:create",
    opposite="key",
    received=Ranges.of([(1, 4), (6, 6), (2**63 - 2, 2**63 - 1)]),
    last_number=2**63 - 1,
    closed=True,
    complete=True,
    incomplete=IncompleteBehaviour.DISCARD_ENTIRE_SEQUENCE,
    unacknowledged=3,
    ack_at=1_800_000_000.123456,
    expires_at=1_800_000_000.5,
    last_seen=1_700_000_000.25,
    ended_at=1.5,
    token=b"<t>\xff\x00</t>",
    lifetime=3600.0,
    due_at=1_800_000_001.0,
    peer="2001:db8::/64",
)
FULL_OUTGOING = outgoing(
    "full",
    target=REFERENCE,
    wire=Wire(Rm.V1_0, Wsa.V2005_08, Soap.V1_2),
    state=SourceState.SENDING_ENDED,
    identifier="urn:out",
    offered="urn:offered",
    callback="on_reply",
    acks_to=REFERENCE,
    next_number=2**63 - 1,
    last_number=7,
    acknowledged=Ranges.of([(1, 2), (5, 5)]),
    count=3,
    create_id="urn:create:out",
    tries=4,
    next_at=0.0,
    closed=True,
    answered=True,
    failure="refused: 'no'",
    window=0,
    expires_at=12.5,
    last_acked_at=1_700_000_000.000001,
    ended_at=3.0,
    owner="bob",
    created_at=1.25,
    poll_at=2.25,
    due_at=0.0,
)
