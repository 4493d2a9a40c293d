"""WS-BrokeredNotification 1.3: the registration of publishers, and its resource properties.

Its drafts differ in their names, in what an answer says, and in that WS-ResourceLifetime alone ends
a registration: all of that is data of `BrokerNames`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from lxml import etree

from filters import Expression, Reason, dialects, parse_expression
from mediation import names
from mediation.filtering import dialect_of, read_topic_expression, write_kept_expression
from mediation.model.errors import MediationError
from mediation.model.expiry import UNSPECIFIED, Expiry, parse_expiry
from mediation.model.messages import EndpointReference
from mediation.model.requests import (
    Arrival,
    Context,
    DestroyRegistration,
    Operation,
    PublisherRegistered,
    RegisterPublisher,
    Request,
    Response,
)
from mediation.model.specification import Answer, Fault, Faults, Offer
from mediation.model.versions import Wsa
from mediation.resources.base_faults import base_fault
from mediation.resources.wsrf import write_time
from mediation.soap.addressing import read_epr, write_epr
from mediation.soap.envelopes import elements, local_name, text_of

BROKER_ACTIONS = names.WSN_BR_1_3_ACTIONS + "NotificationBroker/"
"""The beginning of the actions of a broker, which has the operations of other port types, too."""
MAX_TOPICS = 64
"""Topics that one publisher may register."""
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_TIMES = frozenset({"InitialTerminationTime", "RequestedLifetimeDuration"})
"""Local names of the elements in which publishers say for how long: the specification's, and that
of 52 North's SES, which stands first and holds a date."""


@dataclass(frozen=True, slots=True)
class BrokerNames:
    """The names of one version.

    Attributes:
        register: The beginnings of the actions of RegisterPublisher; the first is the usual one.
        request: The end of the action of a request.
        consumes: Whether the answer says where to send notifications.
        destroy: The beginning of the action of DestroyRegistration; empty where there is none.
        simple: The dialect of a topic that says none.
        spelled: The names of dialects in this version, where they are others.
        spellings: Local names of RegisterPublisher.
    """

    namespace: str
    register: tuple[str, ...]
    request: str = "Request"
    consumes: bool = True
    destroy: str = ""
    simple: str = dialects.TOPIC_SIMPLE
    spelled: Mapping[str, str] = field(default_factory=dict, hash=False)
    spellings: tuple[str, ...] = (Operation.REGISTER_PUBLISHER.value,)


BROKERED_1_3 = BrokerNames(
    names.WSN_BR_1_3,
    (
        f"{names.WSN_BR_1_3_ACTIONS}RegisterPublisher/RegisterPublisher",
        f"{BROKER_ACTIONS}RegisterPublisher",
    ),
    destroy=f"{names.WSN_BR_1_3_ACTIONS}PublisherRegistrationManager/DestroyRegistration",
)


class BrokeredRequests:
    """RegisterPublisher and DestroyRegistration.

    Args:
        also: Actions of other operations that a broker has under names of its own.
    """

    def __init__(
        self, version: BrokerNames, *, also: Mapping[str, Operation] | None = None
    ) -> None:
        self._version = version
        self.namespaces = frozenset({version.namespace})
        elements = dict.fromkeys(version.spellings, Operation.REGISTER_PUBLISHER)
        actions = {
            f"{each}{version.request}": Operation.REGISTER_PUBLISHER for each in version.register
        }
        if version.destroy:
            elements[Operation.DESTROY_REGISTRATION.value] = Operation.DESTROY_REGISTRATION
            actions[f"{version.destroy}{version.request}"] = Operation.DESTROY_REGISTRATION
        self.elements: Mapping[str, Operation] = {
            f"{{{version.namespace}}}{name}": operation for name, operation in elements.items()
        }
        self.actions: Mapping[str, Operation] = {**actions, **(also or {})}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        if operation is Operation.DESTROY_REGISTRATION:
            return DestroyRegistration()
        return _read_register(element, self._version)

    def write(self, response: Response, context: Context) -> Answer:
        version, operation = self._version, context.operation or Operation.REGISTER_PUBLISHER
        name, inner, action = operation.value, "", f"{version.destroy}Response"
        if operation is Operation.REGISTER_PUBLISHER:
            action = _register_response(version, context.headers.action)
        if isinstance(response, PublisherRegistered):
            wsa = context.wsa or response.wsa or Wsa.V2005_08
            epr = write_epr(EndpointReference(response.registration, wsa))
            reference = "br:PublisherRegistrationReference"
            inner = f"<{reference}>{epr}</{reference}>"
            if version.consumes:
                epr = write_epr(EndpointReference(response.consumer, wsa))
                inner += f"<br:ConsumerReference>{epr}</br:ConsumerReference>"
        body = f'<br:{name}Response xmlns:br="{version.namespace}">{inner}</br:{name}Response>'
        return Answer(action, body)


def _register_response(version: BrokerNames, request: str | None) -> str:
    """The action of the answer, of the request's own port type where that is one of the table's."""
    for each in version.register:
        if request == f"{each}{version.request}":
            return f"{each}Response"
    return f"{version.register[0]}Response"


def _read_register(element: etree._Element, version: BrokerNames) -> RegisterPublisher:
    """Read RegisterPublisher; children in any order, and those of others are not looked at.

    Raises:
        MediationError: ``MESSAGE_INVALID``, ``EPR_INVALID``, ``EXPIRY_INVALID``, ``TOPIC_INVALID``,
            ``TOPIC_DIALECT``.
    """
    publisher, demand, expires = None, False, UNSPECIFIED
    topics: list[Expression] = []
    for child in elements(element):
        match local_name(child):
            case "PublisherReference":
                publisher = read_epr(child, forged="refuse")
            case "Topic":
                expression = _read_topic(child, version)
                if expression is not None:
                    topics.append(expression)
            case "Demand":
                demand = _read_demand(child)
            case name if name in _TIMES:
                expires = _read_time(child)
    if len(topics) > MAX_TOPICS:
        raise MediationError(Reason.MESSAGE_INVALID, "RegisterPublisher has too many topics.")
    if demand and publisher is None:
        raise MediationError(
            Reason.MESSAGE_INVALID, "Demand is for a publisher with a PublisherReference."
        )
    return RegisterPublisher(publisher, tuple(topics), demand, expires)


def _read_topic(element: etree._Element, version: BrokerNames) -> Expression | None:
    """Read a topic; None where it is empty, which names none."""
    dialect = dialect_of(element)
    if not text_of(element) and dialect is None:
        return None
    expression = read_topic_expression(element)
    if dialect is None:
        expression = replace(expression, dialect=version.simple)
    parse_expression(expression)
    return expression


def _read_demand(element: etree._Element) -> bool:
    """Read an xsd:boolean, in upper or lower case.

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is none.
    """
    word = text_of(element).lower()
    if word not in _BOOLEANS:
        raise MediationError(
            Reason.MESSAGE_INVALID, "Demand is neither true nor false.", value=word[:100]
        )
    return _BOOLEANS[word]


def _read_time(element: etree._Element) -> Expiry:
    return parse_expiry(text_of(element))


def registration_properties(
    version: BrokerNames, request: RegisterPublisher, created: datetime
) -> Mapping[str, bytes]:
    """The resource properties of a registration but for its lifetime, by expanded name, in the
    schema's order (WS-BrokeredNotification 1.3, PublisherRegistrationRP)."""
    namespace = version.namespace
    br = f' xmlns:br="{namespace}"'
    publisher = ""
    if request.publisher is not None:
        epr = write_epr(request.publisher)
        publisher = f"<br:PublisherReference{br}>{epr}</br:PublisherReference>"
    values = {
        "PublisherReference": publisher,
        "Topic": "".join(
            write_kept_expression(
                namespace, "Topic", topic, dialect=version.spelled.get(topic.dialect)
            )
            for topic in request.topics
        ),
        "Demand": f"<br:Demand{br}>{str(request.demand).lower()}</br:Demand>",
        "CreationTime": write_time("br:CreationTime", created, br),
    }
    return {f"{{{namespace}}}{name}": text.encode() for name, text in values.items()}


def broker_properties(namespace: str, *, requires_registration: bool) -> Mapping[str, bytes]:
    """The resource properties that a broker has besides those of a producer, by expanded name
    (WS-BrokeredNotification 1.3, NotificationBrokerRP)."""
    required = str(requires_registration).lower()
    element = (
        f'<br:RequiresRegistration xmlns:br="{namespace}">{required}</br:RequiresRegistration>'
    )
    return {f"{{{namespace}}}RequiresRegistration": element.encode()}


def _fault(name: str) -> Fault:
    return base_fault(names.WSN_BR_1_3, name, action=names.WSN_1_3_FAULT_ACTION)


_FAILED = _fault("PublisherRegistrationFailedFault")
_REJECTED = _fault("PublisherRegistrationRejectedFault")
_REGISTER = Operation.REGISTER_PUBLISHER


def brokered_faults(times: Fault, topic: Fault) -> Faults:
    """The faults of WS-BrokeredNotification 1.3, sections 4.3 and 5.2; *times* and *topic* are
    those of WS-BaseNotification that say that a time or a topic cannot be."""
    return {
        (Reason.MESSAGE_INVALID, _REGISTER): _FAILED,
        (Reason.EPR_INVALID, _REGISTER): _FAILED,
        (Reason.CONSUMER_ADDRESS, _REGISTER): _REJECTED,
        (Reason.QUOTA, _REGISTER): _REJECTED,
        (Reason.TOPIC_DIALECT, _REGISTER): topic,
        (Reason.EXPIRY_INVALID, _REGISTER): times,
        (Reason.EXPIRY_IN_THE_PAST, _REGISTER): times,
        (Reason.EXPIRY_TOO_LONG, _REGISTER): times,
        (Reason.UNAVAILABLE, Operation.DESTROY_REGISTRATION): _fault("ResourceNotDestroyedFault"),
    }


def brokered_offers(broker: Iterable[Offer], faults: Iterable[str]) -> tuple[Offer, ...]:
    """The operations as brw-2 declares them.

    Args:
        broker: Those of WS-BaseNotification that a broker has.
        faults: The expanded names of the faults of WS-BaseNotification that RegisterPublisher has.
    """
    br = names.WSN_BR_1_3
    unknown = f"{{{names.WSRF_R}}}ResourceUnknownFault"
    declared = (
        unknown,
        *faults,
        f"{{{br}}}PublisherRegistrationRejectedFault",
        f"{{{br}}}PublisherRegistrationFailedFault",
    )
    registering = tuple(
        Offer(port_type, _REGISTER, br, f"{each}Request", f"{each}Response", faults=declared)
        for port_type, each in zip(
            ("RegisterPublisher", "NotificationBroker"), BROKERED_1_3.register, strict=True
        )
    )
    base = tuple(
        Offer(
            "NotificationBroker",
            offer.operation,
            offer.namespace,
            f"{BROKER_ACTIONS}{offer.action.rpartition('/')[2]}",
            offer.response and f"{BROKER_ACTIONS}{offer.response.rpartition('/')[2]}",
            offer.empty,
            offer.faults,
        )
        for offer in broker
    )
    destroying = Offer(
        "PublisherRegistrationManager",
        Operation.DESTROY_REGISTRATION,
        br,
        f"{BROKERED_1_3.destroy}Request",
        f"{BROKERED_1_3.destroy}Response",
        faults=(unknown, f"{{{br}}}ResourceNotDestroyedFault"),
    )
    return (registering[0], *base, registering[1], destroying)
