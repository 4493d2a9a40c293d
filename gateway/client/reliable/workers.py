"""The workers of one end: they look at the store for what is due, give applications their messages,
and send. Transactions run on threads, HTTP in an event loop on a thread of its own, so that
programs with and without an event loop use the same.

Nothing is in memory that a crash must not take: what was in flight is due again.
"""

import asyncio
import functools
import logging
import ssl
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from filters import Refused
from gateway.client.calling import Answer, Caller
from gateway.client.errors import GatewayError
from gateway.client.reliable.gathering import Gathering
from gateway.client.reliable.lanes import Lanes
from gateway.client.reliable.pool import Pool
from gateway.reliability.answers import Came, acknowledging, together
from gateway.reliability.crowds import Acknowledging, Arrived
from gateway.reliability.endpoint import Endpoint
from gateway.reliability.invoker import deliver_some
from gateway.reliability.storage import Conflict, Look, StorageUnavailable
from gateway.reliability.values import Awaited, NotHere, Outgoing, Reply
from gateway.reliability.watching import watch
from mediation import Soap, http_headers

T = TypeVar("T")

POLL = 1.0
"""Seconds between two looks at a store to which other processes write, too."""
GATHER, MOST_GATHER = 0.005, 0.1
"""Seconds between two looks, at the least and at the most."""
GATHER_MANY, MANY = 0.02, 16
"""As `GATHER`, after a look that found so much: to do what comes together takes less."""
LOOKING = 8
"""How many times longer than a look the pause after it is."""
DELAY = 5.0
"""Seconds until something is tried again that the store, or a missing function, prevented."""
RECOVERY = 60.0
LOOKED_AT = 256
"""How many sequences of each kind one look finds."""
IN_FLIGHT = 64
"""Messages of one sequence that are on their way, or wait for a connection."""
AT_A_TIME = 4
"""Connections for the messages of one sequence."""
TO_A_HOST = 96
ALONE = 256
"""What is of no sequence of ours, and waits for one host."""
TOGETHER = 64
"""Messages, or acknowledgements, that share a commit."""
DELIVERED = 256
"""Messages that applications are given in one transaction."""
SHARED = 0.02
"""Seconds of applications after which what they did is committed."""
MAX_ANSWER = 4 * 1024 * 1024
STOP = 10.0
"""Seconds that what runs is given when the workers stop."""
CONFLICTS = 5

log = logging.getLogger("dragoman.reliable")
log.addHandler(logging.NullHandler())


class Pace:
    """How long functions of a program take that share a transaction.

    Args:
        clock: Seconds since whenever.

    Attributes:
        longest: Seconds of the one that took the longest.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.longest = 0.0
        self._last = self._end = 0.0

    def goes_on(self) -> bool:
        """Whether there is time for another one; called before each."""
        now = self._clock()
        if not self._end:  # The transaction has begun, which may have taken long.
            self._end = now + SHARED
        else:
            self.longest = max(self.longest, now - self._last)
        self._last = now
        return now < self._end

    def at_once(self, before: int) -> int:
        """How many sequences are locked at once the next time, where it was *before*: all wait for
        a function that takes long."""
        return max(before // 8, 1) if self.longest > SHARED else min(2 * before, TOGETHER)


class Workers:
    """The workers of *endpoint*.

    Args:
        timeout: Seconds for a whole exchange over HTTP.
        tls: For ``https``; what the system trusts, when None.
        threads: How many transactions run at the same time. More of them are in each other's way:
            each statement lets another one run for milliseconds (Python's switch interval).
        applications: How many functions of the program run at the same time.
        beside: What lives in their event loop as long as they do.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout: float,
        tls: ssl.SSLContext | None = None,
        threads: int = 2,
        applications: int = 4,
        beside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        self.endpoint = endpoint
        self._timeout = timeout
        self._tls = tls
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads, self._applications = threads, applications
        self._beside = beside
        self._failure: BaseException | None = None
        self._took = 0.0
        self._many = False
        self._acknowledging_took = 0.0
        self._stop = asyncio.Event()
        self._woken = asyncio.Event()
        self._busy: set[tuple[str, str]] = set()
        self._not_before: dict[tuple[str, str], float] = {}
        self._in_flight: dict[str, set[str]] = defaultdict(set)
        self._lanes = Lanes(self._post, self._begin, AT_A_TIME, TO_A_HOST)
        self._alone: Counter[str] = Counter()
        self._came: dict[str, list[Came]] = defaultdict(list)
        self._taking: set[str] = set()
        self._holding: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._to_deliver: deque[str] = deque()
        self._delivering = 0
        self._at_once = 1
        self._tasks: set[asyncio.Task[None]] = set()
        self._acknowledged: list[tuple[str, str, Acknowledging]] = []
        self._acknowledging = False
        self._arrivals: WeakKeyDictionary[asyncio.AbstractEventLoop, Gathering[Arrived, Reply]]

    @property
    def running(self) -> bool:
        return self._loop is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the workers, while they run."""
        return self._loop

    def start(self) -> None:
        """Start, unless they run: end what a former process left open, then look at what is due.

        Raises:
            StorageUnavailable: The store does not answer.
            GatewayError: It cannot listen.
        """
        with self._lock:
            if self._loop is not None:
                return
            self.endpoint.restart(time.time())
            ready = threading.Event()
            self._store_threads = Pool(self._threads, "reliable-store")
            self._arrivals = WeakKeyDictionary()
            self._application_threads = ThreadPoolExecutor(
                self._applications, "reliable-application"
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
            loop.call_soon_threadsafe(self._stop.set)
            thread.join(2 * STOP)
            self._end_threads()

    def _check_began(self) -> None:
        if self._failure is not None:
            self._end_threads()
            raise self._failure

    def _end_threads(self) -> None:
        self._store_threads.close(STOP)
        self._application_threads.shutdown(wait=False, cancel_futures=True)
        self._loop = self._thread = None

    def wake(self) -> None:
        """Look at the store now: something was committed."""
        loop = self._loop
        # Where it is set, the look that follows sees what is committed now.
        if loop is not None and not self._woken.is_set():
            loop.call_soon_threadsafe(self._woken.set)

    def post_soon(self, outgoing: Outgoing) -> None:
        """As `post`, from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.post, outgoing)

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
        raise StorageUnavailable("the workers have stopped")

    async def on_thread(self, work: Callable[..., T], *args: Any, **named: Any) -> T:
        """Run transactions on a thread; again, where others were in their way."""
        return await self._store_threads.run(
            functools.partial(_again, functools.partial(work, *args, **named))
        )

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._main(ready))
        except BaseException as error:
            if ready.is_set():
                raise
            self._failure = error
        finally:
            ready.set()

    async def _main(self, ready: threading.Event) -> None:
        self._stop, self._woken = asyncio.Event(), asyncio.Event()
        self._forget()
        async with (
            Caller(timeout=self._timeout, max_answer=MAX_ANSWER, tls=self._tls) as caller,
            self._beside(),
        ):
            self._caller = caller
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
        """Begin with nothing: what was on its way when they were stopped may not have ended."""
        for each in (self._busy, self._not_before, self._in_flight, self._came, self._taking):
            each.clear()
        self._alone.clear()
        self._tasks.clear()
        self._to_deliver.clear()
        self._delivering = 0
        self._acknowledged.clear()
        self._lanes = Lanes(self._post, self._begin, AT_A_TIME, TO_A_HOST)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._stop.is_set():
            work.close()
        else:
            self._begin(work)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something, though they are to stop: it belongs to what runs."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _recover(self) -> None:
        while True:
            await asyncio.sleep(RECOVERY)
            try:
                await self.on_thread(self.endpoint.party.storage.recover)
            except Exception as error:
                log.warning("transactions of two phases wait for their end: %s", error)

    # ------------------------------------------------------------------------- what is due

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
            # What comes meanwhile is looked at together.
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
                room = IN_FLIGHT - len(self._in_flight.get(place[1], ()))
                if room <= 0:
                    continue
                limits[place[1]] = room
            self._busy.add(place)
            if place[0] == "invoker":
                self._to_deliver.append(place[1])
            elif place[0] == "incoming":
                self._spawn(self._watch(place))
        if not self._delivering:  # One thread gives several at a time; more begin where it is slow.
            self._deliver_on_thread()
        due = list(limits.items())
        for start in range(0, len(due), TOGETHER):
            self._spawn(self._send_due(dict(due[start : start + TOGETHER])))
        # Something due that is not begun now is busy, and wakes us when it ends; or it is delayed.
        soon = [due - now for due in self._not_before.values()]
        if next_due is not None and next_due > now:
            soon.append(next_due - now)
        return max(0.0, min([POLL, *soon]))

    def _look(self, now: float, limit: int) -> tuple[list[tuple[str, str]], float | None]:
        began = time.thread_time()
        with self.endpoint.party.storage.look() as look:
            found = _all_due(look, now, limit)
            # What is found is looked at again when it is done.
            next_due = None if found else look.next_due()
        self._took = time.thread_time() - began
        self._many = len(found) >= MANY
        return found, next_due

    async def _watch(self, place: tuple[str, str]) -> None:
        try:
            for outgoing in await self.on_thread(watch, self.endpoint.party, place[1], time.time()):
                self.post(outgoing)
        except Exception as error:
            self._postpone(place, error)
        finally:
            self._busy.discard(place)
            self._woken.set()

    def _postpone(self, place: tuple[str, str], error: Exception) -> None:
        """Leave alone for a while what failed."""
        self._not_before[place] = time.time() + DELAY
        if isinstance(error, StorageUnavailable):
            level = logging.DEBUG if isinstance(error, NotHere) else logging.WARNING
            log.log(level, "%s waits: %s", place[1], error)
        else:
            log.error("the worker of %s failed", place[1], exc_info=error)

    def _deliver_on_thread(self) -> None:
        if self._to_deliver and self._delivering < self._applications:
            self._delivering += 1
            self._spawn(self._deliver())

    async def _deliver(self) -> None:
        """Give applications their messages, on one thread, as long as there are any."""
        loop = asyncio.get_running_loop()
        try:
            while self._to_deliver:
                work = loop.run_in_executor(self._application_threads, self._deliver_some)
                while not work.done():
                    await asyncio.wait([work], timeout=SHARED)
                    if not work.done():  # Others need not wait for a function that takes long.
                        self._deliver_on_thread()
                for identifier, error in (await work).items():
                    self._busy.discard(("invoker", identifier))
                    if error is not None:
                        self._postpone(("invoker", identifier), error)
                    for event in self._holding.get(identifier, ()):
                        event.set()
        finally:
            self._delivering -= 1
            self._woken.set()

    def _deliver_some(self) -> dict[str, Exception | None]:
        pace = Pace()
        looked_at = deliver_some(
            self.endpoint.party,
            self._to_deliver,
            time.time(),
            limit=DELIVERED,
            at_once=self._at_once,
            goes_on=pace.goes_on,
        )
        self._at_once = pace.at_once(self._at_once)
        return looked_at

    async def _send_due(self, limits: dict[str, int]) -> None:
        """Send what is due of these sequences."""
        try:
            works = await self.on_thread(self.endpoint.act_all, limits, time.time())
            for key, work in works.items():
                if isinstance(work, Exception):
                    self._postpone(("outgoing", key), work)
                    continue
                for outgoing in work.outgoing:
                    self.post(outgoing)
        except Exception as error:
            for key in limits:
                self._postpone(("outgoing", key), error)
        finally:
            self._busy.difference_update(("outgoing", key) for key in limits)
            self._woken.set()

    # ---------------------------------------------------------------------------- sending

    def post(self, outgoing: Outgoing) -> None:
        """Send something, unless the same is on its way. To be called in the workers' loop.

        What is of no sequence of ours, an acknowledgement, say, is dropped where much of its kind
        waits for its host: it is asked for again.
        """
        if self._stop.is_set():
            return
        key, what = outgoing.key or "", outgoing.label.removesuffix(" again")
        host = urlsplit(outgoing.to.address).netloc
        if outgoing.key is not None:
            if what in self._in_flight[key]:
                return
            self._in_flight[key].add(what)
        elif self._alone[host] >= ALONE:
            log.info("%s is dropped: %d others wait for %s", outgoing.label, ALONE, host)
            return
        else:
            self._alone[host] += 1
        # What goes again has connections of its own: a service may hold all others open until it
        # has the message before theirs, which was lost (Apache CXF does).
        again = " again" if outgoing.label.endswith(" again") else ""
        self._lanes.add(host, (key or host) + again, (outgoing, key, what, host))

    async def _post(self, item: tuple[Outgoing, str, str, str]) -> None:
        outgoing, key, what, host = item
        acknowledged: Acknowledging | None = None
        try:
            answer = await self._call(outgoing)
            came = None if answer is None else self._came_of(outgoing, answer)
            if came is not None:
                acknowledged = acknowledging(came)
                if acknowledged is None and (came.envelope is not None or outgoing.ends):
                    await self._sent(came)
        except Exception:
            log.exception("the answer to %s could not be taken", outgoing.label)
        finally:
            if acknowledged is None:
                self._is_done(outgoing.key, what, host)
        if acknowledged is not None:  # The next message need not wait for its commit.
            self._acknowledged.append((key, what, acknowledged))
            if not self._acknowledging:
                self._acknowledging = True
                self._begin(self._take_acknowledgements())

    def _is_done(self, key: str | None, what: str, host: str) -> None:
        """Note that something is not on its way any more."""
        if key is not None:
            self._in_flight[key].discard(what)
            if not self._in_flight[key]:
                del self._in_flight[key]
        else:
            self._alone[host] -= 1
            if not self._alone[host]:
                del self._alone[host]
        self._woken.set()

    async def _take_acknowledgements(self) -> None:
        """Take those that came, and those that come meanwhile (group commit: no timer)."""
        some: list[tuple[str, str, Acknowledging]] = []
        try:
            while self._acknowledged:
                # Nobody waits for them, and those that come meanwhile cost little more.
                await asyncio.sleep(min(LOOKING * self._acknowledging_took, MOST_GATHER))
                some, self._acknowledged = self._acknowledged, []
                for outgoing in await self._store_threads.run(
                    functools.partial(self._take_all, [each for _, _, each in some])
                ):
                    self.post(outgoing)
                for key, what, _ in some:
                    self._is_done(key, what, "")
                some = []
        except StorageUnavailable as error:
            log.info("acknowledgements are not taken: %s", error)
        except Exception:
            log.exception("acknowledgements could not be taken")
        finally:
            self._acknowledging = False
            for key, what, _ in some:
                self._is_done(key, what, "")

    async def _call(self, outgoing: Outgoing) -> Answer | None:
        try:
            return await self._caller.call(
                "POST",
                outgoing.to.address,
                body=outgoing.envelope,
                headers=_headers(outgoing.wire.soap, outgoing.action),
            )
        except GatewayError as error:
            log.info("%s: %s", outgoing.label, error)
            return None

    def _came_of(self, outgoing: Outgoing, answer: Answer) -> Came | None:
        """What came back, where the message was taken. Only an envelope is an answer: others in
        between have pages."""
        said = answer.body if answer.body and "xml" in answer.content_type else None
        if said is None and not 200 <= answer.status < 300:
            log.info("%s: %s", outgoing.label, answer.words)
            return None
        return Came(outgoing, said, answer.content_type)

    async def _sent(self, came: Came) -> None:
        """Take what came back, which does not only acknowledge."""
        key = came.outgoing.key
        if key is None:
            await self._take([came])
            return
        self._came[key].append(came)
        if key in self._taking:
            return  # Who takes the answers of this sequence now takes this one next.
        self._taking.add(key)
        try:
            while taken := self._came.pop(key, None):
                await self._take(taken)
        finally:
            self._taking.discard(key)

    async def _take(self, answers: list[Came]) -> None:
        for each in await self.on_thread(self._taken, answers):
            self.post(each)

    def _taken(self, answers: list[Came]) -> list[Outgoing]:
        found: list[Outgoing] = []
        for came in answers:
            try:
                reply = self.endpoint.sent(
                    came.outgoing,
                    time.time(),
                    delivered=True,
                    answer=came.envelope,
                    content_type=came.content_type,
                )
            except Conflict:
                raise
            except (Refused, StorageUnavailable) as error:
                log.info("the answer to %s: %s", came.outgoing.label, error)
                continue
            found.extend(reply.outgoing)
        return found

    def _take_all(self, answers: Sequence[Acknowledging]) -> list[Outgoing]:
        """Take acknowledgements; what another one says is done with that one."""
        began = time.thread_time()
        found: list[Outgoing] = []
        kept = together(answers)
        for start in range(0, len(kept), TOGETHER):
            some = kept[start : start + TOGETHER]
            replies = self.endpoint.acknowledged_all(some, time.time())
            for each, reply in zip(some, replies, strict=True):
                if isinstance(reply, Exception):
                    log.info("an acknowledgement for %s: %s", each.key, reply)
                else:
                    found.extend(reply.outgoing)
        self._acknowledging_took = time.thread_time() - began
        return found

    # ------------------------------------------------------------------- what comes

    async def receive(self, arrived: Arrived) -> Reply:
        """Take a message, in the event loop of any server.

        Raises:
            Refused: It is no message.
            StorageUnavailable: Nothing is promised; it may come again.
        """
        loop = asyncio.get_running_loop()
        gathering = self._arrivals.get(loop)
        if gathering is None:
            gathering = self._arrivals[loop] = Gathering(
                self._store_threads,
                lambda some: self.endpoint.received_all(some, time.time()),
                TOGETHER,
            )
        return await gathering.run(arrived)

    # ------------------------------------------------------------------- replies on connections

    async def reply_to(self, awaited: Awaited, seconds: float) -> Outgoing | None:
        """The reply to a message, within *seconds*; None: it is not there yet."""
        ready = asyncio.Event()
        self._holding[awaited.identifier].add(ready)
        end = asyncio.get_running_loop().time() + seconds
        try:
            while not self._stop.is_set():
                ready.clear()
                found = await self.on_thread(self.endpoint.reply_to, awaited, time.time())
                left = end - asyncio.get_running_loop().time()
                if found is not None or left <= 0:
                    return found
                if not await self.on_thread(self.endpoint.may_answer, awaited, time.time()):
                    return await self.on_thread(self.endpoint.reply_to, awaited, time.time())
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
    """What is due, with its kind."""
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


@functools.lru_cache(256)
def _headers(soap: Soap, action: str) -> Mapping[str, str]:
    return MappingProxyType(dict(http_headers(soap, action)))


def _again(work: Callable[[], T]) -> T:
    """Run *work*; again, where another transaction was in its way."""
    for attempt in range(1, CONFLICTS):
        try:
            return work()
        except Conflict:
            time.sleep(0.01 * 2**attempt)
    return work()
