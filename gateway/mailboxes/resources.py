"""Pull points as WS-Resources."""

from datetime import datetime

from filters import Reason, Refused
from gateway.exchange import Inbound
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.removal import MailboxRemoval
from gateway.model.mailboxes import Mailbox
from gateway.security.principals import Principal
from gateway.security.resource_addresses import ResourceKind, addressed
from mediation.model.expiry import Expiry
from mediation.model.requests import Incoming
from mediation.model.specification import PropertyDocument
from mediation.model.versions import Version
from mediation.specifications import properties_in


class PullPointResource:
    """One mailbox, as the address of a pull point names it."""

    def __init__(self, mailboxes: Mailboxes, removal: MailboxRemoval, mailbox: Mailbox) -> None:
        self._mailboxes = mailboxes
        self._removal = removal
        self._mailbox = mailbox

    async def properties(self, version: Version, now: datetime) -> PropertyDocument:
        """Its termination time is when it is destroyed, should nobody read it any more."""
        end = await self._mailboxes.idle_end(self._mailbox)
        return properties_in(version).of_mailbox(end, now)

    async def set_termination_time(
        self, expires: Expiry, principal: Principal, now: datetime
    ) -> datetime | None:
        raise Refused(
            Reason.EXPIRY_INVALID, "A pull point lives as long as it is read: its end is not set."
        )

    async def destroy(self) -> None:
        await self._removal.remove(self._mailbox)


class PullPointResources:
    """All pull points."""

    def __init__(self, mailboxes: Mailboxes, removal: MailboxRemoval) -> None:
        self._mailboxes = mailboxes
        self._removal = removal

    async def find(self, incoming: Incoming, inbound: Inbound) -> PullPointResource | None:
        address = addressed(inbound.path, incoming.context.headers.to)
        if address is None or address.kind is not ResourceKind.PULL_POINT:
            return None
        mailbox = await self._mailboxes.reached(address.key, inbound.principal)
        return PullPointResource(self._mailboxes, self._removal, mailbox)
