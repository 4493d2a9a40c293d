"""Why a subscription gets its messages or does not, step by step, for operators."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from lxml import etree

from filters import Event, Filter, Topic, View, compile, parse_document, parse_topics
from filters.dialects import TOPIC_CONCRETE
from filters.explaining import explain as explain_filter
from gateway.delivery import Dispatchers, Entry
from gateway.delivery.status import Condition, DeliveryStatus
from gateway.egress import AddressPolicy, AddressRefused, Target
from gateway.egress.addresses import DEFAULT_PORTS
from gateway.egress.resolver import SystemResolver
from gateway.mailboxes.transport import SCHEME
from gateway.model.hosts import IPAddress
from gateway.model.moments import moment_of
from gateway.publishing.topics import TopicsSeen
from gateway.security.keys import message_urn
from gateway.security.principals import tenant_of
from gateway.security.resource_addresses import shown
from gateway.store import Store, totals
from gateway.store import waiting_deliveries as rows
from mediation.filtering import of_producer
from mediation.model.messages import CatchingUp, Notification
from mediation.rendering import filter_event_of
from mediation.tenants import tenant_of_topic, topic_without_tenant

TOPICS = 2000
"""Topics, the latest, that are matched against a topic expression."""
NAMED = 20
"""Covered topics that are named."""
LOOK_UP = 3.0
"""Seconds that the look-up of a consumer's name may take."""
_VERDICTS = {
    True: "matches the message",
    False: "does not match the message",
    None: "is too expensive to be evaluated here",
}
_DETAILS = 200
"""Lines of the explanation of a filter."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that must be so for messages to arrive. ``holds`` is None where it is not known."""

    name: str
    holds: bool | None
    text: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it might be published: a payload, an XML document, on a topic, where one is
    named."""

    payload: bytes
    topic: str | None = None
    namespaces: tuple[tuple[str, str], ...] = ()

    def notification(self) -> Notification:
        """The notification that would be matched.

        Raises:
            Refused: The payload is not XML that a gateway takes, or the topic is not a topic.
        """
        root = parse_document(self.payload)
        topic: Topic | None = None
        if self.topic is not None:
            topics = parse_topics(self.topic, TOPIC_CONCRETE, self.namespaces)
            topic = next(iter(topics), None)
        return Notification(
            id=message_urn(),
            source="urn:dragoman:explain",
            payload=etree.tostring(root, encoding="utf-8", with_tail=False),
            time=datetime.now(UTC),
            topic=topic,
        )


_FORBIDDEN = {
    "egress_allow": "is, or resolves to, an inside address",
    "deliver_to_self": "is this gateway",
    "egress_schemes": "has a scheme that is not sent to",
}
"""What the policy has against an address, by the setting that would allow it."""


class Explainer:
    """Explains subscriptions of this gateway.

    Args:
        topics: Those that were published on.
        policy: Which addresses may be sent to.
        producer: Returns the documents of the producer that views name, as they are now.
        proxied: Whether a proxy sends messages on, and resolves names.
        delivered_by: Says which replica this one is, and the partitions that it holds; None where
            nothing is shared.
    """

    def __init__(
        self,
        store: Store,
        dispatchers: Dispatchers,
        topics: TopicsSeen,
        policy: AddressPolicy,
        producer: Callable[[Collection[View]], Awaitable[Mapping[View, bytes]]],
        *,
        proxied: bool,
        delivered_by: Callable[[], str | None],
    ) -> None:
        self._store = store
        self._dispatchers = dispatchers
        self._topics = topics
        self._policy = policy
        self._producer = producer
        self._proxied = proxied
        self._delivered_by = delivered_by

    async def explain(self, entry: Entry, message: Message | None = None) -> list[Step]:
        """Why *entry* gets what is published, or, with a *message*, whether it would get that.

        Raises:
            Refused: *message* could not be published.
        """
        subscription = entry.subscription
        notification = None
        if message is not None:  # In a thread: it may be large.
            notification = await asyncio.to_thread(message.notification)
        steps = [_subscription(entry), _lease(entry, datetime.now(UTC)), _paused(entry)]
        channel = subscription.policy.channel
        if channel:
            text = (
                f"at the channel {channel}: it gets what is published there, and passes its filter"
            )
            steps.append(Step("channel", True, text))
        threads = ThreadPoolExecutor(1, "explaining")
        try:
            # What was published at channels with names is not among them.
            topics = None if channel else self._topics_of(tenant_of(subscription.owner))
            filter_ = subscription.filter
            views = {one.view for one in filter_.contents if of_producer(one)}
            documents = await self._producer(views) if views else {}
            work = partial(_matched, filter_, notification, topics, documents)
            steps += await asyncio.get_running_loop().run_in_executor(threads, work)
        finally:
            threads.shutdown(wait=False)
        status = self._dispatchers.status(entry)
        steps.append(_partitions(self._delivered_by(), status))
        steps.append(await self._address(entry.target))
        steps += _deliveries(status)
        steps.append(await self._counts(entry))
        return steps

    def _topics_of(self, tenant: str) -> tuple[Topic, ...]:
        """The topics that were last published on in *tenant*, as it knows them."""
        seen = (one for one in self._topics.topics() if tenant_of_topic(one) == tenant)
        named = (topic_without_tenant(one) for one in seen)
        return tuple(one for one in named if one is not None)[-TOPICS:]

    async def explain_filters(
        self, entries: Sequence[Entry], notification: Notification
    ) -> list[Step]:
        """Whether the filter of each of *entries* takes *notification*, and why."""
        filters = [entry.subscription.filter for entry in entries]
        views = {one.view for each in filters for one in each.contents if of_producer(one)}
        documents = await self._producer(views) if views else {}

        def explained() -> list[Step]:
            return [_matched(each, notification, None, documents)[0] for each in filters]

        threads = ThreadPoolExecutor(1, "explaining")
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, explained)
        finally:
            threads.shutdown(wait=False)

    async def _counts(self, entry: Entry) -> Step:
        await self._dispatchers.counted()
        counted = await self._store.submit(partial(totals.read, subscription=entry.id))
        head = await self._store.submit(partial(rows.head, subscription=entry.id))
        waiting = counted.matched - counted.settled()
        text = f"{waiting} wait, {counted.delivered} delivered, {counted.dead} dead"
        if counted.skipped:
            text += f", {counted.skipped} passed by while it was paused"
        if head is not None:
            text += (
                f"; the oldest in the store waits since {_wall(head.since)}, was tried "
                f"{head.attempts} times, and is due {_wall(head.due) if head.due else 'now'}"
            )
        return Step("counts", not (waiting and head and head.attempts), text)

    async def _address(self, target: Target) -> Step:
        """Check that the consumer's address may be sent to, as it is written and as its name
        resolves."""
        if target.scheme == SCHEME:
            return Step("address", True, "a mailbox of this gateway")
        if target.scheme not in DEFAULT_PORTS:
            return Step("address", True, f"the transport of {target.scheme}: sends there")
        place = f"{target.host}:{target.port}"
        try:
            self._policy.check(target)
            if target.literal is not None:
                return Step("address", True, f"{place} may be sent to")
            if self._proxied:
                return Step(
                    "address", True, f"{place} is sent to through the proxy, which resolves it"
                )
            addresses = await _resolve(target.host)
            for address in addresses:
                self._policy.check_ip(address, target)
        except AddressRefused as refused:
            what = _FORBIDDEN.get(refused.allowed_by or "", "is not sent to")
            text = f"{place} {what}: nothing is sent there unless {refused.allowed_by} says so"
            if " " in (refused.allowed_by or ""):
                text = f"{place} is forbidden by an operator; `{refused.allowed_by}` ends that"
            return Step("address", False, text)
        except (OSError, TimeoutError):
            return Step("address", False, f"the name {target.host} has no address")
        found = ", ".join(map(str, addresses[:5]))
        return Step("address", True, f"{place} is {found}, and may be sent to")


def _subscription(entry: Entry) -> Step:
    subscription = entry.subscription
    return Step(
        "subscription",
        True,
        f"{entry.id} of {subscription.owner}, made {_moment(subscription.lease.created)} in "
        f"{subscription.spec.version.value}, for {shown(subscription.consumer.address)}",
    )


def _lease(entry: Entry, now: datetime) -> Step:
    expires = entry.subscription.lease.expires
    if expires is None:
        return Step("lease", True, "never ends")
    if expires <= now:
        return Step("lease", False, f"was over {_moment(expires)}: the subscriber must renew it")
    return Step("lease", True, f"until {_moment(expires)}")


def _paused(entry: Entry) -> Step:
    if entry.subscription.policy.catching_up is not CatchingUp.DONE:
        text = "it gets what the archive has first: `subscriptions replay` says how far that is"
        return Step("paused", None, text)
    if entry.subscription.policy.paused:
        held = "waits for it" if entry.holds else "passes it by"
        return Step("paused", False, f"it is paused: what is published {held}")
    return Step("paused", True, "it is not paused")


def _matched(
    filter_: Filter,
    notification: Notification | None,
    topics: tuple[Topic, ...] | None,
    documents: Mapping[View, bytes],
) -> list[Step]:
    if notification is not None:
        explained = explain_filter(filter_, filter_event_of(notification, documents))
        lines = tuple(line for child in explained.children for line in str(child).splitlines())
        text = _VERDICTS[explained.verdict]
        return [Step("filter", explained.verdict, text, lines[:_DETAILS])]
    written = [
        f"{one.text} (over the producer's properties)" if of_producer(one) else one.text
        for one in filter_.expressions
    ]
    text = " and ".join(written) if written else "none: it gets everything"
    if written:
        text += "; whether a message passes it is said of one that is given: --message, `payload`"
    filtering = Step("filter", None if written else True, text)
    return [filtering] if topics is None else [filtering, _topics(filter_, topics)]


def _topics(filter_: Filter, topics: tuple[Topic, ...]) -> Step:
    compiled = compile(Filter(topics=filter_.topics))
    covered = [topic for topic in reversed(topics) if compiled.matches(Event(b"<a/>", topic=topic))]
    if not topics:
        return Step("topics", None, "nothing was published since this gateway started")
    text = f"{len(covered)} of the {len(topics)} topics published on last are covered"
    details = tuple(str(topic) for topic in covered[:NAMED])
    if not covered:
        seen = ", ".join(str(topic) for topic in reversed(topics[-5:]))
        text += f"; the last ones are {seen}"
    return Step("topics", bool(covered), text, details)


def _partitions(here: str | None, status: DeliveryStatus) -> Step:
    if here is None:
        return Step("delivered by", True, "this gateway alone")
    text = f"this replica, {here}"
    if not status.elsewhere:
        return Step("delivered by", True, text)
    return Step(
        "delivered by",
        None,
        f"{text}; also {'; '.join(status.elsewhere)}: what goes wrong there is known there",
    )


async def _resolve(host: str) -> Sequence[IPAddress]:
    resolver = SystemResolver(max_lookups=1)
    try:
        async with asyncio.timeout(LOOK_UP):
            return await resolver.resolve(host)
    finally:
        resolver.close()


def _deliveries(status: DeliveryStatus) -> Iterator[Step]:
    if status.last_error is not None and status.last_error_at is not None:
        text = f"{status.last_error} (at {_wall(status.last_error_at)})"
        if status.failures:
            text += f"; {status.failures} attempts in a row failed"
        else:
            text += "; it has recovered since" if status.breaker_until is None else ""
        yield Step("last error", not status.failures and status.breaker_until is None, text)
    state = status.state
    text = state.value
    if status.breaker_until is not None:
        text += f": only a probe is sent, at {_wall(status.breaker_until)}"
    elif status.next_attempt is not None:
        text += f": what waits is tried at {_wall(status.next_attempt)}"
    if status.last_attempt is not None:
        text += f"; the last attempt ended at {_wall(status.last_attempt)}"
    else:
        text += "; no attempt was made by this gateway since it started"
    if status.on_probation:
        text += "; its host never accepted a message, and gets few until it does"
    holds = None if state is Condition.UNKNOWN else state is Condition.ACTIVE
    yield Step("delivery", holds, text)


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def _wall(at: float) -> str:
    return _moment(moment_of(at))
