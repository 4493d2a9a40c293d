"""Which exchanges may begin: how many at once, and with which hosts.

An operator vouches for the producers of sources. Whoever registers a publisher may name any host,
and a producer may name any other one as the manager of its subscriptions. So those hosts are on
probation as those of consumers are, until they have answered; and strangers' producers that never
answer leave places to others.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from weakref import WeakValueDictionary

from gateway.delivery import Probations
from gateway.egress import Target
from gateway.model.hosts import reached_host
from gateway.model.sources import Source

AT_ONCE, AT_ONCE_FOR_STRANGERS, AT_ONCE_FOR_STRANGER, AT_ONCE_WITH_HOST = 32, 24, 8, 2
"""Exchanges under way: in all; for strangers, and for one of them; for one owner with one host."""
AGREED = 10_000
"""Hosts that answered as producers do; the one that did so the longest ago goes."""


class Visit:
    """One exchange with one host.

    Attributes:
        admit: The question whether anything may be written to an address; None where it may.
    """

    def __init__(self, host: str, agreed: "_Agreed", gate: Callable[[str], bool] | None) -> None:
        self._agreed = agreed
        self._gate = gate
        self._hosts = [host]
        self.admit = None if gate is None else self._admit

    @property
    def agreed(self) -> bool:
        """Whether nobody need agree to anything any more."""
        return self._gate is None or all(host in self._agreed for host in self._hosts)

    def _admit(self, text: str) -> bool:
        address = reached_host(text) if text else ""
        if address:
            self._hosts.append(address)
        return address in self._agreed or self._gate is None or self._gate(text)

    def answered(self) -> None:
        """Note that the host answered as a producer does."""
        for host in self._hosts:
            self._agreed[host] = None
            self._agreed.move_to_end(host)
        while len(self._agreed) > AGREED:
            self._agreed.popitem(last=False)


_Agreed = OrderedDict[str, None]


class Admission:
    """Admits exchanges.

    A host that answered as a producer, by its name and by its address, is asked without probation
    from then on; it has not said that it wants anybody's messages.

    Args:
        probations: None where no host is on probation.
        clock: That of the probations.
    """

    def __init__(
        self, probations: Probations | None = None, clock: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._probations = probations
        self._clock = clock
        self._agreed = _Agreed()
        self._in_all = asyncio.Semaphore(AT_ONCE)
        self._for_strangers = asyncio.Semaphore(AT_ONCE_FOR_STRANGERS)
        self._for_one: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._with_host: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = (
            WeakValueDictionary()
        )

    def is_strangers(self, source: Source) -> bool:
        """Whether nobody that is trusted vouches for *source*."""
        if source.registration is None:
            return False
        return self._probations is None or not self._probations.vouches(source.owner)

    @contextlib.asynccontextmanager
    async def place(self, source: Source, host: str) -> AsyncIterator[None]:
        """Wait for a place for one exchange of *source* with *host*, and keep it."""
        async with contextlib.AsyncExitStack() as held:
            key = (source.owner, host)
            with_host = self._with_host.setdefault(key, asyncio.Semaphore(AT_ONCE_WITH_HOST))
            await held.enter_async_context(with_host)
            if self.is_strangers(source):
                own = asyncio.Semaphore(AT_ONCE_FOR_STRANGER)
                own = self._for_one.setdefault(source.owner, own)
                await held.enter_async_context(own)
                await held.enter_async_context(self._for_strangers)
            await held.enter_async_context(self._in_all)
            yield

    def visit(self, source: Source, target: Target) -> Visit | None:
        """One exchange of *source* at *target*, now; None where its host is not to be asked."""
        if self._probations is None or not self.is_strangers(source):
            return Visit(target.host, self._agreed, None)
        name, owner = target.destination, source.owner
        if target.host not in self._agreed and not self._probations.may_notify(
            name, owner, self._clock()
        ):
            return None
        gate = self._probations.gate_for(name, owner, self._clock)
        return Visit(target.host, self._agreed, gate)
