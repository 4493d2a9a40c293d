"""Requests of peers and their answers as values, the same in every specification."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from filters import EVERYTHING, Expression, Filter, Reason, Refused, Topic
from mediation.model.administration import (
    DeleteSubscriptions,
    ListSubscriptions,
    SubscriptionsDeleted,
    SubscriptionsListed,
)
from mediation.model.calling import USUAL_CALLS, Calling, CallRules
from mediation.model.delivery_modes import PUSH, Bookmark, DeliveryMode
from mediation.model.expiry import UNSPECIFIED, Expiry
from mediation.model.messages import (
    NO_HEADERS,
    Attachment,
    EndpointReference,
    MessageHeaders,
    Notification,
    Packaging,
    Subscription,
)
from mediation.model.values import checked_dataclass
from mediation.model.versions import DataForm, Form, Soap, Spec, Version, Wsa


class Operation(Enum):
    """The operations of all specifications. The value is the name in logs and metrics. It is also
    an attribute, ``label``, which is quicker, for counters of every message."""

    def __init__(self, label: str) -> None:
        self.label = label

    SUBSCRIBE = "Subscribe"
    RENEW = "Renew"
    GET_STATUS = "GetStatus"
    UNSUBSCRIBE = "Unsubscribe"
    PAUSE = "PauseSubscription"
    RESUME = "ResumeSubscription"
    GET_CURRENT_MESSAGE = "GetCurrentMessage"
    GET_RESOURCE_PROPERTY = "GetResourceProperty"
    GET_MULTIPLE_RESOURCE_PROPERTIES = "GetMultipleResourceProperties"
    GET_RESOURCE_PROPERTY_DOCUMENT = "GetResourcePropertyDocument"
    QUERY_RESOURCE_PROPERTIES = "QueryResourceProperties"
    SET_RESOURCE_PROPERTIES = "SetResourceProperties"
    INSERT_RESOURCE_PROPERTIES = "InsertResourceProperties"
    UPDATE_RESOURCE_PROPERTIES = "UpdateResourceProperties"
    DELETE_RESOURCE_PROPERTIES = "DeleteResourceProperties"
    PUT_RESOURCE_PROPERTY_DOCUMENT = "PutResourcePropertyDocument"
    SET_TERMINATION_TIME = "SetTerminationTime"
    DESTROY = "Destroy"
    PUBLISH = "Notify"
    SUBSCRIPTION_END = "SubscriptionEnd"
    REGISTER_PUBLISHER = "RegisterPublisher"
    DESTROY_REGISTRATION = "DestroyRegistration"
    CREATE_PULL_POINT = "CreatePullPoint"
    GET_MESSAGES = "GetMessages"
    DESTROY_PULL_POINT = "DestroyPullPoint"
    CREATE_PULL_POINT_SUBSCRIPTION = "CreatePullPointSubscription"
    PULL_MESSAGES = "PullMessages"
    SEEK = "Seek"
    SET_SYNCHRONIZATION_POINT = "SetSynchronizationPoint"
    GET_SERVICE_CAPABILITIES = "GetServiceCapabilities"
    GET_EVENT_PROPERTIES = "GetEventProperties"
    CREATE_MESSAGE_BOX = "createMsgBox"
    STORE_MESSAGES = "storeMessages"
    TAKE_MESSAGES = "takeMessages"
    DESTROY_MESSAGE_BOX = "destroyMsgBox"
    MAKE_CONNECTION = "MakeConnection"
    LIST_SUBSCRIPTIONS = "ListSubscriptions"
    DELETE_SUBSCRIPTIONS = "DeleteSubscriptions"
    PULL = "Pull"
    RELEASE = "Release"
    ENUMERATE = "Enumerate"
    END = "End"
    IDENTIFY = "Identify"
    GET_METADATA = "GetMetadata"
    GET_WSDL = "GetWSDL"
    TRANSFER_GET = "Get"
    GET_SYSTEM_DATE_AND_TIME = "GetSystemDateAndTime"
    GET_SERVICES = "GetServices"
    GET_CAPABILITIES = "GetCapabilities"
    GET_DEVICE_INFORMATION = "GetDeviceInformation"
    CREATE_SEQUENCE = "CreateSequence"
    CLOSE_SEQUENCE = "CloseSequence"
    TERMINATE_SEQUENCE = "TerminateSequence"
    LAST_MESSAGE = "LastMessage"
    REQUEST_ACKNOWLEDGEMENT = "AckRequested"
    ACKNOWLEDGE_SEQUENCE = "SequenceAcknowledgement"


class Sequences(Enum):
    """What an endpoint does with sequences of reliable messages (WS-ReliableMessaging)."""

    OFF = "off"
    """It does not understand them."""
    OFFERED = "offered"
    REQUIRED = "required"
    """It takes events in sequences alone."""


class SequenceParts:
    """What a message says of sequences. `mediation.reliable_messaging.ReliableMessage` is what it
    always is; this stands for it where that is not known yet."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class EndpointRules:
    """What the address that a message came to decides, where its peers expect it.

    Attributes:
        answers: The specification in which bare events are answered, whatever their action; None:
            only those with an action that a specification answers are.
        known_events: Bare events are taken with a known action alone.
        event_is_root: The root of what XPath filters see is the event, not the envelope.
        lexical_names: XPath filters compare names as they are written, too.
        fault_texts: What the texts of faults begin with, by reason and operation; a row without an
            operation is for the others.
        sequences: Whether messages may come, or must, in sequences.
        calls: What it decides for calls of Grid SOAP Events.
    """

    answers: Version | None = None
    known_events: bool = False
    event_is_root: bool = False
    lexical_names: bool = False
    fault_texts: Mapping[tuple[Reason, Operation | None], str] = field(
        default_factory=dict, hash=False
    )
    sequences: Sequences = Sequences.OFF
    calls: CallRules = USUAL_CALLS

    def fault_text(self, reason: Reason, operation: Operation | None) -> str:
        """What the text of a fault begins with; empty where nothing is prescribed."""
        texts = self.fault_texts
        return texts.get((reason, operation)) or texts.get((reason, None), "")


ANYWHERE = EndpointRules()


@checked_dataclass(frozen=True, slots=True)
class Arrival:
    """All that is known of a message besides its octets.

    ``source`` names the publisher; ``time`` is now; ``fresh_id`` is the id that a message
    without one gets. ``url_topic`` is the topic that the request's URL names, ``rules`` are those
    of its address. ``packaging`` is the package that it came in, with its ``attachments``.
    ``learnt`` collects the names of documents in its texts that are parsed, too.
    """

    source: str
    time: datetime
    fresh_id: str
    url_topic: Topic | None = None
    http_action: str | None = None
    attachments: tuple[Attachment, ...] = ()
    packaging: Packaging = Packaging.NONE
    rules: EndpointRules = ANYWHERE
    learnt: set[str] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Subscribe:
    consumer: EndpointReference
    filter: Filter = EVERYTHING
    expires: Expiry = UNSPECIFIED
    end_to: EndpointReference | None = None
    raw: bool = False
    dialect: str | None = None
    packaging: Packaging = Packaging.NONE
    """The package that the request came in, which its sender therefore can read."""
    data: DataForm = DataForm.AS_PUBLISHED
    rate: int = 0
    """Messages a minute that the consumer allows; 0 is any number."""
    secret: str = field(default="", repr=False)
    """What signs the messages; empty: nothing does."""
    delivery: DeliveryMode = PUSH
    calling: Calling | None = None
    """How the consumer is called, where it subscribed by a call."""
    bookmark: Bookmark | None = None
    """Go on with the subscription that this is of, from there."""


@dataclass(frozen=True, slots=True)
class Renew:
    expires: Expiry = UNSPECIFIED


@dataclass(frozen=True, slots=True)
class GetStatus:
    pass


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    pass


@dataclass(frozen=True, slots=True)
class Pause:
    pass


@dataclass(frozen=True, slots=True)
class Resume:
    pass


@dataclass(frozen=True, slots=True)
class GetCurrentMessage:
    topic: Topic


@dataclass(frozen=True, slots=True)
class GetProperties:
    """Resource properties by expanded name, in Clark notation; None asks for the document."""

    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class QueryProperties:
    """Evaluate a query, in whatever dialect it is, over the document of resource properties."""

    query: Expression


@dataclass(frozen=True, slots=True)
class ModifyProperties:
    """Insert, update or delete resource properties, by expanded name; None replaces the
    document."""

    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class SetTerminationTime:
    expires: Expiry


@dataclass(frozen=True, slots=True)
class Destroy:
    pass


# Frozen at run time, too: `PublishInSequence`, which is frozen, could not be made of it otherwise.
@dataclass(frozen=True, slots=True)
class Publish:
    """Events; their ``source`` and ``time`` are the caller's, given to `mediation.read`.
    ``answered``: the publisher waits for `Published`, as WS-Messenger's clients do.
    ``acknowledged``: it waits for `Acknowledged`; there may be no event at all, in a heartbeat."""

    notifications: tuple[Notification, ...]
    answered: bool = False
    acknowledged: bool = False


@dataclass(frozen=True, slots=True)
class AskForSubscriptions:
    """Tell a source of Windows events what it is wanted to send (MS-WSMV)."""


@dataclass(frozen=True, slots=True)
class EndOfExchange:
    """A source of Windows events says nothing more on this connection (MS-WSMV, End)."""


@dataclass(frozen=True, slots=True)
class EndOfSubscription:
    """SubscriptionEnd as a producer sends it to a subscriber: the last word of its status, and the
    reason."""

    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RegisterPublisher:
    """Announce a publisher, and the *topics* of its notifications: none means any. With *demand* it
    publishes to who subscribes at it, and is to be subscribed at while somebody wants its topics.
    """

    publisher: EndpointReference | None = None
    topics: tuple[Expression, ...] = ()
    demand: bool = False
    expires: Expiry = UNSPECIFIED


@dataclass(frozen=True, slots=True)
class DestroyRegistration:
    """End the registration to whose address it was sent."""


@dataclass(frozen=True, slots=True)
class SubscribePulling:
    """Subscribe, and fetch what comes from a mailbox that is made for it (ONVIF,
    CreatePullPointSubscription; WS-Management, mode Pull)."""

    filter: Filter = EVERYTHING
    expires: Expiry = UNSPECIFIED
    dialect: str | None = None
    delivery: DeliveryMode = PUSH


@dataclass(frozen=True, slots=True)
class RunSequence:
    """Make, ask about or end a sequence, or acknowledge one: as `Context.reliable` says."""


class MailboxService(Enum):
    """The service that makes a mailbox, which decides at which address its maker finds it."""

    PULL_POINT = "pull point"
    MESSAGE_BOX_2011 = "WS-Messenger's message box"
    MESSAGE_BOX_2004 = "XSUL's message box"


@dataclass(frozen=True, slots=True)
class CreateMailbox:
    """Make a mailbox for whatever its maker has sent there."""

    service: MailboxService = MailboxService.PULL_POINT


@dataclass(frozen=True, slots=True)
class DestroyMailbox:
    """Destroy a mailbox. ``lenient``: one that is not there is no error."""

    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Take:
    """Hand over what lies in a mailbox, oldest first: at most so many messages, None as many as
    there are; if there are none, wait so many seconds for one. ``octets``: of the messages
    together at most, None leaves that to us. ``lenient``: a mailbox that is not there is answered
    as an empty one. ``insists``: no message in time is a fault (``TIMED_OUT``)."""

    most: int | None = None
    wait: float = 0.0
    lenient: bool = False
    octets: int | None = None
    insists: bool = False


@dataclass(frozen=True, slots=True)
class TakeFor:
    """Hand over one message of those that wait for a consumer with this address
    (WS-MakeConnection)."""

    address: str


@dataclass(frozen=True, slots=True)
class StoreMessage:
    """Keep this envelope in the mailbox to whose address it was sent."""


@dataclass(frozen=True, slots=True)
class Synchronize:
    """Send the current messages of a subscription again (ONVIF, SetSynchronizationPoint)."""


@dataclass(frozen=True, slots=True)
class DescribeEvents:
    """ONVIF's GetEventProperties and GetServiceCapabilities."""


@dataclass(frozen=True, slots=True)
class Identify:
    """Tell the product and its release (WS-Management, Identify)."""


@dataclass(frozen=True, slots=True)
class GetMetadata:
    """Tell of the endpoint (WS-MetadataExchange): *wanted* are dialects, each with the identifier
    that documents in it shall have, or an empty one. A dialect is the namespace of its documents'
    root."""

    wanted: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DescribeDevice:
    """An operation of ONVIF's device service, which the context names. *categories*: those that
    GetCapabilities asks for; none means all. *detailed*: GetServices wants the capabilities too."""

    categories: frozenset[str] = frozenset()
    detailed: bool = False


Request = (
    Identify
    | GetMetadata
    | ListSubscriptions
    | DeleteSubscriptions
    | DescribeDevice
    | SubscribePulling
    | CreateMailbox
    | DestroyMailbox
    | Take
    | TakeFor
    | StoreMessage
    | Synchronize
    | DescribeEvents
    | Subscribe
    | Renew
    | GetStatus
    | Unsubscribe
    | Pause
    | Resume
    | GetCurrentMessage
    | GetProperties
    | QueryProperties
    | ModifyProperties
    | SetTerminationTime
    | Destroy
    | Publish
    | EndOfSubscription
    | AskForSubscriptions
    | EndOfExchange
    | RegisterPublisher
    | DestroyRegistration
    | RunSequence
)


@checked_dataclass(frozen=True, slots=True)
class Named:
    """The names of a subscription in a request, as the peer wrote them, the most trusted first.

    ``identifiers``: header blocks that may be reference parameters of ours, by expanded name.
    ``body``: an address inside the body (OSCARS, ServiceMix).
    """

    identifiers: tuple[str, ...] = ()
    to: str | None = None
    body: str | None = None


@dataclass(frozen=True, slots=True)
class ManagementHeaders:
    """The header blocks of WS-Management in a message.

    ``timeout``: seconds within which it is to be answered. ``max_envelope_size``: octets of the
    answer at most. ``ack``: its sender waits for an acknowledgement. ``bookmark``: the element with
    the source's bookmark of a delivery. ``machine``: the name of the machine that sends it.
    """

    resource: str | None = None
    timeout: float | None = None
    max_envelope_size: int | None = None
    ack: bool = False
    bookmark: bytes | None = None
    machine: str = ""


@checked_dataclass(frozen=True, slots=True)
class Context:
    """All that an answer needs to know of a message, as far as the message could be read.

    ``version`` is None for events and for what could not be recognised.
    """

    form: Form
    headers: MessageHeaders = NO_HEADERS
    version: Version | None = None
    operation: Operation | None = None
    element: str = ""
    """The expanded name of the body's first child."""
    header_namespaces: frozenset[str] = frozenset()
    managed: ManagementHeaders | None = None
    reliable: SequenceParts | None = None
    """What it says of sequences, where its endpoint has any; None where it says nothing."""

    @property
    def soap(self) -> Soap:
        """The version of SOAP.

        Raises:
            ValueError: The party speaks none.
        """
        if not isinstance(self.form, Soap):
            raise ValueError("the message is no SOAP")
        return self.form

    @property
    def wsa(self) -> Wsa | None:
        return self.headers.wsa

    @property
    def spec(self) -> Spec:
        """The versions that the party speaks; only a request of a known specification has them."""
        if self.version is None:
            raise ValueError("no specification was recognised")
        return Spec(self.version, self.form, self.wsa)


@checked_dataclass(frozen=True, slots=True)
class Incoming:
    """One message, read."""

    context: Context
    request: Request
    named: Named = Named()


class Rejected(Exception):
    """A message that could not be read, with the reason and with what an answer needs."""

    def __init__(self, context: Context, refused: Refused) -> None:
        super().__init__(str(refused))
        self.context = context
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The answer to Subscribe, Renew and GetStatus: the subscription as it now is."""

    subscription: Subscription
    now: datetime


@dataclass(frozen=True, slots=True)
class Done:
    """An answer that only says that the request was carried out."""


@dataclass(frozen=True, slots=True)
class CurrentMessage:
    notification: Notification


@dataclass(frozen=True, slots=True)
class Properties:
    """Resource properties: each expanded name with its elements as octets, in document order."""

    values: Mapping[str, bytes]
    names: tuple[str, ...] | None
    document: str
    """The expanded name of the document's root."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer to QueryProperties: XML content, elements with all namespaces that they use."""

    content: str


@dataclass(frozen=True, slots=True)
class TerminationTime:
    """The answer to SetTerminationTime; None is never."""

    new: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True)
class MailboxMade:
    """The answer to CreateMailbox: the capability that opens it, and its address at the service
    that was asked (the pull point, or the message box)."""

    key: str
    address: str


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to Take and TakeFor: whole envelopes (UTF-8), oldest first.

    *more*: others are left. *expires*: until when the subscription behind it lives; None never, or
    there is none. *key*: of the mailbox. *octets*: of the messages at most, as was asked.
    """

    envelopes: tuple[bytes, ...]
    more: bool
    now: datetime
    expires: datetime | None = None
    key: str = ""
    octets: int | None = None


@dataclass(frozen=True, slots=True)
class Events:
    """The answer to DescribeEvents: the topics known, the dialects spoken, and bounds; *fixed*:
    there are no other topics."""

    topics: tuple[Topic, ...]
    dialects: tuple[str, ...]
    most_mailboxes: int
    lease: timedelta
    fixed: bool = False


@checked_dataclass(frozen=True, slots=True)
class PublisherRegistered:
    """The answer to RegisterPublisher: the addresses of the registration, and of where to send
    notifications. ``wsa`` is the version of the publisher's own reference, where it had one."""

    registration: str
    consumer: str
    wsa: Wsa | None = None


@checked_dataclass(frozen=True, slots=True)
class Published:
    """The answer to a publication of WS-Messenger's clients: the id of its first event."""

    track_id: str


@dataclass(frozen=True, slots=True)
class SequenceAnswered:
    """The answer to RunSequence: an action, and the whole envelope."""

    action: str
    envelope: bytes


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The answer to a delivery whose sender waits for an acknowledgement (WS-Management): its
    events are durable."""


@dataclass(frozen=True, slots=True)
class SourceSubscription:
    """A subscription that a source of Windows events is to make for itself.

    ``address`` is where it sends to; ``query`` a ``QueryList``; ``version`` a UUID that changes
    with anything else; times are seconds. ``issuer``: the thumbprint of the authority of its
    certificate. ``existing``: what it has logged already is wanted, too. ``bookmark``: the element
    with the source's bookmark of what came last, behind which it is to go on.
    """

    name: str
    address: str
    query: str
    version: str
    message_id: str
    heartbeats: float
    max_time: float
    issuer: str | None = None
    existing: bool = False
    bookmark: bytes | None = None


@dataclass(frozen=True, slots=True)
class SourceSubscriptions:
    """The answer to AskForSubscriptions."""

    wanted: tuple[SourceSubscription, ...]


@dataclass(frozen=True, slots=True)
class NoContent:
    """The answer to EndOfExchange, without a message."""


@dataclass(frozen=True, slots=True)
class Identified:
    """The answer to Identify: the release of Dragoman that runs."""

    release: str


@dataclass(frozen=True, slots=True)
class MetadataSection:
    """One document of metadata: the expanded name of its root, what identifies it among those of
    its dialect, and its content (UTF-8)."""

    name: str
    identifier: str
    content: bytes

    @property
    def dialect(self) -> str:
        return self.name[1:].partition("}")[0]


@dataclass(frozen=True, slots=True)
class Metadata:
    """The answer to GetMetadata."""

    sections: tuple[MetadataSection, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """The answer to what is asked of ONVIF's device service.

    ``serial`` tells gateways apart. ``address`` is the gateway's public URL, without a slash at its
    end; ``events`` what GetServiceCapabilities of the event service answers.
    """

    request: DescribeDevice
    release: str
    serial: str
    address: str
    now: datetime
    events: Events


Response = (
    Subscribed
    | Done
    | CurrentMessage
    | Properties
    | QueryResult
    | SubscriptionsListed
    | SubscriptionsDeleted
    | TerminationTime
    | MailboxMade
    | Taken
    | Events
    | Published
    | PublisherRegistered
    | Acknowledged
    | SequenceAnswered
    | SourceSubscriptions
    | NoContent
    | Identified
    | Metadata
    | Device
)
