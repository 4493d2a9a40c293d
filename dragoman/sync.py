"""The clients of `dragoman.client` for programs without asyncio: scripts, notebooks, Django.

::

    with WsnClient("http://127.0.0.1:8080") as client:
        client.publish("<speed>120</speed>", topic="storms")
        for event in client.listen(topic="storms"):
            print(event.topic, event.payload)

Methods, arguments, results and errors are those of `dragoman.client`. One thread of the process
runs the event loop of all of them, so that any number of threads may share a client. After a fork a
process makes its own.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    ParamSpec,
    Self,
    TypeVar,
)

from dragoman import client as asynchronous
from dragoman.events import Event

if TYPE_CHECKING:
    from lxml import etree

    from dragoman.client import GatewayError, UnsupportedOperation

__all__ = [
    "Client",
    "CloudEventsClient",
    "Consumer",
    "DsubClient",
    "Event",
    "GatewayError",
    "GridEventsClient",
    "Listening",
    "OnvifClient",
    "Source",
    "UnsupportedOperation",
    "WsManagementClient",
    "WsMessengerClient",
    "WseClient",
    "WsnClient",
]

P = ParamSpec("P")
T = TypeVar("T")


def __getattr__(name: str) -> Any:
    if name not in ("GatewayError", "UnsupportedOperation"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(asynchronous, name)


class LoopThread:
    """An event loop in a thread of its own, which ends with the process."""

    _lock = threading.Lock()
    _running: ClassVar["LoopThread | None"] = None

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="dragoman.sync", daemon=True
        )
        self._thread.start()

    @classmethod
    def of_this_process(cls) -> "LoopThread":
        """The one that all clients of this process share."""
        with cls._lock:
            if cls._running is None or cls._running._process != os.getpid():
                cls._running = cls()
            return cls._running

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* there, and wait for it; what it raises is raised here.

        Raises:
            RuntimeError: The thread is that of another process, or the one that asks.
        """
        if self._process != os.getpid() or threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a client is not used after a fork, nor from its own event loop")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Where it is this wait that was interrupted.
            raise


class Waiting:
    """What has asynchronous methods, with methods that wait for them. It need not be entered: it is
    usable at once, until `close`."""

    def __init__(self, asynchronous: Any) -> None:
        self._thread = LoopThread.of_this_process()
        self._asynchronous = asynchronous
        self._thread.run(asynchronous.__aenter__())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what goes on, and close all connections."""
        self._thread.run(self._asynchronous.__aexit__())


def _made_of(
    kind: Callable[P, Any],
) -> Callable[[Callable[[Any], None]], Callable[Concatenate[Any, P], None]]:
    """The constructor that takes what *kind*, which is asynchronous, takes, and then does what is
    decorated."""

    def decorate(then: Callable[[Any], None]) -> Callable[Concatenate[Any, P], None]:
        @wraps(kind.__init__)
        def construct(self: Waiting, /, *args: P.args, **named: P.kwargs) -> None:
            Waiting.__init__(self, kind(*args, **named))
            then(self)

        return construct

    return decorate


class _Arrivals:
    """Events that came for threads that wait. One that came when the wait was interrupted (Ctrl-C
    in a notebook) is here for the next one: what an interrupted call returns is lost.

    Args:
        take: Takes the next events, in *thread*; none at the end.
    """

    def __init__(
        self, thread: LoopThread, take: Callable[[], Coroutine[Any, Any, Iterable[Event]]]
    ) -> None:
        self._thread = thread
        self._take = take
        self._ready: deque[Event] = deque()

    def next(self) -> Event | None:
        """The next event; waits for it. None at the end."""
        while True:
            # Several at once: each wait for the other thread costs a tenth of a millisecond. And
            # again, as another thread may have been quicker.
            with suppress(IndexError):
                return self._ready.popleft()
            if not self._thread.run(self._has_taken()):
                return None

    async def _has_taken(self) -> bool:
        taken = tuple(await self._take())
        self._ready.extend(taken)
        return bool(taken)


def _waiting(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Waiting, P], T]:
    """The method that calls an asynchronous one, and waits for it."""

    @wraps(method)
    def call(self: Waiting, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(method(self._asynchronous, *args, **kwargs))

    return call


def _listening(
    method: Callable[Concatenate[Any, P], asynchronous.Listening],
) -> Callable[Concatenate[Waiting, P], "Listening"]:
    @wraps(method)
    def listen(self: Waiting, /, *args: P.args, **kwargs: P.kwargs) -> "Listening":
        return Listening(self._thread, method(self._asynchronous, *args, **kwargs))

    return listen


class Client(Waiting):
    """As `dragoman.client.Client`."""

    publish = _waiting(asynchronous.Client.publish)
    subscribe = _waiting(asynchronous.Client.subscribe)
    renew = _waiting(asynchronous.Client.renew)
    status = _waiting(asynchronous.Client.status)
    pause = _waiting(asynchronous.Client.pause)
    resume = _waiting(asynchronous.Client.resume)
    unsubscribe = _waiting(asynchronous.Client.unsubscribe)
    pull = _waiting(asynchronous.Client.pull)
    listen = _listening(asynchronous.Client.listen)


class Listening:
    """Events as they come: an iterator, and a context manager that subscribes on entry. It is as
    `dragoman.client.Listening`."""

    def __init__(self, thread: LoopThread, listening: asynchronous.Listening) -> None:
        self._thread = thread
        self._listening = listening
        self._arrivals = _Arrivals(thread, listening.take)

    def __enter__(self) -> Self:
        self._thread.run(self._listening.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self._arrivals.next()
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """Unsubscribe; the iteration ends."""
        self._thread.run(self._listening.close())


class WseClient(Client):
    """As `dragoman.client.WseClient`."""

    @_made_of(asynchronous.WseClient)
    def __init__(self) -> None: ...


class WsnClient(Client):
    """As `dragoman.client.WsnClient`."""

    @_made_of(asynchronous.WsnClient)
    def __init__(self) -> None: ...


class DsubClient(Client):
    """As `dragoman.client.DsubClient`."""

    @_made_of(asynchronous.DsubClient)
    def __init__(self) -> None: ...


class WsManagementClient(Client):
    """As `dragoman.client.WsManagementClient`."""

    @_made_of(asynchronous.WsManagementClient)
    def __init__(self) -> None: ...


class WsMessengerClient(Client):
    """As `dragoman.client.WsMessengerClient`."""

    @_made_of(asynchronous.WsMessengerClient)
    def __init__(self) -> None: ...


class OnvifClient(Client):
    """As `dragoman.client.OnvifClient`."""

    @_made_of(asynchronous.OnvifClient)
    def __init__(self) -> None: ...


class CloudEventsClient(Client):
    """As `dragoman.client.CloudEventsClient`."""

    @_made_of(asynchronous.CloudEventsClient)
    def __init__(self) -> None: ...


class GridEventsClient(Client):
    """As `dragoman.client.GridEventsClient`."""

    @_made_of(asynchronous.GridEventsClient)
    def __init__(self) -> None: ...


class Consumer(Waiting):
    """As `dragoman.client.Consumer`."""

    @_made_of(asynchronous.Consumer)
    def __init__(self) -> None:
        self._arrivals = _Arrivals(self._thread, self._take)

    @property
    def address(self) -> str:
        """The URL that events are sent to."""
        return str(self._asynchronous.address)

    def receive(self) -> Event:
        """As `dragoman.client.Consumer.receive`."""
        event = self._arrivals.next()
        assert event is not None  # It has no end.
        return event

    async def _take(self) -> tuple[Event]:
        return (await self._asynchronous.receive(),)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        return self.receive()


class Source(Waiting):
    """As `dragoman.source.Source`."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, shown: str | None = None) -> None:
        # Few programs are a source, and what one needs takes its time to import.
        from dragoman.source import Source as Asynchronous

        super().__init__(Asynchronous(host, port, shown=shown))

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return len(self._asynchronous)

    @property
    def url(self) -> str:
        """Where subscribers find it."""
        return str(self._asynchronous.url)

    def publish(
        self,
        event: "bytes | str | etree._Element | object",
        *,
        topic: str | None = None,
        producer: str | None = None,
        properties: Mapping[str, str] | None = None,
        action: str | None = None,
    ) -> int:
        """As `dragoman.source.Source.publish`."""
        given = {"topic": topic, "producer": producer, "properties": properties, "action": action}
        return int(self._thread.run(self._asynchronous.publish(event, **given)))

    def delivered(self) -> None:
        """Wait until all that was published is delivered, or was given up."""
        self._thread.run(self._asynchronous.delivered())
