"""Calls as listeners and channels of programs read them, and what these answer."""

from dataclasses import dataclass

from lxml import etree

from filters import Reason, parse_document
from mediation import names
from mediation.grid_events.encoding import Generation, TypeName
from mediation.grid_events.events import Event, Further, read_event
from mediation.grid_events.references import Port, family_in, port_of, reference_of
from mediation.grid_events.rpc import (
    CALLS,
    ENVELOPE_END,
    HANDLE_EVENT,
    SUBSCRIBE_LEASE,
    Call,
    write_answer,
    write_lease,
)
from mediation.grid_events.types import TypeNames
from mediation.model.calling import Calling
from mediation.model.errors import MediationError
from mediation.model.versions import Soap
from mediation.soap.envelopes import elements, local_name, namespace_of, xml_text

_ENVELOPE = f"{{{Soap.V1_1.value}}}Envelope"
_HEADER, _BODY = f"{{{Soap.V1_1.value}}}Header", f"{{{Soap.V1_1.value}}}Body"
_MANDATORY, _ACTOR = f"{{{Soap.V1_1.value}}}mustUnderstand", f"{{{Soap.V1_1.value}}}actor"
_NEXT = "http://schemas.xmlsoap.org/soap/actor/next"
_CODES = {
    Reason.VERSION_MISMATCH: "VersionMismatch",
    Reason.NOT_UNDERSTOOD: "MustUnderstand",
    Reason.INTERNAL: "Server",
    Reason.QUOTA: "Server",
    Reason.UNAVAILABLE: "Server",
}


@dataclass(frozen=True, slots=True)
class HandleEvent:
    """A call of handleEvent.

    Attributes:
        namespace: Of the method; the answer has it, too.
    """

    namespace: str
    event: Event


@dataclass(frozen=True, slots=True)
class SubscribeLease:
    """A call of subscribeLease.

    Attributes:
        milliseconds: The length of the lease that it asks for.
        types: The names that it calls types by.
    """

    namespace: str
    listener: Port
    pattern: Event | None
    milliseconds: int
    handback: str | None
    types: TypeNames = TypeNames.SCHEMA
    generation: Generation = Generation.V2001


def read_call(octets: bytes) -> HandleEvent | SubscribeLease:
    """Read a call.

    Raises:
        Refused: It is not a call.
    """
    method = _method(parse_document(octets))
    call, namespace = Call(method), namespace_of(method)
    if call.name == HANDLE_EVENT:
        return HandleEvent(namespace, read_event(call.encoded, call.needed(0)))
    listener, handback = call.needed(0), call.parameter(3)
    example = call.parameter(1)
    return SubscribeLease(
        namespace,
        port_of(reference_of(call.encoded, listener)),
        None if example is None else read_event(call.encoded, example),
        call.encoded.long(call.needed(2)) or 0,
        None if handback is None else call.encoded.text(handback),
        family_in(call.encoded, listener) or TypeNames.SCHEMA,
        call.generation,
    )


def _method(root: etree._Element) -> etree._Element:
    """The element of the method.

    Raises:
        MediationError: The method is missing, or a mandatory header block is not understood.
    """
    if root.tag != _ENVELOPE:
        raise MediationError(Reason.VERSION_MISMATCH, "Calls come in an envelope of SOAP 1.1.")
    header = root.find(_HEADER)
    for block in () if header is None else elements(header):
        if block.get(_MANDATORY) == "1" and block.get(_ACTOR, _NEXT) == _NEXT:
            text = f"The header block {local_name(block)} is not understood."
            raise MediationError(Reason.NOT_UNDERSTOOD, text)
    body = root.find(_BODY)
    inner = [] if body is None else elements(body)
    if not inner or local_name(inner[0]) not in CALLS:
        raise MediationError(
            Reason.MESSAGE_INVALID, f"The body has no {HANDLE_EVENT} and no {SUBSCRIBE_LEASE}."
        )
    return inner[0]


def write_handled(call: HandleEvent) -> bytes:
    """Write the answer to handleEvent."""
    return write_answer(call.namespace, HANDLE_EVENT)


def write_leased(call: SubscribeLease, granted: int) -> bytes:
    """Write the answer to subscribeLease: the milliseconds that were granted."""
    calling = Calling(call.handback, call.types.value, call.generation.value)
    content = write_lease(granted, calling)
    return write_answer(call.namespace, SUBSCRIBE_LEASE, content, call.generation)


def typed_field(name: str, kind: str, text: str | None) -> Further:
    """A field of a type that is known to few, which says its own."""
    scope = f'xmlns:xsi="{names.XSI}" xmlns:xsd="{names.XSD}"'
    written = f'<{name} {scope} xsi:nil="1"/>'
    if text is not None:
        written = f'<{name} {scope} xsi:type="xsd:{kind}">{xml_text(text)}</{name}>'
    return Further(name, text, written.encode())


def unknown_type(name: TypeName) -> MediationError:
    """The refusal of an event of a type that is not known."""
    text = f"There is no mapping for the event type {name}."
    return MediationError(Reason.EVENT_TYPE, text, names=(str(name),))


def write_refusal(reason: Reason, text: str, unknown: str = "") -> bytes:
    """Write a fault. *unknown*: the type that has no mapping."""
    detail = ""
    if unknown:
        detail = (
            f"<detail><e:UnknownEventType xmlns:e='{names.GRID_EVENTS}'>"
            f"{xml_text(unknown)}</e:UnknownEventType></detail>"
        )
    code = _CODES.get(reason, "Client")
    return (
        f"<SOAP-ENV:Envelope xmlns:SOAP-ENV='{Soap.V1_1.value}'><SOAP-ENV:Body><SOAP-ENV:Fault>"
        f"<faultcode>SOAP-ENV:{code}</faultcode><faultstring>{xml_text(text)}</faultstring>"
        f"{detail}</SOAP-ENV:Fault>{ENVELOPE_END}"
    ).encode()
