"""Removal of deliveries and messages that waited for a subscription that has ended.

There may be 100,000: they go a slice at a time, so that other operations of the store have their
turn in between. Where the store fails, a slice is tried again; where the gateway does, leftovers go
at the next start, and from a mailbox when they are old.
"""

import asyncio

import structlog
from sqlalchemy import Connection

from gateway.store import Store, StoreUnavailable, mailboxes, waiting_deliveries

RETRY = 1.0
"""Seconds after which a slice is tried again."""
_log = structlog.get_logger("dragoman.subscriptions")


def drop_leftovers(store: Store, subscription: str, mailbox: str | None, *, expired: bool) -> None:
    """Remove, in the background, what waits for *subscription*, by its id, and lies in *mailbox*,
    by its key, which ended with it.

    Args:
        expired: The deliveries count as expired, else as cancelled.
    """
    loop = asyncio.get_running_loop()

    def drop(connection: Connection) -> bool:
        thinned = mailbox is None or mailboxes.thin(connection, mailbox) < mailboxes.THINNED
        return waiting_deliveries.drop(connection, subscription, expired=expired) and thinned

    def drop_slice() -> None:
        if store.closed:
            return
        try:
            future = store.submit(drop)
        except StoreUnavailable:
            loop.call_later(RETRY, drop_slice)
        else:
            future.add_done_callback(dropped)

    def dropped(future: "asyncio.Future[bool]") -> None:
        if future.cancelled():
            return
        if future.exception() is not None:
            _log.warning("subscription.leftover", error=str(future.exception()))
            loop.call_later(RETRY, drop_slice)
        elif not future.result():
            drop_slice()

    drop_slice()
