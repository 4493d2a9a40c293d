"""The requests of a specification: how they are found, read and answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lxml import etree

from mediation.model.requests import Arrival, Context, Operation, Request, Response
from mediation.model.specification.client import refuse_operation


@dataclass(frozen=True, slots=True)
class Answer:
    """The action of an answer with its serialised body, or with the whole *envelope* where the
    answer is a message that was written before. An empty envelope answers nothing. *headers* are
    blocks of the body's own."""

    action: str
    body: str = ""
    envelope: bytes | None = None
    headers: str = ""


NOTHING = Answer("", envelope=b"")


class Requests(Protocol):
    """The requests of a specification, and their answers."""

    @property
    def namespaces(self) -> frozenset[str]:
        """Namespaces whose elements, in a body, are this specification's: never events."""

    @property
    def elements(self) -> Mapping[str, Operation]:
        """The operation of each request element, by expanded name."""

    @property
    def actions(self) -> Mapping[str, Operation]:
        """The operation of each action, for requests whose body is empty."""

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        """Read a request.

        Raises:
            Refused: as the specification says.
        """

    def write(self, response: Response, context: Context) -> Answer:
        """Write the answer to the request of *context*."""


class _NoRequests:
    """No requests in SOAP."""

    namespaces: frozenset[str] = frozenset()
    elements: Mapping[str, Operation] = {}
    actions: Mapping[str, Operation] = {}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        refuse_operation(operation)

    def write(self, response: Response, context: Context) -> Answer:
        raise ValueError("nobody asks it in SOAP")


NO_REQUESTS = _NoRequests()
"""The requests of a specification that is not spoken in SOAP."""


class CombinedRequests:
    """The requests of several specifications as those of one: WS-BaseNotification with a version of
    WSRF under it, and profiles over it. Of two that know an element the first reads it."""

    def __init__(self, first: Requests, *others: Requests) -> None:
        every = (first, *others)
        self.namespaces = frozenset[str]().union(*(each.namespaces for each in every))
        self.elements: Mapping[str, Operation] = {}
        self.actions: Mapping[str, Operation] = {}
        self._first = first
        self._owners: dict[Operation, Requests] = {}
        for each in reversed(every):
            self.elements = {**self.elements, **each.elements}
            self.actions = {**self.actions, **each.actions}
            known = (*each.elements.values(), *each.actions.values())
            self._owners |= dict.fromkeys(known, each)

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        return self._owners[operation].read(operation, element, context, arrival)

    def write(self, response: Response, context: Context) -> Answer:
        owner = self._owners.get(context.operation) if context.operation else None
        return (owner or self._first).write(response, context)
