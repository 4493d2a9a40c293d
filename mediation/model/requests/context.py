"""Facts about a message besides its request: its way here, its headers."""

from dataclasses import dataclass, field
from datetime import datetime

from filters import Refused, Topic
from mediation.model.messages import NO_HEADERS, Attachment, MessageHeaders, Packaging
from mediation.model.requests.endpoint_rules import ANYWHERE, EndpointRules
from mediation.model.requests.operations import Operation
from mediation.model.requests.sequences import SequenceParts
from mediation.model.values import checked_dataclass
from mediation.model.versions import Form, Soap, Spec, Version, Wsa


@dataclass(frozen=True, slots=True)
class TopicRules:
    """Rules for reading topics of publications. ``prefixes`` are pairs of a prefix that is not
    declared, and what it stands for then. With ``set_aside`` those of WS-Notification that cannot
    be read are, and the others are published; else they are refused together."""

    prefixes: tuple[tuple[str, str], ...] = ()
    set_aside: bool = False


STRICT = TopicRules()


@checked_dataclass(frozen=True, slots=True)
class Arrival:
    """All that is known of a message besides its octets.

    ``source`` names the publisher; ``time`` is now; ``fresh_id`` is the id that a message
    without one gets. ``url_topic`` is the topic that the request's URL names, ``rules`` are those
    of its address, ``topics`` those of topics from its sender. ``packaging`` is the package that it
    came in, with its ``attachments``. ``learnt`` collects the names of documents in its texts that
    are parsed, too.
    """

    source: str
    time: datetime
    fresh_id: str
    url_topic: Topic | None = None
    http_action: str | None = None
    attachments: tuple[Attachment, ...] = ()
    packaging: Packaging = Packaging.NONE
    rules: EndpointRules = ANYWHERE
    topics: TopicRules = STRICT
    learnt: set[str] | None = field(default=None, compare=False, repr=False)


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
            raise ValueError("the message is not SOAP")
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


class Rejected(Exception):
    """A message that could not be read, with the reason and with what an answer needs."""

    def __init__(self, context: Context, refused: Refused) -> None:
        super().__init__(str(refused))
        self.context = context
        self.refused = refused
