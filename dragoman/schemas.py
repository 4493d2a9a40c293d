"""Schemas of events: a dataclass gives its XML Schema, and a schema its dataclass.

::

    schema_of(Storm)  # for those who read it in other languages
    Storm = dataclass_of(Path("storm.xsd").read_bytes(), "Storm")
"""

import dataclasses
import keyword
import typing
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lxml import etree

from dragoman.events import event_type, kind_of, name_of, parsed

_XS = "{http://www.w3.org/2001/XMLSchema}"
_NAMES: Mapping[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "double", Decimal: "decimal",
    datetime: "dateTime", date: "date", bytes: "base64Binary",
}  # fmt: skip
_INTEGERS = (
    "integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger",
    "nonPositiveInteger", "negativeInteger", "unsignedLong", "unsignedInt", "unsignedShort",
    "unsignedByte",
)  # fmt: skip
_KINDS: Mapping[str, type] = {
    **{name: kind for kind, name in _NAMES.items()},
    **dict.fromkeys(_INTEGERS, int),
    **dict.fromkeys(("anyURI", "token", "normalizedString", "NCName", "Name", "language"), str),
    "float": float,
}


def schema_of(cls: type) -> bytes:
    """Write the XML Schema of the element that a dataclass is (`dragoman.events.to_xml`).

    Raises:
        TypeError: It is no dataclass, a field is of a type that no element has, or two of its
            classes have one name.
    """
    namespace, name = name_of(cls)
    found: dict[str, type] = {}
    for one in _classes(cls):
        if found.setdefault(one.__name__, one) is not one:
            raise TypeError(f"two dataclasses have the name {one.__name__}")
    scope = {"xs": _XS[1:-1]} | ({"t": namespace} if namespace else {})
    root = etree.Element(f"{_XS}schema", nsmap=scope, elementFormDefault="qualified")
    if namespace:
        root.set("targetNamespace", namespace)
    prefix = "t:" if namespace else ""
    etree.SubElement(root, f"{_XS}element", name=name, type=f"{prefix}{cls.__name__}")
    for one in found.values():
        type_ = etree.SubElement(root, f"{_XS}complexType", name=one.__name__)
        sequence = etree.SubElement(type_, f"{_XS}sequence")
        hints = typing.get_type_hints(one)
        for field in dataclasses.fields(one):
            etree.SubElement(
                sequence, f"{_XS}element", _attributes(field, hints[field.name], prefix)
            )
    return etree.tostring(root, pretty_print=True)


def dataclass_of(schema: bytes, name: str | None = None) -> type[Any]:
    """Make the dataclass of an element that an XML Schema declares: a sequence of elements of
    simple types, or of such sequences. An element that may be absent is None, one that may come
    again a list.

    Args:
        name: Of the element; the schema's only one, when None.

    Raises:
        ValueError: It is no schema, has no such element, or that has what dataclasses have not.
    """
    root = parsed(schema)
    if root.tag != f"{_XS}schema":
        raise ValueError("this is no XML Schema")
    declared = {one.get("name", ""): one for one in root.findall(f"{_XS}element")}
    if name is None and len(declared) == 1:
        [name] = declared
    if name is None or name not in declared:
        raise ValueError(f"name one of its elements: {', '.join(sorted(declared))}")
    reader = _Reader(root)
    namespace = root.get("targetNamespace", "")
    made = reader.made(declared[name], name)
    return event_type(namespace, name)(made) if namespace else made


def _classes(cls: type) -> Iterator[type]:
    """*cls*, and the dataclasses of its fields, each once."""
    ahead, seen = [cls], set()
    while ahead:
        one = ahead.pop(0)
        if one in seen:
            continue
        if not dataclasses.is_dataclass(one):
            raise TypeError(f"{one.__name__} is no dataclass")
        seen.add(one)
        yield one
        hints = typing.get_type_hints(one)
        kinds = [kind_of(hints[field.name])[0] for field in dataclasses.fields(one)]
        ahead += [kind for kind in kinds if kind not in _NAMES]


def _attributes(field: "dataclasses.Field[Any]", hint: Any, prefix: str) -> dict[str, str]:
    kind, optional, several = kind_of(hint)
    type_ = f"xs:{_NAMES[kind]}" if kind in _NAMES else f"{prefix}{kind.__name__}"
    written = {"name": field.name, "type": type_}
    absent = field.default is not dataclasses.MISSING
    if optional or several or absent or field.default_factory is not dataclasses.MISSING:
        written["minOccurs"] = "0"
    if several:
        written["maxOccurs"] = "unbounded"
    return written


class _Reader:
    """Makes the dataclasses of one schema, each named type once."""

    def __init__(self, root: etree._Element) -> None:
        self._types = {one.get("name", ""): one for one in root.findall(f"{_XS}complexType")}
        self._made: dict[str, type] = {}
        self._under_way: set[str] = set()

    def made(self, element: etree._Element, name: str) -> type:
        """The dataclass of an element with a complex type."""
        inner = element.find(f"{_XS}complexType")
        if inner is not None:
            return self._of_type(inner, name)
        return self._named(_local(element.get("type", "")))

    def _named(self, name: str) -> type:
        if name in self._made:
            return self._made[name]
        if name not in self._types or name in self._under_way:
            raise ValueError(f"the type {name} is not declared here, or has itself within")
        self._under_way.add(name)
        self._made[name] = self._of_type(self._types[name], name)
        return self._made[name]

    def _of_type(self, type_: etree._Element, name: str) -> type:
        sequence = type_.find(f"{_XS}sequence")
        others = [one for one in type_.iterchildren(etree.Element) if one is not sequence]
        others = [one for one in others if one.tag != f"{_XS}annotation"]
        if sequence is None or others:
            raise ValueError(f"{name} is not a sequence of elements alone")
        return dataclasses.make_dataclass(
            name, [self._field(one) for one in sequence.iterchildren(etree.Element)], kw_only=True
        )

    def _field(self, element: etree._Element) -> tuple[str, Any, Any]:
        name = element.get("name", "")
        if element.tag != f"{_XS}element" or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"no field is like {element.tag} {name or element.get('ref')}")
        type_ = element.get("type", "")
        simple = element.nsmap.get(type_.rpartition(":")[0] or None) == _XS[1:-1]
        if simple and _local(type_) not in _KINDS:
            raise ValueError(f"{name}: no field has the type {type_}")
        kind: Any = _KINDS[_local(type_)] if simple else self.made(element, name.capitalize())
        if element.get("maxOccurs", "1") not in ("0", "1"):
            return name, list[kind], dataclasses.field(default_factory=list)
        if element.get("minOccurs") == "0" or element.get("nillable") in ("true", "1"):
            return name, kind | None, dataclasses.field(default=None)
        return name, kind, dataclasses.field()


def _local(name: str) -> str:
    return name.rpartition(":")[2]
