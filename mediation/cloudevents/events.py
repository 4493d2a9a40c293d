"""A CloudEvent, and the rules for its attributes (CloudEvents 1.0.2, "Context Attributes")."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from json.encoder import encode_basestring
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from filters import Reason, quoted
from mediation.model.errors import MediationError
from mediation.model.values import checked_dataclass

SPECVERSION = "1.0"
REQUIRED = ("specversion", "id", "source", "type")
CORE = frozenset({*REQUIRED, "datacontenttype", "dataschema", "subject", "time"})
"""The attributes of the specification; all others are extensions."""
MAX_ATTRIBUTES = 64
MAX_NAME = 64
"""Characters of an attribute's name; the specification says that they should be 20 at most."""
MAX_OCTETS = 8 * 1024
"""Octets of all attributes together: brokers bound the properties of a message."""

Value: TypeAlias = str | int | bool
_NAME = re.compile(r"[a-z0-9]+\Z")
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_URI_REFERENCE = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)
_LEAP_SECOND = re.compile(r":60(?=[.Z+-])")
_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*(?:;.*)?\Z")
_USUAL = frozenset({"application/json", "application/xml"})
_INTEGERS = range(-(2**31), 2**31)
_RECURRING = frozenset({"specversion", "source", "type", "datacontenttype", "dataschema"})
_SHORT, _SHORT_TOGETHER = 256, 1024
"""Attributes whose values come again and again, and the most characters of one, and of all of an
event, that are remembered as checked."""


@checked_dataclass(frozen=True, slots=True)
class CloudEvent:
    """One event.

    Attributes:
        attributes: By name, each in its type; `datacontenttype` among them.
        data: As octets of that media type; None where the event has none.
    """

    attributes: Mapping[str, Value]
    data: bytes | None = None

    @property
    def media_type(self) -> str | None:
        """That of the data; None where the event says none."""
        said = self.attributes.get("datacontenttype")
        return None if said is None else str(said)


def read_attributes(attributes: Iterable[tuple[str, object]]) -> dict[str, Value]:
    """Check attributes; those that are None are unset.

    Raises:
        MediationError: ``MESSAGE_INVALID``, ``TOO_LARGE``: the event is none.
    """
    pairs = list(attributes)
    found = dict(pairs)
    return check_attributes(found) if len(found) == len(pairs) else _read_any(pairs)


def check_attributes(attributes: dict[str, object]) -> dict[str, Value]:
    """As `read_attributes`, of which none stands twice."""
    if _are_usual(attributes):
        checked: dict[str, Value] = attributes  # type: ignore[assignment]
        return checked
    return _read_any(attributes.items())


def _are_usual(attributes: dict[str, object]) -> bool:
    """Return whether attributes are all of ASCII, none of them empty, and right, as nearly always:
    most is told by one look at all of them together."""
    texts: dict[str, str] = attributes  # type: ignore[assignment]
    try:
        together = "".join(texts.values())
        names = _names_of(tuple(texts))
        if (
            "" in texts.values()
            or not (together.isascii() and together.isprintable())
            or names.octets + len(together) > MAX_OCTETS
        ):
            return False
        recurring = names.recurring_of(texts)
        if len(together) <= _SHORT_TOGETHER:
            _check_all(names.recurring, recurring)
        else:
            _check_all.__wrapped__(names.recurring, recurring)
        if "time" in texts:
            _check_time(texts["time"])
    except (TypeError, MediationError):  # A value that is not a text, and cannot be joined.
        return False
    return True


def _read_any(attributes: Iterable[tuple[str, object]]) -> dict[str, Value]:
    """Check attributes one by one."""
    found: dict[str, Value] = {}
    octets = 0
    for name, value in attributes:
        _check_name(name)
        if value is None:
            continue
        if name in found:
            raise _invalid(f"The attribute {quoted(name)} stands twice.")
        if name in _RECURRING and isinstance(value, str) and len(value) <= _SHORT:
            found[name] = checked = _check_recurring(name, value)
        else:
            found[name] = checked = _check_value(name, value)
        text = checked if isinstance(checked, str) else str(checked)
        octets += len(name) + (len(text) if text.isascii() else len(text.encode()))
        if octets > MAX_OCTETS or len(found) > MAX_ATTRIBUTES:
            raise MediationError(
                Reason.TOO_LARGE,
                f"An event has {MAX_ATTRIBUTES} attributes at most, of {MAX_OCTETS} octets.",
            )
    for name in REQUIRED:
        if name not in found:
            raise _invalid(f"The attribute {quoted(name)} is missing.")
    return found


class _Names(NamedTuple):
    """Facts that the names of an event's attributes decide alone.

    Attributes:
        octets: Those of all names.
        recurring: The names among them of attributes whose values come again and again.
        recurring_of: Takes their values.
    """

    octets: int
    recurring: tuple[str, ...]
    recurring_of: Callable[[Mapping[str, str]], tuple[str, ...]]


@lru_cache(maxsize=256)
def _names_of(names: tuple[str, ...]) -> _Names:
    """Check the names of an event's attributes.

    Raises:
        MediationError: They are none, too many, or not all that are required.
    """
    for name in names:
        _check_name(name)
    if len(names) > MAX_ATTRIBUTES or not set(names).issuperset(REQUIRED):
        raise _invalid("The attributes are not those of an event.")
    recurring = tuple(name for name in names if name in _RECURRING)
    return _Names(sum(map(len, names)), recurring, itemgetter(*recurring))


def text_of(value: Value) -> str:
    """The canonical string of a value (CloudEvents 1.0.2, "Type System")."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def extensions_of(attributes: Mapping[str, Value]) -> tuple[str, ...]:
    """The names of those *attributes* of an event that are not of the specification."""
    return _extensions_in(tuple(attributes))


@lru_cache(maxsize=256)
def _extensions_in(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in CORE)


def json_object(attributes: Mapping[str, Value]) -> str:
    """Attributes as an object of JSON."""
    # Their names need no escapes; `json.dumps` makes an encoder each time.
    members = [
        f'"{name}":{encode_basestring(value) if isinstance(value, str) else text_of(value)}'
        for name, value in attributes.items()
    ]
    return f"{{{','.join(members)}}}"


def json_member(name: str, text: str) -> str:
    """An attribute as a member of an object of JSON."""
    return f'"{name}":{encode_basestring(text)}'


def clean(text: str) -> str:
    """Write *text* without the characters that no attribute may have."""
    return text if _is_clean(text) else _FORBIDDEN.sub("?", text)


def _is_clean(text: str) -> bool:
    # Nearly all are of ASCII, where what prints is allowed.
    return (text.isascii() and text.isprintable()) or _FORBIDDEN.search(text) is None


def is_media_type(text: str) -> bool:
    """Return whether *text* is a media type (RFC 2046), and may stand in a header."""
    if text in _USUAL:
        return True
    return text.isascii() and text.isprintable() and _MEDIA_TYPE.match(text) is not None


@lru_cache(maxsize=256)
def is_json(media_type: str) -> bool:
    """Return whether data of *media_type* is JSON (JSON Event Format, section 3.1.1)."""
    return re.fullmatch(r"json|.*\+json", _subtype(media_type)) is not None


@lru_cache(maxsize=256)
def is_xml(media_type: str) -> bool:
    """Return whether data of *media_type* is XML (RFC 7303)."""
    subtype = _subtype(media_type)
    return subtype == "xml" or subtype.endswith("+xml")


@lru_cache(maxsize=256)
def is_text(media_type: str) -> bool:
    """Return whether data of *media_type* is text in UTF-8, or that may be assumed."""
    return _essence(media_type).startswith("text/") or is_xml(media_type)


def _essence(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _subtype(media_type: str) -> str:
    return _essence(media_type).partition("/")[2]


@lru_cache(maxsize=1024)  # The same names come with every event; none that is kept is long.
def _check_name(name: str) -> None:
    if not _NAME.match(name) or len(name) > MAX_NAME or name == "data":
        raise _invalid(
            f"{quoted(name)} is not an attribute name: use lower-case letters and digits, "
            f"{MAX_NAME} at most."
        )


def _check_value(name: str, value: object) -> Value:
    if name in CORE or isinstance(value, str):
        if not isinstance(value, str):
            raise _invalid(f"The attribute {quoted(name)} is not a string.")
        if not _is_clean(value):
            raise _invalid(
                f"The attribute {quoted(name)} has a character that is not allowed in attributes."
            )
        if name in CORE:
            _check_core(name, value)
        return value
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in _INTEGERS:
        return value
    raise _invalid(
        f"The attribute {quoted(name)} is neither a string, a Boolean nor an integer of 32 bits."
    )


_check_recurring = lru_cache(maxsize=1024)(_check_value)


@lru_cache(maxsize=1024)
def _check_all(names: tuple[str, ...], values: tuple[str, ...]) -> None:
    for name, value in zip(names, values, strict=True):
        _check_value(name, value)


def _check_core(name: str, value: str) -> None:
    if not value:
        raise _invalid(f"The attribute {quoted(name)} is empty.")
    if name in ("id", "subject", "type"):
        return  # Of which there is no more to check.
    if name == "specversion" and value != SPECVERSION:
        raise _invalid(f"The version of CloudEvents is not {SPECVERSION}, but {quoted(value)}.")
    if name in ("source", "dataschema") and not _URI_REFERENCE.match(value):
        raise _invalid(f"The attribute {quoted(name)} is not a URI.")
    if name == "dataschema" and not _SCHEME.match(value):
        raise _invalid('The attribute "dataschema" is not an absolute URI.')
    if name == "time":
        _check_time(value)
    if name == "datacontenttype" and not is_media_type(value):
        raise _invalid('The attribute "datacontenttype" is not a media type.')


def _check_time(value: str) -> None:
    read_time("time", value)


def read_time(name: str, value: Value) -> datetime:
    """Read the attribute *name*, a time. A leap second is one (RFC 3339, section 5.6), which
    Python's has no room for.

    Raises:
        MediationError: ``MESSAGE_INVALID``.
    """
    try:
        if not isinstance(value, str) or not _TIME.match(value):
            raise ValueError
        time = value.upper()
        if ":60" in time:
            time = _LEAP_SECOND.sub(":59", time)
        return datetime.fromisoformat(time)
    except ValueError:
        raise _invalid(f"The attribute {quoted(name)} is not a time of RFC 3339.") from None


def _invalid(text: str) -> MediationError:
    return MediationError(Reason.MESSAGE_INVALID, text)
