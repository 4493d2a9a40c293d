"""XML Schemas of classes of events, for a gateway to serve; and classes made of one."""

from dataclasses import field, make_dataclass
from keyword import iskeyword
from typing import Any

from gateway.client.grid_events.events import INTEGERS, TYPES, Event, EventTypes, Tied, element_of
from mediation import names
from mediation.grid_events import BASE_FIELDS, read_type_schema
from mediation.soap.envelopes import xml_attribute

_FLOATS = ("double", "float")


def schema_of(namespace: str, types: EventTypes = TYPES) -> bytes:
    """Write the XML Schema of the classes that are registered with *namespace*: a file for the
    folder that the gateway's setting ``grid_events.schemas`` names.

    Raises:
        ValueError: There is none.
    """
    classes = [tied for tied in types if tied.name.namespace == namespace]
    if not classes:
        raise ValueError(f"no class of events is registered with {namespace!r}")
    written = "".join(map(_complex_type, classes))
    return (
        f'<xs:schema xmlns:xs="{names.XSD}" xmlns:ev="{names.GRID_EVENT}"\n'
        f"    targetNamespace={xml_attribute(namespace)}>\n"
        f'  <xs:import namespace="{names.GRID_EVENT}" schemaLocation="event.xsd"/>\n'
        f"{written}</xs:schema>\n"
    ).encode()


def _complex_type(tied: Tied) -> str:
    fields = "".join(
        f'        <xs:element name="{element}" type="xs:{kind}" minOccurs="0" nillable="true"/>\n'
        for element, kind in tied.elements[len(BASE_FIELDS) :]
    )
    return (
        f"  <xs:complexType name={xml_attribute(tied.name.local)}><xs:complexContent>\n"
        f'    <xs:extension base="ev:Event">\n      <xs:sequence>\n{fields}      </xs:sequence>\n'
        "    </xs:extension>\n  </xs:complexContent></xs:complexType>\n"
    )


def classes_of(schema: bytes, types: EventTypes = TYPES) -> dict[str, type[Event]]:
    """Make and register the class of each type that an XML Schema declares, by its name; the field
    of an element ``cpuUtilization`` is ``cpu_utilization``.

    Raises:
        Refused: It declares no types of events.
        ValueError: A name is taken, or an element is named as no field can be, ``class`` for one.
    """
    read = read_type_schema(schema, "types")
    made: dict[str, type[Event]] = {}
    for type_ in read.types:
        fields = [(_attribute(name), *_typed(kind)) for name, kind in type_.fields]
        cls = make_dataclass(
            type_.name.local, fields, bases=(Event,), frozen=True, slots=True, kw_only=True
        )
        made[type_.name.local] = types.register(*type_.name)(cls)
    return made


def _attribute(element: str) -> str:
    name = "".join(f"_{one.lower()}" if one.isupper() else one for one in element)
    if not name.isidentifier() or iskeyword(name) or element_of(name) != element:
        raise ValueError(f"no field of a dataclass has the element {element}")
    return name


def _typed(kind: str) -> tuple[Any, Any]:
    known = {"xsd": kind}
    if kind in INTEGERS:
        return int, field(default=0, metadata=known)
    if kind in _FLOATS:
        return float, field(default=0.0, metadata=known)
    if kind == "boolean":
        return bool, field(default=False, metadata=known)
    return str | None, field(default=None, metadata=known)
