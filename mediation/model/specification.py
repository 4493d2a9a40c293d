"""One version of a specification as one value, `Specification`, and the types of its parts.

    requests        the elements and actions that are its own, how they are read and answered
    notifications   how a notification is wrapped for its subscribers
    bodies          how it is written for subscribers that speak no SOAP
    ending          how a subscriber is told that its subscription ended early
    client          how the gateway's own clients speak it
    properties      what of a subscription, and of the gateway, can be read as WS-Resource
    faults          what it calls what is wrong
    leases          what a source may grant
    services        what its WSDL describes

A new version is a module that makes a `Specification`, a member of `Version`, and a row of
`mediation.specifications.SPECIFICATIONS`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import NamedTuple, NoReturn, Protocol

from lxml import etree

from filters import Reason, Topic
from mediation.model.delivery_modes import SourceOptions
from mediation.model.errors import MediationError
from mediation.model.facts import Fact
from mediation.model.messages import End, EndpointReference, Notification, Policy, Subscription
from mediation.model.requests import (
    Arrival,
    Context,
    Operation,
    RegisterPublisher,
    Request,
    Response,
)
from mediation.model.versions import Family, Form, Soap, Version, Wsa

# Requests.


@dataclass(frozen=True, slots=True)
class Answer:
    """The action of an answer with its serialised body, or with the whole *envelope* where the
    answer is a message that was written before. An empty envelope answers nothing. *headers* are
    blocks of the body's own."""

    action: str
    body: str = ""
    envelope: bytes | None = None
    headers: str = ""


NOTHING = Answer("", envelope=b"")


class Requests(Protocol):
    """The requests of a specification, and their answers."""

    @property
    def namespaces(self) -> frozenset[str]:
        """Namespaces whose elements, in a body, are this specification's: never events."""

    @property
    def elements(self) -> Mapping[str, Operation]:
        """The operation of each request element, by expanded name."""

    @property
    def actions(self) -> Mapping[str, Operation]:
        """The operation of each action, for requests whose body is empty."""

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        """Read a request.

        Raises:
            Refused: as the specification says.
        """

    def write(self, response: Response, context: Context) -> Answer:
        """Write the answer to the request of *context*."""


class _NoRequests:
    """No requests in SOAP."""

    namespaces: frozenset[str] = frozenset()
    elements: Mapping[str, Operation] = {}
    actions: Mapping[str, Operation] = {}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        refuse_operation(operation)

    def write(self, response: Response, context: Context) -> Answer:
        raise ValueError("nobody asks it in SOAP")


NO_REQUESTS = _NoRequests()
"""The requests of a specification that is not spoken in SOAP."""


class CombinedRequests:
    """The requests of several specifications as those of one: WS-BaseNotification with a version of
    WSRF under it, and profiles over it. Of two that know an element the first reads it."""

    def __init__(self, first: Requests, *others: Requests) -> None:
        every = (first, *others)
        self.namespaces = frozenset[str]().union(*(each.namespaces for each in every))
        self.elements: Mapping[str, Operation] = {}
        self.actions: Mapping[str, Operation] = {}
        self._first = first
        self._owners: dict[Operation, Requests] = {}
        for each in reversed(every):
            self.elements = {**self.elements, **each.elements}
            self.actions = {**self.actions, **each.actions}
            known = (*each.elements.values(), *each.actions.values())
            self._owners |= dict.fromkeys(known, each)

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        return self._owners[operation].read(operation, element, context, arrival)

    def write(self, response: Response, context: Context) -> Answer:
        owner = self._owners.get(context.operation) if context.operation else None
        return (owner or self._first).write(response, context)


# Notifications.


class EnvelopeParts(NamedTuple):
    """The parts of an envelope around the payload.

    *header* follows the addressing headers. In the body *before_reference* comes first, then the
    subscription's reference, *before_payload*, the payload, and *after_payload*.
    """

    header: str = ""
    before_reference: str = ""
    before_payload: str = ""
    after_payload: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Wrapping:
    """One way to wrap notifications. It is compared by identity: every rendering looks it up."""

    around: Callable[[Topic, EndpointReference, str | None, Wsa], EnvelopeParts]
    """Called with the topic, the producer, the topic dialect of the subscriber, and the version of
    WS-Addressing for references; once for all messages with these."""
    reference: Callable[[str, Wsa], str] | None = None
    """Writes the reference of the subscription, with its manager's address, where messages have
    one."""
    action: str | None = None
    """The action of every message; None: each has its event's."""
    opening: Callable[[str], str] | None = None
    """Writes the start tag around the payload by the event's own action, where messages tell it."""
    default_action: str | None = None
    """The action of an event without one; None: it is made from the payload."""
    names_producer: bool = False
    """Whether *around* writes the producer; then frames differ by producer."""
    names_gateway: bool = True
    """Whether the gateway stands for a producer that nobody named; else the address of the one that
    *around* gets is empty."""
    keeps_topic_header: bool = False
    """Whether a publisher's own topic header goes to the consumer as it is."""
    tells: frozenset[Fact] = frozenset()
    """What its messages say of an event besides the payload; `mediation.matrix` reports the rest as
    lost."""
    around_written: Callable[[str, EndpointReference, Wsa], EnvelopeParts] | None = None
    """Called instead of *around*, for one message, with the element in which the publisher itself
    wrote the topic, where it did and consumers get it as it is."""


class Notifications(Protocol):
    """The ways in which a version wraps notifications."""

    @property
    def actions(self) -> frozenset[str]:
        """The actions of its wrapped messages; an event that came with one has none of its own."""

    def wrapping(self, soap: Soap, *, raw: bool, dialect: str | None) -> Wrapping:
        """The way for a subscriber that used this SOAP and topic dialect, and asked for *raw*
        messages or not."""


class Holes(NamedTuple):
    """What is put into the octets of a `BodyShape` for one recipient, prepared at Subscribe, and
    the headers that go to it alone."""

    headers: bytes = b""
    reference: bytes = b""
    closing: bytes = b""
    http_headers: tuple[tuple[str, str], ...] = ()


NO_HOLES = Holes()


class Filling(Protocol):
    """A recipient, as far as its strings fill the holes of a `BodyRendering`. *number* counts what
    it is sent."""

    @property
    def headers(self) -> bytes: ...

    @property
    def reference(self) -> bytes: ...

    @property
    def closing(self) -> bytes: ...

    @property
    def number(self) -> int: ...


class BodyRendering(Protocol):
    """A notification in one `BodyShape`. ``own_headers`` are headers that no other message has;
    ``numbered``: each recipient's number is put in."""

    @property
    def http_headers(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def own_headers(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def numbered(self) -> bool: ...

    def fill(self, recipient: Filling, message_id: str) -> bytes:
        """The octets for one recipient."""


@dataclass(slots=True)  # Not frozen: that makes it dearer, for every message.
class Body:
    """A message that is no SOAP: the same octets for every recipient of its shape."""

    http_headers: tuple[tuple[str, str], ...]
    octets: bytes
    own_headers: tuple[tuple[str, str], ...] = ()

    @property
    def numbered(self) -> bool:
        return False

    def fill(self, recipient: object, message_id: str) -> bytes:
        """The octets for one recipient."""
        return self.octets


class BodyShape(Protocol):
    """All that the octets of a message that is no SOAP, or a call in SOAP, depend on, but the event
    and what fills their holes. It is hashed and compared by value."""

    @property
    def soap(self) -> Soap | None:
        """The version of the envelope; None where it is none."""

    @property
    def tells(self) -> frozenset[Fact]:
        """What its messages say of an event besides the payload, as in `Wrapping`."""

    def __hash__(self) -> int: ...

    def topic_of(self, notification: Notification) -> Topic | None:
        """The topic that recipients read, as far as *tells* has it."""

    def render(self, notification: Notification, producer: str) -> BodyRendering:
        """Write *notification*; *producer* is the gateway's own address."""

    def batch(self, notifications: Sequence[Notification], producer: str) -> Body:
        """Write several notifications as one message.

        Raises:
            ValueError: The form has none for several.
        """


class Bodies(Protocol):
    """The ways in which a version writes notifications that are no SOAP, or calls in it."""

    def shape(self, form: Form, policy: Policy) -> BodyShape:
        """The way for a subscriber that asked for this form, and whose policy this is."""

    def holes(self, subscription: Subscription) -> Holes:
        """What is put in for this subscriber."""


class Ending(Protocol):
    """The message that tells a subscriber that its subscription ended before its time."""

    @property
    def element(self) -> str:
        """The expanded name of the message's element."""

    def write(self, subscription: Subscription, end: End, reason: str) -> tuple[str, str]:
        """The action and the body of the message to the ``EndTo`` of *subscription*."""


# The other side.


class RequestParts(NamedTuple):
    """A request of ours without its envelope and its addressing headers."""

    action: str
    body: str
    headers: str = ""


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """The content of a Subscribe that a client of ours writes, as the arguments of
    `mediation.client.write_subscribe`."""

    consumer: EndpointReference
    topic: str | None = None
    xpath: str | None = None
    namespaces: Mapping[str, str] = field(default_factory=dict)
    expires: str | None = None
    end_to: EndpointReference | None = None
    raw: bool = False
    topic_dialect: str | None = None
    mode: str | None = None
    reliable: str = ""
    actions: tuple[str, ...] = ()
    source: SourceOptions | None = None


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """A subscription that is asked for, renewed and given up by one call.

    Attributes:
        producer: Whom it is asked of.
        seconds: The lease; the shortest that there is gives it up.
        example: The fields of an event that is an example of what is wanted, by name.
    """

    producer: EndpointReference
    consumer: EndpointReference
    seconds: float
    example: Mapping[str, str] = field(default_factory=dict)


class Leasing(Protocol):
    """Our own side as a subscriber in a version where one call subscribes, and renews."""

    def subscribe(self, wanted: LeaseOptions) -> tuple[str, bytes]:
        """Write the call: its action, and its envelope in SOAP 1.1.

        Raises:
            MediationError: It cannot be written.
        """

    def read_granted(self, octets: bytes) -> float:
        """Read the seconds that were granted.

        Raises:
            Refused: It does not say.
        """


class UnwrappedEvent(NamedTuple):
    """One event of a wrapped message: its topic, its payload, the address of the manager of the
    subscription that it is for, and its own action, as far as the message tells them."""

    topic: Topic | None
    payload: bytes
    subscription: str | None = None
    action: str | None = None


class Client(Protocol):
    """Our own side as subscriber, publisher and consumer in a version. A request that the version
    does not have is refused with ``ACTION_UNSUPPORTED`` (`refuse_operation`)."""

    @property
    def soap(self) -> Soap:
        """The SOAP version to speak where nobody asks for another."""

    @property
    def wsa(self) -> Wsa:
        """The version of WS-Addressing, likewise."""

    @property
    def notify(self) -> frozenset[str]:
        """The expanded names of elements that wrap notifications."""

    def subscribe(self, wanted: SubscribeOptions) -> RequestParts:
        """Write Subscribe."""

    def manage(self, operation: Operation, expires: str | None = None) -> RequestParts:
        """Write a request to a subscription's manager; *expires* as in `write_renew`."""

    def get_property(self, name: str) -> RequestParts:
        """Write GetResourceProperty of *name*, in Clark notation."""

    def get_current_message(self, topic: str) -> RequestParts:
        """Write GetCurrentMessage."""

    def publish(
        self,
        payload: str,
        topic: str | None,
        action: str | None,
        producer: EndpointReference | None,
    ) -> RequestParts:
        """Write an event."""

    def unwrap(self, notify: etree._Element, *, in_ours: bool) -> Iterable[UnwrappedEvent]:
        """The events in an element of `notify`; *in_ours* as in `payload_of`."""


def refuse_actions(wanted: SubscribeOptions) -> None:
    """Refuse to write a filter of actions, which the version does not have, if one is *wanted*.

    Raises:
        MediationError: ``FILTER_DIALECT``.
    """
    if wanted.actions:
        raise MediationError(
            Reason.FILTER_DIALECT, "The specification has no filter of actions; WS-Eventing has."
        )


def refuse_operation(operation: Operation) -> NoReturn:
    """Refuse to write *operation*, which the version does not have.

    Raises:
        MediationError: ``ACTION_UNSUPPORTED``.
    """
    raise MediationError(Reason.ACTION_UNSUPPORTED, f"The specification has no {operation.value}.")


# Resource properties.


class PropertyDocument(NamedTuple):
    """The resource properties of one resource: the expanded name of their document's root, and each
    expanded name with its elements (bytes), in the order of the document."""

    root: str
    values: Mapping[str, bytes]


class ResourceProperties(Protocol):
    """The resource properties that a version of WS-Notification defines."""

    def of_subscription(self, subscription: Subscription, now: datetime) -> PropertyDocument:
        """Those of a subscription."""

    def of_producer(
        self,
        topics: Collection[Topic],
        topic_dialects: Collection[str],
        *,
        requires_registration: bool = False,
        fixed: bool = False,
    ) -> PropertyDocument:
        """Those of the gateway as a producer and broker; *topics* are those seen so far."""

    def of_registration(
        self,
        request: RegisterPublisher,
        created: datetime,
        expires: datetime | None,
        now: datetime,
    ) -> PropertyDocument:
        """Those of the registration of a publisher; *expires* None is never."""

    def of_mailbox(self, end: datetime | None, now: datetime) -> PropertyDocument:
        """Those of a mailbox, which is destroyed at *end* when nobody reads it."""


# Faults.

MAX_NAMES = 32
"""Names that a fault lists at most: a request may hold thousands of unknown ones."""


class Code(Enum):
    """The side that is at fault; the values are the local names in SOAP 1.1 and 1.2."""

    SENDER = ("Client", "Sender")
    RECEIVER = ("Server", "Receiver")
    NOT_UNDERSTOOD = ("MustUnderstand", "MustUnderstand")
    VERSION_MISMATCH = ("VersionMismatch", "VersionMismatch")

    def name_in(self, soap: Soap) -> str:
        return self.value[0 if soap is Soap.V1_1 else 1]


class Detail(Enum):
    """The content of a fault's detail."""

    NONE = "none"
    URIS = "one element for each of the error's names that is a URI"
    QNAMES = "one element for each of the error's names, as a QName"
    TIMES = "the acceptable times"
    TEXTS = "one element for each of the error's names, as text"
    CHANGE = "that a change of a resource property failed, and nothing was changed"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a specification: an *element* in the detail that extends the BaseFault of the
    namespace *base* (WS-Notification, WSRF), or a *subcode* (WS-Eventing, WS-Addressing)."""

    code: Code = Code.SENDER
    subcode: str = ""
    element: str = ""
    base: str = ""
    text: str = ""
    detail: Detail = Detail.NONE
    inner: str = ""
    """The local name of the detail's children, which have the fault's own namespace; of `TEXTS` the
    expanded name."""
    most: int = MAX_NAMES
    """Children of the detail at most."""
    otherwise: str = ""
    """The name that is listed where the error has none, but the schema wants one."""
    always: tuple[str, ...] = ()
    """Names that are listed before the error's own."""
    in_soap_1_1: bool = True
    """Whether the detail is for SOAP 1.1, too."""
    prefix: str = "f"
    """The prefix of the subcode; some peers read it by its prefix."""
    action: str = ""
    """The action of the message; empty: that of WS-Addressing."""
    soap_action: bool = False
    """Whether the action is that of SOAP's own faults, although there is a subcode."""
    status: int = 0
    """That of HTTP, where it is not the usual one."""


Faults = Mapping[tuple[Reason, Operation | None], Fault]
"""Faults by reason and operation; a row without an operation is for the others."""


# Leases.


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """The leases that a source may grant. The gateway bounds their length; a subscriber may say
    that it takes a shorter one, `Expiry.best_effort`."""

    absolute: bool = False
    """Expirations are dateTimes alone, and the answer to Subscribe tells none: it grants what was
    asked for."""
    shortens: bool = False
    """A lease that is too long is shortened; else it is refused."""
    endless: bool = True
    """A trusted subscriber may get a lease without end."""
    unasked_endless: bool = False
    """A trusted subscriber that asks for no lease gets one without end."""
    grace: bool = False
    """A subscription can be renewed for a while after its lease."""


# WSDL.


@dataclass(frozen=True, slots=True)
class Offer:
    """One operation of a port type; ``response`` is the action of the answer, empty of a one-way
    operation, and ``empty`` is an answer with an empty body. ``faults`` are the expanded names of
    elements of details."""

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


@dataclass(frozen=True, slots=True)
class Service:
    """A service of a WSDL description: ``?wsdl=QUERY`` asks for it. ``schemas`` are files of
    ``mediation/schemas``; ``fault_actions`` are the actions of faults by their namespace."""

    query: str
    name: str
    schemas: tuple[str, ...]
    offers: tuple[Offer, ...]
    fault_actions: Mapping[str, str] = field(hash=False)


# The whole.


@dataclass(frozen=True, slots=True, eq=False)
class Specification:
    """A specification in one version: all that the version decides.

    Attributes:
        family: For metrics.
        title: What people call it, in a refusal that lists what is offered.
        events: Actions of bare events that are publications in this specification, and answered.
        termination: The namespace of the WS-ResourceLifetime whose TerminationNotification a
            consumer can subscribe for; empty where there is none.
        identifiers: Expanded names of elements in a request that name the subscription.
        notifications, bodies, ending, client, leasing, properties: None where the specification has
            none.
        handshake: Whether consumers are asked if they agree, before anything is sent to them.
        repeats: Whether a Subscribe that is the same as that of a subscription renews it, instead
            of making another; None: never.
        calls: The operations of elements in whatever namespace, by local name, where a message has
            no action: the methods of an RPC in SOAP 1.1.
        sequences: Whether a subscriber can ask for its notifications in a sequence.
        identity: What is the same in a subscription and in what renews it, whoever sends that:
            there is one subscription with it, in all gateways; None: any number.
    """

    version: Version
    family: Family
    title: str
    requests: Requests
    faults: Faults = field(default_factory=dict)
    notifications: Notifications | None = None
    bodies: Bodies | None = None
    handshake: bool = False
    ending: Ending | None = None
    termination: str = ""
    client: Client | None = None
    properties: ResourceProperties | None = None
    leases: LeaseRules = LeaseRules()
    services: tuple[Service, ...] = ()
    events: frozenset[str] = frozenset()
    identifiers: frozenset[str] = frozenset()
    repeats: Callable[[Subscription], bool] | None = None
    calls: Mapping[str, Operation] = field(default_factory=dict)
    identity: Callable[[Subscription], str] | None = None
    sequences: bool = False
    leasing: Leasing | None = None
