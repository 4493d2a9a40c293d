"""The addresses at a gateway to which publishers of each dialect send their events."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from mediation import names
from mediation.matrix import Dialect, Publication


@dataclass(frozen=True, slots=True)
class PublicationAddress:
    """The path that publishers of a dialect send an event to, and the action that they send."""

    path: str = "/soap"
    action: str = "http://example.org/weather/Warning"


_ADDRESSES: Mapping[str, PublicationAddress] = {
    "ws-messenger": PublicationAddress("/axis2/services/EventingService", names.WSE_NOTIFICATION),
    "wsn-1.0": PublicationAddress("/axis2/services/NotificationService"),
}
"""Dialects of clients with addresses of their own."""


def publication_address(dialect: Dialect) -> PublicationAddress:
    """The address of the events of *dialect*."""
    return _ADDRESSES.get(dialect.name, PublicationAddress())


def publication_path(dialect: Dialect, publication: Publication, topic: str) -> str:
    """The path for *publication*, which names *topic* where the message itself cannot."""
    path = publication_address(dialect).path if dialect.in_soap else "/events"
    return path if publication.names_topic else f"{path}/topic/{quote(topic)}"
