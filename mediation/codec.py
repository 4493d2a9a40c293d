"""What one version of a specification contributes: how its requests are read and answered.

A new version is one module with a `Codec`, and a row in ``detect.CODECS``.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lxml import etree

from filters import Topic
from mediation.model.messages import Attachment, Packaging
from mediation.model.versions import Version
from mediation.requests import Context, Operation, Request, Response


@dataclass(frozen=True, slots=True)
class Arrival:
    """What is known of a message besides its octets.

    ``source`` names the publisher; ``time`` is now; ``fresh_id`` is the id that a message
    without one gets. ``url_topic`` is the topic that the request's URL names. ``packaging`` is how
    it came, with what ``attachments``.
    """

    source: str
    time: datetime
    fresh_id: str
    url_topic: Topic | None = None
    http_action: str | None = None
    attachments: tuple[Attachment, ...] = ()
    packaging: Packaging = Packaging.NONE


@dataclass(frozen=True, slots=True)
class Answer:
    """The action of an answer, and its body (serialised), or the whole *envelope* where it is a
    message that was written before; that is empty where the specification answers nothing."""

    action: str
    body: str = ""
    envelope: bytes | None = None


NOTHING = Answer("", envelope=b"")


class Codec(Protocol):
    version: Version
    namespaces: frozenset[str]
    """Of the body elements that are this codec's."""

    def operation(self, name: str) -> Operation | None:
        """The operation whose request element is *name* (Clark notation)."""

    def action(self, action: str) -> Operation | None:
        """The operation of an action URI, for requests whose body is empty."""

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        """Read a request.

        Raises:
            Refused: as the specification says.
        """

    def write(self, response: Response, context: Context) -> Answer:
        """The answer to the request of *context*."""
