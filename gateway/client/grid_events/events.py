"""Events as dataclasses, each tied to its type in the schema by a registry, `EventTypes`."""

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from filters import Reason
from mediation.grid_events import (
    BASE_FIELDS,
    EVENT_TYPES,
    NUMBERS,
    Further,
    HandleEvent,
    TypeName,
    class_of,
    long_of,
    read_call,
    typed_field,
    unknown_type,
)
from mediation.grid_events import Event as WireEvent
from mediation.model.errors import MediationError
from mediation.names import GRID_EVENT, GRID_RESOURCE_EVENT, SOAPRMI_TYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event. Its types have fields of ``str``, ``int``, ``float`` or ``bool`` besides.

    Attributes:
        event_namespace: What kind of event it is, with `event_type`, whose dots make levels.
        source: Where it comes from.
        timestamp: Milliseconds since 1970.
        seq_no: When it is not 0, a channel drops the same event when it comes again.
        handback: What the listener gave when it subscribed.
    """

    event_namespace: str | None = None
    event_type: str | None = None
    source: str | None = None
    timestamp: int = 0
    seq_no: int = 0
    message: str | None = None
    handback: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineUtilizationEvent(Event):
    """How busy a machine is, and how much of its memory is in use."""

    cpu_utilization: float = 0.0
    memory_used: int = 0


E = TypeVar("E", bound=Event)
_KINDS = {str: "string", int: "long", float: "double", bool: "boolean"}
INTEGERS = NUMBERS - {"double", "float", "decimal"}
"""Types of XML Schema whose values are ``int``."""
_BASE = len(BASE_FIELDS)
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Tied:
    """A class of events, and its type.

    Attributes:
        fields: All of its fields in order: the attribute, the element, and its type in XML Schema.
    """

    cls: type[Event]
    name: TypeName
    fields: tuple[tuple[str, str, str], ...]

    @property
    def elements(self) -> tuple[tuple[str, str], ...]:
        """The fields as they are sent."""
        return tuple((element, kind) for _, element, kind in self.fields)


class EventTypes:
    """Classes of events by the names of their types: a name that is not here is refused, and loads
    nothing."""

    def __init__(self) -> None:
        self._by_class: dict[type[Event], Tied] = {}
        self._by_name: dict[TypeName, Tied] = {}
        self._by_local: dict[str, Tied] = {}
        self.register(GRID_EVENT, "Event")(Event)
        self.register(GRID_RESOURCE_EVENT, "MachineUtilizationEvent")(MachineUtilizationEvent)

    def register(self, namespace: str, name: str) -> Callable[[type[E]], type[E]]:
        """Tie a dataclass to the type *name* of the schema with *namespace*; a decorator. The
        element of a field ``cpu_utilization`` is ``cpuUtilization``.

        Raises:
            ValueError: The name is taken.
            TypeError: A field is of a type that no element here has.
        """

        def tie(cls: type[E]) -> type[E]:
            type_name = TypeName(namespace, name)
            known = self._by_name.get(type_name)
            if known is not None and known.cls is not cls:
                raise ValueError(f"{type_name} is {known.cls.__name__} already")
            tied = Tied(cls, type_name, _fields(cls))
            self._by_class[cls] = tied
            for spelled in (namespace.rstrip("/"), namespace.rstrip("/") + "/", namespace):
                self._by_name[TypeName(spelled, name)] = tied
            self._by_local[name] = tied
            return cls

        return tie

    def __iter__(self) -> Iterator[Tied]:
        return iter(self._by_class.values())

    def of(self, cls: type[Event]) -> Tied:
        """What a class is tied to.

        Raises:
            TypeError: To nothing.
        """
        try:
            return self._by_class[cls]
        except KeyError:
            raise TypeError(f"{cls.__name__} is registered as no type") from None

    def named(self, name: TypeName) -> Tied | None:
        """The class of a type, by its name in the schema or of its class in Java."""
        if name.namespace == SOAPRMI_TYPES:
            return self._by_local.get(class_of(name.local))
        return self._by_name.get(name)

    def read(self, wire: WireEvent) -> Event:
        """Make an object of an event.

        Raises:
            MediationError: ``EVENT_TYPE``: its type has no class here. ``MESSAGE_INVALID``: a field
                has no value of its type.
        """
        tied = self.named(wire.type_name)
        if tied is None:
            raise unknown_type(wire.type_name)
        values: dict[str, Any] = {
            "event_namespace": wire.namespace,
            "event_type": wire.type,
            "source": wire.source,
            "timestamp": wire.timestamp or 0,
            "seq_no": wire.number or 0,
            "message": wire.message,
            "handback": wire.handback,
        }
        if len(tied.fields) > _BASE:
            texts = {one.name: one.text for one in wire.further}
            for attribute, element, kind in tied.fields[_BASE:]:
                text = texts.get(element)
                if text is not None:
                    values[attribute] = _value(element, kind, text)
        return tied.cls(**values)

    def write(self, event: Event, handback: str | None = None) -> WireEvent:
        """Make of an object what is sent. *handback*: instead of its own."""
        tied = self.of(type(event))
        known = tied.name in EVENT_TYPES
        further = tuple(
            _further(element, kind, getattr(event, attribute), known=known)
            for attribute, element, kind in tied.fields[_BASE:]
        )
        return WireEvent(
            event.event_namespace,
            event.event_type,
            event.source,
            event.timestamp,
            event.seq_no,
            event.message,
            event.handback if handback is None else handback,
            tied.name,
            further,
        )


def read_event(octets: bytes, types: "EventTypes | None" = None) -> Event:
    """Read the event of a call of handleEvent.

    Raises:
        Refused: It is none, or of a type that has no class.
    """
    call = read_call(octets)
    if not isinstance(call, HandleEvent):
        raise MediationError(Reason.MESSAGE_INVALID, "This is no call of handleEvent.")
    return (types or TYPES).read(call.event)


def _fields(cls: type[Event]) -> tuple[tuple[str, str, str], ...]:
    hints: Mapping[str, Any] = typing.get_type_hints(cls)
    found = []
    for field in dataclasses.fields(cls):
        kinds = [one for one in typing.get_args(hints[field.name]) if one is not type(None)]
        kind = _KINDS.get(kinds[0] if len(kinds) == 1 else hints[field.name])
        if kind is None:
            raise TypeError(f"{cls.__name__}.{field.name} is no str, int, float or bool")
        # A schema may say more narrowly what a number is.
        kind = field.metadata.get("xsd", kind)
        found.append((field.name, element_of(field.name), kind))
    if [field[1:] for field in found[:_BASE]] != list(BASE_FIELDS):
        raise TypeError(f"{cls.__name__} is no dataclass that extends Event")
    return tuple(found)


def element_of(attribute: str) -> str:
    """The element of a field: ``cpu_utilization`` is ``cpuUtilization``."""
    first, *rest = attribute.split("_")
    return first + "".join(map(str.capitalize, rest))


def _value(element: str, kind: str, text: str) -> str | int | float | bool:
    try:
        if kind in INTEGERS:
            number = long_of(text)
            if number is None:
                raise ValueError(text)
            return number
        match kind:
            case "double" | "float":
                return float(text)
            case "boolean":
                return _TRUTH[text]
            case _:
                return text
    except (KeyError, ValueError):
        text = f"The field {element} is no xsd:{kind}."
        raise MediationError(Reason.MESSAGE_INVALID, text) from None


def _further(element: str, kind: str, value: object, *, known: bool) -> Further:
    text = None if value is None else _written(kind, value)
    # Where the type is known to all, its fields need not say theirs.
    return Further(element, text) if known else typed_field(element, kind, text)


def _written(kind: str, value: object) -> str:
    if kind == "boolean":
        return "true" if value else "false"
    if kind in ("double", "float"):
        return {"inf": "INF", "-inf": "-INF", "nan": "NaN"}.get(repr(value), repr(value))
    return str(value)


TYPES = EventTypes()
"""The classes that listeners and publishers know unless they are given others."""
