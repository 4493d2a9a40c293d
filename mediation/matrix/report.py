"""The loss report: what a consumer reads of a notification otherwise than its publisher said it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lxml import etree

from filters import DEFAULT_TOPIC, Topic
from mediation.cloudevents.events import Value, text_of
from mediation.cloudevents.mapping import ATTRIBUTES, came_as
from mediation.matrix.dialects import Dialect
from mediation.model.facts import Fact
from mediation.model.messages import EndpointReference, Notification, Packaging
from mediation.model.versions import Wsa
from mediation.names import EVENT_SIGNATURE
from mediation.notification.topics import received_topic, topic_element
from mediation.packaging.records import TYPE
from mediation.rendering import Shape, SoapShape, action_of


@dataclass(frozen=True, slots=True)
class Loss:
    """One fact that a consumer does not read as it was said.

    Attributes:
        said: As text; empty where the publisher said nothing, and something stands instead.
        read: What stands instead; empty where nothing does, or what differs with each delivery.
    """

    fact: Fact
    said: str
    read: str = ""


def lost_between(source: Dialect, target: Dialect) -> frozenset[Fact]:
    """Return the facts that publications in *source* can say, and notifications in *target* cannot.
    Attachments count as told: a consumer gets them if it subscribed in a message that came with
    some."""
    return source.says - target.tells


def losses(
    notification: Notification,
    shape: Shape,
    producer: str = "",
    *,
    packaging: Packaging = Packaging.NONE,
    tells: frozenset[Fact] | None = None,
) -> tuple[Loss, ...]:
    """Return the facts of *notification* that a consumer of *shape* does not read as they were
    said.

    Args:
        producer: The gateway's own address, as for `mediation.render`.
        packaging: What the consumer reads attachments from.
        tells: What its messages say, where that is not what the shape says: what was kept for it
            to fetch.
    """
    tells = shape.tells if tells is None else tells
    if packaging is Packaging.NONE:
        tells -= {Fact.ATTACHMENTS}
    found = [*_of_topic(notification, shape, tells), *_of_action(notification, shape, tells)]
    found += _of_producer(notification, shape, tells, producer)
    came = came_as(notification.properties) or {}
    for fact, said in _rest(notification, came):
        if said and fact not in tells:
            found.append(Loss(fact, said))
        elif said and Fact.ATTRIBUTES in tells and _OWN.get(fact) in came:
            own = text_of(came[_OWN[fact]])
            if datetime.fromisoformat(own) != datetime.fromisoformat(said):
                found.append(Loss(fact, said, own))
    return tuple(found)


_OWN = {Fact.TIME: "time", Fact.EXPIRY: "expirytime"}
"""Facts that a CloudEvent may say of itself: then its consumers read that."""


def _of_topic(notification: Notification, shape: Shape, tells: frozenset[Fact]) -> list[Loss]:
    topic = notification.topic
    if not isinstance(shape, SoapShape) and Fact.TOPIC in tells:
        read = _parts(shape.topic_of(notification))
        said = _parts(topic)
        return [Loss(fact, said[fact], read[fact]) for fact in said if said[fact] != read[fact]]
    if topic is None:
        made = Fact.TOPIC in tells and isinstance(shape, SoapShape)
        return [Loss(Fact.TOPIC, "", str(DEFAULT_TOPIC))] if made else []
    said = _parts(topic)
    if Fact.TOPIC not in tells:
        return [Loss(fact, text) for fact, text in said.items() if text]
    read = dict(said)
    if isinstance(shape, SoapShape):
        if shape.wrapping.keeps_topic_header and notification.topic_header is not None:
            return []  # It goes as it came.
        if Fact.LEVELS in tells:
            element = topic_element("Topic", topic, shape.dialect)
            read = _parts(received_topic(etree.fromstring(element)))
    read = {fact: text if fact in tells else "" for fact, text in read.items()}
    return [Loss(fact, said[fact], read[fact]) for fact in said if said[fact] != read[fact]]


def _parts(topic: Topic | None) -> dict[Fact, str]:
    """Return what is said of *topic*, as text: its names, its levels, its namespaces."""
    steps = () if topic is None else topic.steps
    return {
        Fact.TOPIC: "/".join(step.name for step in steps),
        Fact.LEVELS: " / ".join(step.name for step in steps) if len(steps) > 1 else "",
        Fact.NAMESPACES: " ".join(sorted({step.namespace or "" for step in steps} - {""})),
    }


def _of_action(notification: Notification, shape: Shape, tells: frozenset[Fact]) -> list[Loss]:
    said = notification.action or ""
    if Fact.ACTION in tells:
        wrapping = shape.wrapping if isinstance(shape, SoapShape) else None
        read = action_of(notification, wrapping)
        return [] if said == read else [Loss(Fact.ACTION, said, read)]
    return [Loss(Fact.ACTION, said)] if said else []


def _of_producer(
    notification: Notification, shape: Shape, tells: frozenset[Fact], gateway: str
) -> list[Loss]:
    said = notification.producer
    if said is None:
        made = isinstance(shape, SoapShape) and shape.wrapping.names_gateway
        made = made and Fact.PRODUCER in tells
        return [Loss(Fact.PRODUCER, "", gateway)] if made else []
    epr = shape.epr if isinstance(shape, SoapShape) else said.wsa
    rest = " ".join(octets.decode() for octets in _rest_of(said, epr))
    found = []
    if Fact.PRODUCER not in tells:
        found.append(Loss(Fact.PRODUCER, said.address))
    everything = " ".join(octets.decode() for octets in _rest_of(said, said.wsa))
    if everything and Fact.PRODUCER_REFERENCE not in tells:
        found.append(Loss(Fact.PRODUCER_REFERENCE, everything))
    elif rest != everything:
        found.append(Loss(Fact.PRODUCER_REFERENCE, everything, rest))
    return found


def _rest_of(reference: EndpointReference, wsa: Wsa) -> tuple[bytes, ...]:
    """Return what a reference holds beside its address, written in *wsa*: metadata is not
    converted."""
    metadata = reference.metadata if wsa is reference.wsa is Wsa.V2005_08 else ()
    return (*reference.properties, *reference.parameters, *metadata)


def _rest(notification: Notification, came: Mapping[str, Value]) -> tuple[tuple[Fact, str], ...]:
    """Return what else the notification says, as text."""
    header = notification.topic_header
    attributes = (f"{name}={text_of(value)}" for name, value in came.items())
    properties = (
        f"{name}={value}"
        for name, value in sorted(notification.properties.items())
        if name not in (came and {*came, ATTRIBUTES, TYPE}) and name != EVENT_SIGNATURE
    )
    return (
        (Fact.TOPIC_ELEMENT, "" if header is None else header.decode()),
        (Fact.HEADERS, " ".join(block.decode() for block in notification.headers)),
        (Fact.ATTACHMENTS, " ".join(part.content_id for part in notification.attachments)),
        (Fact.ID, notification.id),
        (Fact.TIME, notification.time.isoformat()),
        (Fact.EXPIRY, notification.expires.isoformat() if notification.expires else ""),
        (Fact.PROPERTIES, " ".join(properties)),
        (Fact.SIGNATURE, notification.properties.get(EVENT_SIGNATURE, "")),
        (Fact.ATTRIBUTES, " ".join(attributes)),
    )
