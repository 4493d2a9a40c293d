"""The description of the gateway in WSDL 1.1: a service for each specification, with a port for
each of its port types and each version of SOAP.

A description is one document that holds the schemas of its specifications, so that generated code
knows the messages; actions and faults are declared as the specifications do.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import chain, count

from filters.documents import parse_own
from mediation import names
from mediation.eventing import messenger_services
from mediation.eventing import v2004_08 as eventing_2004_08
from mediation.model.requests import Operation, Sequences
from mediation.model.specification import Offer, Service
from mediation.model.versions import Soap
from mediation.reliable_messaging import Assurance, Bound, Rm, RmAssertion, write_rm_assertion
from mediation.soap.envelopes import octets_of, xml_attribute
from mediation.specifications import SPECIFICATIONS
from mediation.wsdl_prefixes import declare_namespaces_once

NAMESPACE = "urn:dragoman:wsdl:1"
_SOAP_BINDINGS = {
    Soap.V1_1: ("Soap11", names.WSDL_SOAP_1_1),
    Soap.V1_2: ("Soap12", names.WSDL_SOAP_1_2),
}
_PREFIXES = {
    names.WSDL: "wsdl",
    NAMESPACE: "d",
    **{namespace: suffix.lower() for suffix, namespace in _SOAP_BINDINGS.values()},
}
"""The prefixes that the ends of descriptions count on, which are written for each address."""
_END = "</wsdl:definitions>"
SERVICES = tuple(
    service for specification in SPECIFICATIONS.values() for service in specification.services
)
"""The services of the description of everything."""
_ALONE = (
    eventing_2004_08.MANAGED,
    messenger_services.EVENTING,
    messenger_services.NOTIFICATION,
    messenger_services.BOXES,
)
"""Services with a description of their own alone: its types have the names of others in that of
everything, or few programs speak so."""

DESCRIBED = (*SERVICES, *_ALONE)
"""All services that have a description."""
_BESIDE = "xml"
"""The schema beside the descriptions, at ``?xsd=xml``. zeep takes a schema of the XML namespace
only with a location, and otherwise looks for it at the W3C."""


def schema_named(query: str) -> bytes | None:
    """The schema that the query of a URL asks for; None where it asks for none."""
    if query.lower() != f"xsd={_BESIDE}":
        return None
    return _schema(_BESIDE).encode()


def schemas(address: str) -> Mapping[str, bytes]:
    """The schemas that the description of the endpoint at *address* holds, by their target
    namespaces."""
    return {
        namespace: schema.replace('"?xsd=', f'"{xml_attribute(address)[1:-1]}?xsd=').encode()
        for namespace, schema in _every_schema().items()
    }


@lru_cache(maxsize=1)
def _every_schema() -> Mapping[str, str]:
    found = {}
    for name in dict.fromkeys(name for service in SERVICES for name in service.schemas):
        schema = parse_own(_schema(name).encode())
        found[schema.get("targetNamespace") or ""] = octets_of(schema).decode()
    return found


def services_named(query: str) -> tuple[Service, ...]:
    """The services of which the query of a URL asks a description: ``wsdl`` of all, ``wsdl=wsn`` of
    one; none where it asks for nothing of the kind."""
    name, _, value = query.lower().partition("=")
    if name != "wsdl":
        return ()
    if not value:
        return SERVICES
    return tuple(service for service in DESCRIBED if service.query == value)


def service_named(name: str) -> Service | None:
    """The service of WS-Messenger with this name; None where there is none."""
    return next((service for service in _ALONE[1:] if service.name == name), None)


def write_wsdl(
    address: str,
    services: Sequence[Service] = SERVICES,
    *,
    sequences: Sequences = Sequences.OFF,
    bound: Bound = Bound.NOTHING,
) -> bytes:
    """Write the description of the endpoint at *address*.

    Args:
        sequences: What it does with events in sequences.
        bound: What sequences must be bound to.
    """
    described, ports = _described(tuple(services), sequences, bound), list[str]()
    described = described.replace('"?xsd=', f'"{xml_attribute(address)[1:-1]}?xsd=')
    for service in services:
        ports.append(f'<wsdl:service name="{service.name}">')
        port_types = dict.fromkeys(offer.port_type for offer in service.offers)
        ports += (_port(name, soap, address) for soap in Soap for name in port_types)
        ports.append("</wsdl:service>")
    return f"{described}{''.join(ports)}{_END}".encode()


@lru_cache
def _described(services: tuple[Service, ...], sequences: Sequences, bound: Bound) -> str:
    """Write the document without its end, the services."""
    offers = list(dict.fromkeys(offer for service in services for offer in service.offers))
    schemas = dict.fromkeys(name for service in services for name in service.schemas)
    port_types = {
        name: [offer for offer in offers if offer.port_type == name]
        for name in dict.fromkeys(offer.port_type for offer in offers)
    }
    faults = _fault_messages(offers)
    actions = {
        namespace: action
        for service in services
        for namespace, action in service.fault_actions.items()
    }
    parts = [
        f'<wsdl:definitions xmlns:wsdl="{names.WSDL}" xmlns:d="{NAMESPACE}" '
        f'xmlns:wsam="{names.WSAM}" name="Dragoman" targetNamespace="{NAMESPACE}">',
        _policy(sequences, bound=bound),
        "<wsdl:types>",
        *map(_schema, schemas),
        "</wsdl:types>",
        *map(_messages, offers),
        _header_messages(offers),
        *(_message(message, "fault", fault) for fault, message in faults.items()),
        *(_port_type(name, its, faults, actions) for name, its in port_types.items()),
        *(
            _binding(name, its, soap, sequences)
            for name, its in port_types.items()
            for soap in Soap
        ),
        _END,
    ]
    return declare_namespaces_once("".join(parts).encode(), _PREFIXES).decode().removesuffix(_END)


def _schema(name: str) -> str:
    # Schemas are files of the package.
    return (files("mediation") / "schemas" / f"{name}.xsd").read_text("utf-8")


def _split(name: str) -> tuple[str, str]:
    namespace, _, local = name[1:].partition("}")
    return namespace, local


def _message(name: str, part: str, element: str) -> str:
    """*element* is empty for a message with an empty body."""
    namespace, local = _split(element) if element else ("", "")
    inner = f'<wsdl:part name="{part}" xmlns:m="{namespace}" element="m:{local}"/>'
    return f'<wsdl:message name="{name}">{inner if element else ""}</wsdl:message>'


def _messages(offer: Offer) -> str:
    request = _message(offer.unique, "parameters", offer.request_element)
    if not offer.response:
        return request
    return request + _message(f"{offer.unique}Response", "parameters", offer.answer_element)


def _header_messages(offers: Sequence[Offer]) -> str:
    blocks = dict.fromkeys(block for offer in offers for block in offer.headers)
    return "".join(_message(_header(block), _split(block)[1], block) for block in blocks)


def _header(block: str) -> str:
    """The name of the message of a header block."""
    return f"{_split(block)[1]}Header"


def _fault_messages(offers: Sequence[Offer]) -> Mapping[str, str]:
    """The name of the message of each fault: its local name, with a number where another namespace
    has the same one."""
    messages: dict[str, str] = {}
    for fault in dict.fromkeys(fault for offer in offers for fault in offer.faults):
        local, taken = _split(fault)[1], set(messages.values())
        numbered = (f"{local}{number}" for number in count(2))
        messages[fault] = next(name for name in chain((local,), numbered) if name not in taken)
    return messages


def _port_type(
    name: str,
    offers: Sequence[Offer],
    fault_messages: Mapping[str, str],
    fault_actions: Mapping[str, str],
) -> str:
    operations = []
    for offer in offers:
        output = ""
        if offer.response:
            output = (
                f'<wsdl:output message="d:{offer.unique}Response" wsam:Action="{offer.response}"/>'
            )
        faults = "".join(
            _fault(fault, fault_messages[fault], fault_actions) for fault in offer.faults
        )
        operations.append(
            f'<wsdl:operation name="{offer.name}"><wsdl:input message="d:{offer.unique}" '
            f'wsam:Action="{offer.action}"/>{output}{faults}</wsdl:operation>'
        )
    return f'<wsdl:portType name="{name}">{"".join(operations)}</wsdl:portType>'


def _fault(fault: str, message: str, actions: Mapping[str, str]) -> str:
    namespace, local = _split(fault)
    return f'<wsdl:fault name="{local}" message="d:{message}" wsam:Action="{actions[namespace]}"/>'


_POLICY = "Sequences"
_WRITTEN = names.POLICY_1_5
_MODES = {Sequences.OFFERED: True, Sequences.REQUIRED: False}
"""Whether the assertion is optional."""


_FETCHED = (
    f'<wsmc:MCSupported xmlns:wsmc="{names.MAKE_CONNECTION_1_1}" xmlns:wsp="{_WRITTEN}" '
    'wsp:Optional="true"/>'
)
"""Addresses of WS-MakeConnection are understood (WS-MakeConnection 1.1, section 3.4)."""


_OVER_TLS = (
    f'<sp:TransportBinding xmlns:sp="{names.SECURITY_POLICY}"><wsp:Policy><sp:TransportToken>'
    "<wsp:Policy><sp:HttpsToken><wsp:Policy><sp:RequireClientCertificate/></wsp:Policy>"
    "</sp:HttpsToken></wsp:Policy></sp:TransportToken><sp:AlgorithmSuite><wsp:Policy>"
    "<sp:Basic256Sha256/></wsp:Policy></sp:AlgorithmSuite></wsp:Policy></sp:TransportBinding>"
)
"""TLS in which the client shows a certificate (WS-SecurityPolicy 1.3, sections 5.4.2 and 7.3, which
wants a suite, too: none says more of TLS)."""


def _policy(sequences: Sequences, *, bound: Bound) -> str:
    """Write the policy of endpoints that take events in sequences: either version will do. The
    assertion of 1.0 cannot say that they must be *bound*: then it is left out."""
    optional = _MODES.get(sequences)
    if optional is None:
        return ""
    # Without a sequence TLS is not demanded: that is an alternative of its own.
    apart = optional and bound is Bound.TLS
    assertion = RmAssertion(optional and not apart, Assurance.EXACTLY_ONCE, True, bound)
    besides = _FETCHED + (_OVER_TLS if bound is Bound.TLS else "")
    versions = [(Rm.V1_1, besides), *([] if bound is not Bound.NOTHING else [(Rm.V1_0, "")])]
    either = "".join(
        f"<wsp:All>{write_rm_assertion(rm, assertion, policy=_WRITTEN).decode()}{beside}</wsp:All>"
        for rm, beside in versions
    )
    either += "<wsp:All/>" if apart else ""
    return (
        f'<wsp:Policy xmlns:wsp="{_WRITTEN}" xmlns:wsu="{names.WSU}" wsu:Id="{_POLICY}">'
        f"<wsp:ExactlyOne>{either}</wsp:ExactlyOne></wsp:Policy>"
    )


def _policy_of(offers: Sequence[Offer], sequences: Sequences) -> str:
    """Refer to the policy where events are taken."""
    taken = any(offer.operation is Operation.PUBLISH for offer in offers)
    if not taken or sequences not in _MODES:
        return ""
    return f'<wsp:PolicyReference xmlns:wsp="{_WRITTEN}" URI="#{_POLICY}"/>'


def _binding(name: str, offers: Sequence[Offer], soap: Soap, sequences: Sequences) -> str:
    suffix, namespace = _SOAP_BINDINGS[soap]
    body = '<b:body use="literal"/>'
    operations = []
    for offer in offers:
        output = f"<wsdl:output>{body}</wsdl:output>" if offer.response else ""
        faults = "".join(
            f'<wsdl:fault name="{local}"><b:fault name="{local}" use="literal"/></wsdl:fault>'
            for _, local in map(_split, offer.faults)
        )
        headers = "".join(
            f'<b:header message="d:{_header(block)}" part="{_split(block)[1]}" use="literal"/>'
            for block in offer.headers
        )
        operations.append(
            f'<wsdl:operation name="{offer.name}"><b:operation soapAction="{offer.action}"/>'
            f"<wsdl:input>{body}{headers}</wsdl:input>{output}{faults}</wsdl:operation>"
        )
    return (
        f'<wsdl:binding name="{name}{suffix}" type="d:{name}" xmlns:b="{namespace}">'
        f"{_policy_of(offers, sequences)}"
        f'<b:binding style="document" transport="{names.WSDL_HTTP}"/>'
        f"{''.join(operations)}</wsdl:binding>"
    )


def _port(name: str, soap: Soap, address: str) -> str:
    suffix, namespace = _SOAP_BINDINGS[soap]
    return (
        f'<wsdl:port name="{name}{suffix}" binding="d:{name}{suffix}">'
        f"<{_PREFIXES[namespace]}:address location={xml_attribute(address)}/></wsdl:port>"
    )
