"""Consumers' endpoint references: addresses that may be sent to, or mailboxes of our own."""

from collections.abc import Iterable

from filters import Refused
from gateway.egress import AddressRefused, Schemes, Target
from gateway.egress.addresses import MAX_ADDRESS_OCTETS
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.transport import mailbox_target
from gateway.model.mailboxes import MailboxKind
from gateway.security.principals import Principal, tenant_of
from gateway.security.resource_addresses import mailbox_key
from mediation.model.messages import EndpointReference, Subscription
from mediation.names import MAKE_CONNECTION_ANONYMOUS, WSA_NONE
from mediation.soap.addressing import is_anonymous

LONGEST_NAME = 1000
"""Bytes of the address of a consumer that fetches: PostgreSQL's indexes take no thousands."""


class Consumers:
    """Resolves endpoint references to targets of deliveries."""

    def __init__(self, schemes: Schemes, mailboxes: Mailboxes) -> None:
        self._schemes = schemes
        self._mailboxes = mailboxes

    async def check(self, epr: EndpointReference, owner: str) -> Target | None:
        """The target of messages for *epr*, which *owner* names; None for the address of a consumer
        that fetches them, and has no mailbox yet.

        An address that names one of our mailboxes is that mailbox, whatever name it calls us by:
        nobody else can know the key.

        Raises:
            AddressRefused: Nothing may be sent there.
        """
        address = epr.address
        if is_anonymous(address) or address == WSA_NONE:
            # There is no connection to answer events on.
            raise AddressRefused(address, text="This address names no host to send to.")
        if is_fetched(address):
            if tenant_of(owner):  # Whoever names the same address would fetch its messages.
                text = "Consumers of tenants do not fetch by an address of WS-MakeConnection."
                raise AddressRefused(address[:MAX_ADDRESS_OCTETS], text=text)
            mailbox = await self._mailboxes.named(address)
            return None if mailbox is None else mailbox_target(mailbox, address)
        key = mailbox_key(address, (*epr.properties, *epr.parameters))
        if key is not None:
            try:
                mailbox = await self._mailboxes.find(key)
                if tenant_of(mailbox.owner) == tenant_of(owner):
                    return mailbox_target(mailbox, address)
            except Refused:
                pass  # Perhaps another server's; our own address is refused below.
        target = self._schemes.read(address, owner)
        self._schemes.check(target, owner)
        return target

    async def take_on(self, epr: EndpointReference, principal: Principal) -> Target:
        """As `check`, but make a mailbox for a consumer that fetches and has none.

        Raises:
            AddressRefused, QuotaExceeded
        """
        target = await self.check(epr, principal.owner)
        if target is not None:
            return target
        mailbox = await self._mailboxes.make(MailboxKind.CONNECTION, principal, name=epr.address)
        return mailbox_target(mailbox, epr.address)

    async def learn(self, subscriptions: Iterable[Subscription]) -> None:
        """Load the mailboxes that other replicas have made for *subscriptions*: `known` needs them.

        Raises:
            StoreUnavailable: The store cannot be read.
        """
        keys, names = set[str](), set[str]()
        for subscription in subscriptions:
            epr = subscription.consumer
            if epr.address == subscription.manager:
                keys.add(subscription.key)  # It is pulled from, and has a mailbox of its own.
            elif epr.address.startswith(MAKE_CONNECTION_ANONYMOUS):
                names.add(epr.address)
            elif key := mailbox_key(epr.address, (*epr.properties, *epr.parameters)):
                keys.add(key)
        await self._mailboxes.learn(keys, names)

    def known(self, epr: EndpointReference, owner: str, subscription: str | None = None) -> Target:
        """The target of a consumer that was taken on for *owner*, as far as this process knows;
        *subscription* is the key of its subscription, which may have a mailbox of its own. A
        mailbox of another tenant is none.

        Raises:
            AddressRefused: Nothing can be sent there.
        """
        address = epr.address
        mailbox = self._mailboxes.known(subscription) if subscription else None
        if mailbox is None and is_fetched(address):
            mailbox = self._mailboxes.known_by_name(address)
            if mailbox is None:
                raise AddressRefused(address)
        if mailbox is None:
            key = mailbox_key(address, (*epr.properties, *epr.parameters))
            mailbox = self._mailboxes.known(key) if key else None
        if mailbox is not None and tenant_of(mailbox.owner) == tenant_of(owner):
            return mailbox_target(mailbox, address)
        return self._schemes.read(address)


def is_fetched(address: str) -> bool:
    """True if *address* says that its owner fetches messages (WS-MakeConnection 1.1, section 3.1).

    Raises:
        AddressRefused: It does, but is empty, too long or not printable ASCII.
    """
    if not address.startswith(MAKE_CONNECTION_ANONYMOUS):
        return False
    name = address.removeprefix(MAKE_CONNECTION_ANONYMOUS)
    if not name or len(address) > LONGEST_NAME or not (name.isascii() and name.isprintable()):
        text = "An address of WS-MakeConnection has an id behind it, of printable ASCII."
        raise AddressRefused(address[:MAX_ADDRESS_OCTETS], text=text)
    return True
