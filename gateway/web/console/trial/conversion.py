"""An event as a publisher of one dialect sends it and a subscriber of another gets it, what is lost
between them, and whether a filter takes it. Nothing here sends anything."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from filters import Event, Expression, Filter, Topic
from filters.dialects import TOPIC_FULL
from filters.explaining import Explanation, explain, shortened
from filters.queries.selectors import Value, parse_selector
from gateway.client.errors import GatewayError
from gateway.client.messaging import fresh_id
from gateway.client.publication_addresses import publication_address
from gateway.observing.xml_indentation import pretty
from mediation.matrix import (
    Dialect,
    Loss,
    Publication,
    losses,
    lost_between,
    read_publication,
    write_batch,
    write_publication,
)
from mediation.model.messages import NO_PROPERTIES, EndpointReference, Notification
from mediation.model.versions import Wsa
from mediation.packaging.data import xml_payload
from mediation.rendering import SoapShape, delivery_id, prepare, render
from mediation.soap.body_elements import body_element

_SUBSCRIBER = "http://subscriber.example.org/events"
_PUBLISHER = "http://publisher.example.org/"
_SUBSCRIPTION = "subscription"
_PROPERTY = re.compile(r"""([^\s=]+)=('[^']*'|"[^"]*"|[^\s'"]+)(?:\s+|$)""")


@dataclass(frozen=True, slots=True)
class ConvertedEvent:
    """What goes over the wire.

    Attributes:
        publication: As it is sent to the gateway.
        headers, octets: What the subscriber gets.
        losses: What the subscriber does not read as it was said.
        never: What publications of the one dialect can say, and notifications of the other cannot.
    """

    publication: Publication
    headers: tuple[tuple[str, str], ...]
    octets: bytes
    losses: tuple[Loss, ...]
    never: tuple[str, ...]


def convert(
    source: Dialect, target: Dialect, payload: bytes, topic: Topic, gateway: str
) -> ConvertedEvent:
    """Convert an event of *payload*, one XML element, on *topic*, from *source* to *target*.

    Args:
        gateway: The gateway's URL, without a slash at its end.

    Raises:
        Refused: *payload* is none, or the event cannot be said in *source*.
    """
    at = publication_address(source)
    event = Notification(
        id=fresh_id(),
        source="",
        payload=xml_payload(body_element(payload), None),
        time=datetime.now(UTC),
        topic=topic,
        action=at.action,
        producer=EndpointReference(_PUBLISHER, Wsa.V2005_08),
    )
    publication = write_publication(source, event, f"{gateway}{at.path}")
    read = read_publication(source, publication, topic)
    headers, octets = _deliver(target, read, gateway)
    told = losses(read, target.shape(), f"{gateway}/soap", tells=target.tells)
    lost = tuple(one for one in told if one.fact in source.says or not one.said)
    never = tuple(sorted(one.value for one in lost_between(source, target)))
    return ConvertedEvent(publication, headers, octets, lost, never)


def _deliver(
    target: Dialect, event: Notification, gateway: str
) -> tuple[tuple[tuple[str, str], ...], bytes]:
    """What a subscriber of *target* gets, or finds in its mailbox."""
    subscription = replace(
        target.subscription(_SUBSCRIBER),
        id=_SUBSCRIPTION,
        manager=f"{gateway}/subscriptions/{_SUBSCRIPTION}",
    )
    shape, recipient = target.shape(), prepare(subscription)
    id_ = delivery_id(event, _SUBSCRIPTION)
    if target.delivery.batched and isinstance(shape, SoapShape):
        return recipient.http_headers, write_batch(shape, recipient, event, id_)
    rendering = render(event, shape, f"{gateway}/soap")
    own = (*recipient.http_headers, *rendering.own_headers)
    return (*rendering.http_headers, *own), rendering.fill(recipient, id_)


def explain_filter(
    payload: bytes,
    topic: Topic,
    *,
    topics: str = "",
    xpath: str = "",
    namespaces: Mapping[str, str],
    selector: str = "",
    properties: Mapping[str, Value] = NO_PROPERTIES,
) -> str:
    """Say, a line for each piece, whether a filter takes an event, and why; what costs too much is
    not evaluated.

    Args:
        topics: A topic expression of the Full dialect; empty is every topic.
        xpath: XPath 1.0 over the payload; empty: none.
        selector: A message selector of JMS over *properties*, as ActiveMQ would evaluate it;
            empty: none.

    Raises:
        FilterError: An expression cannot be read.
        Refused: *payload* is not one XML element.
    """
    declared = tuple(sorted(namespaces.items()))
    filter_ = Filter(
        topics=(Expression(topics, TOPIC_FULL, declared),) if topics else (),
        contents=(Expression(xpath, namespaces=declared),) if xpath else (),
    )
    said = []
    if filter_.expressions:
        event = Event(xml_payload(body_element(payload), None), topic=topic)
        said.append(explain(filter_, event))
    if selector:
        said.append(_explain_selector(selector, properties))
    return "\n".join(map(str, said))


def _explain_selector(selector: str, properties: Mapping[str, Value]) -> Explanation:
    verdict = parse_selector(selector).holds(properties)
    values = ", ".join(f"{name} is {value!r}" for name, value in properties.items())
    note = f"the property {values}" if values else "the event has no properties"
    return Explanation(verdict is True, f"the selector {shortened(selector)}", shortened(note))


def read_properties(text: str) -> dict[str, Value]:
    """Read properties, ``severity=7 unit='m/s'``: what is written without quotes and as a number is
    one, as it is for a selector.

    Raises:
        GatewayError: They are written otherwise.
    """
    found: dict[str, Value] = {}
    place, text = 0, text.strip()
    while place < len(text):
        one = _PROPERTY.match(text, place)
        if one is None:
            raise GatewayError("properties are written severity=7 unit='m/s', with blanks between")
        found[one[1]] = _property(one[2])
        place = one.end()
    return found


def write_properties(properties: Mapping[str, str]) -> str:
    """Write properties as `read_properties` reads them; without those with both kinds of quotes."""
    written = []
    for name, value in properties.items():
        quote = '"' if "'" in value else "'"
        if quote not in value:
            written.append(f"{name}={quote}{value}{quote}")
    return " ".join(written)


def _property(written: str) -> Value:
    if written[:1] in ("'", '"'):
        return written[1:-1]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(written)
    return written


def text_of(octets: bytes) -> str:
    """A message for people: XML and JSON indented, anything else as it is."""
    if not octets.startswith((b"{", b"[")):
        return pretty(octets)
    try:
        return json.dumps(json.loads(octets), indent=2, ensure_ascii=False)
    except ValueError:
        return octets.decode("utf-8", "replace")
