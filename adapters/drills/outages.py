"""The trials of a system to which something happens: it is cut off, silent, slow, restarted; and of
a gateway that is killed.

During each, publishers go on as they do in front of a gateway: what is not confirmed is published
again, with the same id. Whatever was confirmed has to come.
"""

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median

from adapters.drills.forwarder import Forwarder
from adapters.drills.inbox import Inbox
from adapters.drills.trials import hold_and_take_over, needs_durability, seconds
from adapters.drills.workbench import Absent, Broken, Workbench
from adapters.protocol import Adapter, AdapterUnavailable, Delivery
from mediation.model.messages import Notification

PUBLISHERS = 4
BEFORE, AFTER = 40, 40
"""Events that are confirmed before a fault, and after it."""
LASTS = 1.0
"""Seconds that a fault lasts once it is noticed."""
WAITING = 100
"""Events that wait in the system meanwhile."""
RETRY = 0.1
DELAY = 0.1
"""Seconds by which a slow network delays each direction."""
KILLED_AFTER = 50
"""Events after whose confirmation a gateway is killed."""

Step = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Publishers:
    """Publishers that each publish one event after the other, on a topic of their own."""

    adapter: Adapter
    confirmed: list[Notification] = field(default_factory=list)
    told: float | None = None
    """When the first of them was told to try again, by the event loop's clock."""
    ended: bool = False
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def publish(self, bench: Workbench, number: int) -> None:
        """Publish until `ended`."""
        while not self.ended:
            event = bench.notification(f"drill/p{number}")
            while not await self._is_confirmed(event):  # noqa: ASYNC110  # It waits for the system.
                await asyncio.sleep(RETRY)

    async def _is_confirmed(self, event: Notification) -> bool:
        try:
            await self.adapter.publish([event])
        except AdapterUnavailable:
            self.told = self.told or asyncio.get_running_loop().time()
            confirmed = False
        else:
            self.confirmed.append(event)
            confirmed = True
        async with self._changed:
            self._changed.notify_all()
        return confirmed

    async def until(self, many: int) -> None:
        """Return when *many* are confirmed in all."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.confirmed) >= many)

    async def until_told(self) -> None:
        """Return when one of them was told to try again."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.told is not None)


async def cut(bench: Workbench) -> str:
    """The connection is cut, and refused for a while."""
    forwarder = _forwarder(bench)
    return await _outage(bench, forwarder.cut, forwarder.join)


async def silence(bench: Workbench) -> str:
    """Nothing comes through, on a connection that stays open: a firewall that forgot it."""
    forwarder = _forwarder(bench)

    async def begin() -> None:
        forwarder.fall_silent()

    async def end() -> None:
        await forwarder.cut()
        await forwarder.join()

    return await _outage(bench, begin, end)


async def restart(bench: Workbench, command: str | None) -> str:
    """The system is restarted, or killed and started, by a command of the operator."""
    if command is None:
        raise Absent(
            "not tried: give --restart-command, which restarts the system or kills and starts it"
        )

    async def begin() -> None:
        process = await asyncio.create_subprocess_shell(
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                process.kill()
            raise
        if code:
            raise Absent(f"not tried: the restart command ended with exit code {code}")

    return await _outage(bench, begin, None)


async def _outage(bench: Workbench, begin: Step, end: Step | None) -> str:
    """Have a fault *begin*, and *end* once it is noticed, while events wait, are unsettled, and are
    published. With *end* None it has ended when *begin* returns."""
    needs_durability(bench)
    clock = asyncio.get_running_loop().time
    waiting = bench.notifications(WAITING)
    async with bench.running(bench.interest()) as adapter:
        inbox = bench.inbox(adapter)
        await adapter.publish(waiting)
        held = await inbox.take(min(10, adapter.capabilities.prefetch), settle=False)
        publishers = Publishers(adapter)
        tasks = [asyncio.create_task(publishers.publish(bench, n)) for n in range(PUBLISHERS)]
        try:
            await publishers.until(BEFORE)
            begun = clock()
            await begin()
            if end is not None:
                await publishers.until_told()
                await asyncio.sleep(LASTS)
                await end()
            ended, many = clock(), len(publishers.confirmed)
            await publishers.until(many + 1)
            back = clock() - ended
            await publishers.until(many + AFTER)
        finally:
            publishers.ended = True
            for task in tasks:
                if not await _ends(task):
                    task.cancel()
        if publishers.told is None:
            raise Absent("the command ended, and nobody noticed: did it restart the system?")
        confirmed = [*waiting, *publishers.confirmed]
        came = await _drain(inbox, {one.id for one in confirmed})
    twice = _check(confirmed, came)
    again = {each.notification.id for each in held}
    marked = all(each.redelivered for each in came if each.notification.id in again)
    if not marked and end is not None:
        raise Broken("events that come again are not marked as redelivered")
    told = max(0.0, publishers.told - begun)
    return (
        f"publishers are told after {told:.1f} s, and confirmed again {back:.1f} s after its end;"
        f" all {len(confirmed)} confirmed events came, {twice} of them twice; what was unsettled"
        f" came again, {'marked as redelivered' if marked else 'but is not marked as redelivered'}"
    )


async def _ends(task: asyncio.Task[None]) -> bool:
    await asyncio.wait([task], timeout=1.0)
    return task.done()


async def _drain(inbox: Inbox, expected: set[str]) -> list[Delivery]:
    """Settle what comes until all that is *expected* has come, or nothing more comes."""
    came: list[Delivery] = []
    missing = set(expected)
    with suppress(TimeoutError):
        while missing:
            delivery = await inbox.next()
            delivery.settle()
            came.append(delivery)
            missing.discard(delivery.notification.id)
    return came


def _check(confirmed: Sequence[Notification], came: Sequence[Delivery]) -> int:
    """Return how many came twice.

    Raises:
        Broken: Some are lost, or in another order.
    """
    counts = Counter(each.notification.id for each in came)
    lost = [one for one in confirmed if one.id not in counts]
    if lost:
        raise Broken(f"{len(lost)} of {len(confirmed)} confirmed events never came")
    first = list(dict.fromkeys(each.notification.id for each in came))
    for topic in {one.topic for one in confirmed}:
        own = [one.id for one in confirmed if one.topic == topic]
        wanted = set(own)
        if [id for id in first if id in wanted] != own:
            raise Broken("all confirmed events came, those of one topic in another order")
    return sum(count > 1 for count in counts.values())


async def slow_down(bench: Workbench) -> str:
    """The network is slow."""
    forwarder = _forwarder(bench)
    async with bench.running(bench.interest()) as adapter:
        forwarder.delay = DELAY
        sent = bench.notifications(10)
        alone = [await seconds(adapter.publish([one])) for one in sent[:5]]
        together = await seconds(_publish_each(adapter, bench.notifications(100, "drill/many")))
        for one in sent[5:]:
            await adapter.publish([one])
        came = await _drain(bench.inbox(adapter), {one.id for one in sent})
    _check(sent, [one for one in came if one.notification.topic == sent[0].topic])
    return (
        f"with {1000 * DELAY:.0f} ms more in each direction an event is confirmed in"
        f" {median(alone):.2f} s, and those of 100 publishers at once in {together:.2f} s; they"
        " keep their order"
    )


async def _publish_each(adapter: Adapter, events: Sequence[Notification]) -> None:
    await asyncio.gather(*(adapter.publish([one]) for one in events))


async def take_over(bench: Workbench) -> str:
    """A gateway that shares the work falls silent: another one takes its partitions over."""
    forwarder = _forwarder(bench)
    if bench.capabilities.sharing is None:
        raise Absent("several gateways cannot share the work here")
    name = f"{bench.name}-3"
    silent = bench.make(folder="silent", name=name)
    other = bench.make(folder="other", name=name, through=False)
    return await hold_and_take_over(bench, silent, other, forwarder.fall_silent)


async def kill_gateway(bench: Workbench) -> str:
    """A gateway is killed while it publishes: what was confirmed to it comes after its restart."""
    needs_durability(bench)
    confirmed = await _killed(bench)
    async with bench.running(bench.interest()) as adapter:
        came = await _drain(bench.inbox(adapter), set(confirmed))
    lost = len(set(confirmed) - {each.notification.id for each in came})
    if lost:
        raise Broken(
            f"{lost} of {len(confirmed)} events that were confirmed before the gateway was killed"
            " never came"
        )
    return f"all {len(confirmed)} events came that were confirmed before a gateway was killed"


async def _killed(bench: Workbench) -> list[str]:
    """Have another process publish, and kill it; the ids of what was confirmed to it."""
    made = bench.isolated(bench.name)
    bench.used.add(bench.name)
    work = {
        "url": made.url,
        "settings": dict(made.settings),
        "data": str(bench.folder / "one"),
        "namespace": bench.namespace,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "adapters.drills.killed_publisher",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None and process.stdout is not None
    confirmed: list[str] = []
    try:
        process.stdin.write(json.dumps(work).encode() + b"\n")
        await process.stdin.drain()
        while len(confirmed) < KILLED_AFTER and (line := await process.stdout.readline()):
            confirmed.append(line.decode().strip())
        if len(confirmed) < KILLED_AFTER:
            raise Broken("a second process could not publish")
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        rest = await process.stdout.read()
        await process.wait()
    return confirmed + rest.decode().splitlines()


def _forwarder(bench: Workbench) -> Forwarder:
    if bench.forwarder is None:
        raise Absent("not tried: the system has no network that could be cut")
    return bench.forwarder
