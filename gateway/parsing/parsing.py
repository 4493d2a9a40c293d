"""Parses messages on the event loop or in threads, so that strangers cannot fill the memory.

libxml2 keeps every name that a thread ever parsed for the life of that thread. Real traffic has few
names; strangers can make new ones for ever. So the event loop parses small messages itself as long
as their sender has taught it few names; everything else is parsed in threads that are replaced, in
a line in which each owner has a turn. Answers of consumers have a line and a thread of their own:
a delivery does not wait for what strangers publish.
"""

from collections.abc import Callable
from typing import TypeVar

from filters import Refused
from gateway.parsing.fair_queue import WAIT
from gateway.parsing.learnt_names import LearntNames
from gateway.parsing.threads import ParsingThreads
from mediation.soap.answers import PeerFault, PeerReply, read_fault, read_reply

T = TypeVar("T")

SMALL = 16 * 1024
LARGE = 256 * 1024
NOBODY = ""
"""The owner of what is charged to none in particular."""
_ANSWERS = "answers of "


class Parsing:
    """Runs functions that parse messages, on the event loop or in a thread."""

    def __init__(self) -> None:
        self._learnt = LearntNames()
        self._messages = ParsingThreads("parser", wait=WAIT)
        self._answers = ParsingThreads("answers", wait=WAIT)
        self._written = ParsingThreads("writer", wait=WAIT)

    @property
    def names_learnt(self) -> int:
        """Names that strangers have taught the thread of the event loop, about."""
        return self._learnt.number

    async def run_parser(
        self,
        octets: int,
        work: Callable[[set[str] | None], T],
        *,
        trusted: bool,
        owner: str = NOBODY,
    ) -> T:
        """Run *work*, which parses *octets* of *owner*, and adds the names that it meets to its
        argument.

        *trusted* peers have few names, and theirs are not counted.

        Raises:
            Busy: Too much waits, or it would have to wait too long for its turn.
        """
        if octets <= SMALL:
            if trusted:
                return work(None)
            if self._learnt.may_teach(owner):
                return self._learnt.run(octets, work, owner)
        return await self._messages.run(octets, work, owner)

    async def run_off_loop(self, octets: int, work: Callable[[], T], *, owner: str = NOBODY) -> T:
        """Run *work*, which makes about so many *octets* for *owner*, off the event loop, unless
        they are few.

        Raises:
            Busy: As `run_parser`.
        """
        if octets <= SMALL:
            return work()
        return await self._messages.run(octets, lambda _: work(), owner)

    async def run_writer(self, octets: int, work: Callable[[], T], *, owner: str) -> T:
        """Run *work*, which makes what consumers are sent of *octets* that *owner* published, in a
        thread.

        Raises:
            Busy: As `run_parser`.
        """
        return await self._written.run(octets, lambda _: work(), owner)

    async def run_answer_parser(
        self,
        octets: int,
        work: Callable[[set[str] | None], T],
        *,
        owner: str = NOBODY,
        counts: bool = True,
    ) -> T:
        """Run *work*, which parses *octets* that a consumer or a producer of *owner* answered.

        Args:
            counts: It adds the names of what it parses to the set that it is given, if any. What
                does not is never run in the event loop, whose thread would keep them all.

        Raises:
            Busy: As `run_parser`.
        """
        peer = _ANSWERS + owner
        if counts and octets <= SMALL and self._learnt.may_teach(peer):
            return self._learnt.run(octets, work, peer)
        return await self._answers.run(octets, work, peer)

    async def fault_in(self, octets: bytes, *, owner: str = NOBODY) -> PeerFault | None:
        """The fault in a consumer's message, which is a stranger's; None where there is none, or it
        cannot be read now."""
        try:
            return await self.run_answer_parser(
                len(octets), lambda learnt: read_fault(octets, names=learnt), owner=owner
            )
        except Refused:
            return None

    async def reply_in(self, octets: bytes, *, owner: str = NOBODY) -> PeerReply | None:
        """The envelope of a consumer's answer, in the same way."""
        try:
            return await self.run_answer_parser(
                len(octets), lambda learnt: read_reply(octets, names=learnt), owner=owner
            )
        except Refused:
            return None

    def drain(self) -> None:
        """Refuse what waits for its turn, now and later: the gateway stops."""
        self._messages.queue.close()

    def close(self) -> None:
        """End the threads."""
        self._messages.close()
        self._answers.close()
        self._written.close()
