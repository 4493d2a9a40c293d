"""Publications in every dialect, as those who publish in it send them and a gateway reads them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import uuid4

from filters import Topic
from mediation import names
from mediation.cloudevents import notification_of, read_message
from mediation.detect import read
from mediation.eventing.management import (
    batch_expiry,
    batch_signatures,
    write_delivery,
    write_event,
    write_events,
)
from mediation.matrix.dialects import Dialect
from mediation.model.facts import Fact
from mediation.model.messages import Notification
from mediation.model.requests import Arrival, Publish
from mediation.rendering import Recipient, SoapRendering, SoapShape, prepare, render
from mediation.soap.envelopes import http_headers
from mediation.specifications import SPECIFICATIONS


class Publication(NamedTuple):
    """A message that publishes one event, with its HTTP headers.

    ``names_topic``: whether it says the topic; else the address that it is sent to must.
    """

    headers: tuple[tuple[str, str], ...]
    octets: bytes
    names_topic: bool


def write_batch(
    shape: SoapShape, recipient: Recipient, event: Notification, message_id: str
) -> bytes:
    """Write *event* as a batch of WS-Management, for a recipient."""
    return write_delivery(
        shape.soap,
        shape.wsa,
        names.WSMAN_EVENTS,
        message_id,
        recipient.headers + batch_expiry([event]) + batch_signatures([event]),
        write_events([write_event(event)]),
    )


def write_publication(dialect: Dialect, event: Notification, to: str) -> Publication:
    """Write *event* as a publication in *dialect*, sent to the address *to*."""
    recipient: Recipient = prepare(dialect.subscription(to))
    shape = dialect.shape()
    if dialect.delivery.batched and isinstance(shape, SoapShape):
        return Publication(
            http_headers(shape.soap, names.WSMAN_EVENTS),
            write_batch(shape, recipient, event, event.id),
            Fact.TOPIC in dialect.says,
        )
    # Who publishes is not a gateway, which would say that the event has passed it.
    called = SPECIFICATIONS[dialect.version].calls
    rendering = render(event, shape, "" if called else to)
    if isinstance(rendering, SoapRendering):
        # No subscription is behind it.
        recipient = replace(recipient, reference=b"")
    return Publication(
        (*rendering.http_headers, *recipient.http_headers, *rendering.own_headers),
        rendering.fill(recipient, event.id),
        Fact.TOPIC in dialect.says,
    )


def read_publication(dialect: Dialect, publication: Publication, topic: Topic) -> Notification:
    """Read the one event of a publication in *dialect*, as a gateway does; *topic* is that of the
    address that it is sent to, where the message itself names none.

    Raises:
        Refused: It cannot be read.
    """
    now = datetime.now(UTC)
    named = None if publication.names_topic else topic
    if not dialect.in_soap:
        headers = [(name.lower().encode(), value.encode()) for name, value in publication.headers]
        (event,) = read_message(headers, publication.octets)
        return notification_of(event, publisher="", time=now, topic=named)
    arrival = Arrival("", now, f"urn:uuid:{uuid4()}", url_topic=named)
    request = read(publication.octets, arrival).request
    if not isinstance(request, Publish):  # pragma: no cover
        raise TypeError(request)
    (notification,) = request.notifications
    return notification
