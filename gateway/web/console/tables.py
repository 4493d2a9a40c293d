"""The tables of the console, a row each: what the administration lists, which columns a page shows,
how a list is narrowed, and what can be done with what is ticked.

A list of the administration that operators should see is a row here; it needs no code.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from fastapi import HTTPException

from gateway.model.dead_letter_reasons import DeathReason


class Kind(Enum):
    """How a value is shown."""

    TEXT = "text"
    CODE = "code"
    """As a peer writes it: an address, a topic, an id."""
    STATE = "state"
    TIME = "time"
    BYTES = "bytes"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: the field of a row, with dots between the names of fields in fields.

    Attributes:
        page: The page that a value leads to, by the beginning of its address.
        sort: What the administration calls the order by this column; empty where it has none.
    """

    title: str
    field: str
    kind: Kind = Kind.TEXT
    page: str = ""
    sort: str = ""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A way to narrow a list: a parameter of the administration's request.

    Attributes:
        choices: All that it may be; none where anything may be typed.
        hint: An example.
    """

    name: str
    title: str
    choices: Sequence[str] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class FormField(Narrowing):
    """A field of what is added to a list: of the JSON of its request; ``ns`` has prefixes.

    Attributes:
        required: Nothing is added without it.
        several: It has several values, with semicolons between them.
    """

    required: bool = False
    several: bool = False


@dataclass(frozen=True, slots=True)
class Addition:
    """What a row is made of, by a POST to its list.

    Attributes:
        consequence: What will happen, said before it does.
        secret: The answer has what is told this once.
    """

    consequence: str
    fields: Sequence[FormField]
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    """What can be done with rows.

    Attributes:
        name: In addresses.
        verb: On the button.
        consequence: What will happen, said before it does.
        path: Behind the table's; ``{id}`` is a row's, and it is asked for each.
        body: Makes the JSON of a request for all rows at once, of their ids.
        each: The JSON of a request for one row.
        selected: Makes the JSON of a request for all that a list shows, of what narrows it; None
            where there is no such request.
        counted: Whether that request, with ``dry_run``, says how many there are.
        harmful: Something is lost by it.
        offered: Whether the page of a row offers it.
    """

    name: str
    verb: str
    consequence: str
    method: str = "DELETE"
    path: str = "/{id}"
    body: Callable[[Sequence[str]], object] | None = None
    each: Mapping[str, object] | None = None
    selected: Callable[[Mapping[str, str]], Mapping[str, object] | None] = lambda _: None
    counted: bool = False
    harmful: bool = True
    offered: Callable[[Mapping[str, Any]], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Related:
    """What the page of one row shows of another list.

    Attributes:
        table: That list's name.
        narrowing: The parameter by which it is narrowed to what concerns the row.
        field: The row's field which that has to be.
    """

    title: str
    table: str
    narrowing: str
    field: str


@dataclass(frozen=True, slots=True)
class Table:
    """A list of the administration.

    Attributes:
        name: In addresses; also of the path of the administration.
        rows: The field of an answer that has the rows.
        one: What one row is called.
        id: The field of a row's id.
        empty: What to do to have a first one.
        shown: Whether one row has a page of its own.
        has_payloads: Whether that page can show a message, which it does when it is asked to.
        related: What it shows of other lists.
        addition: What is asked for to add a row; None where that is not done here.
        may_act: The field of a row that says whether who sees it may act; empty: it may.
    """

    name: str
    title: str
    one: str
    rows: str
    columns: Sequence[Column]
    empty: str
    id: str = "id"
    narrowings: Sequence[Narrowing] = ()
    actions: Sequence[Action] = ()
    shown: bool = True
    has_payloads: bool = False
    related: Sequence[Related] = ()
    addition: Addition | None = None
    may_act: str = ""

    def offered_for(self, rows: Sequence[Mapping[str, Any]]) -> "Table":
        """This table with its actions, or without them where they are not for who sees *rows*."""
        if self.may_act and not all(row[self.may_act] for row in rows):
            return replace(self, actions=())
        return self

    def action(self, name: str) -> Action | None:
        return next((one for one in self.actions if one.name == name), None)


def value_of(row: Mapping[str, Any], field: str) -> Any:
    """The value at *field* in *row*; None where there is none."""
    value: Any = row
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _numbers(ids: Sequence[str]) -> object:
    return {"numbers": [int(one) for one in ids]}


def _all_so(narrowed: Mapping[str, str]) -> Mapping[str, object]:
    return narrowed or {"all": True}


def _all_refused(narrowed: Mapping[str, str]) -> Mapping[str, object] | None:
    return {"all": True} if narrowed == {"state": "refused"} else None


def _is_paused(row: Mapping[str, Any]) -> bool:
    return bool(row["paused"])


def _goes_on(row: Mapping[str, Any]) -> bool:
    return not row["paused"]


def _may_be_approved(row: Mapping[str, Any]) -> bool:
    return bool(row["agreement"] != "agreed")


def _may_be_forbidden(row: Mapping[str, Any]) -> bool:
    return bool(row["agreement"] != "forbidden")


_FILTER = (
    FormField("topic", "Topic", hint="storms//."),
    FormField("xpath", "XPath", hint="//w:speed > 100"),
    FormField("ns", "Prefixes", hint="w=urn:w"),
    FormField("lease", "Lease: seconds, or a duration", hint="PT1H"),
    FormField("publish_on", "Topic of events without one", hint="storms"),
)

SUBSCRIPTIONS = Table(
    "subscriptions",
    "Subscriptions",
    "subscription",
    "subscriptions",
    (
        Column("State", "state", Kind.STATE, sort="state"),
        Column("Consumer", "consumer", Kind.CODE, sort="consumer"),
        Column("Topics", "topics", Kind.CODE, sort="topic"),
        Column("Dialect", "spec", sort="spec"),
        Column("Delivered", "counts.delivered", Kind.NUMBER),
        Column("Waiting", "counts.waiting", Kind.NUMBER),
        Column("Dead", "counts.dead", Kind.NUMBER),
        Column("Last error", "delivery.last_error"),
        Column("Next attempt", "delivery.next_attempt", Kind.TIME),
        Column("Created", "created", Kind.TIME, sort="created"),
        Column("Expires", "expires", Kind.TIME, sort="expires"),
        Column("Owner", "owner", Kind.CODE, sort="owner"),
    ),
    "Nobody subscribes yet. `dragoman listen` makes a subscription, and shows what arrives.",
    narrowings=(
        Narrowing("state", "State", ("active", "failing", "paused", "expired", "unknown")),
        Narrowing("topic", "Topic", hint="storms/coast"),
        Narrowing("consumer", "Consumer", hint="http://consumer.example/*"),
        Narrowing("spec", "Dialect", hint="wse-2004-08"),
        Narrowing("owner", "Owner", hint="anonymous:10.0.0.7"),
    ),
    actions=(
        Action(
            "pause",
            "Pause",
            "Nothing is sent until the subscription is resumed. What waits is kept; what is "
            "published meanwhile passes it by, unless the setting `hold_while_paused` holds it.",
            method="POST",
            path="/{id}/pause",
            each={},
            harmful=False,
            offered=_goes_on,
        ),
        Action(
            "hold",
            "Pause and hold",
            "Nothing is sent until the subscription is resumed. What is published meanwhile waits "
            "for it, within the bounds of any backlog.",
            method="POST",
            path="/{id}/pause",
            each={"hold": True},
            harmful=False,
            offered=_goes_on,
        ),
        Action(
            "resume",
            "Resume",
            "What waits for the subscription is sent, and what is published from now on.",
            method="POST",
            path="/{id}/resume",
            harmful=False,
            offered=_is_paused,
        ),
        Action(
            "renew",
            "Renew",
            "The lease begins anew, as long as the gateway grants one.",
            method="POST",
            path="/{id}/renew",
            each={},
            harmful=False,
        ),
        Action(
            "delete",
            "End",
            "The subscription ends, and its subscriber is told where it asked for that. What waits "
            "for it is dropped. It cannot be undone.",
        ),
    ),
)

DEAD_LETTERS = Table(
    "deadletters",
    "Dead letters",
    "dead letter",
    "dead_letters",
    (
        Column("Died", "died", Kind.TIME),
        Column("Reason", "reason", Kind.STATE),
        Column("Consumer", "consumer", Kind.CODE),
        Column("Topic", "topic", Kind.CODE),
        Column("Failure", "failure"),
        Column("Attempts", "attempts", Kind.NUMBER),
        Column("Size", "bytes", Kind.BYTES),
        Column("Message", "published_id", Kind.CODE, "messages"),
    ),
    "Nothing has died: each message was delivered, or waits.",
    id="number",
    narrowings=(
        Narrowing("reason", "Reason", tuple(one.value for one in DeathReason)),
        Narrowing("topic", "Topic", hint="storms//."),
        Narrowing("subscription", "Subscription"),
        Narrowing("message", "Message"),
    ),
    actions=(
        Action(
            "redrive",
            "Redrive",
            "The message is delivered again, to its subscription if that still exists.",
            method="POST",
            path="/redrive",
            body=_numbers,
            selected=_all_so,
            counted=True,
            harmful=False,
        ),
        Action(
            "purge",
            "Purge",
            "The message is thrown away. It cannot be undone.",
            method="POST",
            path="/purge",
            body=_numbers,
            selected=_all_so,
            counted=True,
        ),
    ),
    has_payloads=True,
)

SPOOL = Table(
    "spool",
    "Spool",
    "spooled message",
    "messages",
    (
        Column("State", "state", Kind.STATE),
        Column("Since", "since", Kind.TIME),
        Column("Topic", "topic", Kind.CODE),
        Column("Publisher", "publisher", Kind.CODE),
        Column("Reason", "reason"),
        Column("Size", "bytes", Kind.BYTES),
        Column("Message", "message_id", Kind.CODE, "messages"),
    ),
    "Nothing waits for the messaging system.",
    id="number",
    narrowings=(Narrowing("state", "State", ("waiting", "refused")),),
    actions=(
        Action(
            "retry",
            "Try again",
            "The message is given to the messaging system again.",
            method="POST",
            path="/retry",
            body=_numbers,
            selected=_all_refused,
            harmful=False,
        ),
        Action(
            "discard",
            "Discard",
            "The message is thrown away. It cannot be undone.",
            method="POST",
            path="/discard",
            body=_numbers,
            selected=_all_refused,
        ),
    ),
    has_payloads=True,
)

SOURCES = Table(
    "sources",
    "Sources",
    "source",
    "sources",
    (
        Column("State", "state", Kind.STATE),
        Column("Producer", "url", Kind.CODE),
        Column("Dialect", "spec"),
        Column("Topic", "topic", Kind.CODE),
        Column("Events", "events", Kind.NUMBER),
        Column("Last event", "last_event", Kind.TIME),
        Column("Failures", "failures", Kind.NUMBER),
        Column("Last error", "last_error"),
        Column("Next exchange", "next", Kind.TIME),
        Column("Added by", "added_by"),
    ),
    "The gateway subscribes nowhere. `dragoman sources add URL` has it subscribe at a producer.",
    actions=(Action("delete", "Remove", "The gateway unsubscribes there. It cannot be undone."),),
    addition=Addition(
        "The gateway subscribes at a producer, keeps that up, and publishes what it sends. Where "
        "the producer asks for a password or a token, use `dragoman sources add`.",
        (
            FormField("url", "URL of the producer", hint="http://camera.example/", required=True),
            FormField("spec", "Dialect", hint="wsn-1.3"),
            *_FILTER,
        ),
    ),
)

CHANNELS = Table(
    "channels",
    "Channels",
    "channel",
    "channels",
    (
        Column("Name", "name", Kind.CODE),
        Column("Address", "address", Kind.CODE),
        Column("XPath", "xpath", Kind.CODE),
        Column("Subscriptions", "subscriptions", Kind.NUMBER),
        Column("Made by", "made_by"),
    ),
    "There is no channel. `dragoman channels add` makes one.",
    id="name",
    actions=(Action("delete", "Delete", "The channel goes, and the subscriptions at it end."),),
    addition=Addition(
        "What is published at /soap/channel/NAME, and passes its filter, goes to those who "
        "subscribed there.",
        (FormField("name", "Name", hint="lab", required=True), *_FILTER[1:3]),
    ),
)

LINKS = Table(
    "links",
    "Links",
    "link",
    "links",
    (
        Column("State", "state", Kind.STATE),
        Column("Channel", "channel", Kind.CODE),
        Column("Other gateway", "url", Kind.CODE),
        Column("Dialect", "spec"),
        Column("Topic", "topic", Kind.CODE),
        Column("Failures", "failures", Kind.NUMBER),
        Column("Last error", "last_error"),
        Column("Expires", "expires", Kind.TIME),
    ),
    "No channel is linked with another gateway's. `dragoman channels link` links one.",
    actions=(Action("delete", "Remove", "The gateway unsubscribes there. It cannot be undone."),),
    addition=Addition(
        "A channel subscribes at another gateway's, and keeps that up: what comes there comes "
        "here, too.",
        (
            FormField("url", "URL of the other channel", hint="http://b.example/", required=True),
            FormField("channel", "Our channel; empty: the one without a name", hint="lab"),
            FormField("spec", "Dialect", hint="grid-events"),
            *_FILTER,
        ),
    ),
)

RELAYS = Table(
    "relays",
    "Relays",
    "relay",
    "relays",
    (
        Column("Relay", "id", Kind.CODE),
        Column("Location", "location", Kind.CODE),
        Column("Under way", "under_way", Kind.NUMBER),
        Column("Made by", "made_by"),
    ),
    "There is no relay. `POST /api/v1/relays` makes one.",
    actions=(Action("delete", "Delete", "Who has its address is refused from now on."),),
    addition=Addition(
        "Whoever is told its address, which is shown once, reaches the service behind it.",
        (
            FormField(
                "location", "URL of the service", hint="http://10.0.0.7/service", required=True
            ),
        ),
        secret=True,
    ),
    shown=False,
)

MAILBOXES = Table(
    "mailboxes",
    "Mailboxes",
    "mailbox",
    "mailboxes",
    (
        Column("Mailbox", "id", Kind.CODE),
        Column("Kind", "kind"),
        Column("Messages", "messages", Kind.NUMBER),
        Column("Size", "bytes", Kind.BYTES),
        Column("Dropped", "dropped", Kind.NUMBER),
        Column("Used", "used", Kind.TIME),
        Column("Created", "created", Kind.TIME),
        Column("Owner", "owner", Kind.CODE),
    ),
    "There is no mailbox. `dragoman listen --pull` makes one.",
    actions=(
        Action("delete", "Delete", "The mailbox goes with all that it holds. It cannot be undone."),
    ),
)

SEQUENCES = Table(
    "sequences",
    "Sequences",
    "sequence",
    "sequences",
    (
        Column("State", "state", Kind.STATE),
        Column("Sequence", "id", Kind.CODE),
        Column("Direction", "direction"),
        Column("Version", "version"),
        Column("Received", "received", Kind.CODE),
        Column("Waiting", "waiting", Kind.NUMBER),
        Column("Acknowledged to", "acknowledged_to", Kind.CODE),
        Column("Last message", "last_message", Kind.TIME),
        Column("Expires", "expires", Kind.TIME),
    ),
    "No peer has a sequence of WS-ReliableMessaging.",
    actions=(
        Action("delete", "Terminate", "The sequence ends: what it did not finish is given up."),
    ),
)

TOPICS = Table(
    "topics",
    "Topics",
    "topic",
    "topics",
    (
        Column("Topic", "topic", Kind.CODE),
        Column("Origin", "origin"),
        Column("Last message", "last_message.accepted", Kind.TIME),
        Column("Owner", "owner.id", Kind.CODE),
        Column("Synopsis", "synopsis"),
        Column("Created", "created", Kind.TIME),
        Column("Expires", "expires", Kind.TIME),
    ),
    "No topic is known. Publish something: `dragoman publish --topic storms storm.xml`.",
    narrowings=(Narrowing("q", "Words", hint="storm harbour"),),
    related=(
        Related("Who subscribes", "subscriptions", "topic", "topic"),
        Related("Dead letters", "deadletters", "topic", "topic"),
    ),
)

MESSAGES = Table(
    "messages",
    "Messages",
    "message",
    "messages",
    (
        Column("Accepted", "at", Kind.TIME),
        Column("Topic", "topic", Kind.CODE),
        Column("Publisher", "by", Kind.CODE),
        Column("Size", "bytes", Kind.BYTES),
        Column("Message", "id", Kind.CODE),
    ),
    "No message is kept whole: the setting `console_messages` says how many of the last are. What "
    "passes is shown under Live.",
)

DESTINATIONS = Table(
    "destinations",
    "Destinations",
    "destination",
    "destinations",
    (
        Column("Destination", "destination", Kind.CODE),
        Column("Agreement", "agreement"),
        Column("Why", "why"),
        Column("Failures", "failures", Kind.NUMBER),
        Column("Last error", "last_error"),
        Column("Last failure", "last_failure", Kind.TIME),
    ),
    "No delivery has failed since the start, and no host is on probation.",
    id="host",
    actions=(
        Action(
            "approve",
            "Approve",
            "The host counts as one that agreed: what strangers subscribe there is sent, without "
            "probation.",
            method="POST",
            path="/{id}/approve",
            harmful=False,
            offered=_may_be_approved,
        ),
        Action(
            "forbid",
            "Forbid",
            "Nothing is sent to the host any more, and nobody can subscribe it. What waits for it "
            "is kept, and becomes a dead letter when it has waited for too long.",
            method="POST",
            path="/{id}/forbid",
            offered=_may_be_forbidden,
        ),
        Action(
            "reset",
            "Reset",
            "What an operator has decided about the host is forgotten.",
            method="POST",
            path="/{id}/reset",
            harmful=False,
        ),
    ),
    shown=False,
    may_act="decides",
)

_KEPT = (
    Column("Kept in", "kept_in"),
    Column("Kept by", "kept_by", Kind.CODE),
    Column("Problem", "problem"),
)

USERS = Table(
    "users",
    "Users",
    "user",
    "users",
    (
        Column("Name", "name", Kind.CODE),
        Column("Roles", "roles", Kind.CODE),
        Column("Tenant", "tenant", Kind.CODE),
        Column("Proves itself by", "proofs"),
        Column("Keys", "keys", Kind.NUMBER),
        *_KEPT,
    ),
    "There is no user.",
    id="name",
    actions=(
        Action(
            "delete",
            "Remove",
            "The user goes with its keys, and what it subscribed to gets nothing more. Who is in "
            "the file of identities is removed there.",
        ),
    ),
    addition=Addition(
        "The user is kept in the store; with the name of one that is there it gets these roles. It "
        "proves itself by a key, which is made next; for a password, use `dragoman users add`.",
        (
            FormField("name", "Name", hint="maria", required=True),
            FormField("roles", "Roles, with ; between", hint="nurses", several=True),
            FormField("tenant", "Tenant", hint="acme"),
        ),
    ),
    shown=False,
)

KEYS = Table(
    "keys",
    "Keys",
    "key",
    "keys",
    (
        Column("State", "state", Kind.STATE),
        Column("Key", "id", Kind.CODE),
        Column("User", "user", Kind.CODE),
        Column("May", "may", Kind.CODE),
        Column("Expires", "expires", Kind.TIME),
        *_KEPT,
    ),
    "There is no API key.",
    actions=(
        Action(
            "delete",
            "Remove",
            "Whoever has the key is nobody from now on. One in the file of identities is removed "
            "there.",
        ),
    ),
    addition=Addition(
        "Whoever is given the key, which is shown once, is its user.",
        (
            FormField("user", "User", hint="maria", required=True),
            FormField(
                "may", "Less than the user may, with ; between", hint="publish", several=True
            ),
            FormField("days", "Days after which it expires", hint="365"),
        ),
        secret=True,
    ),
    shown=False,
)

RULES = Table(
    "rights",
    "Rules",
    "rule",
    "rules",
    (
        Column("Rule", "id", Kind.CODE),
        Column("Who", "who", Kind.CODE),
        Column("May", "may", Kind.CODE),
        Column("Topics", "topics", Kind.CODE),
        Column("Tenant", "tenant", Kind.CODE),
        Column("Authority", "authority", Kind.CODE),
        *_KEPT,
    ),
    "There is no rule: nobody may anything.",
    actions=(
        Action(
            "delete",
            "Remove",
            "What the rule granted ends within a second. One in the file of identities is removed "
            "there.",
        ),
    ),
    addition=Addition(
        "The rule grants rights at once.",
        (
            FormField(
                "who", "Who, with ; between", hint="role:nurses", required=True, several=True
            ),
            FormField(
                "may", "May, with ; between", hint="subscribe; manage", required=True, several=True
            ),
            FormField("topics", "Topics, with ; between", hint="ward//.", several=True),
            FormField("ns", "Prefixes", hint="w=urn:w"),
            FormField("tenant", "Tenant", hint="acme"),
        ),
    ),
    shown=False,
)

OF_IDENTITIES = (USERS, KEYS, RULES)
"""Those that a gateway without identities does not have."""

TABLES: Mapping[str, Table] = {
    one.name: one
    for one in (
        SUBSCRIPTIONS, TOPICS, MESSAGES, DEAD_LETTERS, SPOOL, SOURCES, CHANNELS, LINKS, RELAYS,
        MAILBOXES, SEQUENCES, DESTINATIONS, *OF_IDENTITIES,
    )
}  # fmt: skip
"""In the order of the navigation."""


def table_of(name: str) -> Table:
    """The table of a *name* in addresses.

    Raises:
        HTTPException: 404: there is none.
    """
    table = TABLES.get(name)
    if table is None:
        raise HTTPException(404, "The console has no such page.")
    return table
