"""Subscribes at the parent of the gateway's channel, so that a hierarchy of channels hands events
down (Grid SOAP Events): a lease there, renewed when two thirds of it are over.

There is no call that ends a lease: one whose parent is another now, or gone, runs out by itself.
"""

import asyncio
import contextlib
from collections.abc import Iterator

import structlog

from filters import Refused
from gateway.egress import (
    AddressPolicy,
    AddressRefused,
    Request,
    SendFailed,
    Transport,
    parse_target,
)
from gateway.observing.samples import Sample, counters
from gateway.parsing import Parsing
from mediation import EndpointReference
from mediation.grid_events import Port, port_of, read_lease, write_subscribe_lease

LEASE = 600.0
"""Seconds that are asked for."""
SHORTEST = 3.0
"""Seconds that a lease is believed to last, at least: nobody has us ask more often."""
SECONDS = 20.0
"""Of one exchange, its answer included."""
FIRST_RETRY, LAST_RETRY = 5.0, 300.0
_SCHEMES = {"http": 80, "https": 443}
_log = structlog.get_logger("dragoman.channels")


class _Failed(Exception):
    """The parent granted nothing; the text says why."""


class ParentLink:
    """The subscription at the parent.

    Args:
        listener: Us, as the parent is to call us.
    """

    def __init__(
        self,
        transport: Transport,
        policy: AddressPolicy,
        parsing: Parsing,
        listener: Port,
        *,
        lease: float = LEASE,
        first_retry: float = FIRST_RETRY,
    ) -> None:
        self._transport, self._policy, self._parsing = transport, policy, parsing
        self._listener = listener
        self._lease, self._first_retry = lease, first_retry
        self._parent: EndpointReference | None = None
        self._changed = asyncio.Event()
        self.outcomes = {"granted": 0, "failed": 0}

    def follow(self, parent: EndpointReference | None) -> None:
        """Be subscribed at *parent* from now on; None: nowhere."""
        if parent != self._parent:
            self._parent = parent
            self._changed.set()

    async def run(self) -> None:
        """Keep the subscription, until cancelled."""
        failures = 0
        while True:
            self._changed.clear()
            parent, delay = self._parent, None
            if parent is not None:
                try:
                    delay = await self._subscribe(parent) * 2 / 3
                except _Failed as failed:
                    self.outcomes["failed"] += 1
                    if not failures:
                        _log.warning("parent.failed", location=parent.address, why=str(failed))
                    delay = min(LAST_RETRY, self._first_retry * 2.0 ** min(failures, 20))
                    failures += 1
                else:
                    if failures or not self.outcomes["granted"]:
                        _log.info("parent.subscribed", location=parent.address)
                    self.outcomes["granted"] += 1
                    failures = 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._changed.wait()

    async def _subscribe(self, parent: EndpointReference) -> float:
        """Subscribe, or renew; the seconds of the lease.

        Raises:
            _Failed: There is no lease.
        """
        port = port_of(parent)
        headers, envelope = write_subscribe_lease(
            self._listener, round(self._lease * 1000), binding=port.binding
        )
        try:
            target = parse_target(port.location, default_ports=_SCHEMES)
            self._policy.check(target)
            async with asyncio.timeout(SECONDS):
                answer = await self._transport.send(Request(target, envelope, headers))
        except AddressRefused as refused:
            raise _Failed(refused.text) from refused
        except SendFailed as failed:
            raise _Failed(f"no answer: {failed.kind.value}") from failed
        except TimeoutError:
            raise _Failed("no answer in time") from None
        fault = await self._parsing.fault_in(answer.body) if answer.body else None
        if fault is not None:
            raise _Failed(f"answered with a fault: {fault.reason or fault.code}")
        if not 200 <= answer.status < 300:
            raise _Failed(f"answered {answer.status}")
        try:
            granted = await self._parsing.run_parser(
                len(answer.body), lambda _: read_lease(answer.body), trusted=False
            )
        except Refused as refused:
            raise _Failed(f"answered what cannot be read: {refused.text}") from refused
        return max(SHORTEST, min(granted / 1000, self._lease))

    def metrics(self) -> Iterator[Sample]:
        """How often the parent granted a lease, and how often not."""
        yield counters("parent", "Exchanges with the channel's parent.", "outcome", self.outcomes)
