"""Own types of events, declared by XML Schemas: one document a namespace, whose complex types
extend ``ev:Event`` with fields of the simple types of XML Schema.

A declared type is known where known types alone are accepted; its schema is served as it was
written, and stands in the WSDL of channels and listeners. On the wire its fields say their types.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from lxml import etree

from filters import Reason, parse_document, quoted
from mediation import names
from mediation.grid_events.encoding import TypeName
from mediation.grid_events.schemas import NAMESPACES, TYPE_DOCUMENTS, write_directory
from mediation.grid_events.types import BASE, BASE_FIELDS, NUMBERS, EventType
from mediation.model.errors import MediationError
from mediation.soap.envelopes import elements

MOST_BYTES = 256 * 2**10
"""Bytes of one schema, which stands in every description."""
MOST_FILES = 64
_COMPONENTS = frozenset(
    {"import", "include", "redefine", "annotation", "element", "complexType", "simpleType"}
)
"""What a schema may have: groups that refer to each other twice over make models of content of any
size, which take libxml2 any time."""
_FILE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_NAMESPACE = re.compile(r"\{[^}]*\}")
_XS = f"{{{names.XSD}}}"
_SIMPLE = NUMBERS | {
    "string", "boolean", "anyURI", "date", "dateTime", "time", "duration", "token",
    "normalizedString", "base64Binary", "hexBinary",
}  # fmt: skip
"""Types that a field may have."""


@dataclass(frozen=True, slots=True)
class TypeSchema:
    """The types of one namespace.

    Attributes:
        file: What it is served as, ``/schemas/FILE.xsd``.
        octets: The document as it was written.
    """

    file: str
    namespace: str
    types: tuple[EventType, ...]
    octets: bytes

    def described(self) -> str:
        """The schema as it stands in a WSDL: the types without global elements, its imports without
        places."""
        root = deepcopy(parse_document(self.octets))
        for child in elements(root):
            if child.tag == f"{_XS}element":
                root.remove(child)
            elif child.tag == f"{_XS}import":
                child.attrib.pop("schemaLocation", "")
        return etree.tostring(root, encoding="unicode", with_tail=False)


def read_type_schema(octets: bytes, file: str) -> TypeSchema:
    """Read the XML Schema of own types of events.

    Args:
        file: The name to serve it as, without ``.xsd``.

    Raises:
        Refused: It declares no such types; the text says what is wrong, and in which line.
    """
    if not _FILE.fullmatch(file) or file in TYPE_DOCUMENTS:
        raise _refused(
            f"{quoted(file)} is not a name for it: use a-z, 0-9 and . _ -, but not event"
        )
    if len(octets) > MOST_BYTES:
        raise _refused(f"the schema is larger than {MOST_BYTES >> 10} KiB")
    root = parse_document(octets)
    namespace = root.get("targetNamespace", "")
    if root.tag != f"{_XS}schema":
        raise _wrong(root, f"the root element is not schema of {names.XSD}")
    if not namespace or namespace in NAMESPACES or namespace == names.SOAPRMI_TYPES:
        raise _wrong(root, f"targetNamespace {quoted(namespace)} is not a namespace of your own")
    if root.get("elementFormDefault") == "qualified":
        raise _wrong(root, "fields of events have no namespace: elementFormDefault is unqualified")
    for child in elements(root):
        if child.tag.removeprefix(_XS) not in _COMPONENTS:
            raise _wrong(
                child, f"{etree.QName(child).localname} has no place among types of events"
            )
    types = tuple(_types(root, namespace))
    _compile(root, octets)  # Last: what was said before is said more plainly.
    return TypeSchema(file, namespace, types, octets)


class _Imported(etree.Resolver):
    """Gives a schema the documents that it imports, which are those of the base types."""

    def resolve(self, system_url: str, public_id: str, context: Any = None) -> Any:
        _, octets = TYPE_DOCUMENTS[_file_of(system_url)]
        return self.resolve_string(octets, context, base_url=system_url)


def _file_of(location: str) -> str:
    return location.rpartition("/")[2]


def _compile(root: etree._Element, octets: bytes) -> None:
    """Refuse what is not valid as a schema."""
    for tag in ("import", "include", "redefine"):
        for one in root.iterchildren(f"{_XS}{tag}"):
            if _file_of(one.get("schemaLocation", "")) not in ("event.xsd", "resdat.xsd"):
                raise _wrong(one, "only event.xsd and resdat.xsd can be imported (schemaLocation)")
    parser = etree.XMLParser(no_network=True, resolve_entities=False, load_dtd=False)
    parser.resolvers.add(_Imported())
    try:
        etree.XMLSchema(etree.fromstring(octets, parser))
    except etree.XMLSchemaParseError as error:
        text = _NAMESPACE.sub("", str(error))
        raise _refused(f"it is not a valid schema: {text}") from None


def _types(root: etree._Element, namespace: str) -> Iterator[EventType]:
    declared = {one.get("name", ""): one for one in root.iterchildren(f"{_XS}complexType")}
    if not declared:
        raise _wrong(root, "it declares no complexType")
    for name, type_ in declared.items():
        fields = tuple(_fields(type_, namespace, declared))
        yield EventType(TypeName(namespace, name), name, "t", fields)


def _fields(
    type_: etree._Element,
    namespace: str,
    declared: Mapping[str, etree._Element],
    above: frozenset[str] = frozenset(),
) -> Iterator[tuple[str, str]]:
    """The fields of a type behind those of the base type; first those of the type that it
    extends, which is not one of those *above* that extend it."""
    extension = type_.find(f"{_XS}complexContent/{_XS}extension")
    base = None if extension is None else _name(extension, "base")
    if extension is None or base is None:
        raise _wrong(type_, f"{type_.get('name')} does not extend {BASE.name}")
    if base != BASE.name:
        above |= {type_.get("name", "")}
        if base.namespace != namespace or base.local not in declared or base.local in above:
            raise _wrong(type_, f"{type_.get('name')} extends {base}, not {BASE.name}")
        yield from _fields(declared[base.local], namespace, declared, above)
    for child in elements(extension):
        if child.tag == f"{_XS}sequence":
            if child.get("maxOccurs", "1") != "1":
                raise _wrong(child, "the sequence of fields is there once: events have no arrays")
            yield from map(_field, elements(child))
        elif child.tag != f"{_XS}annotation":
            raise _wrong(child, "an event has a sequence of fields, and nothing else")


def _field(element: etree._Element) -> tuple[str, str]:
    name, type_ = element.get("name"), _name(element, "type")
    if element.tag != f"{_XS}element" or name is None:
        raise _wrong(element, "a field is an element with a name and a type")
    if name in dict(BASE_FIELDS):
        raise _wrong(element, f"every event has a field {name} already")
    if type_ is None or type_.namespace != names.XSD or type_.local not in _SIMPLE:
        raise _wrong(element, f"the field {name} is not of a simple type of XML Schema")
    if element.get("maxOccurs", "1") != "1":
        raise _wrong(element, f"the field {name} may be there once: events have no arrays")
    return name, type_.local


def _name(element: etree._Element, attribute: str) -> TypeName | None:
    prefix, _, local = element.get(attribute, "").strip().rpartition(":")
    return TypeName(element.nsmap.get(prefix or None) or "", local) if local else None


def _wrong(element: etree._Element, text: str) -> MediationError:
    return _refused(f"line {element.sourceline}: {text}")


def _refused(text: str) -> MediationError:
    return MediationError(Reason.MESSAGE_INVALID, text)


class DeclaredTypes:
    """The own types of a gateway.

    Raises:
        Refused: Two schemas have one namespace, two types one name as classes of Java, or there are
            too many.
    """

    def __init__(self, schemas: Iterable[TypeSchema] = ()) -> None:
        self.schemas = tuple(schemas)
        if len(self.schemas) > MOST_FILES:
            raise _refused(f"there are more than {MOST_FILES} schemas")
        seen: dict[object, str] = {BASE.name.local: "event"}
        for schema in self.schemas:
            for name in (("namespace", schema.namespace), *(one.java for one in schema.types)):
                if name in seen:
                    what = name if isinstance(name, str) else schema.namespace
                    raise _refused(f"{schema.file}.xsd declares {what}, as {seen[name]}.xsd does")
                seen[name] = schema.file
        self.described = "".join(schema.described() for schema in self.schemas)
        """The schemas as they stand in a WSDL; written once, for anybody may ask for that."""

    @property
    def documents(self) -> Mapping[str, tuple[str, bytes]]:
        """Media type and octets of what is served, by name."""
        found: dict[str, tuple[str, bytes]] = {}
        for schema in self.schemas:
            types = [one.name.local for one in schema.types]
            page = write_directory(schema.namespace, schema.file, types)
            found[schema.file] = ("application/xhtml+xml", page)
            found[f"{schema.file}.xsd"] = ("application/xml", schema.octets)
        return found

    @property
    def names(self) -> frozenset[tuple[str, str]]:
        """The names that calls may say (`mediation.grid_events.types.is_declared`)."""
        return frozenset(
            name
            for schema in self.schemas
            for type_ in schema.types
            for name in (type_.name, (names.SOAPRMI_TYPES, type_.java))
        )


NO_TYPES = DeclaredTypes()
