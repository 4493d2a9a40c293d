"""Creation of subscriptions, in the order in which a Subscribe is worked on.

counted     the sender's rate and stored bytes; rights to the topic are proved
checked     addresses, filter, lease, quotas
agreed      the consumer is asked: the handshake of a web hook, or a challenge
renewed     instead, where it has a bookmark, or repeats a subscription
numbered    the consumer is asked for a sequence (CreateSequence), where one is wanted
renewed     instead, where there is one with its identity
committed   the row is in the store, and the filter in force; then it is answered
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

import structlog

from adapters import XPathFilterAdapter
from filters import Filter, Reason, Refused
from filters.archive_positions import Position
from gateway.delivery import Entry
from gateway.egress import Target
from gateway.interning import shared
from gateway.mailboxes.transport import mailbox_target
from gateway.model.mailboxes import Mailbox, MailboxKind
from gateway.security.keys import new_key, public_id
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate, QuotaExceeded, SubscriptionQuotas
from gateway.security.resource_addresses import shown
from gateway.store import StoreUnavailable
from gateway.store.owner_bytes import OwnerBytes
from gateway.subscriptions.challenges import Challenges
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.lifecycle.existing_subscriptions import ExistingSubscriptions
from gateway.subscriptions.lifecycle.leases import LeaseTerms, grant, within
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle, Start
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.sequences.subscriber_sequences import Agreed, SubscriberSequences
from gateway.subscriptions.table import SubscriptionTable, identity_of
from gateway.subscriptions.webhooks import WebHooks
from mediation.model.delivery_modes import DeliveryMode
from mediation.model.messages import (
    CatchingUp,
    EndpointReference,
    Lease,
    Policy,
    Rights,
    Subscription,
)
from mediation.model.requests import Context, Subscribe, SubscribePulling
from mediation.model.specification import Specification
from mediation.model.versions import Spec, Wsa
from mediation.rendering import prepare
from mediation.specifications import SPECIFICATIONS

SUBSCRIBES, SUBSCRIBES_AT_ONCE = 2.0, 20.0
"""Subscribe requests that one stranger may send: a second, and at once."""
StartOf: TypeAlias = Callable[[Subscription, Position, Principal], Awaitable[Start]]
"""Has a subscription of a principal begin with what the archive has from a position on; it raises
`Refused`."""
Prove = Callable[[], Awaitable[Rights | None]]
"""Proves the rights of a subscriber to the topic that its filter names, where that is somebody's;
None where it is everybody's. It raises `Refused`."""
_log = structlog.get_logger("dragoman.subscriptions")


@dataclass(frozen=True, slots=True)
class _SubscribeRequest:
    """A request to subscribe, with what was found out about it so far.

    ``target`` is None where the consumer fetches its messages, and ``expires`` where the lease has
    no end.
    """

    body: Subscribe | SubscribePulling
    spec: Spec
    principal: Principal
    base: str
    channel: str
    rights: Rights | None
    now: datetime
    target: Target | None = None
    expires: datetime | None = None

    @property
    def specification(self) -> Specification:
        return SPECIFICATIONS[self.spec.version]


class SubscriptionCreation:
    """Checks a request to subscribe, agrees on it with the consumer, and begins a subscription."""

    def __init__(
        self,
        table: SubscriptionTable,
        adapter: XPathFilterAdapter,
        consumers: Consumers,
        web_hooks: WebHooks,
        challenges: Challenges,
        sequences: SubscriberSequences,
        lifecycle: Lifecycle,
        existing: ExistingSubscriptions,
        replication: Replication,
        *,
        terms: LeaseTerms,
        quotas: SubscriptionQuotas,
        owner_bytes: OwnerBytes | None = None,
        may_subscribe: Callable[[Filter, Principal], None],
        start_of: StartOf,
    ) -> None:
        self._start_of = start_of
        self._may_subscribe = may_subscribe
        self._table = table
        self._adapter = adapter
        self._consumers = consumers
        self._web_hooks = web_hooks
        self._challenges = challenges
        self._sequences = sequences
        self._lifecycle = lifecycle
        self._existing = existing
        self._replication = replication
        self._terms = terms
        self._quotas = quotas
        self._owner_bytes = owner_bytes
        self._rate = PrincipalRate(SUBSCRIBES, SUBSCRIBES_AT_ONCE, "Too many Subscribe requests.")

    async def subscribe(
        self,
        request: Subscribe | SubscribePulling,
        context: Context,
        principal: Principal,
        *,
        base: str,
        now: datetime,
        prove: Prove | None = None,
        channel: str = "",
    ) -> Subscription:
        """Create a subscription; it is in the store and in force on return.

        Args:
            prove: Asked when the request is counted.
            channel: The name of the channel that it is at; empty: none with a name.

        Raises:
            Refused: as the specification says; nothing was created.
        """
        self._rate.take(principal)
        if self._owner_bytes is not None:
            self._owner_bytes.check(principal.owner)
        rights = None if prove is None else await prove()
        asked = _SubscribeRequest(request, context.spec, principal, base, channel, rights, now)
        asked = await self._check(asked)
        asked = await self._ask_consumer(asked)
        if isinstance(asked.body, Subscribe):
            return await self._subscribe_consumer(asked, asked.body)
        return await self._subscribe_mailbox(asked, asked.body)

    async def _check(self, asked: _SubscribeRequest) -> _SubscribeRequest:
        """Check addresses, filter, lease and quotas; nothing has been sent to the consumer yet."""
        if isinstance(asked.body, Subscribe):
            asked = replace(asked, target=await self._check_consumer(asked.body, asked.principal))
        self._may_subscribe(asked.body.filter, asked.principal)
        self._adapter.check(asked.body.filter, asked.principal.tenant)
        asked = self._with_lease(asked, asked.now)
        if asked.specification.identity is None:  # Else it may be there already.
            self._check_quotas(asked.principal, asked.target)
        return asked

    def _with_lease(self, asked: _SubscribeRequest, now: datetime) -> _SubscribeRequest:
        expires = grant(
            asked.body.expires,
            asked.specification.leases,
            self._terms,
            trusted=not asked.principal.limits.leases,
            now=now,
        )
        return replace(asked, now=now, expires=expires)

    async def _ask_consumer(self, asked: _SubscribeRequest) -> _SubscribeRequest:
        """Ask the consumer whether it agrees; and at which rate, where the specification has it."""
        request = asked.body
        if not isinstance(request, Subscribe):
            return asked
        if asked.specification.handshake:
            rate = await self._web_hooks.ask(request.consumer, asked.principal)
            request = replace(request, rate=rate)
        elif not await self._challenges.ask(
            request.consumer, asked.target, asked.spec, asked.principal
        ):
            return asked
        self._check_quotas(asked.principal, asked.target)  # Others came while the consumer thought.
        return self._with_lease(replace(asked, body=request), datetime.now(UTC))

    async def _subscribe_consumer(
        self, asked: _SubscribeRequest, request: Subscribe
    ) -> Subscription:
        """Create a subscription whose messages are sent to its consumer, or renew one."""
        subscription = _new_subscription(
            asked,
            _policy(request, asked.rights, asked.channel, _catching_up(asked)),
            consumer=request.consumer,
            end_to=request.end_to,
            secret=request.secret,
        )
        former = await self._existing.renew_former(
            request, subscription, asked.principal, asked.now
        )
        if former is not None:
            return former
        agreed = await self._sequences.ask(subscription, asked.target, asked.principal)
        if agreed is not None:
            self._check_quotas(asked.principal, asked.target)  # Others came meanwhile.
        target = asked.target or await self._consumers.take_on(request.consumer, asked.principal)
        if request.end_to is not None:
            await self._consumers.take_on(request.end_to, asked.principal)
        return await self._begin(asked, subscription, target, agreed=agreed)

    async def _subscribe_mailbox(
        self, asked: _SubscribeRequest, request: SubscribePulling
    ) -> Subscription:
        """Create a subscription with a mailbox of its own, from which messages are pulled."""
        policy = Policy(
            dialect=request.dialect,
            delivery=request.delivery,
            rights=asked.rights,
            channel=asked.channel,
            catching_up=_catching_up(asked),
        )
        subscription = _new_subscription(asked, policy)
        mailbox = Mailbox(
            subscription.key, subscription.id, asked.principal.owner, MailboxKind.SUBSCRIPTION
        )
        target = mailbox_target(mailbox, subscription.manager)
        return await self._begin(asked, subscription, target, mailbox=mailbox)

    async def _check_consumer(self, request: Subscribe, principal: Principal) -> Target | None:
        """Check the addresses that *request* has delivered to; None where its consumer fetches."""
        target = await self._consumers.check(request.consumer, principal.owner)
        _check_answers(request.delivery, target)
        if request.end_to is not None:
            await self._consumers.check(request.end_to, principal.owner)
        return target

    def _check_quotas(self, principal: Principal, target: Target | None) -> None:
        if len(self._table) >= self._quotas.total:
            raise QuotaExceeded(Reason.QUOTA, "There are too many subscriptions.")
        if principal.quotas is not None:
            principal.quotas.check_subscriptions(self._table.of_tenant(principal.tenant))
        if not principal.limits.quotas:
            return
        if self._table.of_owner(principal.owner) >= self._quotas.owner:
            raise QuotaExceeded(Reason.QUOTA, "You have too many subscriptions.")
        if target is None:
            return  # Its mailbox is its own destination.
        if self._table.of_owner_to(principal.owner, target) >= self._quotas.destination:
            raise QuotaExceeded(Reason.QUOTA, "You have too many subscriptions to one destination.")

    # The beginning.

    async def _begin(
        self,
        asked: _SubscribeRequest,
        subscription: Subscription,
        target: Target,
        *,
        mailbox: Mailbox | None = None,
        agreed: Agreed | None = None,
    ) -> Subscription:
        """Bring *subscription* in force, and return it; where there is one with its identity, renew
        and return that instead. It is committed on return."""
        begin = partial(
            self._lifecycle.begin, mailbox=mailbox, principal=asked.principal, agreed=agreed
        )
        identity = identity_of(subscription)
        if identity is None:
            start = None
            if subscription.policy.catching_up is not CatchingUp.DONE and asked.body.since:
                start = await self._start_of(subscription, asked.body.since, asked.principal)
            await begin(_entry(subscription, target), identity=None, start=start)
        else:
            renewed = await self._begin_identical(asked, subscription, target, begin, identity)
            if renewed is not None:
                return renewed
        if agreed is not None:
            self._sequences.wake()
        _log.info(
            "subscription.created",
            subscription=subscription.id,
            owner=subscription.owner,
            spec=subscription.spec.version.value,
            consumer=shown(target.url),
        )
        return subscription

    async def _begin_identical(
        self,
        asked: _SubscribeRequest,
        subscription: Subscription,
        target: Target,
        begin: Callable[..., Awaitable[bool]],
        identity: str,
    ) -> Subscription | None:
        """Begin *subscription*, unless there is one with this *identity*: then renew and return
        that."""
        renew = partial(
            self._existing.renew_identical,
            identity,
            subscription,
            asked.body.expires,
            asked.principal,
            asked.now,
        )
        renewed = await renew()
        if renewed is not None:
            return renewed
        self._check_quotas(asked.principal, target)
        if await begin(_entry(subscription, target), identity=identity):
            return None
        await self._replication.learn()  # Another gateway was first.
        renewed = await renew()
        if renewed is not None:
            return renewed
        await self._replication.clear(identity)
        if not await begin(_entry(subscription, target), identity=identity):
            raise StoreUnavailable("The same subscription ends at this moment.")
        return None


def _new_subscription(
    asked: _SubscribeRequest,
    policy: Policy,
    *,
    consumer: EndpointReference | None = None,
    end_to: EndpointReference | None = None,
    secret: str = "",
) -> Subscription:
    """A subscription with a new key; where no *consumer* is named, its manager has the messages."""
    key = new_key()
    manager = f"{asked.base}/subscriptions/{key}"
    expires = within(asked.rights, asked.expires)
    return Subscription(
        key=key,
        id=public_id(key),
        owner=shared(asked.principal.owner),
        spec=shared(asked.spec),
        lease=Lease(asked.now, expires, asked.body.expires.as_duration),
        filter=shared(asked.body.filter),
        manager=manager,
        consumer=consumer or EndpointReference(manager, asked.spec.wsa or Wsa.V2005_08),
        end_to=end_to,
        policy=shared(policy),
        secret=secret,
    )


def _entry(subscription: Subscription, target: Target) -> Entry:
    return Entry(subscription, prepare(subscription), target)


def _catching_up(asked: _SubscribeRequest) -> CatchingUp:
    """Whether a subscription begins with what the archive has."""
    since = asked.body.since
    early = since is not None and since.time < asked.now
    return CatchingUp.ARCHIVE if early else CatchingUp.DONE


def _policy(
    request: Subscribe, rights: Rights | None, channel: str, catching_up: CatchingUp
) -> Policy:
    """The policy of delivery that *request* asks for."""
    return Policy(
        raw=request.raw,
        dialect=request.dialect,
        packaging=request.packaging,
        data=request.data,
        delivery=request.delivery,
        rate=request.rate,
        calling=request.calling,
        rights=rights,
        channel=channel,
        catching_up=catching_up,
        order_key=request.order_key,
    )


def _check_answers(delivery: DeliveryMode, target: Target | None) -> None:
    """Refuse a delivery mode in which the consumer has to answer, where it cannot.

    Raises:
        Refused: ``CONSUMER_ADDRESS``.
    """
    answers = target is not None and target.scheme in ("http", "https")
    if (delivery.acknowledged or delivery.heartbeats is not None) and not answers:
        raise Refused(
            Reason.CONSUMER_ADDRESS, "Deliveries can be acknowledged over HTTP and HTTPS alone."
        )
