"""Where consumers are: at an address that may be sent to, or at a mailbox of our own."""

from collections.abc import Iterable

from filters import Refused
from gateway.egress import AddressPolicy, AddressRefused, Target, parse_target
from gateway.egress.addresses import MAX_ADDRESS_OCTETS
from gateway.mailboxes.mailboxes import Mailboxes, mailbox_target
from gateway.model.mailboxes import MailboxKind
from gateway.security.principals import Principal
from gateway.security.resource_addresses import mailbox_key
from mediation import WSA_NONE, EndpointReference, Subscription, is_anonymous
from mediation.names import MAKE_CONNECTION_ANONYMOUS

LONGEST_NAME = 1000
"""Octets of the address of a consumer that fetches: PostgreSQL's indexes take no thousands."""


class Consumers:
    """Finds out where endpoint references lead."""

    def __init__(self, policy: AddressPolicy, mailboxes: Mailboxes) -> None:
        self._policy = policy
        self._mailboxes = mailboxes

    async def check(self, epr: EndpointReference) -> Target | None:
        """Where messages for *epr* go; None for the address of a consumer that fetches them, and
        has no box yet.

        An address that names one of our boxes is that box, whatever name it calls us by: nobody
        else can know the key.

        Raises:
            AddressRefused: Nothing may be sent there.
        """
        address = epr.address
        if is_anonymous(address) or address == WSA_NONE:
            raise AddressRefused(address)  # There is no connection to answer events on.
        if is_fetched(address):
            box = await self._mailboxes.named(address)
            return None if box is None else mailbox_target(box, address)
        key = mailbox_key(address, (*epr.properties, *epr.parameters))
        if key is not None:
            try:
                return mailbox_target(await self._mailboxes.find(key), address)
            except Refused:
                pass  # A box of somebody else's, perhaps; ours are refused as our own addresses.
        target = parse_target(address)
        self._policy.check(target)
        return target

    async def take_on(self, epr: EndpointReference, principal: Principal) -> Target:
        """The same; who fetches its messages gets a box.

        Raises:
            AddressRefused, QuotaExceeded
        """
        target = await self.check(epr)
        if target is not None:
            return target
        box = await self._mailboxes.make(MailboxKind.CONNECTION, principal, name=epr.address)
        return mailbox_target(box, epr.address)

    async def learn(self, subscriptions: Iterable[Subscription]) -> None:
        """Know the boxes that other replicas have made for *subscriptions*: `known` needs them.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        keys, names = set[str](), set[str]()
        for subscription in subscriptions:
            epr = subscription.consumer
            if epr.address == subscription.manager:
                keys.add(subscription.key)  # It is pulled from, and has a box of its own.
            elif epr.address.startswith(MAKE_CONNECTION_ANONYMOUS):
                names.add(epr.address)
            elif key := mailbox_key(epr.address, (*epr.properties, *epr.parameters)):
                keys.add(key)
        await self._mailboxes.learn(keys, names)

    def known(self, epr: EndpointReference, subscription: str | None = None) -> Target:
        """Where a consumer that was taken on is, as far as this process knows; *subscription* is
        the key of its subscription, which may have a box of its own.

        Raises:
            AddressRefused: Nothing can be sent there.
        """
        address = epr.address
        box = self._mailboxes.known(subscription) if subscription else None
        if box is None and is_fetched(address):
            box = self._mailboxes.known_by_name(address)
            if box is None:
                raise AddressRefused(address)
        if box is None:
            key = mailbox_key(address, (*epr.properties, *epr.parameters))
            box = self._mailboxes.known(key) if key else None
        return mailbox_target(box, address) if box is not None else parse_target(address)


def is_fetched(address: str) -> bool:
    """Whether *address* says that its owner fetches messages (WS-MakeConnection 1.1, section 3.1).

    Raises:
        AddressRefused: It does, but is none that can be kept.
    """
    if not address.startswith(MAKE_CONNECTION_ANONYMOUS):
        return False
    name = address.removeprefix(MAKE_CONNECTION_ANONYMOUS)
    if not name or len(address) > LONGEST_NAME or not (name.isascii() and name.isprintable()):
        raise AddressRefused(address[:MAX_ADDRESS_OCTETS])
    return True
