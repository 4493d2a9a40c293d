"""Messages of applications around reliable messaging: finished envelopes, to which only header
blocks are added when they are sent."""

from functools import lru_cache

from filters.documents import parse_document
from mediation.model.messages import EndpointReference, MessageHeaders
from mediation.model.specification import Code
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging.versions import RM_BY_NAMESPACE, Rm
from mediation.soap.addressing import (
    first_message_id,
    is_anonymous,
    reference_headers,
    write_epr,
    write_headers,
)
from mediation.soap.body_elements import BodyContent, body_element, detail_content
from mediation.soap.envelopes import (
    ENVELOPE_END,
    ENVELOPE_MIDDLE,
    envelope_start,
    namespace_of,
    read_envelope,
    xml_text,
)
from mediation.soap.layout import layout_of
from mediation.soap.payloads import payload_of


def write_application_message(
    soap: Soap,
    wsa: Wsa,
    *,
    action: str,
    body: BodyContent,
    to: EndpointReference,
    message_id: str,
    relates_to: str | None = None,
    reply_to: EndpointReference | None = None,
) -> bytes:
    """Write the envelope of an application's message.

    Args:
        body: The content of the body: one element that declares every namespace it uses, or
            nothing.
        to: Where it goes; its reference parameters are header blocks.

    Raises:
        InvalidBody: *body* is not one element.
    """
    content = body_element(body).decode()
    start, middle, end = _around_ids(soap, wsa, action, to, reply_to)
    related = "" if relates_to is None else f"<wsa:RelatesTo>{xml_text(relates_to)}</wsa:RelatesTo>"
    ids = f"{xml_text(message_id)}{middle}{related}"
    return f"{start}{ids}{end}{content}{ENVELOPE_END}".encode()


@lru_cache(512)
def _around_ids(
    soap: Soap, wsa: Wsa, action: str, to: EndpointReference, reply_to: EndpointReference | None
) -> tuple[str, str, str]:
    """What recurs of the messages to one place: before their id, behind it, and behind the id that
    they relate to, up to their bodies. The order is that of `write_headers`."""
    address = wsa.anonymous if is_anonymous(to.address) else to.address
    start = f"{envelope_start(soap, wsa)}{write_headers(wsa, action=action)}<wsa:MessageID>"
    back = f"<wsa:ReplyTo>{write_epr(reply_to, wsa)}</wsa:ReplyTo>" if reply_to else ""
    end = f"{back}{reference_headers(to, wsa).decode()}{ENVELOPE_MIDDLE}"
    return start, f"</wsa:MessageID><wsa:To>{xml_text(address)}</wsa:To>", end


def application_fault_action(wsa: Wsa) -> str:
    """The action of a fault of an application (WS-Addressing 1.0 SOAP Binding, section 6)."""
    return f"{wsa.value}/soap/fault" if wsa is Wsa.V2005_08 else wsa.fault_action


def write_application_fault(
    soap: Soap, text: str, *, receiver: bool = False, detail: BodyContent = b""
) -> bytes:
    """Write the fault element that an application answers.

    Args:
        receiver: The receiver is at fault, not the sender.
        detail: The content of the detail: elements that declare every namespace they use.

    Raises:
        InvalidBody: *detail* is not well-formed.
    """
    details = detail_content(detail).decode()
    code = Code.RECEIVER if receiver else Code.SENDER
    name, said = f"s:{code.name_in(soap)}", xml_text(text)
    declared = f'xmlns:s="{soap.value}"'
    if soap is Soap.V1_1:
        inner = f"<faultcode>{name}</faultcode><faultstring>{said}</faultstring>"
        inner += f"<detail>{details}</detail>" if details else ""
    else:
        inner = f"<s:Code><s:Value>{name}</s:Value></s:Code>"
        inner += f'<s:Reason><s:Text xml:lang="en">{said}</s:Text></s:Reason>'
        inner += f"<s:Detail>{details}</s:Detail>" if details else ""
    return f"<s:Fault {declared}>{inner}</s:Fault>".encode()


def body_of(envelope: bytes) -> bytes:
    """The element in the body of an envelope, as a document of its own; empty where there is none.

    Raises:
        Refused: It is not an envelope.
    """
    body = read_envelope(parse_document(envelope)).body
    return payload_of(body[0]) if body else b""


def related_in(envelope: bytes) -> tuple[Soap, MessageHeaders]:
    """The version of SOAP of an envelope whose header is refused, and what a fault about it is to
    relate to.

    Raises:
        Refused: It is not an envelope.
    """
    read = read_envelope(parse_document(envelope))
    return read.soap, first_message_id(read, layout_of(read.names).wsa)


def spoken_in(envelope: bytes) -> tuple[Rm, Soap, Wsa, str | None]:
    """The versions that an envelope speaks whose parts of reliable messaging are refused, and its
    message id.

    Raises:
        Refused: It is not an envelope.
    """
    read = read_envelope(parse_document(envelope))
    namespaces = [namespace_of(element) for element in (*read.headers, *read.body)]
    rm = next((RM_BY_NAMESPACE[each] for each in namespaces if each in RM_BY_NAMESPACE), Rm.V1_1)
    wsa = layout_of(read.names).wsa
    message_id = first_message_id(read, wsa).message_id
    return rm, read.soap, wsa or rm.rules.wsa[0], message_id
