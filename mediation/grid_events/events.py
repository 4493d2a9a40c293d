"""Events, `Event`: read from what a publisher sent, written as a payload, and read from one.

    <ev:Event xmlns:ev="..">                      a payload: the fields that are there, in order,
      <eventNamespace>..</eventNamespace> ..      plain; a known type under its own name
    </ev:Event>

An event of an unknown type is an ``ev:Event`` with its ``xsi:type``, and its further fields are
kept as they came.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote

from lxml import etree

from filters import Reason, Step, Topic, quoted
from filters.documents import parse_own
from filters.topics import NAME_FURTHER, NAME_START, is_namespace
from mediation import names
from mediation.grid_events.encoding import (
    SPACE,
    Encoded,
    Generation,
    TypeName,
    is_array,
    is_null,
    long_of,
    type_of,
)
from mediation.grid_events.types import (
    BASE,
    BASE_FIELDS,
    EVENT_TYPES,
    EventType,
    is_declared,
    type_called,
)
from mediation.model.errors import MediationError
from mediation.model.values import checked_dataclass
from mediation.soap.actions import payload_name
from mediation.soap.addressing import LONGEST_CHARACTER
from mediation.soap.envelopes import elements, xml_attribute, xml_text

MOST_PARTS = 32
"""Parts of an event's type."""
_KIB = 1024
LONGEST = {"eventNamespace": 2 * _KIB, "eventType": _KIB, "source": _KIB, "handback": _KIB}
"""Octets of these fields; a message is as long as the limits of documents allow."""
LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999, counted from 1970."""
VERBATIM = frozenset({"message", "handback"})
"""Fields whose white space counts."""
_BASE_NAMES = frozenset(name for name, _ in BASE_FIELDS)
_OWN = {name: tuple(field for field, _ in type_.fields) for name, type_ in EVENT_TYPES.items()}
_BASE_TAGS = tuple((f"<{name}>", f"</{name}>") for name, _ in BASE_FIELDS)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Further(NamedTuple):
    """A field beyond those of the base type.

    Attributes:
        name: Its local name.
        text: Its text; None where it has no value, or is no simple one.
        octets: The element as it came; empty where its type is known.
    """

    name: str
    text: str | None
    octets: bytes = b""


@checked_dataclass(frozen=True, slots=True)
class Event:
    """An event. A field without a value is None.

    Attributes:
        namespace: ``eventNamespace``, which with the type tells what kind of event it is.
        type: ``eventType``, whose dots make levels.
        timestamp: Milliseconds since 1970.
        type_name: The name of its type in the schema, or of one that is not known here.
        further: The fields of a derived type.
    """

    namespace: str | None = None
    type: str | None = None
    source: str | None = None
    timestamp: int | None = None
    number: int | None = None
    message: str | None = None
    handback: str | None = None
    type_name: TypeName = BASE.name
    further: tuple[Further, ...] = ()

    @property
    def known_type(self) -> EventType | None:
        """The type; None where it is not known."""
        return EVENT_TYPES.get(self.type_name)

    @property
    def base(self) -> tuple[str | int | None, ...]:
        """The fields of the base type, in order."""
        return (
            self.namespace,
            self.type,
            self.source,
            self.timestamp,
            self.number,
            self.message,
            self.handback,
        )

    @property
    def time(self) -> datetime | None:
        """The time at which it happened; None where it does not say."""
        if not self.timestamp:
            return None
        return _EPOCH + timedelta(milliseconds=self.timestamp)

    @property
    def topic(self) -> Topic | None:
        """Its topic; None where it has no type."""
        return _topic(self.namespace, self.type) if self.type else None

    @property
    def identity(self) -> str | None:
        """The id that it and its repetitions have; None where its publisher numbers none."""
        if not self.number:
            return None
        said = (self.source, self.namespace, self.type, self.timestamp, self.number)
        text = "\0".join(["" if part is None else str(part) for part in said])
        return f"urn:dragoman:grid-event:{sha256(text.encode(errors='surrogatepass')).hexdigest()}"


def milliseconds(time: datetime) -> int:
    """A time as a timestamp has it."""
    since = time - _EPOCH
    # A quotient of intervals is dearer, for every event.
    return max(0, (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000)


# Reading.


def read_event(
    encoded: Encoded,
    element: etree._Element,
    *,
    known_only: bool = False,
    declared: frozenset[tuple[str, str]] = frozenset(),
) -> Event:
    """Read an event as publishers send it.

    Args:
        known_only: An event whose type is not known here is refused, and so is an array.
        declared: The names of types that are known besides.

    Raises:
        MediationError: ``MESSAGE_INVALID``: a field is not a value of its type, or too long.
            ``EVENT_TYPE``, its names the type.
    """
    element = encoded.at(element)
    said = type_of(element) or BASE.name
    if known_only:
        if type_called(said) is None and not is_declared(said, declared):
            raise _unknown(said)
        for child in elements(element):
            if is_array(encoded.at(child)):
                raise _invalid("An event has no arrays.")
    return _read(encoded, element, said)


def _read(encoded: Encoded, element: etree._Element, said: TypeName) -> Event:
    known = type_called(said)
    own = () if known is None else _OWN[known.name]
    text: dict[str, str | None] = {}
    kept: list[Further] = []
    for child in elements(element):
        name = child.tag.rpartition("}")[2]
        if name in text:
            continue  # Of two with one name the first counts.
        if name in _BASE_NAMES or name in own:
            value = encoded.text(child)
            text[name] = value if not value or name in VERBATIM else value.strip(SPACE)
        else:
            kept.append(_kept(encoded, child, name, encoded.at(child)))
    for name, longest in LONGEST.items():
        if _is_longer(text.get(name) or "", longest):
            raise _invalid(f"The field {name} is longer than {longest} octets.")
    event = Event(
        text.get("eventNamespace"),
        text.get("eventType"),
        text.get("source"),
        _timestamp(_long("timestamp", text.get("timestamp"))),
        _long("seqNo", text.get("seqNo")),
        text.get("message"),
        text.get("handback"),
        said if known is None else known.name,
        (*(Further(name, text[name]) for name in own if name in text), *kept),
    )
    if event.type is not None and event.type.count(".") >= MOST_PARTS:
        raise _invalid(f"An event's type has {MOST_PARTS} parts at most.")
    return event


def _is_longer(text: str, octets: int) -> bool:
    return len(text) * LONGEST_CHARACTER > octets and len(text.encode()) > octets


def _long(name: str, text: str | None) -> int | None:
    if not text:
        return None
    number = long_of(text)
    if number is None:
        raise _invalid(f"The field {quoted(name)} is not an xsd:long.")
    return number


def _timestamp(number: int | None) -> int | None:
    if number is not None and not 0 <= number <= LATEST:
        raise _invalid("The timestamp is before 1970 or after 9999.")
    return number


def _kept(encoded: Encoded, child: etree._Element, name: str, value: etree._Element) -> Further:
    """A field that nobody here knows, as it came."""
    simple = not elements(value) and not is_null(value) and not is_array(value)
    return Further(name, encoded.trimmed(value) if simple else None, encoded.octets(child))


def read_payload(payload: bytes) -> Event | None:
    """Read the event that a payload is; None where it is none, or not one that was written here."""
    known = type_called(TypeName(*payload_name(payload)))
    if known is None:
        return None
    root = parse_own(payload)
    try:
        said = type_of(root) if known is BASE else None
        return _read(Encoded(root), root, known.name if said is None else said)
    except MediationError:
        return None


# Writing.


def write_payload(event: Event) -> bytes:
    """Write *event* as a payload."""
    known = event.known_type
    root = BASE if known is None else known
    prefix = root.prefix
    start = f'<{prefix}:{root.name.local} xmlns:{prefix}="{root.name.namespace}"'
    if known is None:
        start += f' xmlns:xsi="{names.XSI}" {_typed(event.type_name)}'
    # One list, for a message may be long, and need not be copied again and again.
    parts = [start, ">"]
    for (opened, closed), value in zip(_BASE_TAGS, event.base, strict=True):
        if value is not None:
            parts += (opened, xml_text(value) if isinstance(value, str) else str(value), closed)
    parts += map(_write_further, event.further)
    parts.append(f"</{prefix}:{root.name.local}>")
    return "".join(parts).encode()


def _typed(name: TypeName) -> str:
    if not name.namespace:
        return f"xsi:type={xml_attribute(name.local)}"
    bound = f"xmlns:t={xml_attribute(name.namespace)}"
    return f"{bound} xsi:type={xml_attribute('t:' + name.local)}"


def _write_further(field: Further) -> str:
    if field.octets:
        return field.octets.decode()
    return "" if field.text is None else f"<{field.name}>{xml_text(field.text)}</{field.name}>"


def write_fields(event: Event, generation: Generation) -> tuple[str, str]:
    """Write the fields of *event* for a listener, each with its type: what stands before the
    handback, and behind it."""
    before = [
        absent if value is None else f"{opened}{_text_of(value)}{closed}"
        for (opened, closed, absent), value in zip(
            field_tags(BASE, generation), event.base, strict=True
        )
    ]
    if not event.further:
        return "".join(before[:-1]), ""
    kinds = dict(event.known_type.fields) if event.known_type is not None else {}
    behind = [
        field.octets.decode()
        if field.octets
        else _field(field.name, kinds[field.name], field.text, generation)
        for field in event.further
    ]
    return "".join(before[:-1]), "".join(behind)


def write_handback(handback: str | None, generation: Generation) -> str:
    """Write the handback for a listener."""
    return _field("handback", "string", handback, generation)


def _text_of(value: str | int) -> str | int:
    return xml_text(value) if isinstance(value, str) else value


def _field(name: str, kind: str, value: str | int | None, generation: Generation) -> str:
    opened, closed, absent = _tags(name, kind, generation)
    return absent if value is None else f"{opened}{_text_of(value)}{closed}"


@lru_cache(maxsize=16)
def field_tags(type_: EventType, generation: Generation) -> tuple[tuple[str, str, str], ...]:
    """Return what stands in a call before the value of each field of a type, behind it, and in
    place of one that has none. The fields are those of the base type, and its own."""
    fields = BASE_FIELDS if type_ is BASE else (*BASE_FIELDS, *type_.fields)
    return tuple(_tags(name, kind, generation) for name, kind in fields)


def _tags(name: str, kind: str, generation: Generation) -> tuple[str, str, str]:
    opened, closed = f"<{name} xsi:type='xsd:{kind}'>", f"</{name}>"
    if kind == "long":
        return opened, closed, f"{opened}0{closed}"  # Numbers of Java are never null.
    return opened, closed, f"<{name} xsi:{generation.null}='1'/>"


# Topics.

_ESCAPED = re.compile(r"_x(?:[0-9A-F]{4}|[0-9A-F]{8})_")
_LIKE_ESCAPED = re.compile(r"_(?=x(?:[0-9A-F]{4}|[0-9A-F]{8})_)")
_NO_START = re.compile(rf"\A[^{NAME_START}]")
_NO_FURTHER = re.compile(rf"[^{NAME_FURTHER}]")
_EMPTY = "_x0000_"
"""The name of an empty part: no text has this character."""
_IN_URI = "-._~:/?[]@!$&'()*+,;=%"


def steps_of(type_: str) -> tuple[str, ...]:
    """The names of the topic of an event's type, which is not empty. What no name can have is
    written as ``_xHHHH_``."""
    return tuple(_step(part) for part in type_.split("."))


@lru_cache(maxsize=1024)
def _step(part: str) -> str:
    if not part:
        return _EMPTY
    name = _LIKE_ESCAPED.sub("_x005F_", part)
    name = _NO_FURTHER.sub(_escaped, name)
    return _NO_START.sub(_escaped, name)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"_x{code:04X}_" if code <= 0xFFFF else f"_x{code:08X}_"


@lru_cache(maxsize=256)
def _topic(namespace: str | None, type_: str) -> Topic:
    first, *rest = steps_of(type_)
    steps = (Step(None, name) for name in rest)
    return Topic((Step(topic_namespace(namespace), first), *steps))


@lru_cache(maxsize=256)
def type_of_topic(topic: Topic) -> str:
    """The event's type that a topic stands for: `steps_of` undone."""
    return ".".join(_ESCAPED.sub(_unescaped, step.name) for step in topic.steps)


def _unescaped(found: re.Match[str]) -> str:
    code = int(found[0][2:-1], 16)
    allowed = 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF
    return chr(code) if allowed else ""


@lru_cache(maxsize=1024)
def topic_namespace(namespace: str | None) -> str | None:
    """The namespace of the topics of events with this ``eventNamespace``: what stands before a
    ``#``, as a URI; an empty one is none, and where it is left out it is that of the type."""
    if namespace == "":
        return None
    before = (namespace or "").partition("#")[0]
    if not before:
        return names.GRID_EVENT
    uri = quote(before, safe=_IN_URI)
    if is_namespace(uri):
        return uri
    return f"{names.GRID_EVENTS}:{quote(before, safe='')}"


def _unknown(name: TypeName) -> MediationError:
    return MediationError(
        Reason.EVENT_TYPE,
        f"There is no mapping for the event type {quoted(str(name))}.",
        names=(str(name),),
    )


def _invalid(text: str) -> MediationError:
    return MediationError(Reason.MESSAGE_INVALID, text)
