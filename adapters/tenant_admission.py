"""Admission of tenants' work to the event loop: requests, messages, attempts.

What heavy tenants bring waits where it has not cost anything: a request before it is parsed, a
message before it is taken from the messaging system, an attempt before it begins. It waits for its
turn, and for light tenants (`adapters.tenant_priority`). Where no tenant but the default one does
anything, nobody waits and nothing is counted.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

from adapters.tenant_priority import TenantPriority
from adapters.tenant_turns import EACH, TenantTurns


class TenantAdmission:
    """Admits work. To be used on one event loop.

    Attributes:
        counts: There is another tenant than the default one.
    """

    def __init__(self) -> None:
        self._priority = TenantPriority()
        self._turns: TenantTurns[asyncio.Future[None]] = TenantTurns()
        self._taken = False
        """Some request had the turn of this turn of the event loop."""
        self._pulling: asyncio.Future[None] | None = None
        self._resume: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self.counts = False

    def needed(self, tenant: str) -> bool:
        """Whether work of *tenant* has to be admitted: from the moment on at which it is known that
        there is another tenant than the default one."""
        if tenant:
            self.counts = True
        return self.counts

    @property
    def several(self) -> bool:
        """Whether more than one tenant has done anything lately."""
        return self.counts and self._priority.several

    @property
    def holds_back(self) -> bool:
        """Whether heavy tenants are held back now; they are resumed (`when_resumed`)."""
        return self._priority.holds_back

    def is_light(self, tenant: str) -> bool:
        """Whether *tenant* has right of way."""
        return self.counts and self._priority.is_light(tenant)

    def use(self, tenant: str, octets: int) -> None:
        """Count a message or an attempt of *tenant*, of so many bytes."""
        self._priority.use(tenant, EACH + octets, monotonic())

    def when_resumed(self, resume: Callable[[], None]) -> None:
        """Call *resume* whenever what was not admitted is."""
        self._resume.append(resume)

    # Requests.

    @asynccontextmanager
    async def request(self, tenant: str, octets: int) -> AsyncIterator[None]:
        """Wait until a request of *tenant*, of so many bytes, is admitted; it is under way until
        the context ends."""
        light = self._priority.is_light(tenant)
        self.use(tenant, octets)
        if not light:
            await self._take_turn(tenant, octets)
            yield
            return
        hold = self._hold_back()
        try:
            yield
        finally:
            if hold:
                self._wake_pulling()  # It takes this one's event, before the others are resumed.
                asyncio.get_running_loop().call_soon(self._end, hold)

    def _hold_back(self) -> int:
        held = self._priority.holds_back
        hold = self._priority.begin(monotonic())
        if not held and self._priority.holds_back:
            if self._timer is not None:
                self._timer.cancel()
            self._expire_in_time()
        return hold

    def _expire_in_time(self) -> None:
        wait = max(0.0, self._priority.until - monotonic())
        self._timer = asyncio.get_running_loop().call_later(wait + 0.001, self._expire)

    def _end(self, hold: int) -> None:
        self._priority.end(hold, monotonic())
        self._go_on()

    def _expire(self) -> None:
        self._timer = None
        self._priority.expire(monotonic())
        if self._priority.holds_back:  # uvloop's timers count milliseconds, and ring early.
            self._expire_in_time()
        else:
            self._go_on()

    def _go_on(self) -> None:
        if self._priority.holds_back:
            return
        if not self._taken:
            self._give_turn()
        self._wake_pulling()
        for resume in self._resume:
            resume()

    async def _take_turn(self, tenant: str, octets: int) -> None:
        if self._taken or self._turns or self._priority.holds_back:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._turns.append(turn, tenant)
            await turn
        else:
            self._begin_turn()
        self._turns.sent(tenant, octets)

    def _begin_turn(self) -> None:
        self._taken = True
        asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        """Give the next turn, in the next turn of the event loop."""
        self._taken = False
        if not self._priority.holds_back:
            self._give_turn()

    def _give_turn(self) -> None:
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():  # Else its request was given up.
                turn.set_result(None)
                self._begin_turn()
                return

    # Messages.

    async def pull(self) -> None:
        """Wait until one more message may be taken from the messaging system."""
        if not self._priority.holds_back:
            await asyncio.sleep(0)
            return
        self._pulling = asyncio.get_running_loop().create_future()
        await self._pulling

    def _wake_pulling(self) -> None:
        if self._pulling is not None:
            if not self._pulling.done():
                self._pulling.set_result(None)
            self._pulling = None
