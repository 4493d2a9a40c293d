"""Bounds around a transport that others wrote: what it raises, or never returns, hurts nobody
else."""

import asyncio
from collections.abc import Collection, Iterator
from typing import Any

import structlog

from gateway.egress.addresses import MAX_ADDRESS_OCTETS, AddressRefused, Target
from gateway.egress.transport import (
    Answer,
    FailureKind,
    Request,
    SchemeTransport,
    SendFailed,
)
from gateway.observing.samples import Sample, counters

MAX_ANSWER = 65536
"""Bytes of an answer that are kept."""
CLOSE = 5.0
"""Seconds that a transport has to close."""
_log = structlog.get_logger("dragoman.transports")


class GuardedTransport:
    """A `Transport` around one of a package.

    A message that takes longer than *timeout* has failed. What still runs then is cancelled; it
    keeps its place among the *at_a_time* messages until it has really ended, so a transport that
    hangs stands still, and all others go on.

    Attributes:
        scheme: That of the addresses it sends to.
        errors: How often it raised what it should not, or broke the protocol.
    """

    def __init__(
        self, inner: SchemeTransport, scheme: str, *, timeout: float, at_a_time: int
    ) -> None:
        self._inner = inner
        self.scheme = scheme
        self._timeout = timeout
        self._places = asyncio.Semaphore(at_a_time)
        self._under_way: set[asyncio.Task[Answer]] = set()
        self.errors = 0

    def read(self, address: str) -> Target:
        """Read *address*, as the transport does.

        Raises:
            AddressRefused: It is none that may be sent to.
        """
        if len(address) > MAX_ADDRESS_OCTETS:
            raise AddressRefused(address[:MAX_ADDRESS_OCTETS])
        try:
            target: Any = self._inner.target(address)
        except AddressRefused:
            raise
        except Exception as exc:
            self._broken("read an address", exc)
            raise AddressRefused(address) from exc
        if not isinstance(target, Target) or target.scheme != self.scheme or not target.host:
            self._broken("read an address", TypeError(f"{target!r} is no Target of its scheme"))
            raise AddressRefused(address)
        return target

    async def send(self, request: Request) -> Answer:
        """Send *request* within the bounds.

        Raises:
            SendFailed: There was no answer.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self._timeout
        try:
            async with asyncio.timeout_at(end):
                await self._places.acquire()
        except TimeoutError:
            raise SendFailed(FailureKind.TIMEOUT, connecting=True) from None
        task = loop.create_task(self._inner.send(request))
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait((task,), timeout=end - loop.time())
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            task.cancel()
            raise SendFailed(FailureKind.TIMEOUT)
        return self._answer(task)

    def _answer(self, task: "asyncio.Task[Answer]") -> Answer:
        if task.cancelled():
            raise SendFailed(FailureKind.RESET)
        error = task.exception()
        if isinstance(error, SendFailed):
            raise error
        if error is not None:
            self._broken("send", error)
            raise SendFailed(FailureKind.TRANSPORT) from error
        answer: object = task.result()
        if not isinstance(answer, Answer) or not _is_whole(answer):
            self._broken("send", TypeError(f"{answer!r} is no Answer"))
            raise SendFailed(FailureKind.TRANSPORT)
        if len(answer.body) > MAX_ANSWER:
            raise SendFailed(FailureKind.ANSWER, status=answer.status)
        return answer

    def _ended(self, task: "asyncio.Task[Answer]") -> None:
        self._under_way.discard(task)
        self._places.release()
        if not task.cancelled():
            task.exception()  # Else asyncio would say that nobody asked for it.

    def _broken(self, what: str, error: BaseException) -> None:
        self.errors += 1
        _log.warning(
            "transport.error",
            scheme=self.scheme,
            what=what,
            error=f"{type(error).__name__}: {error}"[:500],
        )

    async def close(self) -> None:
        """Give up what is under way, and close the transport; neither lasts long."""
        for task in self._under_way:
            task.cancel()
        closing = asyncio.get_running_loop().create_task(self._inner.close())
        await asyncio.wait((closing, *self._under_way), timeout=CLOSE)
        if not closing.done():
            closing.cancel()
            self._broken("close", TimeoutError("it took too long"))
        elif not closing.cancelled() and (error := closing.exception()) is not None:
            self._broken("close", error)


def _is_whole(answer: Answer) -> bool:
    status: object = answer.status
    body: object = answer.body
    return isinstance(status, int) and 100 <= status <= 599 and isinstance(body, bytes)


def transport_samples(transports: Collection[GuardedTransport]) -> Iterator[Sample]:
    """The errors of transports, by scheme."""
    if transports:
        yield counters(
            "transport_errors",
            "Errors inside transports of other packages, by scheme.",
            "scheme",
            {one.scheme: one.errors for one in transports},
        )
