"""Quotas of signers: how many of their events are remembered in the store.

The store is asked once for many events: to count a million takes it 50 to 100 ms, in which nobody
else writes. So each gateway of a store may exceed the bound by what it was told last.
"""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from weakref import WeakValueDictionary

import structlog

from filters import Reason
from gateway.security.quotas import QuotaExceeded
from gateway.store import Store, signed_events
from mediation.event_signatures import EventSignature

AT_ONCE, PART = 1000, 10
"""Events of one signer for which the store is asked once at least, and the part of its room."""
AGAIN = 30.0
"""Seconds for which a signer without room is refused, and nobody is asked."""
MOST_SIGNERS = 10_000
"""Signers of which this is known; the one unheard the longest goes."""
_log = structlog.get_logger("dragoman.signed-topics")


@dataclass(slots=True)
class _Left:
    left: int
    """Events more."""
    asked: float
    counts_for: float
    """Seconds for which the store is not asked again once nothing is left."""


class SignerQuotas:
    """Takes room for events of signers in *store*."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left: OrderedDict[str, _Left] = OrderedDict()
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Of signers for whom the store is asked, or is about to be: once for all their events."""

    async def take(self, signature: EventSignature, now: float) -> None:
        """Take room for an event of the signer of *signature*.

        Raises:
            QuotaExceeded: There is none: too many of its events are remembered.
            StoreUnavailable: It cannot be asked.
        """
        signer = signature.identifier
        room = self._known(signer)
        if room is None:
            async with self._asking.setdefault(signer, asyncio.Lock()):
                room = self._known(signer)
                if room is None:
                    room = await self._ask(signature, now)
                room.left -= 1
        else:
            room.left -= 1
        if room.left < 0:
            text = f"Too many events of {signature.name} are remembered: sign and send fewer."
            raise QuotaExceeded(Reason.QUOTA, text, retry_after=AGAIN)

    def _known(self, signer: str) -> _Left | None:
        """What is known of *signer*'s room; None where the store has to be asked."""
        room = self._left.get(signer)
        if room is None or (room.left <= 0 and time.monotonic() - room.asked > room.counts_for):
            return None
        self._left.move_to_end(signer)
        return room

    async def _ask(self, signature: EventSignature, now: float) -> _Left:
        signer = signature.identifier
        free = await self._store.submit(partial(signed_events.room, signer=signer, now=now))
        # What is left is asked for again at once when it is used, unless that is all.
        few = free < AT_ONCE
        room = _Left(min(free, max(AT_ONCE, free // PART)), time.monotonic(), AGAIN if few else 0.0)
        self._left[signer] = room
        self._left.move_to_end(signer)
        if len(self._left) > MOST_SIGNERS:
            self._left.popitem(last=False)
        if not free:
            _log.warning("signed-topics.signer-full", signer=signature.name, identifier=signer)
        return room
