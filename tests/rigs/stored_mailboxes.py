"""Mailboxes on a store alone: made, filled and emptied."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.quotas import MailboxQuotas
from gateway.model.mailboxes import Mailbox
from gateway.store import Store


@dataclass
class Clock:
    """Of the mailboxes alone; it stands still until it is moved."""

    now: float = field(default_factory=time.time)

    def __call__(self) -> float:
        return self.now


async def boxes(
    store: Store, *, clock: Callable[[], float] = time.time, **quotas: object
) -> Mailboxes:
    mailboxes = Mailboxes(store, MailboxQuotas(**quotas), clock=clock)  # type: ignore[arg-type]
    await mailboxes.start()
    return mailboxes


async def fill(mailboxes: Mailboxes, box: Mailbox, *numbers: int) -> None:
    for number in numbers:
        await mailboxes.put(box, [(f"urn:m:{number}", b"<e>%d</e>" % number)])


async def numbers(mailboxes: Mailboxes, box: Mailbox, **options: object) -> list[int]:
    """What a taker got, and has now."""
    batch = await mailboxes.leases.take(box, **options)  # type: ignore[arg-type]
    await mailboxes.leases.handed_over(batch, True)
    return [int(one.envelope[3:-4]) for one in batch.messages]
