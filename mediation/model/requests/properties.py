"""Resource properties and lifetimes (WSRF): requests and answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from filters import Expression
from mediation.model.expiry import Expiry


@dataclass(frozen=True, slots=True)
class GetProperties:
    """Resource properties by expanded name, in Clark notation; None asks for the document."""

    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class QueryProperties:
    """Evaluate a query, in whatever dialect it is, over the document of resource properties."""

    query: Expression


@dataclass(frozen=True, slots=True)
class ModifyProperties:
    """Insert, update or delete resource properties, by expanded name; None replaces the
    document."""

    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class SetTerminationTime:
    expires: Expiry


@dataclass(frozen=True, slots=True)
class Destroy:
    pass


@dataclass(frozen=True, slots=True)
class Properties:
    """Resource properties: each expanded name with its elements as octets, in document order."""

    values: Mapping[str, bytes]
    names: tuple[str, ...] | None
    document: str
    """The expanded name of the document's root."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer to QueryProperties: XML content, elements with all namespaces that they use."""

    content: str


@dataclass(frozen=True, slots=True)
class TerminationTime:
    """The answer to SetTerminationTime; None is never."""

    new: datetime | None
    now: datetime
