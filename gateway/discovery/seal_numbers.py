"""The numbers of seals: what was delivered with one is not delivered again.

    sealed -> number -> messaging system -> first time  -> delivered -> settled: noted
                                         -> noted       -> it came before: withheld

A number is noted when its publication is settled, and not sooner: what the messaging system yields
once more before, because somebody crashed, is not kept from anybody. What is noted is in the store
within a second, for all gateways that share it; who crashes meanwhile forgets that second.
"""

import asyncio
from functools import partial

import structlog

from gateway.store import Store, StoreUnavailable, seal_blocks
from gateway.store.seal_blocks import LOCK, SIZE

EVERY = 1.0
"""Seconds from one time that what was delivered is noted in the store to the next."""
RETRY = 1.0
"""Seconds after which a store that was away is asked again."""
_log = structlog.get_logger("dragoman.discovery")


class SealNumbers:
    """Gives numbers to seals, and knows those that were delivered.

    Args:
        shared: Whether other gateways have the store, too.
    """

    def __init__(self, store: Store, *, shared: bool = False) -> None:
        self._store = store
        self._shared = shared
        self._delivered: dict[int, int] = {}
        """By block, for those that are not done with."""
        self._newest = 0
        self._noted: dict[int, int] = {}
        """What is not in the store yet."""
        self._own = range(0)
        """The numbers that are left of the block of this gateway."""
        self._taking = asyncio.Lock()

    async def start(self) -> None:
        """Learn what is in the store.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        await self._learn()

    async def take(self) -> int:
        """A number that nobody has.

        Raises:
            StoreUnavailable: There is none at hand.
        """
        async with self._taking:
            if not self._own:
                block = await self._store.submit(seal_blocks.take, locks=(LOCK,))
                await self._learn()  # Others may have taken some before it.
                self._own = range(block * SIZE, (block + 1) * SIZE)
            number, self._own = self._own[0], self._own[1:]
            return number

    async def was_delivered(self, number: int) -> bool:
        """Whether what has *number* was delivered; it waits for the store, where that is needed."""
        block, place = divmod(number, SIZE)
        while block > self._newest:  # Another gateway's.
            try:
                await self._learn()
            except StoreUnavailable as error:
                _log.warning("discovery.waits", why=str(error))
                await asyncio.sleep(RETRY)
                continue
            break
        if block > self._newest:
            return False  # Of a store that was put back: nobody knows.
        bits = self._delivered.get(block)
        return bits is None or bool(bits >> place & 1)

    def note(self, number: int) -> None:
        """Note that what has *number* was delivered."""
        block, place = divmod(number, SIZE)
        if block in self._delivered:
            self._delivered[block] |= 1 << place
            self._noted[block] = self._noted.get(block, 0) | 1 << place

    async def run(self) -> None:
        """Bring what was noted to the store, and learn what others did, for ever."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.flush()
                if self._shared:
                    await self._learn()
            except StoreUnavailable as error:
                _log.warning("discovery.waits", why=str(error))
            except Exception:  # The next time, maybe.
                _log.exception("discovery.numbers-failed")

    async def flush(self) -> None:
        """Bring what was noted to the store.

        Raises:
            StoreUnavailable: It does not take it; it is still noted.
        """
        if not self._noted:
            return
        noted, self._noted = self._noted, {}
        try:
            await self._store.submit(partial(seal_blocks.note, delivered=noted), locks=(LOCK,))
        except Exception:
            for block, bits in noted.items():
                self._noted[block] = self._noted.get(block, 0) | bits
            raise

    async def close(self) -> None:
        """Be done: what is left of the own block is used by nobody."""
        for number in self._own:
            self.note(number)
        self._own = range(0)
        try:
            await self.flush()
        except StoreUnavailable as error:
            _log.warning("discovery.not-noted", why=str(error))

    async def _learn(self) -> None:
        known = await self._store.submit(seal_blocks.load)
        newest = max(known, default=0)
        for block, bits in self._delivered.items():
            if block in known or block > newest:  # Noted, or taken, since.
                known[block] = known.get(block, 0) | bits
        self._newest = max(self._newest, newest)
        self._delivered = known
