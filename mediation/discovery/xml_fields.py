"""Read the fields of elements strictly, as the schema has them, and write them in exclusive
canonical form."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TypeVar
from uuid import UUID

from lxml import etree

from filters import NCNAME, quoted
from mediation import names
from mediation.discovery.errors import Malformed
from mediation.discovery.values import MAX_TOKEN
from mediation.model.expiry import Duration, parse_date_time, parse_duration
from mediation.soap.envelopes import local_name, whole_text, xml_attribute, xml_text

BLANKS = " \t\r\n"
_UUID = re.compile(r"urn:uuid:([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")
_IDENTIFIER = re.compile(r"(?:e|tdn|x)-[0-9a-f]{32}")
_AUTHORITY = re.compile("ca-[0-9a-f]{32}")
_TOKEN = re.compile(NCNAME)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_Named = TypeVar("_Named", bound=Enum)
_PREFIX = f"{{{names.TDN}}}"


class Children:
    """The children of an element that holds elements alone, taken one after the other.

    Args:
        attributes: Those that it may have.

    Raises:
        Malformed: It has others, or text.
    """

    def __init__(self, element: etree._Element, *attributes: str) -> None:
        check_attributes(element, attributes)
        self._element = element
        self._children: list[etree._Element] = []
        between = element.text or ""
        for child in element:
            if child.tail:
                between += child.tail
            if isinstance(child.tag, str):
                self._children.append(child)
        if between.strip(BLANKS):
            raise Malformed(f"{self._name} has text between its elements.")
        self._at = 0

    @property
    def _name(self) -> str:
        return local_name(self._element)

    def take(self, tag: str) -> etree._Element | None:
        """Take the next child if it is a *tag* (Clark notation)."""
        if self._at < len(self._children) and self._children[self._at].tag == tag:
            self._at += 1
            return self._children[self._at - 1]
        return None

    def maybe(self, name: str) -> etree._Element | None:
        """Take the next child if it is a *name* of topic discovery."""
        return self.take(_PREFIX + name)

    def one(self, name: str) -> etree._Element:
        """Take the next child.

        Raises:
            Malformed: It is no *name*.
        """
        child = self.take(_PREFIX + name)
        if child is None:
            raise Malformed(f"{self._name} lacks {name}, or has it out of place.")
        return child

    def many(self, name: str) -> list[etree._Element]:
        """Take all children of that *name* that come next."""
        found = []
        while (child := self.maybe(name)) is not None:
            found.append(child)
        return found

    def rest(self) -> list[etree._Element]:
        """Take all that are left."""
        found = self._children[self._at :]
        self._at = len(self._children)
        return found

    def end(self) -> None:
        """Refuse what is left.

        Raises:
            Malformed: Something is.
        """
        if self._at < len(self._children):
            raise Malformed(
                f"{self._name} has an element that it cannot have there.",
                value=str(self._children[self._at].tag)[:200],
            )


def check_attributes(element: etree._Element, allowed: Iterable[str]) -> None:
    """Refuse attributes that are not *allowed*.

    Raises:
        Malformed: There is one.
    """
    for name in element.attrib:
        if str(name) not in allowed:
            raise Malformed(f"{local_name(element)} has an attribute that it cannot have.")


# Texts.


def text(element: etree._Element, *attributes: str) -> str:
    """The text of an element that holds nothing else, as it stands.

    Raises:
        Malformed: It has elements, or other attributes than these.
    """
    check_attributes(element, attributes)
    if len(element) and next(element.iterchildren(etree.Element), None) is not None:
        raise Malformed(f"{local_name(element)} has elements, where it may have text alone.")
    return whole_text(element)


def uuid(element: etree._Element) -> UUID:
    """Read a ``urn:uuid:`` in lower case."""
    found = _UUID.fullmatch(text(element))
    if found is None:
        raise Malformed(f"{local_name(element)} is not a UUID as urn:uuid: in lower case.")
    return UUID(found[1])


def identifier(element: etree._Element) -> str:
    """Read the identifier of an entity or a node."""
    word = text(element).strip(BLANKS)
    if not is_identifier(word):
        raise Malformed(f"{local_name(element)} is not an identifier of an entity or a node.")
    return word


def grantee(element: etree._Element) -> str:
    """Read the identifier of an entity, or of an authority: all are meant that it certified."""
    word = text(element).strip(BLANKS)
    if _AUTHORITY.fullmatch(word) is not None:
        return word
    return identifier(element)


def is_identifier(word: str) -> bool:
    """Return True if *word* can be the identifier of an entity or a node."""
    return _IDENTIFIER.fullmatch(word) is not None


def instant(element: etree._Element) -> datetime:
    """Read a time in UTC, with its ``Z``."""
    word = text(element).strip(BLANKS)
    if word.endswith("Z"):
        try:
            return parse_date_time(word)
        except ValueError:
            pass
    raise Malformed(f"{local_name(element)} is not a time in UTC, such as 2026-11-21T09:00:00Z.")


def duration(element: etree._Element) -> Duration:
    """Read a duration that is not negative."""
    try:
        return parse_duration(text(element).strip(BLANKS))
    except (ValueError, OverflowError):
        raise Malformed(f"{local_name(element)} is not a duration of zero or more.") from None


def boolean(element: etree._Element) -> bool:
    """Read true or false."""
    try:
        return _BOOLEANS[text(element).strip(BLANKS)]
    except KeyError:
        raise Malformed(f"{local_name(element)} is neither true nor false.") from None


def choice(kind: type[_Named], element: etree._Element) -> _Named:
    """Read one of a few words."""
    return word_of(kind, text(element), local_name(element))


def word_of(kind: type[_Named], word: str, place: str) -> _Named:
    """The member of *kind* that *word* means, at a *place* that a refusal names."""
    try:
        return kind(word)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise Malformed(f"{place} is {quoted(word, 40)}; it has to be one of {known}.") from None


def uri(element: etree._Element) -> str:
    """Read a URI, of which nothing is asked but that it has no blanks around it."""
    return text(element).strip(BLANKS)


def is_token(word: str) -> bool:
    """Return True if *word* is an NCName that is short enough for a property or a path level."""
    return len(word) <= MAX_TOKEN and _TOKEN.fullmatch(word) is not None


_Value = TypeVar("_Value")


def read_if(
    read: Callable[[etree._Element], _Value], element: etree._Element | None
) -> _Value | None:
    """Read *element* where there is one."""
    return None if element is None else read(element)


# Elements as bytes.


def canonical(element: etree._Element) -> bytes:
    """Write *element* in exclusive canonical form, without comments: a document of its own, the
    same wherever it stood.

    Raises:
        Malformed: It has none: a namespace is a relative URI.
    """
    try:
        octets: bytes = etree.tostring(
            element, method="c14n", exclusive=True, with_comments=False, with_tail=False
        )
    except etree.C14NError:
        raise Malformed("The document has no canonical form (a relative namespace).") from None
    return octets


# Writing.


def leaf(name: str, content: str | None, attributes: str = "") -> str:
    """Write an element of text; without *content*, nothing."""
    if content is None:
        return ""
    return f"<tdn:{name}{attributes}>{xml_text(content)}</tdn:{name}>"


def attribute(name: str, value: str | None) -> str:
    """Write an attribute with the blank before it; without *value*, nothing."""
    return "" if value is None else f" {name}={xml_attribute(value)}"


def urn(value: UUID) -> str:
    return f"urn:uuid:{value}"


def instant_text(moment: datetime) -> str:
    """Write UTC with a ``Z``, to the microsecond where there are any."""
    utc = moment.astimezone(UTC)
    if utc.microsecond:
        return f"{utc:%Y-%m-%dT%H:%M:%S.%f}Z"
    return f"{utc:%Y-%m-%dT%H:%M:%S}Z"


def duration_text(length: Duration) -> str:
    """Write ``P12M30DT1.5S``: months, days and what is left."""
    days, rest = divmod(length.seconds, timedelta(days=1))
    whole, fraction = divmod(rest, timedelta(seconds=1))
    micros = fraction // timedelta(microseconds=1)
    text = "P" + (f"{length.months}M" if length.months else "") + (f"{days}D" if days else "")
    if whole or micros:
        text += f"T{whole}" + (f".{micros:06d}".rstrip("0") if micros else "") + "S"
    return text if len(text) > 1 else "PT0S"
