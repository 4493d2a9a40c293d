"""The types of events as documents: a schema for each namespace, and what describes it in RDDL
(Resource Directory Description Language: XHTML, with a resource for each document that belongs)."""

from collections.abc import Mapping

from mediation import names
from mediation.grid_events.types import BASE, BASE_FIELDS, EVENT_TYPES, MAY_MISS, EventType

_RDDL = "http://www.rddl.org/"
_FILES = {names.GRID_EVENT: "event", names.GRID_RESOURCE_EVENT: "resdat"}
_LEASE = (
    '<xs:complexType name="EventLease"><xs:sequence><xs:element name="leaseDuration" '
    'type="xs:long"/></xs:sequence></xs:complexType>'
    '<xs:element name="EventLease" type="t:EventLease"/>'
)


def _fields(fields: tuple[tuple[str, str], ...], may_miss: Mapping[str, str]) -> str:
    return "".join(
        f'<xs:element name="{name}" type="xs:{kind}"{may_miss.get(kind, "")}/>'
        for name, kind in fields
    )


def _type(type_: EventType) -> str:
    name = type_.name.local
    if type_ is BASE:
        content = f"<xs:sequence>{_fields(BASE_FIELDS, MAY_MISS)}</xs:sequence>"
        group = ""
    else:
        content = (
            '<xs:complexContent><xs:extension base="ev:Event">'
            f"<xs:sequence>{_fields(type_.fields, {})}</xs:sequence>"
            "</xs:extension></xs:complexContent>"
        )
        group = ' substitutionGroup="ev:Event"'
    return (
        f'<xs:complexType name="{name}">{content}</xs:complexType>'
        f'<xs:element name="{name}" type="t:{name}"{group}/>'
    )


def _schema(namespace: str) -> bytes:
    types = [one for one in EVENT_TYPES.values() if one.name.namespace == namespace]
    base = namespace == names.GRID_EVENT
    before = ""
    if not base:
        before = f'<xs:import namespace="{names.GRID_EVENT}" schemaLocation="event.xsd"/>'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<xs:schema xmlns:xs="{names.XSD}" xmlns:ev="{names.GRID_EVENT}" xmlns:t="{namespace}" '
        f'targetNamespace="{namespace}" elementFormDefault="unqualified">'
        f"{before}{''.join(map(_type, types))}{_LEASE if base else ''}</xs:schema>\n"
    ).encode()


def _directory(namespace: str, file: str) -> bytes:
    types = [one.name.local for one in EVENT_TYPES.values() if one.name.namespace == namespace]
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<html xmlns="http://www.w3.org/1999/xhtml" xmlns:rddl="{_RDDL}" '
        'xmlns:xlink="http://www.w3.org/1999/xlink"><head><title>Types of events</title></head>'
        f"<body><h1>Types of events</h1><p>The namespace <code>{namespace}</code> has "
        f"{', '.join(f'<code>{name}</code>' for name in types)}.</p>"
        f'<rddl:resource xlink:type="simple" xlink:title="The schema" xlink:href="{file}.xsd" '
        f'xlink:role="{names.XSD}" '
        'xlink:arcrole="http://www.rddl.org/purposes#schema-validation">'
        f'<p>Its <a href="{file}.xsd">schema</a>.</p></rddl:resource></body></html>\n'
    ).encode()


TYPE_DOCUMENTS: Mapping[str, tuple[str, bytes]] = {
    name: document
    for namespace, file in _FILES.items()
    for name, document in (
        (file, ("application/xhtml+xml", _directory(namespace, file))),
        (f"{file}.xsd", ("application/xml", _schema(namespace))),
    )
}
"""Media type and octets of each document, by its name."""
