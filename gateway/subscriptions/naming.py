"""The subscription that a request names, in any of the ways in which peers name one."""

from datetime import UTC, datetime

from gateway.delivery import Entry
from gateway.exchange import Inbound
from gateway.security.resource_addresses import resource_at
from gateway.subscriptions.lifecycle import SubscriptionUnknown
from gateway.subscriptions.renewal import Renewal
from gateway.subscriptions.replication import Replication
from mediation.model.requests import Incoming


def subscription_names(incoming: Incoming, inbound: Inbound) -> tuple[str | None, ...]:
    """The peer's texts that may name a subscription, in the order of trust."""
    named = incoming.named
    return (*named.identifiers, inbound.path, named.to, named.body)


class NamedSubscriptions:
    """Finds the subscription that a request names."""

    def __init__(self, renewal: Renewal, replication: Replication) -> None:
        self._renewal = renewal
        self._replication = replication

    async def find(
        self, incoming: Incoming, inbound: Inbound, now: datetime | None = None
    ) -> Entry:
        """The subscription that a request names, also one whose lease has just ended.

        Raises:
            SubscriptionUnknown: There is none.
        """
        await self._replication.refresh()
        names = subscription_names(incoming, inbound)
        try:
            return self._renewal.find(names, now=now or datetime.now(UTC))
        except SubscriptionUnknown:
            if any(incoming.named.identifiers) or incoming.named.body or resource_at(inbound.path):
                raise
            raise SubscriptionUnknown(missing="Identifier") from None
