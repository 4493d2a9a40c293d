"""Protocol messages and faults of WS-ReliableMessaging, and the request of WS-MakeConnection."""

from collections.abc import Iterable
from functools import lru_cache

from mediation import names
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging.bodies import kind_of, write_body
from mediation.reliable_messaging.faults import RmFault, write_fault_parts
from mediation.reliable_messaging.values import Body
from mediation.reliable_messaging.versions import Kind, Rm, Spoken
from mediation.soap.addressing import is_anonymous, reference_headers, write_epr, write_headers
from mediation.soap.envelopes import (
    ENVELOPE_END,
    ENVELOPE_MIDDLE,
    write_envelope,
    xml_text,
)
from mediation.soap.make_connection import MAKE_CONNECTION_ACTION


def write_message(
    spec: Spoken,
    body: Body,
    *,
    to: EndpointReference,
    message_id: str | None = None,
    relates_to: str | None = None,
    reply_to: EndpointReference | None = None,
    blocks: Iterable[bytes] = (),
) -> tuple[str, bytes]:
    """Write a protocol message: the action and the envelope.

    Args:
        to: Where it goes; its reference parameters are header blocks.
        message_id: None where nobody is to relate to it, as to an acknowledgement alone.
        blocks: Header blocks of `mediation.reliable_messaging`: those of an acknowledgement alone,
            and any that travel along.

    Raises:
        ValueError: The version has no such message, or cannot say what is in it.
    """
    action = spec.rm.action(kind_of(body))
    written = write_body(spec.rm, spec.wsa, body)
    header = _addressing(spec.wsa, action, to, message_id, relates_to, reply_to)
    return action, _envelope(spec.soap, spec.wsa, header, blocks, written)


def write_acknowledgement(spec: Spoken, to: EndpointReference, block: bytes) -> tuple[str, bytes]:
    """Write a message that only carries the header *block* of an acknowledgement: the action and
    the envelope, as `write_message` does."""
    known = len(to.address) <= _SHORT and not (to.properties or to.parameters or to.metadata)
    around = _around_known if known else _around
    action, before = around(spec.rm, spec.soap, spec.wsa, to)
    return action, b"%b%b%b" % (before, block, _AFTER)


def _around(rm: Rm, soap: Soap, wsa: Wsa, to: EndpointReference) -> tuple[str, bytes]:
    """The action, and what stands before the header block."""
    action = rm.action(Kind.ACKNOWLEDGEMENT)
    whole = _envelope(soap, wsa, _addressing(wsa, action, to, None, None, None), (), "")
    return action, whole.removesuffix(_AFTER)


_SHORT = 1024
_AFTER = f"{ENVELOPE_MIDDLE}{ENVELOPE_END}".encode()
_around_known = lru_cache(256)(_around)


def write_rm_fault(
    spec: Spoken,
    fault: RmFault,
    *,
    about_header: bool,
    to: EndpointReference,
    relates_to: str | None = None,
    blocks: Iterable[bytes] = (),
) -> tuple[str, bytes]:
    """Write a fault: the action and the envelope.

    Args:
        about_header: It is about a header block of reliable messaging, wherever that was; else it
            answers a protocol message.

    Raises:
        ValueError: The version has no such fault.
    """
    action = spec.rm.fault_action(spec.wsa)
    extra, body = write_fault_parts(fault, spec, about_header=about_header)
    header = _addressing(spec.wsa, action, to, None, relates_to, None) + extra
    return action, _envelope(spec.soap, spec.wsa, header, blocks, body)


def make_connection_address(name: str) -> str:
    """The address of a side that cannot be called, by a *name* of its own, a UUID: whoever knows it
    can fetch what is sent there."""
    return names.MAKE_CONNECTION_ANONYMOUS + name


def write_make_connection(
    address: str,
    *,
    to: EndpointReference,
    message_id: str,
    soap: Soap = Soap.V1_2,
    wsa: Wsa = Wsa.V2005_08,
) -> tuple[str, bytes]:
    """Write MakeConnection, which fetches one message that waits for *address*: the action and the
    envelope."""
    header = _addressing(wsa, MAKE_CONNECTION_ACTION, to, message_id, None, None)
    body = (
        f'<wsmc:MakeConnection xmlns:wsmc="{names.MAKE_CONNECTION_1_1}">'
        f"<wsmc:Address>{xml_text(address)}</wsmc:Address></wsmc:MakeConnection>"
    )
    return MAKE_CONNECTION_ACTION, _envelope(soap, wsa, header, (), body)


def _addressing(
    wsa: Wsa,
    action: str,
    to: EndpointReference,
    message_id: str | None,
    relates_to: str | None,
    reply_to: EndpointReference | None,
) -> str:
    address = wsa.anonymous if is_anonymous(to.address) else to.address
    header = write_headers(
        wsa, action=action, to=address, message_id=message_id, relates_to=relates_to
    )
    if reply_to is not None:
        header += f"<wsa:ReplyTo>{write_epr(reply_to, wsa)}</wsa:ReplyTo>"
    return header + reference_headers(to, wsa).decode()


def _envelope(soap: Soap, wsa: Wsa, header: str, blocks: Iterable[bytes], body: str) -> bytes:
    return write_envelope(soap, wsa, header + b"".join(blocks).decode(), body)
