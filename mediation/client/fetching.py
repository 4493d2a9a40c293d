"""Requests of consumers that fetch: pull points, those of ONVIF, message boxes, Pull of
WS-Management."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

from filters import Refused, dialects, parse_document
from mediation import names
from mediation.client.reading import Received, read_properties, read_whole
from mediation.client.writing import write_request
from mediation.eventing.management import Pulled, pull_parts, pulled_in, request_headers
from mediation.filtering import write_topic_expression
from mediation.model.delivery_modes import SourceOptions
from mediation.model.messages import NO_PROPERTIES, EndpointReference
from mediation.model.requests import Operation
from mediation.model.specification import RequestParts
from mediation.model.versions import Spec
from mediation.notification.reading_notify import unwrapped_events
from mediation.soap.envelopes import Envelope, elements, read_envelope, text_of
from mediation.soap.payloads import is_ours, payload_of
from mediation.specifications import SPECIFICATIONS


def write_fetching(
    spec: Spec,
    operation: Operation,
    to: EndpointReference | str,
    *,
    message_id: str,
    topic: str | None = None,
    expires: str | None = None,
    wait: str = "PT10S",
    most: int = 1,
) -> tuple[str, bytes]:
    """Write a request that makes a mailbox, or takes messages out of it: the action and the
    envelope.

    Args:
        topic: A topic in ONVIF's dialect, for a pull point that subscribes with its making.
        expires: An xsd:duration or xsd:dateTime, likewise.
        wait: An xsd:duration for which ONVIF's pull waits; the others do not wait.
        most: Messages that a pull point answers at once.
    """
    requests = SPECIFICATIONS[spec.version].requests
    element = min((name for name, one in requests.elements.items() if one is operation), key=len)
    action = min((name for name, one in requests.actions.items() if one is operation), key=len)
    namespace, _, local = element[1:].partition("}")
    inner = ""
    match operation:
        case Operation.GET_MESSAGES:
            inner = f"<r:MaximumNumber>{most}</r:MaximumNumber>"
        case Operation.PULL_MESSAGES:
            inner = f"<r:Timeout>{wait}</r:Timeout><r:MessageLimit>{most}</r:MessageLimit>"
        case Operation.CREATE_PULL_POINT_SUBSCRIPTION:
            if topic:
                expression = write_topic_expression(
                    names.WSN_1_3, "n:TopicExpression", topic, dialect=dialects.TOPIC_CONCRETE_SET
                )
                inner = f"<r:Filter>{expression}</r:Filter>"
            if expires:
                inner += f"<r:InitialTerminationTime>{expires}</r:InitialTerminationTime>"
    body = f'<r:{local} xmlns:r="{namespace}">{inner}</r:{local}>'
    return write_request(spec, to, RequestParts(action, body), message_id)


def read_fetched(octets: bytes) -> tuple[Received, ...]:
    """Read the answer of a pull point: the notifications that were in it.

    Raises:
        AnsweredFault: It is a fault.
        Refused: It cannot be read.
    """
    envelope = read_whole(octets)
    each = _properties_of_each(envelope)
    return tuple(
        Received(
            event.topic,
            event.payload,
            event.action,
            None,
            event.subscription,
            each.get(number, NO_PROPERTIES),
        )
        for response in envelope.body[:1]
        for number, event in enumerate(unwrapped_events(response, in_ours=is_ours(octets)), 1)
    )


def read_taken(octets: bytes) -> tuple[Received, ...]:
    """Read the answer of WS-Messenger's message box, which tells payloads alone.

    Raises:
        AnsweredFault: It is a fault.
        Refused: It cannot be read.
    """
    envelope = read_whole(octets)
    each = _properties_of_each(envelope)
    events = (
        event
        for response in envelope.body[:1]
        for messages in elements(response)
        for event in elements(messages)
    )
    return tuple(
        Received(None, payload_of(event), None, None, properties=each.get(number, NO_PROPERTIES))
        for number, event in enumerate(events, 1)
    )


def _properties_of_each(envelope: Envelope) -> Mapping[int, Mapping[str, str]]:
    with suppress(Refused):  # They are no reason to lose an event.
        return read_properties(envelope.headers)[1]
    return {}


def read_made(octets: bytes) -> str:
    """The address of the mailbox that was made, or its key where the answer has no more."""
    body = read_envelope(parse_document(octets)).body
    for element in body[0].iter("{*}Address", "{*}MsgBoxId") if body else ():
        return text_of(element)
    return ""


def write_pull(
    spec: Spec,
    to: EndpointReference,
    context: bytes,
    *,
    message_id: str,
    source: SourceOptions,
    wait: timedelta,
    most: int,
) -> tuple[str, bytes]:
    """Write the Pull of the events of a subscription at a source of WS-Management: the action and
    the envelope.

    Args:
        context: The element that the source gave with Subscribe, or with the last Pull.
        wait: For which the source may wait for the first event.
        most: Events.
    """
    blocks = request_headers(source, spec.soap, to)
    return write_request(spec, to, pull_parts(context, wait, most), message_id, blocks=blocks)


def read_pulled(octets: bytes, *, learnt: set[str] | None = None) -> Pulled:
    """Read the answer to Pull; the names in its texts go to *learnt*.

    Raises:
        AnsweredFault: It is a fault.
        Refused: It cannot be read.
    """
    return pulled_in(read_whole(octets), learnt)
