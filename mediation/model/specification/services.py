"""The services that the WSDL of a specification describes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mediation.model.requests import Operation


@dataclass(frozen=True, slots=True)
class Offer:
    """One operation of a port type; ``response`` is the action of the answer, empty of a one-way
    operation, and ``empty`` is an answer with an empty body. ``faults`` are the expanded names of
    elements of details, ``headers`` those of header blocks of the request; ``element`` and
    ``answer`` are those of the messages, where they are not named after the operation."""

    port_type: str
    operation: Operation
    namespace: str
    action: str
    response: str = ""
    empty: bool = False
    faults: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    element: str = ""
    answer: str = ""

    @property
    def name(self) -> str:
        return self.element.rpartition("}")[2] or self.operation.value

    @property
    def request_element(self) -> str:
        """The expanded name of the request's element."""
        return self.element or f"{{{self.namespace}}}{self.name}"

    @property
    def answer_element(self) -> str:
        """The expanded name of the answer's element; empty where its body is."""
        return "" if self.empty else self.answer or f"{self.request_element}Response"

    @property
    def unique(self) -> str:
        """The prefix of its messages' names: two port types have a Subscribe."""
        return f"{self.port_type}_{self.name}"


@dataclass(frozen=True, slots=True)
class Service:
    """A service of a WSDL description: ``?wsdl=QUERY`` asks for it. ``schemas`` are files of
    ``mediation/schemas``; ``fault_actions`` are the actions of faults by their namespace."""

    query: str
    name: str
    schemas: tuple[str, ...]
    offers: tuple[Offer, ...]
    fault_actions: Mapping[str, str] = field(hash=False)
