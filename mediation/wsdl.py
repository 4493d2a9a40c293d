"""What the gateway offers, as WSDL 1.1: one service, a port for each port type and SOAP version.

It imports nothing: the elements of messages are declared with any content, for their schemas are
those of their specifications.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mediation import eventing, names, notification, onvif, wsrf
from mediation.requests import Operation
from mediation.soap import xml_attribute
from mediation.versions import Soap

NAMESPACE = "urn:dragoman:wsdl:1"
_SOAP_BINDINGS = {
    Soap.V1_1: ("Soap11", names.WSDL_SOAP_1_1),
    Soap.V1_2: ("Soap12", names.WSDL_SOAP_1_2),
}


@dataclass(frozen=True, slots=True)
class _Offer:
    """One operation; ``answers`` False is one-way, ``empty`` an answer with an empty body."""

    port_type: str
    operation: Operation
    namespace: str
    action: str
    answers: bool = True
    empty: bool = False

    @property
    def name(self) -> str:
        return self.operation.value

    @property
    def unique(self) -> str:
        """The prefix of its messages' names: two port types have a Subscribe."""
        return f"{self.port_type}_{self.name}"


def _offers() -> Sequence[_Offer]:
    wse, wsn = eventing.NAMESPACE, notification.NAMESPACE
    sources = {Operation.SUBSCRIBE: "EventSource"}
    offers = [
        _Offer(
            sources.get(operation, "EventSubscriptionManager"),
            operation,
            wse,
            f"{wse}/{operation.value}",
            empty=operation is Operation.UNSUBSCRIBE,
        )
        for operation in (
            Operation.SUBSCRIBE,
            Operation.RENEW,
            Operation.GET_STATUS,
            Operation.UNSUBSCRIBE,
        )
    ]
    offers.append(
        _Offer(
            "NotificationConsumer",
            Operation.PUBLISH,
            wsn,
            notification.NOTIFY_ACTION,
            answers=False,
        )
    )
    for port_type, operations in (
        ("NotificationProducer", (Operation.SUBSCRIBE, Operation.GET_CURRENT_MESSAGE)),
        (
            "PausableSubscriptionManager",
            (Operation.RENEW, Operation.UNSUBSCRIBE, Operation.PAUSE, Operation.RESUME),
        ),
        ("CreatePullPoint", (Operation.CREATE_PULL_POINT,)),
        ("PullPoint", (Operation.GET_MESSAGES, Operation.DESTROY_PULL_POINT)),
    ):
        for operation in operations:
            action = f"{names.WSN_1_3_ACTIONS}{port_type}/{operation.value}Request"
            offers.append(_Offer(port_type, operation, wsn, action))
    for operation, action in onvif.ACTION_OF.items():
        port_type = action.removeprefix(names.ONVIF_EVENTS).split("/")[1]
        offers.append(_Offer(port_type, operation, names.ONVIF_EVENTS, f"{action}Request"))
    for name, operation in wsrf.OPERATIONS.items():
        namespace = name[1:].partition("}")[0]
        port_type = "ResourceLifetime" if namespace == wsrf.RL else "ResourceProperties"
        action = f"{wsrf.ACTION_OF[operation]}{operation.value}Request"
        offers.append(_Offer(port_type, operation, namespace, action))
    return offers


OFFERS = _offers()


def write_wsdl(address: str) -> bytes:
    """The description of the endpoint at *address*."""
    port_types = list(dict.fromkeys(offer.port_type for offer in OFFERS))
    parts = [
        f'<wsdl:definitions xmlns:wsdl="{names.WSDL}" xmlns:d="{NAMESPACE}" '
        f'name="Dragoman" targetNamespace="{NAMESPACE}">',
        "<wsdl:types>",
        *map(_schema, sorted({offer.namespace for offer in OFFERS})),
        "</wsdl:types>",
        *map(_messages, OFFERS),
        *map(_port_type, port_types),
        *(_binding(name, soap) for name in port_types for soap in Soap),
        '<wsdl:service name="Dragoman">',
        *(_port(name, soap, address) for name in port_types for soap in Soap),
        "</wsdl:service></wsdl:definitions>",
    ]
    return "".join(parts).encode()


def _of(port_type: str) -> list[_Offer]:
    return [offer for offer in OFFERS if offer.port_type == port_type]


def _schema(namespace: str) -> str:
    elements = dict.fromkeys(
        name
        for offer in OFFERS
        if offer.namespace == namespace
        for name in (offer.name, f"{offer.name}Response" if _has_response(offer) else "")
        if name
    )
    declared = "".join(f'<xsd:element name="{name}" type="xsd:anyType"/>' for name in elements)
    return (
        f'<xsd:schema xmlns:xsd="{names.XSD}" targetNamespace="{namespace}" '
        f'elementFormDefault="qualified">{declared}</xsd:schema>'
    )


def _has_response(offer: _Offer) -> bool:
    return offer.answers and not offer.empty


def _messages(offer: _Offer) -> str:
    def part(name: str) -> str:
        return f'<wsdl:part name="body" xmlns:m="{offer.namespace}" element="m:{name}"/>'

    request = f'<wsdl:message name="{offer.unique}">{part(offer.name)}</wsdl:message>'
    if not offer.answers:
        return request
    inner = "" if offer.empty else part(f"{offer.name}Response")
    return f'{request}<wsdl:message name="{offer.unique}Response">{inner}</wsdl:message>'


def _port_type(name: str) -> str:
    operations = []
    for offer in _of(name):
        output = f'<wsdl:output message="d:{offer.unique}Response"/>' if offer.answers else ""
        operations.append(
            f'<wsdl:operation name="{offer.name}"><wsdl:input message="d:{offer.unique}"/>'
            f"{output}</wsdl:operation>"
        )
    return f'<wsdl:portType name="{name}">{"".join(operations)}</wsdl:portType>'


def _binding(name: str, soap: Soap) -> str:
    suffix, namespace = _SOAP_BINDINGS[soap]
    body = '<b:body use="literal"/>'
    operations = []
    for offer in _of(name):
        output = f"<wsdl:output>{body}</wsdl:output>" if offer.answers else ""
        operations.append(
            f'<wsdl:operation name="{offer.name}"><b:operation soapAction="{offer.action}"/>'
            f"<wsdl:input>{body}</wsdl:input>{output}</wsdl:operation>"
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
