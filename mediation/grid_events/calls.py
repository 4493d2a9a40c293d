"""Calls as clients write them, and what they are answered."""

from filters import Reason, parse_document
from mediation.grid_events.encoding import Encoded, Generation
from mediation.grid_events.events import Event, write_fields, write_handback
from mediation.grid_events.references import CHANNEL, Port, write_typed_port
from mediation.grid_events.rpc import (
    ENVELOPE_END,
    HANDLE_EVENT,
    SUBSCRIBE_LEASE,
    envelope_start,
    method_tags,
    type_attributes,
)
from mediation.grid_events.types import TypeNames
from mediation.model.errors import MediationError
from mediation.model.versions import Soap
from mediation.soap.envelopes import elements, http_headers, local_name, read_envelope, xml_text


def write_handle_event(
    event: Event,
    *,
    binding: str | None = CHANNEL,
    types: TypeNames = TypeNames.SCHEMA,
    generation: Generation = Generation.V2001,
    blocks: str = "",
) -> tuple[tuple[tuple[str, str], ...], bytes]:
    """Write a call of handleEvent, with header *blocks*: its HTTP headers, and the envelope."""
    content = _event("p1", event, types, generation)
    return _call(HANDLE_EVENT, binding, content, generation, blocks)


def write_subscribe_lease(
    listener: Port,
    milliseconds: int,
    *,
    pattern: Event | None = None,
    handback: str | None = None,
    binding: str | None = CHANNEL,
    types: TypeNames = TypeNames.SCHEMA,
    generation: Generation = Generation.V2001,
) -> tuple[tuple[tuple[str, str], ...], bytes]:
    """Write a call of subscribeLease, in the same way."""
    null = f"xsi:{generation.null}='1'"
    example = f"<p2 {null}/>" if pattern is None else _event("p2", pattern, types, generation)
    back = f"<p4 {null}/>"
    if handback is not None:
        back = f"<p4 xsi:type='xsd:string'>{xml_text(handback)}</p4>"
    port = write_typed_port(listener, "p1", generation)
    content = f"{port}{example}<p3 xsi:type='xsd:long'>{milliseconds}</p3>{back}"
    return _call(SUBSCRIBE_LEASE, binding, content, generation)


def read_lease(octets: bytes) -> int:
    """Read the milliseconds that were granted in the answer to subscribeLease.

    Raises:
        Refused: It is not such an answer.
    """
    body = read_envelope(parse_document(octets)).body
    if not body:
        raise MediationError(Reason.MESSAGE_INVALID, "The answer is empty.")
    around = body[0].getparent()
    encoded = Encoded(body[0] if around is None else around)
    for returned in elements(body[0]):
        for name, value in encoded.fields(returned).items():
            granted = encoded.long(value) if name == "leaseDuration" else None
            if granted is not None:
                return granted
    raise MediationError(
        Reason.MESSAGE_INVALID, f"{local_name(body[0])} does not tell how long the lease is."
    )


def _event(name: str, event: Event, types: TypeNames, generation: Generation) -> str:
    before, behind = write_fields(event, generation)
    handback = write_handback(event.handback, generation)
    return f"<{name} {type_attributes(event, types)}>{before}{handback}{behind}</{name}>"


def _call(
    method: str, binding: str | None, content: str, generation: Generation, blocks: str = ""
) -> tuple[tuple[tuple[str, str], ...], bytes]:
    start, end = method_tags(method, binding)
    action = f"{binding}#{method}" if binding else ""
    octets = f"{envelope_start(generation, blocks)}{start}{content}{end}{ENVELOPE_END}".encode()
    return http_headers(Soap.V1_1, action), octets
