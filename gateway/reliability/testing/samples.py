"""Records for tests: each says only what matters to it."""

from dataclasses import replace
from typing import Any

from gateway.reliability.records import IncomingSequence, OutgoingMessage, OutgoingSequence, Wire
from mediation import EndpointReference, Soap, Wsa
from mediation.reliable_messaging import Rm
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
