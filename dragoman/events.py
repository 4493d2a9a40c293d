"""Events as programs have them: XML, or a dataclass: one element, its fields the children.

::

    @event_type("http://example.org/storms")
    @dataclass
    class Storm:
        speed: float
        names: list[str] = field(default_factory=list)

    to_xml(Storm(120.0, ["Ciara"]))
    # <Storm xmlns="http://example.org/storms"><speed>120.0</speed><names>Ciara</names></Storm>
    from_xml(Storm, octets)
"""

import base64
import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from lxml import etree

__all__ = ["Event", "event_type", "from_xml", "to_xml"]

T = TypeVar("T")
_NAME = "__event_name__"
_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_READ: Mapping[type, Callable[[str], Any]] = {
    str: str,
    bool: lambda text: _TRUTH[text],
    int: int,
    float: float,
    Decimal: Decimal,
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    bytes: base64.b64decode,
}


@dataclass(frozen=True, slots=True)
class Event:
    """An event as it was received.

    Attributes:
        payload: One XML element in UTF-8; of CloudEvents the data, whatever it is.
        topic: In Clark notation, such as ``storms/coast`` or ``{urn:weather}storms``; None: none.
        action: The URI of its kind, where it has one: of CloudEvents the type.
        id: The id of the message that it came in.
        properties: What its publisher says of it besides, by name.
        subscription: The address of the manager of the subscription that it came for, where the
            message says it.
        media_type: What a CloudEvent says that its data are, such as ``application/json``; None:
            nothing, or it is of another specification.
        signed_by: Whose signature it has, by the name in the signer's certificate, where the client
            was given `signers` that it checks against; None: it is not signed, or not validly.
        signature_error: Why its signature does not count; None: it does, or was not checked.
    """

    payload: bytes
    topic: str | None = None
    action: str | None = None
    id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    subscription: str | None = None
    media_type: str | None = None
    signed_by: str | None = None
    signature_error: str | None = None

    @property
    def signature(self) -> str | None:
        """The signature of its publisher, as it came: `dragoman.signing.TrustedSigners.verify`
        checks it. None: it has none."""
        return self.properties.get("eventsignature")

    @property
    def element(self) -> "etree._Element":
        """The payload, parsed without network, entities and document types.

        Raises:
            ValueError: It is no XML.
        """
        return parsed(self.payload)

    def into(self, cls: type[T]) -> T:
        """Make an object of a dataclass, as `from_xml`."""
        return from_xml(cls, self.payload)


def event_type(namespace: str, name: str | None = None) -> Callable[[type[T]], type[T]]:
    """Say which element a dataclass is; without it, one of the class's name in no namespace.

    Args:
        namespace: A URI; of the element and of those of its fields.
        name: That of the class, when None.
    """

    def named(cls: type[T]) -> type[T]:
        setattr(cls, _NAME, (namespace, name or cls.__name__))
        return cls

    return named


def name_of(cls: type) -> tuple[str, str]:
    """The namespace, which may be empty, and the name of the element that a dataclass is."""
    namespace, name = cls.__dict__.get(_NAME, ("", cls.__name__))
    return namespace, name


def to_xml(event: object) -> bytes:
    """Write an object of a dataclass as one XML element.

    A field is a child of its name; None is no child, and a list a child for each of its items.
    Values are ``str``, ``int``, ``float``, ``bool``, ``Decimal``, ``bytes`` (in Base64),
    ``date``, ``datetime``, and dataclasses.

    Raises:
        TypeError: It is no such object, or a value has no form in XML.
        ValueError: A text has characters that XML has not.
    """
    from lxml import etree

    if isinstance(event, type) or not dataclasses.is_dataclass(event):
        raise TypeError(f"{type(event).__name__} is no dataclass, bytes, text or element of lxml")
    namespace, name = name_of(type(event))
    scope: dict[Any, str] = {None: namespace} if namespace else {}  # The default namespace.
    root = etree.Element(_tag(namespace, name), nsmap=scope)
    _write_fields(root, event, namespace)
    return etree.tostring(root)


def from_xml(cls: type[T], xml: "bytes | str | etree._Element") -> T:
    """Read an XML element as an object of a dataclass; what it has besides the fields is passed by.

    Raises:
        ValueError: It is no XML, another element, or lacks a field without a default; a text is no
            value of its field's type.
        TypeError: *cls* is no dataclass, or a field is of a type that no element has.
    """
    root = parsed(xml.encode() if isinstance(xml, str) else xml)
    wanted = _tag(*name_of(cls))
    if root.tag != wanted:
        raise ValueError(f"this is {root.tag}, not {wanted}")
    return _read_fields(cls, root, name_of(cls)[0])


def kind_of(hint: Any) -> tuple[type, bool, bool]:
    """The type of the values of a field, by its annotation, whether there may be none, and whether
    there may be many.

    Raises:
        TypeError: No element has such values.
    """
    several = optional = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [one for one in typing.get_args(hint) if one is not type(None)]
        optional = len(rest) < len(typing.get_args(hint))
        hint = rest[0] if len(rest) == 1 else None
    if typing.get_origin(hint) is list:
        several, [hint] = True, list(typing.get_args(hint))
    if hint not in _READ and not (isinstance(hint, type) and dataclasses.is_dataclass(hint)):
        raise TypeError(f"no element has values of {hint}")
    return hint, optional, several


def _tag(namespace: str, name: str) -> str:
    return f"{{{namespace}}}{name}" if namespace else name


def parsed(xml: "bytes | etree._Element") -> "etree._Element":
    """Parse a document of strangers, without network, entities and document types.

    Raises:
        ValueError: It is no XML, or has a document type.
    """
    from lxml import etree

    if not isinstance(xml, bytes):
        return xml
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
    try:
        root = etree.fromstring(xml, parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"this is no XML: {error.msg}") from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise ValueError("events have no document type")
    return root


def _write_fields(parent: "etree._Element", event: Any, namespace: str) -> None:
    from lxml import etree

    for one in dataclasses.fields(event):
        value = getattr(event, one.name)
        for item in value if isinstance(value, list) else [value]:
            if item is None:
                continue
            child = etree.SubElement(parent, _tag(namespace, one.name))
            if dataclasses.is_dataclass(item):
                _write_fields(child, item, namespace)
            else:
                child.text = _text_of(item)


def _text_of(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return {"inf": "INF", "-inf": "-INF", "nan": "NaN"}.get(repr(value), repr(value))
        case Decimal():
            return format(value, "f")
        case str() | int():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case date():  # And `datetime`, which is one.
            return value.isoformat()
    raise TypeError(f"no element has values of {type(value).__name__}")


def _read_fields(cls: type[T], element: "etree._Element", namespace: str) -> T:
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"{cls.__name__} is no dataclass")
    hints, values = typing.get_type_hints(cls), dict[str, Any]()
    for one in dataclasses.fields(cls):
        kind, _, several = kind_of(hints[one.name])
        children = element.findall(_tag(namespace, one.name))
        found = [_value(kind, child, namespace) for child in children]
        if several:
            values[one.name] = found
        elif found:
            values[one.name] = found[0]
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(f"{cls.__name__}: {error}") from None


def _value(kind: type, element: "etree._Element", namespace: str) -> Any:
    if kind not in _READ:
        return _read_fields(kind, element, namespace)
    text = element.text or ""
    try:
        return _READ[kind](text if kind is str else text.strip())
    except (KeyError, ValueError, ArithmeticError):
        raise ValueError(f"{element.tag}: {text!r} is no {kind.__name__}") from None
