"""SOAP encoding (SOAP 1.1, section 5), as far as calls with structs need it, `Encoded`.

    <p1 id="id1" xsi:type="n:Event" xmlns:n="..">..</p1>    an object
    <p2 href="#id1"/>                                       the same object once more
    <p3 xsi:nil="1"/>                                       none (2001); xsi:null before

An object may also stand by itself behind the call, with only an ``href`` in its place. Three
generations of XML Schema are read side by side. Whatever is shared is read in its one place; only
what is carried on is copied, within bounds. There are no arrays here: one has only its text.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from lxml import etree

from filters import Reason, quoted
from mediation import names
from mediation.model.errors import MediationError
from mediation.soap.envelopes import elements, local_name, namespace_of, whole_text
from mediation.soap.payloads import payload_of

MOST_IDS = 1000
"""Elements with an id in one message."""
DEEPEST = 16
"""Levels of structs and references within each other."""
MOST_COPIED, MOST_COPIED_OCTETS = 10_000, 2 * 2**20
"""Elements, and octets, that may become of one message when what is shared is copied."""
LEAST_LONG, GREATEST_LONG = -(2**63), 2**63 - 1
_LONG = re.compile(r"([+-]?)0*(\d{1,20})", re.ASCII)
SPACE = " \t\r\n"
"""The white space around a value that does not count."""


class TypeName(NamedTuple):
    """The name of a type."""

    namespace: str
    local: str

    def __str__(self) -> str:
        """Clark notation."""
        return f"{{{self.namespace}}}{self.local}" if self.namespace else self.local


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of a generation of XML Schema."""

    xsd: str
    xsi: str
    null: str


class Generation(Enum):
    """A generation of XML Schema; the value is what settings and rows call it."""

    V2001 = "2001"
    V2000 = "2000"
    V1999 = "1999"

    @property
    def xsd(self) -> str:
        return _NAMES[self].xsd

    @property
    def xsi(self) -> str:
        return _NAMES[self].xsi

    @property
    def null(self) -> str:
        """The local name of the attribute that says that there is no value."""
        return _NAMES[self].null


_NAMES = {
    Generation.V2001: _Names(names.XSD, names.XSI, "nil"),
    Generation.V2000: _Names(names.XSD_2000_10, names.XSI_2000_10, "null"),
    Generation.V1999: _Names(names.XSD_1999, names.XSI_1999, "null"),
}
_TYPES = tuple(f"{{{one.xsi}}}type" for one in Generation)
_PLAIN = frozenset(_TYPES)
"""Attributes that a value may have and be where it stands."""
_NULLS = frozenset(f"{{{one.xsi}}}{name}" for one in Generation for name in ("nil", "null"))
_ARRAY_TYPE = f"{{{names.SOAP_ENCODING_1_1}}}arrayType"
_ARRAY = TypeName(names.SOAP_ENCODING_1_1, "Array")
_MARKS = frozenset(
    {"id", "href", _ARRAY_TYPE}
    | {f"{{{names.SOAP_ENCODING_1_1}}}{name}" for name in ("root", "position", "offset")}
)
"""Attributes that mean something within one message alone."""


def is_null(element: etree._Element) -> bool:
    """Return whether *element* says that there is no value."""
    for name, said in element.items():  # noqa: SIM110 - of each field; a generator is dearer
        if name in _NULLS and said.strip() in ("1", "true"):
            return True
    return False


def type_of(element: etree._Element) -> TypeName | None:
    """The type that *element* says it has.

    Raises:
        MediationError: ``MESSAGE_INVALID``: its prefix is not declared.
    """
    for name in _TYPES:
        value = element.get(name)
        if value is not None and value.strip():
            return _type_named(value.strip(), element)
    return None


def _type_named(name: str, element: etree._Element) -> TypeName:
    prefix, colon, local = name.rpartition(":")
    namespace = element.nsmap.get(prefix or None)
    if (colon and not prefix) or (prefix and namespace is None) or not local:
        raise _invalid(f"The type {quoted(name)} has a prefix that is not declared.")
    return TypeName(namespace or "", local)


def is_array(element: etree._Element) -> bool:
    """Return whether *element* is an array."""
    return element.get(_ARRAY_TYPE) is not None or type_of(element) == _ARRAY


def generation_of(element: etree._Element) -> Generation:
    """The generation of XML Schema that an element uses, or that is declared where it stands; of
    several the latest."""
    used = {
        str(key)[1:].partition("}")[0]
        for each in element.iter(etree.Element)
        for key in each.keys()  # noqa: SIM118 - lxml's elements iterate over children
    }
    declared = set(element.nsmap.values())
    for found in (used, declared):
        for generation in Generation:
            if generation.xsi in found or generation.xsd in found:
                return generation
    return Generation.V2001


class Encoded:
    """The values of a message.

    Args:
        body: The element that holds all of them: the Body, or a value by itself.

    Raises:
        MediationError: ``MESSAGE_INVALID``: an id stands twice, or there are too many.
    """

    def __init__(self, body: etree._Element) -> None:
        self._by_id: dict[str, etree._Element] = {}
        self._room = _Room()
        # Held, for lxml makes an object of an element each time when nobody holds it.
        self._elements = list(body.iter(etree.Element))
        for element in self._elements:
            id_ = element.get("id")
            if id_ is None:
                continue
            if id_ in self._by_id:
                raise _invalid(f"The id {quoted(id_)} stands twice.")
            if len(self._by_id) >= MOST_IDS:
                raise _invalid(f"More than {MOST_IDS} elements have an id.")
            self._by_id[id_] = element

    def at(self, element: etree._Element) -> etree._Element:
        """The element that holds the value of *element*: itself, or what its ``href`` leads to.

        Raises:
            MediationError: ``MESSAGE_INVALID``: it leads nowhere, or back to itself.
        """
        href = element.get("href")
        return element if href is None else self._behind(href)

    def _behind(self, href: str) -> etree._Element:
        seen = set[str]()
        while True:
            if href in seen or len(seen) >= DEEPEST:
                raise _invalid(f"The reference {quoted(href)} leads back to itself.")
            seen.add(href)
            found = self._by_id.get(href.strip().removeprefix("#"))
            if found is None or not href.strip().startswith("#"):
                raise _invalid(f"The reference {quoted(href)} leads nowhere.")
            further = found.get("href")
            if further is None:
                return found
            href = further

    def fields(self, struct: etree._Element) -> dict[str, etree._Element]:
        """The fields of a struct by local name, each where its value is; of two with one name the
        first."""
        found: dict[str, etree._Element] = {}
        for child in elements(self.at(struct)):
            found.setdefault(local_name(child), child)
        return {name: self.at(child) for name, child in found.items()}

    def text(self, element: etree._Element) -> str | None:
        """The text of a simple value, as it stands; None where there is none.

        Raises:
            MediationError: ``MESSAGE_INVALID``: it is not a simple value.
        """
        if not _PLAIN.issuperset(element.keys()):  # Nearly all have a type, and no more.
            element = self.at(element)
            if is_null(element):
                return None
        if not len(element):
            return element.text or ""
        if elements(element):
            raise _invalid(f"The field {quoted(local_name(element))} is not a simple value.")
        return whole_text(element)

    def trimmed(self, element: etree._Element) -> str | None:
        """As `text`, without the white space around it."""
        text = self.text(element)
        return None if text is None else text.strip(SPACE)

    def long(self, element: etree._Element) -> int | None:
        """An xsd:long; None where there is none.

        Raises:
            MediationError: ``MESSAGE_INVALID``: it is another thing, or out of range.
        """
        text = self.trimmed(element)
        if not text:
            return None
        number = long_of(text)
        if number is None:
            raise _invalid(f"The field {quoted(local_name(self.at(element)))} is not an xsd:long.")
        return number

    def octets(self, element: etree._Element) -> bytes:
        """The element of a value as octets of its own, with what is shared copied into it, and
        without the marks of one message.

        Raises:
            MediationError: ``MESSAGE_INVALID``: it becomes too large, or contains itself.
        """
        scope: Any = self.at(element).nsmap
        return payload_of(self._copy(element, etree.Element("around", nsmap=scope), depth=0))

    def _copy(
        self, element: etree._Element, parent: etree._Element, *, depth: int
    ) -> etree._Element:
        if depth > DEEPEST:
            raise _invalid(f"Values are nested in more than {DEEPEST} levels.")
        value = self.at(element)
        scope: Any = dict(value.nsmap)
        if element is not value and element.prefix not in scope and element.prefix:
            scope[element.prefix] = namespace_of(element)
        copied = etree.SubElement(parent, element.tag, nsmap=scope)
        if is_array(value):
            copied.text = "".join(str(part) for part in value.itertext())
            self._room.take(1, len(copied.text))
            return copied
        for name, said in value.items():
            if name not in _MARKS:
                copied.set(name, said)
        self._room.take(1, sum(map(len, value.values())) + len(value.tag) + len(value.text or ""))
        copied.text = value.text
        last: etree._Element | None = None
        for child in value:
            tail = child.tail or ""
            self._room.take(0, len(tail))
            if isinstance(child, etree._Comment):
                if last is None:
                    copied.text = (copied.text or "") + tail
                else:
                    last.tail = (last.tail or "") + tail
            else:
                last = self._copy(child, copied, depth=depth + 1)
                last.tail = tail
        return copied


def long_of(text: str) -> int | None:
    """The xsd:long that *text* is, with any number of leading zeros; None where it is none."""
    found = _LONG.fullmatch(text)
    if found is None:
        return None
    number = int(found[1] + found[2])
    return number if LEAST_LONG <= number <= GREATEST_LONG else None


class _Room:
    """The room that is left for copies."""

    def __init__(self) -> None:
        self._elements, self._octets = MOST_COPIED, MOST_COPIED_OCTETS

    def take(self, elements: int, octets: int) -> None:
        """Use some of it.

        Raises:
            MediationError: ``MESSAGE_INVALID``: there is no more.
        """
        self._elements -= elements
        self._octets -= octets
        if self._elements < 0 or self._octets < 0:
            raise _invalid("What is shared in the message makes it too large.")


def _invalid(text: str) -> MediationError:
    return MediationError(Reason.MESSAGE_INVALID, text)
