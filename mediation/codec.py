"""What one version of a specification contributes: how its requests are read and answered.

A new version is one module with a `Codec`, and a row in ``detect.CODECS``.
"""

from dataclasses import dataclass
from typing import Protocol

from lxml import etree

from mediation.model.requests import Arrival, Context, Operation, Request, Response
from mediation.model.versions import Version


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
