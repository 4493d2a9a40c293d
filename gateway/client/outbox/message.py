"""A message as a function of a program gets it."""

import builtins
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from lxml import etree

from gateway.client.outbox.payloads import load
from mediation.soap.body_elements import body_element

T = TypeVar("T")


class Message:
    """A message, in the transaction that takes it: what a function changes through its `session`,
    or its `connection`, is committed together with that, or not at all.

    Attributes:
        id, source: They identify it together.
        topic, key: As it was published; the key is empty where it has none.
        body: Bytes of `content_type`.
        attributes: All of its CloudEvent, by name.
        attempt: 1 at first, more where a function failed before.
        session: A `Session` of SQLAlchemy, with an asynchronous engine and a coroutine function an
            ``AsyncSession``; None with Django.
        connection: That of the session; with Django its connection.
    """

    def __init__(
        self,
        row: Any,
        *,
        session: Any = None,
        connection: Any = None,
        transaction: Any = None,
    ) -> None:
        self.attributes: Mapping[str, Any] = json.loads(row.attributes)
        self.id: str = row.id
        self.source = str(self.attributes.get("source", ""))
        self.topic: str = row.topic
        self.key: str = row.key
        self.content_type: str = row.content_type
        self.body: bytes = row.body
        self.attempt: int = row.attempts + 1
        self.session = session
        self.connection = connection
        self.transaction = transaction

    @property
    def type(self) -> str:
        """The ``type`` of its CloudEvent."""
        return str(self.attributes.get("type", ""))

    @property
    def relates_to(self) -> str:
        """The id of the request that it answers; empty where it answers none."""
        return str(self.attributes.get("relatesto", ""))

    @property
    def fault(self) -> str:
        """The reason why a request was refused; empty where it was not."""
        return str(self.attributes.get("fault", ""))

    def json(self) -> Any:
        """The value of its JSON.

        Raises:
            ValueError: It is none.
        """
        return json.loads(self.body)

    def xml(self) -> "etree._Element":
        """The element of its XML, read without entities and network.

        Raises:
            ValueError: It is not one well-formed element.
        """
        return etree.fromstring(body_element(self.body), etree.XMLParser(resolve_entities=False))

    def load(self, kind: "builtins.type[T]") -> T:
        """A dataclass or a model of pydantic, made of its JSON.

        Raises:
            ValueError, TypeError: It does not fit.
        """
        found: T = load(kind, self.json())
        return found


class Fault(Exception):
    """The outcome of a function that refuses a message: what the function changed is rolled back,
    the message is consumed, and who sent a request gets the text as its fault."""


class Dead(Exception):
    """Raised by a function to make its message a dead letter at once, without further attempts."""
