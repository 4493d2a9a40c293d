"""A fair queue in front of one thread: bounded, and each owner has a turn."""

import asyncio
from collections import OrderedDict, deque

from filters import Reason, Refused

OF_ONE = 64
"""Messages of one owner that wait, and octets of them: more are refused."""
OCTETS_OF_ONE = 16 * 2**20
WAITING = 1024
"""Messages of all owners that wait, and octets of them."""
OCTETS_WAITING = 64 * 2**20
WAIT = 5.0
"""Seconds that one waits for its turn."""
AT_A_TIME = 2
"""Messages that have their turn: the second is there when the thread has done with the first."""


class Busy(Refused):
    """There is too much to do: of this sender, or in all."""

    def __init__(self, text: str = "Too many messages wait to be read; try again soon.") -> None:
        super().__init__(Reason.UNAVAILABLE, text)


class _Place(asyncio.Future[None]):
    """A place in the line; it is done when its turn comes."""

    def __init__(self, octets: int) -> None:
        super().__init__()
        self.octets = octets


class FairQueue:
    """Deals turns to owners one after the other, whatever each has waiting.

    Args:
        wait: Seconds that one waits for its turn at most.
    """

    def __init__(self, *, wait: float = WAIT) -> None:
        self._wait = wait
        self._waiting: OrderedDict[str, deque[_Place]] = OrderedDict()
        self._octets: dict[str, int] = {}
        self._places = 0
        self._octets_waiting = 0
        self._free = AT_A_TIME
        self._closed = False

    async def take_turn(self, owner: str, octets: int) -> None:
        """Return when it is the turn of a message of *octets* from *owner*; `leave` ends it.

        Raises:
            Busy: Too much waits, it would have to wait too long, or the gateway stops.
        """
        if self._free:
            self._free -= 1
            return
        self._check(owner, octets)
        place = self._enter(owner, octets)
        try:
            async with asyncio.timeout(self._wait):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.leave()  # Its turn came at this moment.
            else:
                self._remove(owner, place)
            if isinstance(error, TimeoutError):
                raise Busy from None
            raise
        finally:
            del place

    def leave(self) -> None:
        """End a turn: the next owner has one."""
        while self._waiting:
            owner, places = next(iter(self._waiting.items()))
            self._waiting.move_to_end(owner)
            place = places[0]
            self._remove(owner, place)
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    def close(self) -> None:
        """Refuse whoever waits, now and later: the gateway stops."""
        self._closed = True
        for places in self._waiting.values():
            for place in places:
                if not place.done():
                    place.set_exception(Busy("The gateway is stopping."))

    def _check(self, owner: str, octets: int) -> None:
        if self._closed:
            raise Busy("The gateway is stopping.")
        of_owner = self._octets.get(owner, 0)
        if (
            len(self._waiting.get(owner, ())) >= OF_ONE
            or (of_owner and of_owner + octets > OCTETS_OF_ONE)
            or self._places >= WAITING
            or self._octets_waiting + octets > OCTETS_WAITING
        ):
            raise Busy

    def _enter(self, owner: str, octets: int) -> _Place:
        place = _Place(octets)
        self._waiting.setdefault(owner, deque()).append(place)
        self._count(owner, 1, octets)
        return place

    def _remove(self, owner: str, place: _Place) -> None:
        places = self._waiting.get(owner)
        if places is None or place not in places:
            return
        places.remove(place)
        if not places:
            del self._waiting[owner]
        self._count(owner, -1, -place.octets)

    def _count(self, owner: str, places: int, octets: int) -> None:
        self._places += places
        self._octets_waiting += octets
        self._octets[owner] = self._octets.get(owner, 0) + octets
        if owner not in self._waiting:
            del self._octets[owner]
