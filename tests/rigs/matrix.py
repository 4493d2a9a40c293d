"""Publications in every dialect, deliveries in every dialect, and what a stranger reads in them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from lxml import etree

from mediation.client import Received, read_received
from mediation.cloudevents import notification_of, read_message
from mediation.detect import read
from mediation.grid_events import read_payload
from mediation.matrix import Dialect, Fact, write_batch
from mediation.model.messages import EndpointReference, MessageHeaders, Notification, Subscription
from mediation.model.requests import Arrival, Context, Publish, Taken
from mediation.model.versions import EventForm, Form, Soap, Wsa
from mediation.names import EVENT_SIGNATURE
from mediation.rendering import SoapShape, delivery_id, prepare, render
from mediation.specifications import SPECIFICATIONS
from tests.rigs.mediation import ARRIVAL, NOW, canonical

SOURCES = Path(__file__).parents[1] / "mediation" / "matrix" / "sources"
GATEWAY = "http://gateway.example.org/soap"
OF_CALLS = "urn:uuid:0b9f1c6a-6f0e-4d0b-9c89-0e6f6f0f8a11"
"""The id of an event whose publisher numbers none."""
CONSUMER = "http://consumer.example.org/events"


def in_soap(octets: bytes, soap: Soap) -> bytes:
    """The same envelope in a version of SOAP."""
    for other in Soap:
        octets = octets.replace(f'"{other.value}"'.encode(), f'"{soap.value}"'.encode())
    return octets


def messages(dialect: Dialect) -> list[str]:
    """The names of the publications in *dialect* that are stored."""
    if dialect.in_soap:
        return sorted(path.stem for path in (SOURCES / dialect.name).iterdir())
    several = Fact.SEVERAL in dialect.says
    names = {path.stem for path in (SOURCES / "cloudevents").iterdir()}
    return sorted(names if several else names - {"several"})


def source(dialect: Dialect, message: str, form: Form | None = None) -> tuple[Notification, ...]:
    """The events of a publication of ``tests/mediation/matrix/sources``."""
    form = form or dialect.forms[-1]
    if not isinstance(form, Soap):
        return posted(
            *cloud_message((SOURCES / "cloudevents" / f"{message}.json").read_bytes(), form)
        )
    octets = (SOURCES / dialect.name / f"{message}.xml").read_bytes()
    called = SPECIFICATIONS[dialect.version].calls
    return published(
        in_soap(octets, form), replace(ARRIVAL, fresh_id=OF_CALLS) if called else ARRIVAL
    )


def cloud_message(octets: bytes, form: EventForm) -> tuple[tuple[tuple[str, str], ...], bytes]:
    """A stored CloudEvent in one of its modes."""
    if form is EventForm.STRUCTURED:
        return (("Content-Type", "application/cloudevents+json"),), octets
    if form is EventForm.BATCHED:
        batch = octets if octets.startswith(b"[") else b"[%b]" % octets
        return (("Content-Type", "application/cloudevents-batch+json"),), batch
    event = json.loads(octets)
    data = event.pop("data", "")
    data = (data if isinstance(data, str) else json.dumps(data)).encode()
    headers = [("Content-Type", event.pop("datacontenttype"))]
    headers += [(f"ce-{name}", quote(value)) for name, value in event.items()]
    return tuple(headers), data


def posted(headers: Iterable[tuple[str, str]], body: bytes) -> tuple[Notification, ...]:
    """The events of a message that is no SOAP."""
    found = read_message([(k.lower().encode(), v.encode()) for k, v in headers], body)
    return tuple(notification_of(event, publisher="publisher", time=NOW) for event in found)


def published(octets: bytes, arrival: Arrival = ARRIVAL) -> tuple[Notification, ...]:
    """The events of an envelope."""
    request = read(octets, arrival).request
    assert isinstance(request, Publish)
    return request.notifications


def subscription_in(dialect: Dialect, form: Form | None = None) -> Subscription:
    """A subscription of a consumer that is notified in *dialect*."""
    return replace(
        dialect.subscription(CONSUMER, form),
        id="public",
        manager="http://gateway.example.org/subscriptions/22e8a584-0d18-4228-b2a8-3716fa2097fa",
    )


@dataclass(frozen=True)
class Delivery:
    """What a consumer gets: the message, or the answer with which it fetches it."""

    octets: bytes
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        heads = "".join(f"{name}: {value}\n" for name, value in self.headers)
        return f"{heads}\n{self.octets.decode()}\n"


def delivered(notification: Notification, dialect: Dialect, form: Form) -> Delivery:
    """Deliver to a consumer in *dialect*."""
    one = subscription_in(dialect, form)
    shape = dialect.shape(form)
    if dialect.delivery.batched and isinstance(shape, SoapShape):
        id = delivery_id(notification, one.id)
        return Delivery(write_batch(shape, prepare(one), notification, id))
    rendering = render(notification, shape, GATEWAY)
    octets = rendering.fill(prepare(one), delivery_id(notification, one.id))
    fetching = dialect.fetching
    if fetching is None or not isinstance(form, Soap):
        own = (*prepare(one).http_headers, *rendering.own_headers)
        return Delivery(octets, (*rendering.http_headers, *own))
    headers = MessageHeaders(Wsa.V2005_08)
    context = Context(form, headers, fetching.version, fetching.operation, "", frozenset())
    answer = SPECIFICATIONS[fetching.version].requests.write(
        Taken((octets,), more=False, now=NOW), context
    )
    header = f"<s:Header>{answer.headers}</s:Header>" if answer.headers else ""
    body = f"<s:Body>{answer.body}</s:Body>"
    return Delivery(f'<s:Envelope xmlns:s="{form.value}">{header}{body}</s:Envelope>'.encode())


def handed_over(octets: bytes, dialect: Dialect) -> bytes:
    """What a consumer finds in what it got, as an envelope of its own."""
    if dialect.fetching is None:
        return octets
    root = etree.fromstring(octets)
    soap = Soap(etree.QName(root).namespace)
    texts = root.findall(".//{*}messageAsString")
    if texts:
        return (texts[0].text or "").encode()
    wrapped = root.findall(".//{*}NotificationMessage")
    # Put together as text: lxml gives what it moves the prefixes of where it goes.
    (found,) = wrapped or root.iterfind(".//{*}messages/*")
    inner = etree.tostring(found, encoding="UTF-8", with_tail=False).decode()
    if wrapped:
        inner = f'<w:Notify xmlns:w="{etree.QName(found).namespace}">{inner}</w:Notify>'
    header = "".join(etree.tostring(block).decode() for block in root.iterfind("{*}Header/*"))
    header = f"<s:Header>{header}</s:Header>" if header else ""
    body = f"<s:Body>{inner}</s:Body>"
    return f'<s:Envelope xmlns:s="{soap.value}">{header}{body}</s:Envelope>'.encode()


@dataclass(frozen=True)
class Decoded:
    """What two readers say of one delivery: ours for publications, and our consumers'."""

    notification: Notification
    received: Received


def decoded(delivery: Delivery, dialect: Dialect) -> Decoded:
    """Read a delivery; both readers must agree."""
    if not dialect.in_soap:
        return _decoded_event(delivery)
    if SPECIFICATIONS[dialect.version].calls:
        return _decoded_call(delivery)
    found = handed_over(delivery.octets, dialect)
    (notification,) = published(found, replace(ARRIVAL, time=NOW.replace(year=1999)))
    if dialect.delivery.batched:
        # A Windows event's channel is its topic: so says the event, not the message.
        notification = replace(notification, topic=None)
        one = Received(None, notification.payload, notification.action, None)
        return Decoded(notification, one)
    received = read_received(found)
    assert isinstance(received, tuple)
    (one,) = received
    assert one.payload == notification.payload
    assert one.topic == notification.topic
    return Decoded(notification, one)


def _decoded_event(delivery: Delivery) -> Decoded:
    (notification,) = posted(delivery.headers, delivery.octets)
    attributes = json.loads(notification.properties["ce_attributes"])
    expires = attributes.get("expirytime")
    notification = replace(
        notification,
        time=datetime.fromisoformat(attributes["time"]),
        expires=expires and datetime.fromisoformat(expires),
        producer=EndpointReference(attributes["source"], Wsa.V2005_08),
    )
    received = Received(notification.topic, notification.payload, notification.action, None)
    return Decoded(notification, received)


def _decoded_call(delivery: Delivery) -> Decoded:
    """Read a call. What a gateway made an event of is read as it was; of what came as an event the
    message counts."""
    arrival = replace(ARRIVAL, fresh_id="urn:uuid:of-the-consumer")
    (notification,) = published(delivery.octets, arrival)
    received = read_received(delivery.octets)
    assert isinstance(received, tuple)
    (one,) = received
    assert (one.payload, one.topic) == (notification.payload, notification.topic)
    said = dict(notification.properties)
    assert said.pop("dragoman_via") == GATEWAY
    assert said.keys() <= {EVENT_SIGNATURE}
    payload = notification.payload
    event = read_payload(payload)
    if event is not None and (event.message or "").startswith("<"):
        payload = (event.message or "").encode()
    notification = replace(notification, payload=payload, properties=said)
    return Decoded(notification, replace(one, payload=payload))


def _attributes(notification: Notification) -> dict[str, str] | None:
    """The attributes of a CloudEvent; consumers get the time of acceptance where it had none, and
    the media type of what is sent."""
    text = notification.properties.get("ce_attributes")
    if text is None:
        return None
    attributes: dict[str, str] = json.loads(text)
    return {k: v for k, v in attributes.items() if k not in ("time", "datacontenttype")}


def facts_of(notification: Notification) -> Mapping[Fact, object]:
    """What is said of an event, each fact in a form that compares; None where nothing is."""
    topic, producer = notification.topic, notification.producer
    header = notification.topic_header
    return {
        Fact.TOPIC: topic and "/".join(step.name for step in topic.steps),
        Fact.LEVELS: len(topic.steps) if topic is not None and len(topic.steps) > 1 else None,
        Fact.NAMESPACES: frozenset(
            step.namespace for step in (topic.steps if topic else ()) if step.namespace
        )
        or None,
        Fact.TOPIC_ELEMENT: header and canonical(header),
        Fact.ACTION: notification.action,
        Fact.PRODUCER: producer and producer.address,
        Fact.PRODUCER_REFERENCE: (
            sorted(map(canonical, (*producer.properties, *producer.parameters, *producer.metadata)))
            if producer
            else []
        )
        or None,
        Fact.HEADERS: list(map(canonical, notification.headers)) or None,
        Fact.ID: notification.id,
        Fact.TIME: notification.time,
        Fact.EXPIRY: notification.expires,
        Fact.PROPERTIES: (
            None
            if "ce_attributes" in notification.properties
            else dict(notification.properties) or None
        ),
        Fact.ATTRIBUTES: _attributes(notification),
    }


def read_facts(one: Decoded, dialect: Dialect) -> dict[Fact, object]:
    """The facts that a consumer reads. The action of a wrapped message is its own, and of a bare one
    the event's, whatever it is."""
    facts = dict(facts_of(one.notification))
    shape = dialect.shape()
    if not isinstance(shape, SoapShape) or Fact.ACTION in shape.tells:
        facts[Fact.ACTION] = one.received.action
    return facts
