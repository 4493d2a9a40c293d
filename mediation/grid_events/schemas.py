"""The types of events as documents: a schema for each namespace, and what describes it in RDDL
(Resource Directory Description Language: XHTML, with a resource for each document that belongs)."""

from collections.abc import Iterable, Mapping

from mediation import names
from mediation.grid_events.types import BASE, BASE_FIELDS, EVENT_TYPES, MAY_MISS, EventType
from mediation.soap.envelopes import xml_text

_FILES = {names.GRID_EVENT: "event", names.GRID_RESOURCE_EVENT: "resdat"}
NAMESPACES = tuple(_FILES)
"""That have types of events, each behind those that it imports."""
_RDDL = "http://www.rddl.org/"
_LEASE, _LEASE_FIELDS = "EventLease", (("leaseDuration", "long"),)


def write_schema(namespace: str, *, elements: bool, location: str = "") -> str:
    """Write the schema of one of the `NAMESPACES`.

    Args:
        elements: Whether each type has a global element, which documents have as their root.
        location: Of the schema that others import; empty: readers have it already.
    """
    before = ""
    if namespace != names.GRID_EVENT:
        place = f' schemaLocation="{location}"' if location else ""
        before = f'<xs:import namespace="{names.GRID_EVENT}"{place}/>'
    types = [one for one in EVENT_TYPES.values() if one.name.namespace == namespace]
    written = "".join(_event_type(one, elements) for one in types)
    if namespace == names.GRID_EVENT:
        written += _type(_LEASE, _sequence(_LEASE_FIELDS, MAY_MISS), elements)
    return (
        f'<xs:schema xmlns:xs="{names.XSD}" xmlns:ev="{names.GRID_EVENT}" xmlns:t="{namespace}" '
        f'targetNamespace="{namespace}" elementFormDefault="unqualified">{before}{written}'
        "</xs:schema>"
    )


def _event_type(type_: EventType, elements: bool) -> str:
    if type_ is BASE:
        return _type(type_.name.local, _sequence(BASE_FIELDS, MAY_MISS), elements)
    base = f"ev:{BASE.name.local}"
    content = (
        f'<xs:complexContent><xs:extension base="{base}">{_sequence(type_.fields, {})}'
        "</xs:extension></xs:complexContent>"
    )
    return _type(type_.name.local, content, elements, f' substitutionGroup="{base}"')


def _type(name: str, content: str, elements: bool, group: str = "") -> str:
    written = f'<xs:complexType name="{name}">{content}</xs:complexType>'
    return f'{written}<xs:element name="{name}" type="t:{name}"{group}/>' if elements else written


def _sequence(fields: tuple[tuple[str, str], ...], may_miss: Mapping[str, str]) -> str:
    content = "".join(
        f'<xs:element name="{name}" type="xs:{kind}"{may_miss.get(kind, "")}/>'
        for name, kind in fields
    )
    return f"<xs:sequence>{content}</xs:sequence>"


def _document(namespace: str) -> bytes:
    schema = write_schema(namespace, elements=True, location="event.xsd")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{schema}\n'.encode()


def write_directory(namespace: str, file: str, types: Iterable[str]) -> bytes:
    """Write the RDDL page of a namespace, whose schema is *file* with ``.xsd``, and its *types*."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<html xmlns="http://www.w3.org/1999/xhtml" xmlns:rddl="{_RDDL}" '
        'xmlns:xlink="http://www.w3.org/1999/xlink"><head><title>Types of events</title></head>'
        f"<body><h1>Types of events</h1><p>The namespace <code>{xml_text(namespace)}</code> has "
        f"{', '.join(f'<code>{name}</code>' for name in types)}.</p>"
        f'<rddl:resource xlink:type="simple" xlink:title="The schema" xlink:href="{file}.xsd" '
        f'xlink:role="{names.XSD}" '
        'xlink:arcrole="http://www.rddl.org/purposes#schema-validation">'
        f'<p>Its <a href="{file}.xsd">schema</a>.</p></rddl:resource></body></html>\n'
    ).encode()


def _types_of(namespace: str) -> list[str]:
    return [one.name.local for one in EVENT_TYPES.values() if one.name.namespace == namespace]


TYPE_DOCUMENTS: Mapping[str, tuple[str, bytes]] = {
    name: document
    for namespace, file in _FILES.items()
    for name, document in (
        (file, ("application/xhtml+xml", write_directory(namespace, file, _types_of(namespace)))),
        (f"{file}.xsd", ("application/xml", _document(namespace))),
    )
}
"""Media type and octets of each document, by its name."""
