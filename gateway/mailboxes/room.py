"""The room of mailboxes: kept, filled, read, removed."""

from collections.abc import Callable, Iterable

from filters import DocumentLimits
from gateway.exchange import Handlers
from gateway.mailboxes.deposits import Deposits
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.operations import MailboxOperations
from gateway.mailboxes.removal import Feeds, MailboxRemoval
from gateway.mailboxes.resources import PullPointResources
from gateway.observing.samples import Sample
from gateway.parsing import Parsing
from gateway.rooms import Room, Work
from gateway.security.intake import Intake
from gateway.store import Store


class MailboxRoom(Room):
    """Mailboxes, with the requests to them.

    Args:
        feeds: The subscriptions that fill *mailboxes*.
        keeps_house: Returns whether this gateway does the work that is done once for all.
        limits: Of the documents that are put into them.
    """

    def __init__(
        self,
        store: Store,
        mailboxes: Mailboxes,
        feeds: Feeds,
        parsing: Parsing,
        intake: Intake,
        *,
        keeps_house: Callable[[], bool],
        limits: DocumentLimits,
    ) -> None:
        self.mailboxes = mailboxes
        self._keeps_house = keeps_house
        self.removal = MailboxRemoval(store, mailboxes, feeds)
        self.deposits = Deposits(mailboxes, parsing, intake, limits=limits)
        self.resources = PullPointResources(mailboxes, self.removal)
        self._operations = MailboxOperations(mailboxes, self.removal, feeds, intake)

    def handlers(self) -> Handlers:
        return self._operations.handlers()

    def works(self) -> Iterable[Work]:
        yield lambda: self.removal.run(self._keeps_house)
        if self.mailboxes.shared:
            yield self.mailboxes.look_around

    def metrics(self) -> Iterable[Sample]:
        yield from self.mailboxes.metrics()
        yield from self.deposits.metrics()

    async def start(self) -> None:
        await self.mailboxes.start()

    def drain(self) -> None:
        self.mailboxes.close()
