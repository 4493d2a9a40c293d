"""The subscription that a request names, in any of the ways in which peers name one."""

from collections.abc import Iterable
from datetime import UTC, datetime

from filters import Reason, Refused
from gateway.delivery import Entry
from gateway.exchange import Inbound
from gateway.security.principals import Principal
from gateway.security.resource_addresses import key_in, resource_at
from gateway.subscriptions.lifecycle.lifecycle import SubscriptionUnknown
from gateway.subscriptions.lifecycle.renewal import Renewal
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.requests import Incoming


def subscription_names(incoming: Incoming, inbound: Inbound) -> tuple[str | None, ...]:
    """The peer's texts that may name a subscription, in the order of trust."""
    named = incoming.named
    return (*named.identifiers, inbound.path, named.to, named.body)


class NamedSubscriptions:
    """Finds the subscription that a request names."""

    def __init__(
        self, table: SubscriptionTable, renewal: Renewal, replication: Replication
    ) -> None:
        self._table = table
        self._renewal = renewal
        self._replication = replication

    async def find(
        self, incoming: Incoming, inbound: Inbound, now: datetime | None = None
    ) -> Entry:
        """The subscription that a request names, also one whose lease has just ended.

        Raises:
            SubscriptionUnknown: No subscription has such a name.
        """
        await self._replication.refresh()
        names = subscription_names(incoming, inbound)
        try:
            return self._find(names, now or datetime.now(UTC), inbound.principal)
        except SubscriptionUnknown:
            if any(incoming.named.identifiers) or incoming.named.body or resource_at(inbound.path):
                raise
            raise SubscriptionUnknown(missing="Identifier") from None

    def _find(self, candidates: Iterable[str | None], now: datetime, principal: Principal) -> Entry:
        """The subscription that *candidates* name, each of them text of the peer.

        Raises:
            SubscriptionUnknown: No subscription has such a name, its lease and grace are over, or
                it is of a tenant that *principal* does not reach.
            Refused: ``MESSAGE_INVALID`` where they name two different subscriptions.
        """
        keys = list(dict.fromkeys(key for key in map(key_in, candidates) if key))
        if len(keys) > 1:
            raise Refused(Reason.MESSAGE_INVALID, "The request names two subscriptions.")
        entry = self._table.get(keys[0]) if keys else None
        if entry is None or not self._renewal.is_alive(entry, now):
            raise SubscriptionUnknown
        if not principal.reaches(entry.subscription.owner):
            raise SubscriptionUnknown
        return entry
