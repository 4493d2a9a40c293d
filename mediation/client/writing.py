"""Requests as subscribers and publishers write them, in any specification that has a client."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from filters import Topic, parse_document
from mediation import names
from mediation.eventing.management import request_headers
from mediation.model.delivery_modes import DeliveryAssurance, SourceOptions
from mediation.model.expiry import format_duration, format_seconds
from mediation.model.messages import EndpointReference
from mediation.model.requests import Operation
from mediation.model.specification import Client, Leasing, RequestParts, SubscribeOptions
from mediation.model.versions import Soap, Spec, Version
from mediation.notification.topics import messenger_topic_element
from mediation.soap.addressing import reference_headers, write_headers
from mediation.soap.body_elements import BodyElement
from mediation.soap.envelopes import octets_of, write_envelope
from mediation.specifications import SPECIFICATIONS

SPECS: Mapping[Version, Spec] = {
    version: Spec(version, specification.client.soap, specification.client.wsa)
    for version, specification in SPECIFICATIONS.items()
    if specification.client is not None
}
"""The versions that our clients speak, each with the SOAP and WS-Addressing that they use by
default."""

LEASED: Mapping[Version, Spec] = {
    version: Spec(version, Soap.V1_1, None)
    for version, specification in SPECIFICATIONS.items()
    if specification.leasing is not None
}
"""The versions in which the gateway subscribes with the call that renews, too (`Leasing`)."""


def leasing_in(spec: Spec) -> Leasing | None:
    """Return what writes and reads that call; None where subscriptions are renewed otherwise."""
    return SPECIFICATIONS[spec.version].leasing


def expiry_text(spec: Spec, lease: timedelta, now: datetime) -> str:
    """The expiration of a *lease* from *now* as a client asks for it: an xsd:duration, or, where
    the specification takes no other, an xsd:dateTime."""
    if SPECIFICATIONS[spec.version].leases.absolute:
        return format_seconds(now + lease)
    return format_duration(lease)


def _client(spec: Spec) -> Client:
    client = SPECIFICATIONS[spec.version].client
    if client is None:
        raise ValueError(f"no client of ours speaks {spec.version.value}")
    return client


def write_request(
    spec: Spec,
    to: EndpointReference | str,
    written: RequestParts,
    message_id: str,
    *,
    reply: bool = True,
    blocks: str = "",
) -> tuple[str, bytes]:
    """Write a request around these parts, with more header *blocks*: the action and the
    envelope."""
    address = to if isinstance(to, str) else to.address
    wsa = spec.wsa
    head = write_headers(wsa, action=written.action, to=address, message_id=message_id)
    if reply and wsa is not None:
        head += f"<wsa:ReplyTo><wsa:Address>{wsa.anonymous}</wsa:Address></wsa:ReplyTo>"
    if not isinstance(to, str) and wsa is not None:
        head += reference_headers(to, wsa).decode()
    head += written.headers + blocks
    return written.action, write_envelope(spec.soap, wsa, head, written.body)


def write_subscribe(
    spec: Spec,
    *,
    to: EndpointReference | str,
    consumer: EndpointReference,
    message_id: str,
    topic: str | None = None,
    xpath: str | None = None,
    namespaces: Mapping[str, str] | None = None,
    expires: str | None = None,
    end_to: EndpointReference | None = None,
    raw: bool = False,
    topic_dialect: str | None = None,
    mode: str | None = None,
    reliable: str = "",
    assurance: DeliveryAssurance | None = None,
    since: str | None = None,
    order_key: str | None = None,
    actions: tuple[str, ...] = (),
    source: SourceOptions | None = None,
    content: tuple[str, str] | None = None,
    blocks: str = "",
) -> tuple[str, bytes]:
    """Write Subscribe: the action and the envelope.

    Args:
        topic: A name, a path or a Full expression; its namespaces are prefixes or, in braces, URIs
            (``{urn:example}a/b``).
        xpath: A content filter, over the payload in WS-Notification; *namespaces* are its prefixes,
            and the topic's.
        expires: An xsd:duration or xsd:dateTime.
        topic_dialect: The dialect to write the topic in; by default the narrowest that has its
            form.
        mode: The URI of a delivery mode, which WS-Eventing 2004/08 alone has.
        reliable: The version of WS-ReliableMessaging, such as 1.1, in whose sequence the
            notifications are to come; WS-Eventing and WS-Notification 1.3 alone can say it.
        assurance: How often an event is wanted; None leaves it to the gateway.
        since: A time or a position of the archive, from which on what was published is wanted, too.
        order_key: ``topic`` or ``property:NAME``: messages of one such key are wanted in order.
        actions: Events with one of these actions are wanted, by the action filter of DPWS, which
            WS-Eventing alone has, and which goes with no other: that of DPWS 1.0 where
            WS-Addressing 2004/08 is spoken, else that of 1.1.
        source: What to say to a source of WS-Management, which WS-Eventing 2004/08 alone has.
        content: The text and the dialect of a filter over content that is no XPath.
        blocks: More header blocks, each one element.

    Raises:
        MediationError: ``FILTER_DIALECT``: the specification does not have such a filter.
    """
    scope = namespaces or {}
    wanted = SubscribeOptions(
        consumer,
        topic,
        xpath,
        scope,
        expires,
        end_to,
        raw,
        topic_dialect,
        mode,
        reliable,
        assurance,
        since,
        order_key,
        actions,
        source,
        content,
        spec.wsa,
    )
    if source is not None:
        blocks += request_headers(source, spec.soap)
    return write_request(spec, to, _client(spec).subscribe(wanted), message_id, blocks=blocks)


def _manage(
    spec: Spec,
    operation: Operation,
    manager: EndpointReference,
    message_id: str,
    expires: str | None = None,
    source: SourceOptions | None = None,
) -> tuple[str, bytes]:
    written = _client(spec).manage(operation, expires)
    blocks = "" if source is None else request_headers(source, spec.soap, manager)
    return write_request(spec, manager, written, message_id, blocks=blocks)


def write_renew(
    spec: Spec,
    manager: EndpointReference,
    expires: str | None,
    *,
    message_id: str,
    source: SourceOptions | None = None,
) -> tuple[str, bytes]:
    """Write Renew until *expires*, an xsd:duration or xsd:dateTime; None leaves it to the
    producer. *source* as in `write_subscribe`."""
    return _manage(spec, Operation.RENEW, manager, message_id, expires, source)


def write_unsubscribe(
    spec: Spec,
    manager: EndpointReference,
    *,
    message_id: str,
    source: SourceOptions | None = None,
) -> tuple[str, bytes]:
    return _manage(spec, Operation.UNSUBSCRIBE, manager, message_id, source=source)


def write_pause(spec: Spec, manager: EndpointReference, *, message_id: str) -> tuple[str, bytes]:
    """Write PauseSubscription, which WS-Notification alone has, as it has the five below.

    Raises:
        MediationError: ``ACTION_UNSUPPORTED``: the specification does not have it.
    """
    return _manage(spec, Operation.PAUSE, manager, message_id)


def write_resume(spec: Spec, manager: EndpointReference, *, message_id: str) -> tuple[str, bytes]:
    """Write ResumeSubscription."""
    return _manage(spec, Operation.RESUME, manager, message_id)


def write_get_resource_property(
    spec: Spec, manager: EndpointReference, name: str, *, message_id: str
) -> tuple[str, bytes]:
    """Write GetResourceProperty of *name*, in Clark notation."""
    return write_request(spec, manager, _client(spec).get_property(name), message_id)


def write_set_termination_time(
    spec: Spec, manager: EndpointReference, expires: str | None, *, message_id: str
) -> tuple[str, bytes]:
    """Write SetTerminationTime to a dateTime, for a duration, or, with None, to never."""
    return _manage(spec, Operation.SET_TERMINATION_TIME, manager, message_id, expires)


def write_destroy(spec: Spec, manager: EndpointReference, *, message_id: str) -> tuple[str, bytes]:
    return _manage(spec, Operation.DESTROY, manager, message_id)


def write_get_current_message(
    spec: Spec, *, to: str, topic: str, message_id: str
) -> tuple[str, bytes]:
    return write_request(spec, to, _client(spec).get_current_message(topic), message_id)


def write_get_status(
    spec: Spec, manager: EndpointReference, *, message_id: str
) -> tuple[str, bytes]:
    """Write GetStatus; in WS-Notification, the termination time as a resource property."""
    return _manage(spec, Operation.GET_STATUS, manager, message_id)


def write_messenger_topic(topic: Topic) -> str:
    """Write the header block in which WS-Messenger's clients say the topic of an event."""
    return messenger_topic_element("wsnt:Topic", topic, f' xmlns:wsnt="{names.WSN_IBM}"')


def write_publish(
    spec: Spec,
    *,
    to: str,
    payload: bytes,
    message_id: str,
    topic: str | None = None,
    action: str | None = None,
    producer: EndpointReference | None = None,
    blocks: str = "",
) -> tuple[str, bytes]:
    """Write an event: a wrapped Notify, or, in WS-Eventing, the bare payload with a topic header.
    *blocks* are more header blocks. A `BodyElement` is not parsed again.

    Raises:
        FilterError: *payload* is not one acceptable XML element.
    """
    checked = isinstance(payload, BodyElement) and payload
    body = payload if checked else octets_of(parse_document(payload))
    written = _client(spec).publish(body.decode(), topic, action, producer)
    return write_request(spec, to, written, message_id, reply=False, blocks=blocks)
