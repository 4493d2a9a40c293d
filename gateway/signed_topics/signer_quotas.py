"""Quotas of signers: how many of their events are remembered in the store.

The store is asked once for many events: to count a million takes it 50 ms. So each gateway of a
store may exceed the bound by `AT_ONCE`.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial

import structlog

from filters import Reason
from gateway.security.quotas import QuotaExceeded
from gateway.store import Store, signed_events
from mediation.event_signatures import EventSignature

AT_ONCE = 1000
"""Events of one signer for which the store is asked once."""
AGAIN = 30.0
"""Seconds for which a signer without room is refused, and nobody is asked."""
MOST_SIGNERS = 10_000
"""Signers of which this is known; the one unheard the longest goes."""
_log = structlog.get_logger("dragoman.signed-topics")


@dataclass(slots=True)
class _Left:
    left: int
    asked: float


class SignerQuotas:
    """Takes room for events of signers in *store*."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._left: OrderedDict[str, _Left] = OrderedDict()

    async def take(self, signature: EventSignature, now: float) -> None:
        """Take room for an event of the signer of *signature*.

        Raises:
            QuotaExceeded: There is none: too many of its events are remembered.
            StoreUnavailable: It cannot be asked.
        """
        signer = signature.identifier
        room = self._left.get(signer)
        moment = time.monotonic()
        if room is None or (room.left <= 0 and (not room.asked or moment - room.asked > AGAIN)):
            count = partial(signed_events.room, signer=signer, now=now)
            free = await self._store.submit(count)
            # What is left is asked for again at once when it is used, unless there is none.
            room = _Left(min(free, AT_ONCE), 0.0 if free else moment)
            self._left[signer] = room
            if len(self._left) > MOST_SIGNERS:
                self._left.popitem(last=False)
            if not free:
                _log.warning("signed-topics.signer-full", signer=signature.name, identifier=signer)
        self._left.move_to_end(signer)
        if room.left <= 0:
            text = f"Too many events of {signature.name} are remembered: sign and send fewer."
            raise QuotaExceeded(Reason.QUOTA, text, retry_after=AGAIN)
        room.left -= 1
