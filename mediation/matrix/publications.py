"""Publications in every dialect, as those who publish in it send them."""

from dataclasses import replace
from typing import NamedTuple

from mediation.matrix.dialects import Dialect
from mediation.model.facts import Fact
from mediation.model.messages import Notification
from mediation.rendering import Recipient, SoapRendering, prepare, render


class Publication(NamedTuple):
    """A message that publishes one event, with its HTTP headers.

    ``names_topic``: whether it says the topic; else the address that it is sent to must.
    """

    headers: tuple[tuple[str, str], ...]
    octets: bytes
    names_topic: bool


def write_publication(dialect: Dialect, event: Notification, to: str) -> Publication:
    """Write *event* as a publication in *dialect*, sent to the address *to*."""
    recipient: Recipient = prepare(dialect.subscription(to))
    rendering = render(event, recipient.shape, to)
    if isinstance(rendering, SoapRendering):
        # No subscription is behind it.
        recipient = replace(recipient, reference=b"")
    return Publication(
        (*rendering.http_headers, *rendering.own_headers),
        rendering.fill(recipient, event.id),
        Fact.TOPIC in dialect.says,
    )
