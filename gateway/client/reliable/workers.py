"""The workers of one end: they look at the store for due work, give applications their messages,
and send. Transactions run on threads, HTTP in an event loop on a thread of its own, so that
programs with and without an event loop use the same.

Nothing is in memory that a crash must not take: messages on their way are due again.
"""

import asyncio
import logging
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from typing import Any, TypeVar

from gateway.client.calling import Caller
from gateway.client.reliable.application_threads import ApplicationThreads
from gateway.client.reliable.posting import Posts
from gateway.client.reliable.recovery import recover
from gateway.client.reliable.transaction_threads import MAX_COMMIT, STOPPED, Pool
from gateway.client.sequence_binding import CheckSignature, SignEnvelope
from gateway.group_commit import GroupCommit
from gateway.reliability.back_channel import may_answer, reply_to
from gateway.reliability.batches import ReceivedMessage, send_all_due
from gateway.reliability.destination_worker import watch
from gateway.reliability.endpoint import Endpoint
from gateway.reliability.storage import Look, StorageUnavailable, retried
from gateway.reliability.values import Awaited, NotHere, Outgoing, Reply

log = logging.getLogger("dragoman.reliable")

T = TypeVar("T")

POLL = 1.0
"""Seconds between two looks at a store to which other processes write, too."""
GATHER, MOST_GATHER = 0.005, 0.1
"""Seconds between two looks, at the least and at the most."""
GATHER_MANY, MANY = 0.02, 16
"""As `GATHER`, after a look that found so many: many at once cost less each."""
LOOKING = 8
"""The pause after a look, in times that the look took."""
DELAY = 5.0
"""Seconds until work is tried again that the store, or a missing function, prevented."""
TRANSACTIONS = 2
"""Transactions that run at the same time. More of them are in each other's way: each statement lets
another one run for milliseconds (Python's switch interval)."""
APPLICATIONS = 4
"""Functions of the program that run at the same time."""
RECOVERY = 60.0
"""Seconds between two looks for transactions of two phases that a crash left open."""
LOOKED_AT = 256
"""The most sequences of each kind that one look finds."""
MAX_ANSWER = 4 * 1024 * 1024
STOP = 10.0
"""Seconds that running work is given when the workers stop."""


class Workers:
    """The workers of *endpoint*.

    Args:
        timeout: Seconds for a whole exchange over HTTP.
        tls: For ``https``; what the system trusts, when None.
        sign: Signs what is sent; None: it goes unsigned.
        check: Checks what is answered; None: whoever answers is believed.
        beside: A context that lives in their event loop as long as they do.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout: float,
        tls: ssl.SSLContext | None = None,
        sign: SignEnvelope | None = None,
        check: CheckSignature | None = None,
        beside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        self.endpoint = endpoint
        self._timeout = timeout
        self._tls = tls
        self.sign, self.check = sign, check
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beside = beside
        self._failure: BaseException | None = None
        self._took = 0.0
        self._many = False
        self._stop = asyncio.Event()
        self._woken = asyncio.Event()
        self._waking = False
        """Somebody has asked the loop to set that."""
        self._busy: set[tuple[str, str]] = set()
        self._not_before: dict[tuple[str, str], float] = {}
        self._holding: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._tasks: set[asyncio.Task[None]] = set()
        self.posts = Posts(self)
        self._arrivals: GroupCommit[ReceivedMessage, Reply] = GroupCommit(
            lambda some: endpoint.received_all(some, time.time()),
            MAX_COMMIT,
            name="reliable-receive",
            leaves_out_cancelled=True,
        )

    @property
    def running(self) -> bool:
        """Return whether they work; not when their thread has ended by itself."""
        return self._loop is not None and not self._loop.is_closed()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the workers, while they run."""
        return self._loop if self.running else None

    def start(self) -> None:
        """Start, unless they run: end sequences that a former process left open, then look for due
        work.

        Raises:
            StorageUnavailable: The store does not answer.
            GatewayError: It cannot listen.
        """
        with self._lock:
            if self.running:
                return
            if self._thread is not None:  # It has ended by itself.
                self._thread.join(STOP)
                self._end_threads()
            self.endpoint.restart(time.time())
            ready = threading.Event()
            self._store_threads = Pool(TRANSACTIONS, "reliable-store")
            self._giving = ApplicationThreads(
                self.endpoint.party,
                APPLICATIONS,
                self._spawn,
                self._given,
                self.look_soon,
            )
            self._thread = threading.Thread(
                target=self._run, args=(ready,), name="reliable", daemon=True
            )
            self._failure = None
            self._thread.start()
            ready.wait()
            self._check_began()

    def stop(self) -> None:
        """Stop; what runs ends first, within a deadline."""
        with self._lock:
            loop, thread = self._loop, self._thread
            if loop is None or thread is None:
                return
            with suppress(RuntimeError):  # The loop is closed: it has ended by itself.
                loop.call_soon_threadsafe(self._stop.set)
            thread.join(2 * STOP)
            self._end_threads()

    def _check_began(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            self._end_threads()
            try:
                raise failure
            finally:
                del failure

    def _end_threads(self) -> None:
        self._store_threads.close(STOP)
        self._arrivals.close(STOP)
        self._arrivals.refuse(lambda _: True, partial(StorageUnavailable, STOPPED))
        self._giving.close()
        self._loop = self._thread = None

    def wake(self) -> None:
        """Look at the store now: something was committed."""
        loop = self._loop
        # Where it is set, or will be, the next look sees the changes that are committed now.
        if loop is not None and not self._waking and not self._woken.is_set():
            self._waking = True
            try:
                loop.call_soon_threadsafe(self._wake)
            except RuntimeError:  # The loop is closed. What was committed is sent after a start.
                self._waking = False

    def _wake(self) -> None:
        self._waking = False
        self._woken.set()

    def look_soon(self) -> None:
        """Look at the store soon, as `wake` does, in the event loop of the workers."""
        self._woken.set()

    @property
    def stopping(self) -> bool:
        """Return whether the workers are to stop, or have stopped."""
        return self._stop.is_set()

    def has_room(self, key: str | None) -> bool:
        """Return whether a message of the sequence *key*, which may not exist yet, may be sent now
        by `post_soon`. From any thread; the answer may be a moment old."""
        return key is not None and self.running and self.posts.room(key) > 0

    def post_soon(self, messages: Sequence[Outgoing]) -> None:
        """Send messages, from any thread. Those that are not sent because the workers stop are as
        lost in the network: a message that was stored as sent goes again when it is time."""
        loop = self._loop
        if messages and loop is not None:
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(self._post_all, messages)

    def _post_all(self, messages: Sequence[Outgoing]) -> None:
        for each in messages:
            self.posts.post(each)
        if self.endpoint.party.policy.interval < POLL:
            self._woken.set()  # A look learns when they are due again.

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run something in the event loop of the workers.

        Raises:
            StorageUnavailable: They have stopped.
        """
        try:
            if self._loop is not None:
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # The loop is closed.
            pass
        coroutine.close()
        raise StorageUnavailable(STOPPED)

    async def on_thread(self, work: Callable[..., T], *args: Any, **named: Any) -> T:
        """Run transactions on a thread; again, where others were in their way."""
        return await self._store_threads.run(partial(retried, partial(work, *args, **named)))

    async def once(self, work: Callable[[], T]) -> T:
        """Run transactions on a thread, as they are."""
        return await self._store_threads.run(work)

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._main(ready))
        except BaseException as error:
            if ready.is_set():
                log.critical(
                    "the workers have ended: nothing is sent and delivered until a new start",
                    exc_info=error,
                )
            else:
                self._failure = error.with_traceback(None)
        finally:
            ready.set()

    async def _main(self, ready: threading.Event) -> None:
        self._stop, self._woken = asyncio.Event(), asyncio.Event()
        self._forget()
        async with (
            Caller(timeout=self._timeout, max_answer=MAX_ANSWER, tls=self._tls) as caller,
            self._beside(),
        ):
            self.caller = caller
            self._loop = asyncio.get_running_loop()
            ready.set()
            attending = [
                asyncio.create_task(self._attend()),
                asyncio.create_task(self._recover()),
            ]
            await self._stop.wait()
            for task in attending:
                task.cancel()
            end = time.monotonic() + STOP
            while self._tasks and time.monotonic() < end:  # One may begin another.
                await asyncio.wait(self._tasks, timeout=max(0.0, end - time.monotonic()))
            for task in self._tasks:
                task.cancel()

    def _forget(self) -> None:
        """Begin with nothing: work that was under way at the stop may never have ended."""
        self._waking = False
        self._busy.clear()
        self._not_before.clear()
        self._tasks.clear()
        self.posts = Posts(self)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._stop.is_set():
            work.close()
        else:
            self.begin(work)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Start *work* even while the workers stop: it belongs to work that runs."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _recover(self) -> None:
        while True:
            await asyncio.sleep(RECOVERY)
            try:
                party = self.endpoint.party
                await self.on_thread(recover, party.storage, party.complaints, time.time())
            except Exception as error:
                log.warning("transactions of two phases wait for their end: %s", error)

    # ------------------------------------------------------------------------- due work

    async def _attend(self) -> None:
        while True:
            self._woken.clear()
            try:
                wait = await self._attend_once()
            except StorageUnavailable as error:
                log.warning("the store does not answer: %s", error)
                wait = POLL
            except Exception:
                log.exception("a look at the store failed")
                wait = POLL
            # Work that comes meanwhile is found by one look.
            least = GATHER_MANY if self._many else GATHER
            await asyncio.sleep(min(max(least, LOOKING * self._took), MOST_GATHER))
            if wait > 0:
                try:
                    async with asyncio.timeout(wait):
                        await self._woken.wait()
                except TimeoutError:
                    pass

    async def _attend_once(self) -> float:
        """Begin all that is due; the seconds until the next look, if nothing wakes us."""
        now = time.time()
        self._not_before = {at: due for at, due in self._not_before.items() if due > now}
        limit = LOOKED_AT + len(self._busy) + len(self._not_before)
        found, next_due = await self.on_thread(self._look, now, limit)
        limits: dict[str, int] = {}
        for place in found:
            if place in self._busy or place in self._not_before:
                continue
            if place[0] == "outgoing":
                room = self.posts.room(place[1])
                if room <= 0:
                    continue
                limits[place[1]] = room
            self._busy.add(place)
            if place[0] == "invoker":
                self._giving.add(place[1])
            elif place[0] == "incoming":
                self._spawn(self._watch(place))
        self._giving.begin()
        due = list(limits.items())
        for start in range(0, len(due), MAX_COMMIT):
            self._spawn(self._send_due(dict(due[start : start + MAX_COMMIT])))
        # Something due that is not begun now is busy, and wakes us when it ends; or it is delayed.
        soon = [due - now for due in self._not_before.values()]
        if next_due is not None and next_due > now:
            soon.append(next_due - now)
        return max(0.0, min([POLL, *soon]))

    def _look(self, now: float, limit: int) -> tuple[list[tuple[str, str]], float | None]:
        began = time.thread_time()
        with self.endpoint.party.storage.look() as look:
            found = _all_due(look, now, limit)
            # A sequence that is found is looked at again when its work is done.
            next_due = None if found else look.next_due()
        self._took = time.thread_time() - began
        self._many = len(found) >= MANY
        return found, next_due

    async def _watch(self, place: tuple[str, str]) -> None:
        try:
            for outgoing in await self.on_thread(watch, self.endpoint.party, place[1], time.time()):
                self.posts.post(outgoing)
        except Exception as error:
            self._postpone(place, error)
        finally:
            self._busy.discard(place)
            self._woken.set()

    def _postpone(self, place: tuple[str, str], error: Exception) -> None:
        """Leave alone for a while an object whose work failed."""
        self._not_before[place] = time.time() + DELAY
        if isinstance(error, StorageUnavailable):
            level = logging.DEBUG if isinstance(error, NotHere) else logging.WARNING
            log.log(level, "%s waits: %s", place[1], error)
        else:
            log.error("the worker of %s failed", place[1], exc_info=error)

    def _given(self, looked_at: Mapping[str, Exception | None]) -> None:
        """Take the results of deliveries."""
        for identifier, error in looked_at.items():
            self._busy.discard(("invoker", identifier))
            if error is not None:
                self._postpone(("invoker", identifier), error)
            for event in self._holding.get(identifier, ()):
                event.set()

    async def _send_due(self, limits: dict[str, int]) -> None:
        """Send the due messages of these sequences."""
        try:
            works = await self.on_thread(send_all_due, self.endpoint.party, limits, time.time())
            for key, work in works.items():
                if isinstance(work, Exception):
                    self._postpone(("outgoing", key), work)
                    continue
                for outgoing in work.outgoing:
                    self.posts.post(outgoing)
        except Exception as error:
            for key in limits:
                self._postpone(("outgoing", key), error)
        finally:
            self._busy.difference_update(("outgoing", key) for key in limits)
            self._woken.set()

    # ------------------------------------------------------------------- messages

    async def receive(self, arrived: ReceivedMessage) -> Reply:
        """Take a message, in the event loop of any server.

        Raises:
            Refused: It is no message.
            StorageUnavailable: Nothing is promised; it may come again.
        """
        if not self.running:
            raise StorageUnavailable(STOPPED)
        return await self._arrivals.submit(arrived)

    # ------------------------------------------------------------------- replies on connections

    async def reply_to(self, awaited: Awaited, seconds: float) -> Outgoing | None:
        """The reply to a message, within *seconds*; None: it is not there yet."""
        ready, party = asyncio.Event(), self.endpoint.party
        self._holding[awaited.identifier].add(ready)
        end = asyncio.get_running_loop().time() + seconds
        try:
            while not self._stop.is_set():
                ready.clear()
                found = await self.on_thread(reply_to, party, awaited, time.time())
                left = end - asyncio.get_running_loop().time()
                if found is not None or left <= 0:
                    return found
                if not await self.on_thread(may_answer, party, awaited, time.time()):
                    return await self.on_thread(reply_to, party, awaited, time.time())
                try:
                    async with asyncio.timeout(min(left, POLL)):
                        await ready.wait()
                except TimeoutError:
                    pass
            return None
        finally:
            self._holding[awaited.identifier].discard(ready)
            if not self._holding[awaited.identifier]:
                del self._holding[awaited.identifier]


def _all_due(look: Look, now: float, limit: int) -> list[tuple[str, str]]:
    """The due keys, with their kinds."""
    all_due = getattr(look, "all_due", None)
    if all_due is not None:
        invoker, outgoing, incoming = all_due(now, limit)
    else:
        invoker, outgoing = look.invoker_due(now, limit), look.outgoing_due(now, limit)
        incoming = look.incoming_due(now, limit)
    return [
        *(("invoker", each) for each in invoker),
        *(("outgoing", each) for each in outgoing),
        *(("incoming", each) for each in incoming),
    ]
