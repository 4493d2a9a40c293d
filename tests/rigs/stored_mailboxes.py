"""Mailboxes on a store alone: made, filled and emptied."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.quotas import MailboxQuotas
from gateway.mailboxes.removal import MailboxRemoval
from gateway.model.mailboxes import Mailbox
from gateway.model.subscriber_grants import Holds
from gateway.store import Store


@dataclass
class Clock:
    """Of the mailboxes alone; it stands still until it is moved."""

    now: float = field(default_factory=time.time)

    def __call__(self) -> float:
        return self.now


async def boxes(
    store: Store,
    *,
    clock: Callable[[], float] = time.time,
    holds: Holds | None = None,
    **quotas: object,
) -> Mailboxes:
    made = MailboxQuotas(**quotas)  # type: ignore[arg-type]
    mailboxes = Mailboxes(store, made, shared=store.may_be_shared, clock=clock, holds=holds)
    await mailboxes.start()
    return mailboxes


async def _nothing(_box: Mailbox) -> None:
    pass


@dataclass
class NoFeeds:
    """No mailbox was made for a subscription; *ended* is told of each that is destroyed."""

    ended: Callable[[Mailbox], Awaitable[None]]

    async def end_all(self, mailbox: Mailbox) -> None:
        await self.ended(mailbox)

    async def keep_alive(self, mailbox: Mailbox, seconds: float) -> None:
        return None

    async def end(self, mailbox: Mailbox) -> bool:
        return False


def removal(
    mailboxes: Mailboxes, ended: Callable[[Mailbox], Awaitable[None]] = _nothing
) -> MailboxRemoval:
    """The removal of *mailboxes*; *ended* ends what fills them."""
    return MailboxRemoval(mailboxes._store, mailboxes, NoFeeds(ended))


async def fill(mailboxes: Mailboxes, box: Mailbox, *numbers: int) -> None:
    for number in numbers:
        await mailboxes.put(box, [(f"urn:m:{number}", b"<e>%d</e>" % number)])


async def numbers(mailboxes: Mailboxes, box: Mailbox, **options: object) -> list[int]:
    """What a taker got, and has now."""
    batch = await mailboxes.leases.take(box, **options)  # type: ignore[arg-type]
    await mailboxes.leases.handed_over(batch, True)
    return [int(one.envelope[3:-4]) for one in batch.messages]
