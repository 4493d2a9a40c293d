"""Bounds around a transport that others wrote: what it raises, or never returns, hurts nobody
else."""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeGuard

import structlog

from gateway.egress.addresses import MAX_ADDRESS_OCTETS, AddressRefused, Target
from gateway.egress.transport import (
    GIVEN_UP,
    Answer,
    FailureKind,
    Request,
    SchemeTransport,
    SendFailed,
)
from gateway.observing.samples import Sample, counters

MAX_ANSWER = 65536
"""Bytes of an answer that are kept."""
MAX_HEADERS = 8192
"""Characters of its headers, in all."""
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
            most = MAX_ADDRESS_OCTETS
            text = f"This is not an address to send to: it has more than {most} characters."
            raise AddressRefused(address[:MAX_ADDRESS_OCTETS], text=text)
        try:
            target: object = self._inner.target(address)
        except AddressRefused:
            raise
        except Exception as exc:
            self._broken("read an address", exc)
            raise AddressRefused(address) from exc
        if not _is_target(target) or target.scheme != self.scheme:
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
            text = f"no place among those under way within {self._timeout:.0f} s (at_a_time)"
            raise SendFailed(FailureKind.TIMEOUT, text, connecting=True) from None
        task = loop.create_task(self._send(request))
        self._under_way.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait((task,), timeout=end - loop.time())
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            task.cancel()
            text = f"no answer of the transport within {self._timeout:.0f} s (timeout)"
            raise SendFailed(FailureKind.TIMEOUT, text)
        try:
            return self._answer(task, request)
        finally:
            del task

    async def _send(self, request: Request) -> Answer:
        """Call `send`, in a task: it may be no coroutine, or raise at once."""
        return await self._inner.send(request)

    def _answer(self, task: "asyncio.Task[Answer]", request: Request) -> Answer:
        if task.cancelled():
            raise SendFailed(FailureKind.RESET, GIVEN_UP)
        error = task.exception()
        if isinstance(error, SendFailed) and _is_failure(error):
            try:
                raise error
            finally:
                del error, task
        if error is not None:
            self._broken("send", error)
            raise _in_transport(error) from error
        try:
            answer = _checked(task.result(), request)
        except Exception as exc:
            self._broken("send", exc)
            raise _in_transport(exc) from exc
        if len(answer.body) > MAX_ANSWER or _length(answer.headers) > MAX_HEADERS:
            text = f"answered {answer.status}, but it is too long"
            raise SendFailed(FailureKind.ANSWER, text, status=answer.status)
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
        closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.wait((closing, *self._under_way), timeout=CLOSE)
        if not closing.done():
            closing.cancel()
            self._broken("close", TimeoutError("it took too long"))
        elif not closing.cancelled() and (error := closing.exception()) is not None:
            self._broken("close", error)

    async def _close(self) -> None:
        await self._inner.close()


def _is_target(found: object) -> TypeGuard[Target]:
    """Whether *found* is a target, of the types that it has to have."""
    if not isinstance(found, Target) or not found.host:
        return False
    texts: tuple[object, ...] = (found.scheme, found.host, found.path, found.url)
    port: object = found.port
    return all(isinstance(text, str) for text in texts) and isinstance(port, int)


def _in_transport(error: BaseException) -> SendFailed:
    """The failure for *error*, whose text may have what is secret: the log has it."""
    text = f"the transport failed: {type(error).__name__} (transport.error in the log says more)"
    return SendFailed(FailureKind.TRANSPORT, text)


def _is_failure(error: SendFailed) -> bool:
    kind: object = error.kind
    status: object = error.status
    return isinstance(kind, FailureKind) and (status is None or isinstance(status, int))


def _checked(found: object, request: Request) -> Answer:
    """*found*, which is an answer to *request*; the names of its headers in lower case.

    Raises:
        Exception: It is none.
    """
    if not isinstance(found, Answer):
        raise TypeError(f"{found!r} is no Answer")
    status: object = found.status
    if not isinstance(status, int) or not 100 <= status <= 599:
        raise ValueError(f"{status!r} is not a status of an Answer, 100 to 599")
    body: object = found.body
    if not isinstance(body, bytes):
        raise TypeError(f"the body of an Answer is bytes, not {type(body).__name__}")
    dropped: object = found.dropped
    if not isinstance(dropped, int) or not 0 <= dropped <= len(request.attachments):
        raise ValueError(f"an Answer's {dropped=!r} is not a number of the request's attachments")
    if not found.headers and isinstance(found.headers, Mapping):
        return found
    headers: dict[Any, Any] = dict(found.headers)
    if not all(isinstance(text, str) for pair in headers.items() for text in pair):
        raise TypeError("the headers of an Answer are names and values, each a str")
    return replace(found, headers={name.lower(): value for name, value in headers.items()})


def _length(headers: Mapping[str, str]) -> int:
    return sum(len(name) + len(value) for name, value in headers.items())


def transport_samples(transports: Collection[GuardedTransport]) -> Iterator[Sample]:
    """The errors of transports, by scheme."""
    if transports:
        yield counters(
            "transport_errors",
            "Errors inside transports of other packages, by scheme.",
            "scheme",
            {one.scheme: one.errors for one in transports},
        )
