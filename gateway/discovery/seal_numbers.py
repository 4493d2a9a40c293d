"""Number seals, so that a publication is not delivered again when somebody repeats it.

    sealed -> number -> messaging system -> first time  -> delivered -> settled: noted
                                         -> noted       -> it came before: withheld

A number is noted when its publication is settled, and not sooner: a publication that the messaging
system yields once more before, after a crash, is still delivered. Notes reach the store within a
second, for all gateways that share it; a crash forgets that second.
"""

import asyncio
from functools import partial

import structlog

from gateway.store import Store, StoreUnavailable, seal_blocks
from gateway.store.seal_blocks import LOCK, SIZE

EVERY = 1.0
"""Seconds between two writes of numbers to the store."""
RETRY = 1.0
"""Seconds until a store that was unavailable is asked again."""
_log = structlog.get_logger("dragoman.discovery")


class SealNumbers:
    """Gives numbers to seals, and knows which were delivered.

    Args:
        shared: Other gateways use the store, too.
    """

    def __init__(self, store: Store, *, shared: bool = False) -> None:
        self._store = store
        self._shared = shared
        self._delivered: dict[int, int] = {}
        """Bits of the numbers that were delivered, by block; of blocks that are not used up."""
        self._newest = 0
        self._noted: dict[int, int] = {}
        """The same, for bits that are not in the store yet."""
        self._own = range(0)
        """The numbers that this gateway has left of its block."""
        self._taking = asyncio.Lock()

    async def start(self) -> None:
        """Read the blocks from the store.

        Raises:
            StoreUnavailable: It cannot be read.
        """
        await self._load()

    async def take(self) -> int:
        """Return a number that no other seal has.

        Raises:
            StoreUnavailable: A new block cannot be taken.
        """
        async with self._taking:
            if not self._own:
                block = await self._store.submit(seal_blocks.take, locks=(LOCK,))
                await self._load()  # Others may have taken some before it.
                self._own = range(block * SIZE, (block + 1) * SIZE)
            number, self._own = self._own[0], self._own[1:]
            return number

    async def was_delivered(self, number: int) -> bool:
        """Return True if the publication with *number* was delivered; may wait for the store."""
        block, place = divmod(number, SIZE)
        while block > self._newest:  # Another gateway's.
            try:
                await self._load()
            except StoreUnavailable as error:
                _log.warning("discovery.waits", why=str(error))
                await asyncio.sleep(RETRY)
                continue
            break
        if block > self._newest:
            return False  # The store was restored from a backup: nobody knows.
        bits = self._delivered.get(block)
        return bits is None or bool(bits >> place & 1)

    def note(self, number: int) -> None:
        """Note that the publication with *number* was delivered."""
        block, place = divmod(number, SIZE)
        if block in self._delivered:
            self._delivered[block] |= 1 << place
            self._noted[block] = self._noted.get(block, 0) | 1 << place

    async def run(self) -> None:
        """Write notes to the store, and read those of other gateways, for ever."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.flush()
                if self._shared:
                    await self._load()
            except StoreUnavailable as error:
                _log.warning("discovery.waits", why=str(error))
            except Exception:  # The next time, maybe.
                _log.exception("discovery.numbers-failed")

    async def flush(self) -> None:
        """Write notes to the store.

        Raises:
            StoreUnavailable: It does not take them; they are kept.
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
        """Note all that is left of the block as used, so that nobody takes it."""
        for number in self._own:
            self.note(number)
        self._own = range(0)
        try:
            await self.flush()
        except StoreUnavailable as error:
            _log.warning("discovery.not-noted", why=str(error))

    async def _load(self) -> None:
        known = await self._store.submit(seal_blocks.load)
        newest = max(known, default=0)
        for block, bits in self._delivered.items():
            if block in known or block > newest:  # Noted, or taken, since.
                known[block] = known.get(block, 0) | bits
        self._newest = max(self._newest, newest)
        self._delivered = known
