"""The ways in which a party publishes and is notified, as rows: a specification in its version, the
WS-Addressing that goes with it, raw or wrapped, the dialect of topics."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from filters import dialects
from mediation import names
from mediation.model.delivery_modes import PUSH, DeliveryMode, Mode
from mediation.model.facts import BARE, TOPICS, WRAPPED, Fact
from mediation.model.messages import EndpointReference, Lease, Policy, Subscription
from mediation.model.requests import Operation
from mediation.model.specification import EnvelopeParts, Wrapping
from mediation.model.versions import EventForm, Form, Soap, Spec, Version, Wsa
from mediation.rendering import Shape, SoapShape, shape_of


@dataclass(frozen=True, slots=True)
class Fetching:
    """The operation by which a consumer fetches what was kept for it.

    Attributes:
        keeps: What its answer still says of what the message said. A mailbox keeps no attachments.
    """

    version: Version
    operation: Operation
    keeps: frozenset[Fact]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way in which a party publishes, or is notified.

    Attributes:
        name: As ``dragoman demo`` takes it.
        version: The specification of its messages.
        wsa: The WS-Addressing of headers and references.
        forms: Those in which it is spoken, the usual one last.
        raw: A subscriber asks for the bare payload.
        delivery: The delivery mode that a subscriber asks for.
        topics: The dialect of a subscriber's topics, which its notifications have; None leaves
            it to the gateway.
        says: What is read of its publications; empty where nobody publishes in it.
        notified: A party subscribes in it.
        fetching: How its consumer fetches; None where it is sent to.
    """

    name: str
    title: str
    version: Version
    wsa: Wsa
    forms: tuple[Form, ...] = tuple(Soap)
    raw: bool = False
    delivery: DeliveryMode = PUSH
    topics: str | None = None
    says: frozenset[Fact] = frozenset()
    notified: bool = True
    fetching: Fetching | None = None

    def subscription(self, consumer: str, form: Form | None = None) -> Subscription:
        """A subscription of a consumer that is notified in it."""
        return Subscription(
            key="",
            id="",
            owner="",
            spec=Spec(self.version, form or self.forms[-1], self.wsa),
            consumer=EndpointReference(consumer, self.wsa),
            lease=Lease(_SOME_TIME, None),
            policy=Policy(raw=self.raw, dialect=self.topics, delivery=self.delivery),
        )

    def shape(self, form: Form | None = None) -> Shape:
        """The shape of its notifications, in the usual form where none is said."""
        shape = shape_of(self.subscription("", form))
        if self.delivery.batched and isinstance(shape, SoapShape):
            return replace(shape, wrapping=_BATCH)
        return shape

    @property
    def in_soap(self) -> bool:
        """Whether it is spoken in SOAP."""
        return isinstance(self.forms[-1], Soap)

    @property
    def tells(self) -> frozenset[Fact]:
        """The facts of an event that its consumers read."""
        if not self.notified:
            return frozenset()
        tells = self.shape().tells
        return tells if self.fetching is None else tells & self.fetching.keeps


_BATCH = Wrapping(
    lambda topic, producer, dialect, wsa: EnvelopeParts(),
    default_action=names.WSMAN_EVENT,
    tells=frozenset({Fact.ACTION, Fact.EXPIRY, Fact.SIGNATURE}),
)
"""What a batch of WS-Management says of each of its events."""
_SOME_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_EVENT = BARE | {Fact.ID}
_NOTIFY = (WRAPPED | {Fact.ID, Fact.SEVERAL}) - {Fact.SUBSCRIPTION}
_OLD_SOAP_FIRST = (Soap.V1_2, Soap.V1_1)
_IN_NOTIFY = WRAPPED - {Fact.HEADERS, Fact.ATTACHMENTS, Fact.EXPIRY}

_ROWS = (
    Dialect(
        "wse-2004-08",
        "WS-Eventing 2004/08",
        Version.WSE_2004_08,
        Wsa.V2004_08,
        raw=True,
        says=_EVENT,
    ),
    Dialect(
        "dpws-1.1",
        "WS-Eventing 2004/08 of DPWS 1.1, with WS-Addressing 1.0",
        Version.WSE_2004_08,
        Wsa.V2005_08,
        (Soap.V1_2,),
        raw=True,
        says=_EVENT,
    ),
    Dialect(
        "wsman-events",
        "WS-Management, in batches (mode Events)",
        Version.WSE_2004_08,
        Wsa.V2004_08,
        (Soap.V1_2,),
        raw=True,
        delivery=DeliveryMode(Mode.EVENTS, max_elements=10),
        says=(_EVENT - TOPICS) | {Fact.SEVERAL},
    ),
    Dialect(
        "wse-2011-03",
        "WS-Eventing 2011/03, unwrapped",
        Version.WSE_2011_03,
        Wsa.V2005_08,
        raw=True,
        says=_EVENT,
    ),
    Dialect(
        "wse-2011-03-wrap",
        "WS-Eventing 2011/03, wrapped",
        Version.WSE_2011_03,
        Wsa.V2005_08,
        says=_EVENT | {Fact.SEVERAL},
    ),
    Dialect(
        "ws-messenger",
        "WS-Eventing 2004/08 of WS-Messenger",
        Version.WSE_2004_08,
        Wsa.V2005_08,
        (Soap.V1_1,),
        raw=True,
        topics=dialects.TOPIC_IBM_SIMPLE,
        says=(_EVENT | {Fact.TOPIC_ELEMENT}) - {Fact.LEVELS, Fact.NAMESPACES},
    ),
    Dialect(
        "wsn-1.3",
        "WS-BaseNotification 1.3, wrapped",
        Version.WSN_1_3,
        Wsa.V2005_08,
        says=_NOTIFY,
    ),
    Dialect(
        "wsn-1.3-raw",
        "WS-BaseNotification 1.3, raw",
        Version.WSN_1_3,
        Wsa.V2005_08,
        raw=True,
        says=_EVENT - TOPICS,
    ),
    *(
        Dialect(
            f"cloudevents-{form.value}",
            f"CloudEvents 1.0, {form.value} mode",
            Version.CLOUDEVENTS,
            Wsa.V2005_08,
            (form,),
            says=(
                TOPICS
                | {Fact.ACTION, Fact.ID, Fact.ATTRIBUTES, Fact.EXPIRY, Fact.SIGNATURE}
                | ({Fact.SEVERAL} if form is EventForm.BATCHED else frozenset())
            ),
        )
        for form in EventForm
    ),
    Dialect(
        "grid-events",
        "Grid SOAP Events",
        Version.GRID_EVENTS,
        Wsa.V2004_08,
        (Soap.V1_1,),
        says=TOPICS | {Fact.HEADERS, Fact.ID, Fact.EXPIRY, Fact.SIGNATURE},
    ),
    Dialect(
        "wsn-1.2",
        "WS-BaseNotification 1.2 of Globus Toolkit 4, wrapped",
        Version.WSN_1_2,
        Wsa.V2004_03,
        _OLD_SOAP_FIRST,
        says=_NOTIFY,
    ),
    Dialect(
        "wsn-1.2-raw",
        "WS-BaseNotification 1.2 of Globus Toolkit 4, raw",
        Version.WSN_1_2,
        Wsa.V2004_03,
        _OLD_SOAP_FIRST,
        raw=True,
    ),
    Dialect(
        "wsn-1.0",
        "WS-BaseNotification 1.0 of WS-Messenger, wrapped",
        Version.WSN_1_0,
        Wsa.V2005_08,
        _OLD_SOAP_FIRST,
        topics=dialects.TOPIC_IBM_SIMPLE,
        says=(_NOTIFY | {Fact.TOPIC_ELEMENT}) - {Fact.LEVELS, Fact.NAMESPACES},
    ),
    Dialect(
        "wsn-1.0-raw",
        "WS-BaseNotification 1.0 of WS-Messenger, raw",
        Version.WSN_1_0,
        Wsa.V2005_08,
        _OLD_SOAP_FIRST,
        raw=True,
        topics=dialects.TOPIC_IBM_SIMPLE,
    ),
    Dialect(
        "pull-point",
        "WS-BaseNotification 1.3, fetched by GetMessages",
        Version.WSN_1_3,
        Wsa.V2005_08,
        fetching=Fetching(Version.WSN_1_3, Operation.GET_MESSAGES, _IN_NOTIFY),
    ),
    Dialect(
        "onvif",
        "ONVIF, fetched by PullMessages",
        Version.WSN_1_3,
        Wsa.V2005_08,
        topics=dialects.TOPIC_CONCRETE_SET,
        fetching=Fetching(Version.WSN_1_3, Operation.PULL_MESSAGES, _IN_NOTIFY),
    ),
    Dialect(
        "msgbox-2011",
        "WS-Messenger's message box, fetched by takeMessages",
        Version.WSE_2004_08,
        Wsa.V2005_08,
        (Soap.V1_1,),
        raw=True,
        topics=dialects.TOPIC_IBM_SIMPLE,
        fetching=Fetching(
            Version.MESSAGE_BOX_2011, Operation.TAKE_MESSAGES, frozenset({Fact.SIGNATURE})
        ),
    ),
    Dialect(
        "msgbox-2004",
        "XSUL's message box, fetched by takeMessages",
        Version.WSE_2004_08,
        Wsa.V2004_08,
        (Soap.V1_1,),
        raw=True,
        fetching=Fetching(
            Version.MESSAGE_BOX_2004, Operation.TAKE_MESSAGES, BARE - {Fact.ATTACHMENTS}
        ),
    ),
)

DIALECTS: Mapping[str, Dialect] = {row.name: row for row in _ROWS}
PUBLISHING = tuple(row for row in _ROWS if row.says)
"""The dialects in which one publishes."""
NOTIFIED = tuple(row for row in _ROWS if row.notified)
"""The dialects in which one is notified."""
