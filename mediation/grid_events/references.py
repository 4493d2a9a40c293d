"""References to objects of SoapRMI, ports, and what they are as endpoint references.

    <p1 xsi:type="n:soaprmi.port.Port" ..><endpoint ..>    a typed struct, in calls
    <Port><endpoint>..                                     plain, in directories
    <port xmlns="..rmi/port/v10/"><endpoint>..             the explicit mapping of later XSOAP

An endpoint reference has the port's location as its address, and the port itself, as it came, as
its reference property.
"""

from dataclasses import dataclass, field

from lxml import etree

from filters import Reason, parse_document
from filters.topics import is_namespace
from mediation import names
from mediation.grid_events.encoding import Encoded, Generation, is_null, type_of
from mediation.grid_events.types import TypeNames, family_of
from mediation.model.errors import MediationError
from mediation.model.messages import EndpointReference
from mediation.model.versions import Wsa
from mediation.soap.addressing import MAX_REFERENCE_OCTETS, MAX_URI
from mediation.soap.envelopes import local_name, xml_text

CHANNEL = "urn:dragoman:grid-events:channel"
"""The binding name of the gateway's own channels."""
CHANNEL_TYPE = "soaprmi.events.LeasingFilteredEventChannel"
LISTENER_TYPE = "soaprmi.events.EventListener"
_WSA = Wsa.V2004_08
"""A version that has reference properties."""
_NAMES = frozenset({"Port", "port"})
_PORT_TYPES = ("portType", "port-type", "porttype")


@dataclass(frozen=True, slots=True)
class Port:
    """A reference.

    Attributes:
        location: The URL to post to.
        binding: The namespace of the method, and the first part of the SOAPAction; None: the method
            has no namespace.
        name: The name of the object at its server, which says nothing.
        port_type: The URI and the name of its interface.
    """

    location: str
    binding: str | None = None
    name: str = field(default="", compare=False)
    port_type: tuple[str, str] = (names.SOAPRMI_PORT_TYPES, LISTENER_TYPE)


def read_port(octets: bytes) -> EndpointReference:
    """Read a port, in any of its spellings.

    Raises:
        Refused: It is not an XML document. ``EPR_INVALID``: it has no location that can be used.
    """
    if len(octets) > MAX_REFERENCE_OCTETS:
        raise _unusable("The reference is too long.")
    root = parse_document(octets)
    return reference_of(Encoded(root), root)


def reference_of(encoded: Encoded, element: etree._Element) -> EndpointReference:
    """The reference that a port in a message is.

    Raises:
        MediationError: ``EPR_INVALID``, ``MESSAGE_INVALID``.
    """
    port = _read(encoded, element)
    octets = encoded.octets(element)
    if len(octets) > MAX_REFERENCE_OCTETS:
        raise _unusable("The reference is too long.")
    return EndpointReference(port.location, _WSA, (octets,))


def _read(encoded: Encoded, element: etree._Element) -> Port:
    fields = encoded.fields(element)
    endpoint = _struct(encoded, fields, "endpoint")
    binding = _struct(encoded, endpoint, "binding")
    port_type: dict[str, etree._Element] = {}
    for spelling in _PORT_TYPES:
        port_type = port_type or _struct(encoded, fields, spelling)
    location = _text(encoded, endpoint, "location")
    if not location:
        raise _unusable("The reference has no location.")
    name = _text(encoded, binding, "name") or None
    if name is not None and not is_namespace(name):
        raise _unusable("The binding name of the reference is not a URI.")
    said = (_text(encoded, port_type, "uri"), _text(encoded, port_type, "name"))
    return Port(location, name, _text(encoded, fields, "name"), said)


def _struct(
    encoded: Encoded, fields: dict[str, etree._Element], name: str
) -> dict[str, etree._Element]:
    element = fields.get(name)
    return {} if element is None or is_null(element) else encoded.fields(element)


def _text(encoded: Encoded, fields: dict[str, etree._Element], name: str) -> str:
    element = fields.get(name)
    text = "" if element is None else encoded.trimmed(element) or ""
    if len(text.encode()) > MAX_URI:
        raise _unusable("A part of the reference is too long.")
    return text


def port_of(reference: EndpointReference) -> Port:
    """The port that *reference* was read from; one with its address alone where it was no port."""
    for octets in reference.properties:
        root = parse_document(octets)
        try:
            return _read(Encoded(root), root)
        except MediationError:
            continue  # It is not a port.
    return Port(reference.address)


def port_reference(port: Port) -> EndpointReference:
    """The reference of *port*, as it is written in directories."""
    return EndpointReference(port.location, _WSA, (_write(port).encode(),))


def channel_reference(location: str, binding: str = CHANNEL) -> EndpointReference:
    """The reference under which a channel of the gateway is found."""
    port_type = (names.SOAPRMI_PORT_TYPES, CHANNEL_TYPE)
    return port_reference(Port(location, binding, binding, port_type))


def write_port(reference: EndpointReference) -> bytes:
    """Write *reference* as a port: as it came, where it was one."""
    for octets in reference.properties:
        if local_name(parse_document(octets)) in _NAMES:
            return octets
    return _write(port_of(reference)).encode()


def _write(port: Port) -> str:
    binding = ""
    if port.binding is not None:
        binding = f"<binding><name>{xml_text(port.binding)}</name></binding>"
    uri, interface = port.port_type
    return (
        f"<Port><endpoint><location>{xml_text(port.location)}</location>{binding}</endpoint>"
        f"<name>{xml_text(port.name)}</name>"
        f"<portType><uri>{xml_text(uri)}</uri><name>{xml_text(interface)}</name></portType>"
        "<userName></userName></Port>"
    )


def write_typed_port(port: Port, parameter: str, generation: Generation) -> str:
    """Write *port* as the parameter of a call, each part with its type."""

    def struct(name: str, kind: str, content: str, prefix: str) -> str:
        return (
            f"<{name} xsi:type='{prefix}:soaprmi.port.{kind}' "
            f"xmlns:{prefix}='{names.SOAPRMI_TYPES}'>{content}</{name}>"
        )

    def text(name: str, value: str) -> str:
        return f"<{name} xsi:type='xsd:string'>{xml_text(value)}</{name}>"

    binding = f"<binding xsi:{generation.null}='1'/>"
    if port.binding is not None:
        binding = struct("binding", "Binding", text("name", port.binding), "n3")
    uri, interface = port.port_type
    return struct(
        parameter,
        "Port",
        struct("endpoint", "Endpoint", binding + text("location", port.location), "n2")
        + text("name", port.name)
        + struct("portType", "PortType", text("uri", uri) + text("name", interface), "n2")
        + text("userName", ""),
        "n1",
    )


def family_in(encoded: Encoded, element: etree._Element) -> TypeNames | None:
    """The names by which a port calls types; None where it names none."""
    return family_of(type_of(encoded.at(element)))


def _unusable(text: str) -> MediationError:
    return MediationError(Reason.EPR_INVALID, text)
