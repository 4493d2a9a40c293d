"""Parses messages on the event loop or in threads, so that strangers cannot fill the memory.

libxml2 keeps every name that a thread ever parsed for the life of that thread. Real traffic has few
names; strangers can make new ones for ever. So the event loop parses small messages itself until it
has learnt a bounded number of names; everything else is parsed in threads that are replaced.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from filters import Reason, Refused
from mediation import PeerFault, PeerReply, read_fault, read_reply

T = TypeVar("T")

SMALL = 16 * 1024
LARGE = 256 * 1024
LEARNT = 20_000
"""Names that the event loop's thread may learn."""
UNREAD = 8 * 2**20
"""Octets that it may parse without learning their names: they were not well-formed."""
DOCUMENTS = 100
OCTETS = 16 * 2**20
"""Documents, and octets of them, that a thread parses before it is replaced."""
LARGE_AT_A_TIME = 2
WAIT = 5.0


class Busy(Refused):
    """Too many large messages at a time."""

    def __init__(self) -> None:
        super().__init__(Reason.UNAVAILABLE, "Too many large messages at a time.")


class Parsing:
    """Runs functions that parse messages, on the event loop or in a thread.

    Args:
        wait: Seconds that a large message may wait for its turn.
    """

    def __init__(self, *, wait: float = WAIT) -> None:
        self._wait = wait
        self._learnt: set[str] = set()
        self._unread = 0
        self._large = asyncio.Semaphore(LARGE_AT_A_TIME)
        self._threads = ThreadPoolExecutor(1, "parser")
        self._documents = 0
        self._octets = 0

    async def run_parser(
        self, octets: int, work: Callable[[set[str] | None], T], *, trusted: bool
    ) -> T:
        """Run *work*, which parses *octets* and adds the names that it meets to its argument.

        *trusted* peers have few names, and theirs are not counted.

        Raises:
            Busy: It would have to wait too long for its turn.
        """
        if octets <= SMALL and len(self._learnt) < LEARNT and self._unread < UNREAD:
            if trusted:
                return work(None)
            known = len(self._learnt)
            try:
                return work(self._learnt)
            except Exception:
                if len(self._learnt) == known:
                    self._unread += octets
                raise
        if octets <= LARGE:
            return await self._in_thread(octets, work)
        try:
            async with asyncio.timeout(self._wait):
                await self._large.acquire()
        except TimeoutError:
            raise Busy from None
        try:
            return await self._in_thread(octets, work)
        finally:
            self._large.release()

    async def run_off_loop(self, octets: int, work: Callable[[], T]) -> T:
        """Run *work*, which makes about so many *octets*, off the event loop, unless they are few.

        Raises:
            Busy: As `run_parser`.
        """
        if octets <= SMALL:
            return work()
        return await self.run_parser(octets, lambda _: work(), trusted=False)

    async def _in_thread(self, octets: int, work: Callable[[set[str] | None], T]) -> T:
        self._documents += 1
        self._octets += octets
        threads = self._threads
        last = self._documents > DOCUMENTS or self._octets > OCTETS
        if last:
            self._threads = ThreadPoolExecutor(1, "parser")
            self._documents, self._octets = 0, 0
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, work, None)
        finally:
            if last:
                threads.shutdown(wait=False)

    async def fault_in(self, octets: bytes) -> PeerFault | None:
        """The fault in a consumer's message, which is a stranger's; None where there is none, or it
        cannot be read now."""
        try:
            return await self.run_parser(
                len(octets), lambda learnt: read_fault(octets, names=learnt), trusted=False
            )
        except Refused:
            return None

    async def reply_in(self, octets: bytes) -> PeerReply | None:
        """The envelope of a consumer's answer, in the same way."""
        try:
            return await self.run_parser(
                len(octets), lambda learnt: read_reply(octets, names=learnt), trusted=False
            )
        except Refused:
            return None

    def close(self) -> None:
        self._threads.shutdown(wait=False)
