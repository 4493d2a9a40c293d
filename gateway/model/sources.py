"""Sources as values: subscriptions that the gateway holds at producers of others."""

from dataclasses import dataclass, field, replace
from enum import Enum

from mediation.model.delivery_modes import Mode
from mediation.model.messages import EndpointReference
from mediation.model.versions import Spec


class Wanted(Enum):
    """What is wanted of a source."""

    ON = "on"
    """Events."""
    OFF = "off"
    """No events just now: nobody subscribes to them."""
    REMOVED = "removed"


class State(Enum):
    """The state of a source; `gateway.sources.held_leases` has the table of its transitions."""

    IDLE = "idle"
    """There is no subscription, and none is wanted."""
    SUBSCRIBING = "subscribing"
    LIVE = "live"
    RENEWING = "renewing"
    CHECKING = "checking"
    """The producer was silent: its manager is asked whether the subscription is still there."""
    PAUSING = "pausing"
    PAUSED = "paused"
    RESUMING = "resuming"
    LOST = "lost"
    """The subscription is gone; the next one is due."""
    BACKING_OFF = "backing-off"
    """Something failed, and is tried again later."""
    REMOVING = "removing"
    """The producer is told that the subscription is not wanted any more."""
    REMOVED = "removed"


PASSWORD, BEARER, CERTIFICATE = "password", "bearer", "certificate"
"""Kinds of credentials, beside those of `gateway.egress.credential_kinds`: a password that answers
whatever the producer asks for, a token that operators give, a certificate in TLS alone."""
_OF_SETTINGS = "settings:"
"""What `Credential.sealed` begins with, where the secret is not in the store. Nothing encrypted
does."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a producer is shown.

    Attributes:
        user: Empty for kinds that have none.
        sealed: The password or token, encrypted by `gateway.security.password_cipher`; or where the
            settings have it (`of_settings`).
        basic: Whether the secret may be sent as it is over http, too.
        negotiate: Whether it is proved by Negotiate (Kerberos, NTLM), and by nothing else.
    """

    user: str
    sealed: str
    basic: bool = False
    negotiate: bool = False
    kind: str = PASSWORD

    @classmethod
    def of_settings(
        cls, name: str, user: str, *, basic: bool = False, negotiate: bool = False, kind: str
    ) -> "Credential":
        """The credential that the settings call *name*: nothing of it is in the store."""
        return cls(user, f"{_OF_SETTINGS}{name}", basic, negotiate, kind)

    @property
    def configured(self) -> str:
        """The name of the credential in the settings; empty where only `sealed` has its secret."""
        name = self.sealed.removeprefix(_OF_SETTINGS)
        return "" if name == self.sealed else name.partition(":")[0]

    @property
    def kept(self) -> str:
        """The encrypted secret: of one of the settings, the password as it was when the source was
        added, by which its subscription is ended when the settings have it no more; or empty."""
        return self.sealed.partition(":")[2].partition(":")[2] if self.configured else self.sealed

    def keeping(self, sealed: str) -> "Credential":
        """The same one of the settings, with this encrypted secret; an empty one is none."""
        name = f"{_OF_SETTINGS}{self.configured}"
        return replace(self, sealed=f"{name}:{sealed}" if sealed else name)


@dataclass(frozen=True, slots=True)
class Login:
    """What a producer wants to be shown, as an operator gives it.

    Attributes:
        user: Empty with a token.
        password: That of the user, or the token.
        basic: Whether the secret may be sent as it is over http, too.
        negotiate: Whether it is proved by Negotiate, and by nothing else.
        kind: `PASSWORD`, or `BEARER`.
    """

    user: str
    password: str = field(repr=False)
    basic: bool = False
    negotiate: bool = False
    kind: str = PASSWORD


@dataclass(frozen=True, slots=True)
class Source:
    """A source as it was added.

    Attributes:
        id: What logs and lists show.
        owner: The principal that added it; quotas count by it.
        url: The address of the producer.
        topic: The topic expression that is subscribed to, as a person says it.
        namespaces: Prefixes of *topic* and *xpath*.
        lease: Seconds that are asked for.
        publish_on: The topic of events that come without one; None leaves them without.
        silence: Seconds without a sign of life after which the producer is asked; 0 never asks.
        profile: The name of a row of `mediation.profiles.PRODUCERS`.
        registration: The id of the registration that added it; None: an operator.
        created: A POSIX time, as all times here.
        reference: The producer, where it is more than an address.
        actions: The actions that are subscribed to; none means any.
        resource: The URI of the resource of WS-Management that is subscribed to.
        mode: How its deliveries are made there.
        existing: The events that it has kept are wanted, too.
        credential: What the producer is shown, so that it knows who asks; None: nothing.
        channel: The name of the channel that its events are published at, empty: at none with a
            name; None: it is no link of a channel.
        example: The fields of an event that is an example of what is wanted.
        made_by: Where a link comes from, if an operator did not make it.
    """

    id: str
    owner: str
    url: str
    spec: Spec
    topic: str | None = None
    xpath: str | None = None
    namespaces: tuple[tuple[str, str], ...] = ()
    lease: float = 3600.0
    publish_on: str | None = None
    silence: float = 0.0
    profile: str = "standard"
    registration: str | None = None
    created: float = 0.0
    reference: EndpointReference | None = None
    actions: tuple[str, ...] = ()
    resource: str | None = None
    mode: Mode = Mode.PUSH
    channel: str | None = None
    example: tuple[tuple[str, str], ...] = ()
    made_by: str = ""
    existing: bool = False
    credential: Credential | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """How a source stands.

    Attributes:
        since: When it came into *state*.
        due: When something is to be done next; None: when something happens.
        key: The capability in the address that the subscription sends to.
        pending: That of a subscription that is being made.
        manager: The manager of the subscription, while it is believed to be there.
        former: That of an earlier subscription, which is ended once the next one is live, or none
            is wanted any more; never beside *manager*.
        expires: When the lease of *manager* or *former* surely is over; None: never, or there is
            none.
        renew: When the lease is to be renewed.
        asked: When the manager last answered.
        paused: Whether the producer was told to pause.
        plain: The producer was asked to pause, and cannot.
        parting: Whether *failures* are those of Unsubscribe.
        location: Where we told the producer of *manager* to send; empty where that is not known.
        failures: Exchanges that failed, in a row.
        error: What went wrong last; empty while nothing has.
    """

    state: State = State.IDLE
    since: float = 0.0
    due: float | None = None
    key: str | None = None
    pending: str | None = None
    manager: EndpointReference | None = None
    former: EndpointReference | None = None
    expires: float | None = None
    renew: float | None = None
    asked: float | None = None
    paused: bool = False
    plain: bool = False
    failures: int = 0
    error: str = ""
    error_at: float | None = None
    parting: bool = False
    location: str = ""


@dataclass(frozen=True, slots=True)
class EndTold:
    """A producer said that the subscription with *key* has ended, and why."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A source as the store has it; ``revision`` grows with each change of what is wanted and of
    how it stands. ``ended`` is what its producer said last of an end."""

    source: Source
    wanted: Wanted = Wanted.ON
    standing: Standing = Standing()
    events: int = 0
    last_event: float | None = None
    revision: int = 0
    ended: EndTold | None = None
