"""The description of a channel and of a listener in WSDL 1.1, in the style RPC/encoded.

It stands by itself: stacks that know this style read few others in one document.
"""

from collections.abc import Iterable

from mediation import names
from mediation.grid_events.references import CHANNEL
from mediation.grid_events.rpc import HANDLE_EVENT, SUBSCRIBE_LEASE
from mediation.grid_events.schemas import NAMESPACES, write_schema
from mediation.grid_events.type_schemas import NO_TYPES, DeclaredTypes
from mediation.soap.envelopes import xml_attribute

QUERY = "grid-events"
"""``?wsdl=`` this asks for it."""
_PORT = {
    "soaprmi.port.Binding": (("name", "xsd:string"),),
    "soaprmi.port.Endpoint": (
        ("binding", "j:soaprmi.port.Binding"),
        ("location", "xsd:string"),
    ),
    "soaprmi.port.PortType": (("uri", "xsd:string"), ("name", "xsd:string")),
    "soaprmi.port.Port": (
        ("endpoint", "j:soaprmi.port.Endpoint"),
        ("name", "xsd:string"),
        ("portType", "j:soaprmi.port.PortType"),
        ("userName", "xsd:string"),
    ),
}
_MESSAGES = {
    HANDLE_EVENT: (("p1", "ev:Event"),),
    f"{HANDLE_EVENT}Response": (),
    SUBSCRIBE_LEASE: (
        ("p1", "j:soaprmi.port.Port"),
        ("p2", "ev:Event"),
        ("p3", "xsd:long"),
        ("p4", "xsd:string"),
    ),
    f"{SUBSCRIBE_LEASE}Response": (("return", "ev:EventLease"),),
}
_PORT_TYPES = {
    "EventListener": (HANDLE_EVENT,),
    "LeasingFilteredEventChannel": (HANDLE_EVENT, SUBSCRIBE_LEASE),
}


def asks_for_description(query: str) -> bool:
    """Return whether the query of a URL asks for this description."""
    return query.lower() == f"wsdl={QUERY}"


def write_description(address: str, own: DeclaredTypes = NO_TYPES) -> bytes:
    """Write the description of the channel at *address*, with *own* types of events; the binding of
    listeners, which are elsewhere, has no port."""
    return (
        f'<wsdl:definitions xmlns:wsdl="{names.WSDL}" xmlns:b="{names.WSDL_SOAP_1_1}" '
        f'xmlns:xsd="{names.XSD}" xmlns:ev="{names.GRID_EVENT}" xmlns:j="{names.SOAPRMI_TYPES}" '
        f'xmlns:t="{CHANNEL}" name="GridEvents" targetNamespace="{CHANNEL}">'
        f"<wsdl:types>{''.join(_schemas(own))}</wsdl:types>"
        + "".join(_message(name, parts) for name, parts in _MESSAGES.items())
        + "".join(_port_type(name, methods) for name, methods in _PORT_TYPES.items())
        + "".join(_binding(name, methods) for name, methods in _PORT_TYPES.items())
        + '<wsdl:service name="GridEvents"><wsdl:port name="Channel" '
        'binding="t:LeasingFilteredEventChannel">'
        f"<b:address location={xml_attribute(address)}/></wsdl:port></wsdl:service>"
        "</wsdl:definitions>"
    ).encode()


def _schemas(own: DeclaredTypes) -> Iterable[str]:
    for namespace in NAMESPACES:
        yield write_schema(namespace, elements=False)
    yield own.described
    ports = "".join(_type(name, fields) for name, fields in _PORT.items())
    yield (
        f'<xsd:schema targetNamespace="{names.SOAPRMI_TYPES}" elementFormDefault="unqualified">'
        f"{ports}</xsd:schema>"
    )


def _type(name: str, fields: Iterable[tuple[str, str]]) -> str:
    content = "".join(
        f'<xsd:element name="{name}" type="{kind}" minOccurs="0"/>' for name, kind in fields
    )
    return (
        f'<xsd:complexType name="{name}"><xsd:sequence>{content}</xsd:sequence></xsd:complexType>'
    )


def _message(name: str, parts: Iterable[tuple[str, str]]) -> str:
    content = "".join(f'<wsdl:part name="{part}" type="{kind}"/>' for part, kind in parts)
    return f'<wsdl:message name="{name}">{content}</wsdl:message>'


def _port_type(name: str, methods: Iterable[str]) -> str:
    operations = "".join(
        f'<wsdl:operation name="{method}"><wsdl:input message="t:{method}"/>'
        f'<wsdl:output message="t:{method}Response"/></wsdl:operation>'
        for method in methods
    )
    return f'<wsdl:portType name="{name}">{operations}</wsdl:portType>'


def _binding(name: str, methods: Iterable[str]) -> str:
    body = (
        f'<b:body use="encoded" namespace="{CHANNEL}" encodingStyle="{names.SOAP_ENCODING_1_1}"/>'
    )
    operations = "".join(
        f'<wsdl:operation name="{method}"><b:operation soapAction="{CHANNEL}#{method}"/>'
        f"<wsdl:input>{body}</wsdl:input><wsdl:output>{body}</wsdl:output></wsdl:operation>"
        for method in methods
    )
    return (
        f'<wsdl:binding name="{name}" type="t:{name}">'
        f'<b:binding style="rpc" transport="{names.WSDL_HTTP}"/>{operations}</wsdl:binding>'
    )
