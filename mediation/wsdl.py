"""What the gateway offers, as WSDL 1.1: a service for each specification, with a port for each of
its port types and each version of SOAP.

A description is one document with the schemas of its specifications in it, so that what is made of
it knows the messages; actions and faults are declared as the specifications do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from importlib.resources import files

from mediation import names
from mediation.eventing import v2004_08
from mediation.model.requests import Operation
from mediation.model.versions import Soap
from mediation.notification import onvif, v1_3
from mediation.resources import wsrf
from mediation.soap.envelopes import xml_attribute

NAMESPACE = "urn:dragoman:wsdl:1"
_SOAP_BINDINGS = {
    Soap.V1_1: ("Soap11", names.WSDL_SOAP_1_1),
    Soap.V1_2: ("Soap12", names.WSDL_SOAP_1_2),
}
_WSN_SCHEMAS = ("addressing-2005-08", "bf-2", "r-2", "t-1", "b-2")


class Service(Enum):
    """A specification that is described; the value is what ``?wsdl=`` names it by, the name of
    its service, and its schemas, of ``mediation/schemas``."""

    WSE = ("wse", "WSEventing", ("addressing-2004-08", "eventing-2004-08"))
    WSN = ("wsn", "WSNotification", (*_WSN_SCHEMAS, "rp-2", "rl-2"))
    ONVIF = ("onvif", "ONVIFEvents", (*_WSN_SCHEMAS, "onvif-events"))


@dataclass(frozen=True, slots=True)
class Offer:
    """One operation; ``response`` is the action of the answer, empty of a one-way operation, and
    ``empty`` is an answer with an empty body. ``faults`` are the names of elements of details."""

    port_type: str
    operation: Operation
    namespace: str
    action: str
    response: str = ""
    empty: bool = False
    faults: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.operation.value

    @property
    def unique(self) -> str:
        """The prefix of its messages' names: two port types have a Subscribe."""
        return f"{self.port_type}_{self.name}"


_UNKNOWN = f"{{{names.WSRF_R}}}ResourceUnknownFault"
_FILTERING = (
    "InvalidFilterFault",
    "TopicExpressionDialectUnknownFault",
    "InvalidTopicExpressionFault",
    "TopicNotSupportedFault",
    "InvalidProducerPropertiesExpressionFault",
    "InvalidMessageContentExpressionFault",
    "UnacceptableInitialTerminationTimeFault",
    "UnrecognizedPolicyRequestFault",
    "UnsupportedPolicyRequestFault",
    "SubscribeCreationFailedFault",
)


def _wsnt(*faults: str, unknown: bool = False) -> tuple[str, ...]:
    own = tuple(f"{{{names.WSN_1_3}}}{fault}" for fault in faults)
    return (_UNKNOWN, *own) if unknown else own


_PROPERTY = (_UNKNOWN, f"{{{names.WSRF_RP}}}InvalidResourcePropertyQNameFault")
_FAULTS = {
    Operation.SUBSCRIBE: _wsnt(*_FILTERING),
    Operation.GET_CURRENT_MESSAGE: _wsnt(
        "TopicExpressionDialectUnknownFault",
        "InvalidTopicExpressionFault",
        "TopicNotSupportedFault",
        "NoCurrentMessageOnTopicFault",
        "MultipleTopicsSpecifiedFault",
    ),
    Operation.RENEW: _wsnt("UnacceptableTerminationTimeFault", unknown=True),
    Operation.UNSUBSCRIBE: _wsnt("UnableToDestroySubscriptionFault", unknown=True),
    Operation.PAUSE: _wsnt("PauseFailedFault", unknown=True),
    Operation.RESUME: _wsnt("ResumeFailedFault", unknown=True),
    Operation.CREATE_PULL_POINT: _wsnt("UnableToCreatePullPointFault"),
    Operation.GET_MESSAGES: _wsnt("UnableToGetMessagesFault", unknown=True),
    Operation.DESTROY_PULL_POINT: _wsnt("UnableToDestroyPullPointFault", unknown=True),
    Operation.CREATE_PULL_POINT_SUBSCRIPTION: _wsnt(*_FILTERING),
    Operation.PULL_MESSAGES: _wsnt("UnableToGetMessagesFault", unknown=True),
    Operation.SET_SYNCHRONIZATION_POINT: (_UNKNOWN,),
    Operation.GET_RESOURCE_PROPERTY: _PROPERTY,
    Operation.GET_MULTIPLE_RESOURCE_PROPERTIES: _PROPERTY,
    Operation.GET_RESOURCE_PROPERTY_DOCUMENT: (_UNKNOWN,),
    Operation.SET_TERMINATION_TIME: (
        _UNKNOWN,
        f"{{{names.WSRF_RL}}}UnableToSetTerminationTimeFault",
        f"{{{names.WSRF_RL}}}TerminationTimeChangeRejectedFault",
    ),
    Operation.DESTROY: (_UNKNOWN,),
}
"""As bw-2, rpw-2, rlw-2 and event.wsdl declare them."""
_WSE_FAULTS = {
    Operation.SUBSCRIBE: (
        f"{{{names.WSE_2004_08}}}SupportedDeliveryMode",
        f"{{{names.WSE_2004_08}}}SupportedDialect",
    )
}
"""Of the faults of WS-Eventing those whose detail has an element."""


def _wse_offers() -> list[Offer]:
    namespace = v2004_08.NAMESPACE
    return [
        Offer(
            "EventSource" if operation is Operation.SUBSCRIBE else "EventSubscriptionManager",
            operation,
            namespace,
            f"{namespace}/{operation.value}",
            f"{namespace}/{operation.value}Response",
            operation is Operation.UNSUBSCRIBE,
            _WSE_FAULTS.get(operation, ()),
        )
        for operation in (
            Operation.SUBSCRIBE,
            Operation.RENEW,
            Operation.GET_STATUS,
            Operation.UNSUBSCRIBE,
        )
    ]


def _offer(port_type: str, operation: Operation, namespace: str, base: str) -> Offer:
    request, response = f"{base}Request", f"{base}Response"
    return Offer(
        port_type, operation, namespace, request, response, faults=_FAULTS.get(operation, ())
    )


_PRODUCER = ("NotificationProducer", (Operation.SUBSCRIBE, Operation.GET_CURRENT_MESSAGE))
_MANAGER = (
    "PausableSubscriptionManager",
    (Operation.RENEW, Operation.UNSUBSCRIBE, Operation.PAUSE, Operation.RESUME),
)
_PULLING = (
    ("CreatePullPoint", (Operation.CREATE_PULL_POINT,)),
    ("PullPoint", (Operation.GET_MESSAGES, Operation.DESTROY_PULL_POINT)),
)


def _base_offers(*port_types: tuple[str, tuple[Operation, ...]]) -> list[Offer]:
    wsn = v1_3.NAMESPACE
    return [
        _offer(port_type, operation, wsn, f"{names.WSN_1_3_ACTIONS}{port_type}/{operation.value}")
        for port_type, operations in port_types
        for operation in operations
    ]


def _wsn_offers() -> list[Offer]:
    action = v1_3.NOTIFY_ACTION
    offers = [Offer("NotificationConsumer", Operation.PUBLISH, v1_3.NAMESPACE, action)]
    offers += _base_offers(_PRODUCER, _MANAGER, *_PULLING)
    for name, operation in wsrf.OPERATIONS.items():
        namespace = name[1:].partition("}")[0]
        port_type = "ResourceLifetime" if namespace == wsrf.RL else "ResourceProperties"
        base = f"{wsrf.ACTION_OF[operation]}{operation.value}"
        offers.append(_offer(port_type, operation, namespace, base))
    return offers


def _onvif_offers() -> list[Offer]:
    offers = [
        _offer(
            action.removeprefix(names.ONVIF_EVENTS).split("/")[1],
            operation,
            names.ONVIF_EVENTS,
            action,
        )
        for operation, action in onvif.ACTION_OF.items()
    ]
    return [*offers, *_base_offers(_PRODUCER, _MANAGER)]


OFFERS = {
    Service.WSE: _wse_offers(),
    Service.WSN: _wsn_offers(),
    Service.ONVIF: _onvif_offers(),
}


_BESIDE = "xml"
"""The schema that stands beside the descriptions, at ``?xsd=xml``: of the XML namespace zeep
believes no other than one with a location, and looks for it at the W3C."""


def schema_named(query: str) -> bytes | None:
    """The schema that the query of a URL asks for; None where it asks for none."""
    if query.lower() != f"xsd={_BESIDE}":
        return None
    return _schema(_BESIDE).encode()


def services_named(query: str) -> tuple[Service, ...]:
    """What the query of a URL asks a description of: ``wsdl`` of all, ``wsdl=wsn`` of one; nothing
    where it asks for none."""
    name, _, value = query.lower().partition("=")
    if name != "wsdl":
        return ()
    return tuple(service for service in Service if value in ("", service.value[0]))


def write_wsdl(address: str, services: Sequence[Service] = tuple(Service)) -> bytes:
    """The description of the endpoint at *address*."""
    described, ports = _described(tuple(services)), list[str]()
    described = described.replace('"?xsd=', f'"{xml_attribute(address)[1:-1]}?xsd=')
    for service in services:
        ports.append(f'<wsdl:service name="{service.value[1]}">')
        port_types = dict.fromkeys(offer.port_type for offer in OFFERS[service])
        ports += (_port(name, soap, address) for soap in Soap for name in port_types)
        ports.append("</wsdl:service>")
    return f"{described}{''.join(ports)}</wsdl:definitions>".encode()


@lru_cache
def _described(services: tuple[Service, ...]) -> str:
    """All but the services, at the end of the document."""
    offers = list(dict.fromkeys(offer for service in services for offer in OFFERS[service]))
    schemas = dict.fromkeys(name for service in services for name in service.value[2])
    port_types = {
        name: [offer for offer in offers if offer.port_type == name]
        for name in dict.fromkeys(offer.port_type for offer in offers)
    }
    faults = dict.fromkeys(fault for offer in offers for fault in offer.faults)
    parts = [
        f'<wsdl:definitions xmlns:wsdl="{names.WSDL}" xmlns:d="{NAMESPACE}" '
        f'xmlns:wsam="{names.WSAM}" name="Dragoman" targetNamespace="{NAMESPACE}">',
        "<wsdl:types>",
        *map(_schema, schemas),
        "</wsdl:types>",
        *map(_messages, offers),
        *map(_fault_message, faults),
        *(_port_type(name, its) for name, its in port_types.items()),
        *(_binding(name, its, soap) for name, its in port_types.items() for soap in Soap),
    ]
    return "".join(parts)


def _schema(name: str) -> str:
    # A part of the program, although it lies in a file.
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
    element = f"{{{offer.namespace}}}{offer.name}"
    request = _message(offer.unique, "parameters", element)
    if not offer.response:
        return request
    answer = "" if offer.empty else f"{element}Response"
    return request + _message(f"{offer.unique}Response", "parameters", answer)


def _fault_message(fault: str) -> str:
    return _message(_split(fault)[1], "fault", fault)


def _port_type(name: str, offers: Sequence[Offer]) -> str:
    operations = []
    for offer in offers:
        output = ""
        if offer.response:
            output = (
                f'<wsdl:output message="d:{offer.unique}Response" wsam:Action="{offer.response}"/>'
            )
        faults = "".join(map(_fault, offer.faults))
        operations.append(
            f'<wsdl:operation name="{offer.name}"><wsdl:input message="d:{offer.unique}" '
            f'wsam:Action="{offer.action}"/>{output}{faults}</wsdl:operation>'
        )
    return f'<wsdl:portType name="{name}">{"".join(operations)}</wsdl:portType>'


def _fault(fault: str) -> str:
    namespace, local = _split(fault)
    action = {
        names.WSE_2004_08: names.WSA_FAULT_2004_08,
        names.WSN_1_3: names.WSN_1_3_FAULT_ACTION,
    }.get(namespace, names.WSRF_FAULT_ACTION)
    return f'<wsdl:fault name="{local}" message="d:{local}" wsam:Action="{action}"/>'


def _binding(name: str, offers: Sequence[Offer], soap: Soap) -> str:
    suffix, namespace = _SOAP_BINDINGS[soap]
    body = '<b:body use="literal"/>'
    operations = []
    for offer in offers:
        output = f"<wsdl:output>{body}</wsdl:output>" if offer.response else ""
        faults = "".join(
            f'<wsdl:fault name="{local}"><b:fault name="{local}" use="literal"/></wsdl:fault>'
            for _, local in map(_split, offer.faults)
        )
        operations.append(
            f'<wsdl:operation name="{offer.name}"><b:operation soapAction="{offer.action}"/>'
            f"<wsdl:input>{body}</wsdl:input>{output}{faults}</wsdl:operation>"
        )
    return (
        f'<wsdl:binding name="{name}{suffix}" type="d:{name}" xmlns:b="{namespace}">'
        f'<b:binding style="document" transport="{names.WSDL_HTTP}"/>'
        f"{''.join(operations)}</wsdl:binding>"
    )


def _port(name: str, soap: Soap, address: str) -> str:
    suffix, namespace = _SOAP_BINDINGS[soap]
    return (
        f'<wsdl:port name="{name}{suffix}" binding="d:{name}{suffix}">'
        f'<b:address xmlns:b="{namespace}" location={xml_attribute(address)}/></wsdl:port>'
    )
