"""The types of events that are known here, as rows, and the two names that each has on the wire.

A name of a type is looked up in the table, and never becomes the name of anything to load.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from mediation import names
from mediation.grid_events.encoding import TypeName


class TypeNames(Enum):
    """The names that a party calls types by; the value is what settings and rows call them."""

    SCHEMA = "schema"
    """Those of the schema."""
    JAVA = "java"
    """Those of Java's classes, in a namespace for all of them (SoapRMI's automatic mapping)."""


@dataclass(frozen=True, slots=True)
class EventType:
    """A type of events.

    Attributes:
        name: Its name in the schema, which the root of a payload has, too.
        java: The name of SoapRMI's class.
        prefix: That of its name in payloads.
        fields: Its own fields behind those of the base type, with their types in XML Schema.
    """

    name: TypeName
    java: str
    prefix: str
    fields: tuple[tuple[str, str], ...] = ()

    def called(self, family: TypeNames) -> TypeName:
        """Its name in *family*."""
        if family is TypeNames.JAVA:
            return TypeName(names.SOAPRMI_TYPES, self.java)
        return self.name


BASE_FIELDS = (
    ("eventNamespace", "string"),
    ("eventType", "string"),
    ("source", "string"),
    ("timestamp", "long"),
    ("seqNo", "long"),
    ("message", "string"),
    ("handback", "string"),
)
"""The fields that every event has, in order."""
MAY_MISS = {"long": ' minOccurs="0"', "string": ' minOccurs="0" nillable="true"'}
"""What schemas say of a field of an event, by its type: nobody has to say one, and listeners are
given texts that nobody said as null."""
BASE = EventType(TypeName(names.GRID_EVENT, "Event"), "soaprmi.events.Event", "ev")
MACHINE_UTILIZATION = EventType(
    TypeName(names.GRID_RESOURCE_EVENT, "MachineUtilizationEvent"),
    "soaprmi.events.MachineUtilizationEvent",
    "r",
    (("cpuUtilization", "double"), ("memoryUsed", "long")),
)
EVENT_TYPES: Mapping[TypeName, EventType] = {
    type_.name: type_ for type_ in (BASE, MACHINE_UTILIZATION)
}
"""The types that are known, by their names in the schema."""
_SPELLED = {
    TypeName(namespace.rstrip("/") + slash, local): type_
    for (namespace, local), type_ in EVENT_TYPES.items()
    for slash in ("", "/")
}
_JAVA = {type_.name.local: type_ for type_ in EVENT_TYPES.values()}
NUMBERS = frozenset(
    {"byte", "short", "int", "long", "integer", "float", "double", "decimal"}
    | {f"unsigned{size}" for size in ("Byte", "Short", "Int", "Long")}
    | {f"non{side}Integer" for side in ("Negative", "Positive")}
    | {"negativeInteger", "positiveInteger"}
)
"""Types of XML Schema that are numbers."""


def type_called(name: TypeName) -> EventType | None:
    """The type that *name* means; None where it is not known. Namespaces are read with a slash at
    their end and without; of a class of Java, whatever its package, the last part counts."""
    if name.namespace == names.SOAPRMI_TYPES:
        return _JAVA.get(class_of(name.local))
    return _SPELLED.get(name)


def is_declared(name: TypeName, declared: frozenset[tuple[str, str]]) -> bool:
    """Return whether *name* is one of *declared*, the names of types that schemas declare; of a
    class of Java the last part counts."""
    if name.namespace == names.SOAPRMI_TYPES:
        name = TypeName(name.namespace, class_of(name.local))
    return name in declared


def class_of(java: str) -> str:
    """The name of a class of Java without its package."""
    return java.rpartition(".")[2]


def family_of(name: TypeName | None) -> TypeNames | None:
    """The names of which *name* is one; None where there is none."""
    if name is None:
        return None
    return TypeNames.JAVA if name.namespace == names.SOAPRMI_TYPES else TypeNames.SCHEMA
