"""The trials of a system that nothing happens to: events in, events out.

Each is a function that takes a `Workbench`, and returns the sentence that says what was kept.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from statistics import median

from adapters.drills.inbox import Inbox
from adapters.drills.workbench import Absent, Broken, Workbench, started
from adapters.protocol import Adapter, AdapterUnavailable, Delivery, PublicationRefused, Sharing
from mediation.model.messages import Attachment, EndpointReference, Notification
from mediation.model.versions import Wsa

SINGLE, TOGETHER = 20, 200
"""Events whose confirmation is timed, one by one, and in one publication."""
TOPICS = 8
TOO_SOON = 0.3
"""Seconds for which nothing may come that should not: time enough to do it wrong."""
LIFE = 30.0
"""Seconds that an event lives which has to come at once, whatever the system's clock says."""
TAKEN_OVER = 120.0
"""Seconds in which a gateway takes over what another one has held."""
RETRY = 0.2
ATTEMPTS = 25
"""Publications after which what the system neither takes nor refuses counts as neither."""


async def seconds(waited: Awaitable[None]) -> float:
    """Return how long *waited* takes."""
    begun = time.monotonic()
    await waited
    return time.monotonic() - begun


async def confirm(bench: Workbench) -> str:
    """Confirmations come, and soon."""
    async with bench.running(bench.interest()) as adapter:
        single = [await seconds(adapter.publish([one])) for one in bench.notifications(SINGLE)]
        together = await seconds(adapter.publish(bench.notifications(TOGETHER)))
        await bench.inbox(adapter).take(SINGLE + TOGETHER)
    figures = f"{1000 * median(single):.1f} ms for one event, {1000 * together:.0f} ms for 200"
    if not adapter.capabilities.durable:
        raise Absent(f"events are confirmed ({figures}), but not kept when the system stops")
    return f"events are confirmed once the system has them durably: {figures} in one publication"


async def keep_content(bench: Workbench) -> str:
    """Events arrive octet by octet, with all that belongs to them."""
    plain = bench.notification("drill", "<a>Ærø 台风 \U0001f300 a\\b\nc:d\te</a>".encode())
    sent = replace(
        plain,
        action="urn:drill:Ærø",
        producer=EndpointReference(
            "http://drill.example/", Wsa.V2005_08, parameters=(b'<q xmlns="urn:q" a="&quot;"/>',)
        ),
        expires=datetime(2099, 1, 1, tzinfo=UTC),
        properties={"severity": "9", "wind speed": "30 m/s: \\ Ærø\n"},
        headers=(b'<h xmlns="urn:h">a: b\r\n</h>',),
        attachments=(Attachment("map@drill.example", "image/png", bytes(range(256))),),
    )
    async with bench.running(bench.interest()) as adapter:
        await adapter.publish([sent])
        (came,) = await bench.inbox(adapter).take(1)
    changed = [
        each.name
        for each in fields(sent)
        if getattr(sent, each.name) != getattr(came.notification, each.name)
    ]
    if changed:
        raise Broken(f"what comes is not what was published; these parts differ: {changed}")
    return "payload, properties, SOAP headers, producer and attachments arrive octet by octet"


async def keep_order(bench: Workbench) -> str:
    """Events of a topic keep their order."""
    paths = [f"drill/n{number}" for number in range(TOPICS)]
    sent = [bench.notification(path) for _ in range(25) for path in paths]
    async with bench.running(bench.interest()) as adapter:
        await adapter.publish(sent[:100])
        for one in sent[100:120]:
            await adapter.publish([one])
        await adapter.publish(sent[120:])
        came = [each.notification for each in await bench.inbox(adapter).take(len(sent))]
    if came == sent:
        return f"all events keep one order, over {TOPICS} topics too"
    for topic in {one.topic for one in sent}:
        if [one for one in came if one.topic == topic] != [
            one for one in sent if one.topic == topic
        ]:
            raise Broken("events of one topic came in another order than they were published in")
    parts = adapter.capabilities.partitions
    return (
        "events of one topic keep their order; those of different topics may pass each other, in"
        f" {parts} partitions"
    )


async def keep_topics_apart(bench: Workbench) -> str:
    """What is not wanted does not come."""
    async with bench.running(bench.interest("drill"), bench.interest("rain/*")) as adapter:
        wanted = [*map(bench.notification, ("drill", "rain/sea"))]
        others = [*map(bench.notification, ("Drill", "drill/sea", "rain", "rain/sea/north"))]
        last = [*map(bench.notification, ("drill", "rain/sea"))]
        await adapter.publish([*others, *wanted, *last])
        inbox = bench.inbox(adapter)
        came = await inbox.until(*(one.id for one in last))
        await adapter.want(bench.interest("calm"))
        await adapter.publish([calm := bench.notification("calm")])
        late = await inbox.until(calm.id)
    if sorted(came) != sorted(one.id for one in wanted) or late:
        raise Broken(f"{len(came) + len(late)} events came where {len(wanted)} were wanted")
    return "only events on topics that are subscribed to come, from the moment of a subscription on"


async def drop_repeats(bench: Workbench) -> str:
    """A publisher that repeats an event with its id has it delivered once."""
    first, last = bench.notifications(2)
    async with bench.running(bench.interest()) as adapter:
        await adapter.publish([first])
        await adapter.publish([first])
        await adapter.publish([last])
        came = await bench.inbox(adapter).until(last.id)
    if came != [first.id]:
        raise Broken(f"an event that was published twice with one id came {len(came)} times")
    return "an event that its publisher repeats with the same id comes once, while the gateway runs"


async def keep_unsettled(bench: Workbench) -> str:
    """What is not settled comes again after a restart of the gateway."""
    needs_durability(bench)
    sent = bench.notifications(20)
    async with bench.running(bench.interest()) as adapter:
        await adapter.publish(sent)
        for number, delivery in enumerate(await bench.inbox(adapter).take(10, settle=False)):
            if number % 2:
                delivery.settle()
    async with bench.running(bench.interest()) as adapter:
        await adapter.publish([last := bench.notification()])
        came = await _take_until(bench.inbox(adapter), last)
    expected = [*sent[:10:2], *sent[10:]]
    if [each.notification for each in came] != expected:
        raise Broken(
            f"of {len(expected)} events that were not settled when the gateway stopped,"
            f" {len(came)} came after its start, or in another order"
        )
    if not all(each.redelivered for each in came[:5]):
        raise Broken("events that come again after a restart are not marked as redelivered")
    return (
        "what the gateway has not settled comes again after its restart, in order and marked;"
        " what it has settled does not"
    )


async def _take_until(inbox: Inbox, last: Notification) -> list[Delivery]:
    """Settle what comes before *last*, and return it."""
    came = []
    while (delivery := await inbox.next()).notification.id != last.id:
        delivery.settle()
        came.append(delivery)
    delivery.settle()
    return came


async def bear_slow_consumer(bench: Workbench) -> str:
    """A consumer that settles nothing gets no more than the prefetch; publishers go on."""
    async with bench.running(bench.interest()) as adapter:
        window = adapter.capabilities.prefetch
        inbox = bench.inbox(adapter)
        sent = bench.notifications(window + 100)
        for start in range(0, len(sent), 100):
            await adapter.publish(sent[start : start + 100])
        taken = await inbox.take(window, settle=False)
        more = asyncio.create_task(inbox.next())
        await asyncio.wait([more], timeout=TOO_SOON)
        if more.done():
            raise Broken(f"more than {window} events are handed out unsettled")
        for delivery in taken:
            delivery.settle()
        (await more).settle()
        await inbox.take(99)
    return (
        f"a gateway that delivers slowly holds {window} events, the others wait in the system;"
        " publishers are confirmed meanwhile"
    )


async def keep_backlog(bench: Workbench, many: int) -> str:
    """Nothing that was confirmed is dropped while it waits, however full a queue is."""
    kept: list[Notification] = []
    refused = ""
    async with bench.running(bench.interest()) as adapter:
        inbox = bench.inbox(adapter)
        payload = b"<drill>%s</drill>" % (b"x" * 1000)
        while len(kept) < many and not refused:
            sent = [bench.notification(payload=payload) for _ in range(min(100, many - len(kept)))]
            try:
                await adapter.publish(sent)
                kept += sent
            except PublicationRefused as exc:
                refused, kept = exc.text, kept + exc.taken(sent)
            except AdapterUnavailable as exc:
                refused = exc.text
        came = await _drain(inbox, {one.id for one in kept})
        lost = [number for number, one in enumerate(kept) if one.id not in came]
        if lost:
            which = ", the oldest of them" if lost[-1] < len(kept) - 1 else ""
            raise Broken(
                f"{len(lost)} of {len(kept)} confirmed events that waited were dropped{which}"
                ": see whether a policy of the system bounds its queues (max-length,"
                " message-ttl), and have it refuse publishers instead"
            )
        await published(adapter, bench.notification())
    if refused:
        return (
            f"a queue that is full refuses publishers, here after {len(kept)} events of 1 kB, and"
            f" nothing confirmed is lost ({refused})"
        )
    return f"{many} confirmed events of 1 kB waited, and all came; more were not tried (--backlog)"


async def _drain(inbox: Inbox, expected: set[str]) -> set[str]:
    """Settle what comes until all that is *expected* has come, or nothing more comes."""
    came: set[str] = set()
    while expected - came:
        try:
            delivery = await inbox.next()
        except TimeoutError:
            break
        delivery.settle()
        came.add(delivery.notification.id)
    return came


async def bound_size(bench: Workbench, largest: int) -> str:
    """Large events arrive, or are refused for good; neither stops others."""
    taken, refused = 0, ""
    async with bench.running(bench.interest()) as adapter:
        inbox = bench.inbox(adapter)
        for size in _sizes(largest):
            # A payload has a bound of its own, an attachment has the system's alone.
            ballast = Attachment("ballast@drill.example", "application/zip", bytes(size))
            event = replace(bench.notification(), attachments=(ballast,))
            refused = await _refused(adapter, event)
            await published(adapter, last := bench.notification())
            came = await _take_until(inbox, last)
            if refused:
                break
            if [each.notification for each in came] != [event]:
                raise Broken(
                    f"an event of {_size_text(size)} was confirmed, and did not come as it was"
                )
            taken = size
    if refused:
        return (
            f"events of {_size_text(taken)} arrive; a larger one is refused for good, and stops no"
            f" others ({refused})"
        )
    return f"events of {_size_text(taken)} arrive; larger ones were not tried (--largest)"


def _sizes(largest: int) -> list[int]:
    """Return sizes in bytes up to *largest*, each four times the one before."""
    sizes, size = [], 2**14
    while size < largest:
        sizes.append(size)
        size *= 4
    return [*sizes, largest]


def _size_text(size: int) -> str:
    return f"{size / 2**20:.3g} MiB" if size >= 2**20 else f"{size / 2**10:.0f} KiB"


async def _refused(adapter: Adapter, event: Notification) -> str:
    """Publish *event*; why it is refused for good, "" if it is not.

    Raises:
        Broken: It is neither taken nor refused.
    """
    why = ""
    for _ in range(ATTEMPTS):
        try:
            await adapter.publish([event])
        except PublicationRefused as exc:
            return exc.words_for(event) or "it gives no reason"
        except AdapterUnavailable as exc:
            why = exc.text
            await asyncio.sleep(RETRY)
        else:
            return ""
    size = _size_text(event.octets)
    raise Broken(f"an event of {size} is neither taken nor refused for good: {why}")


async def published(adapter: Adapter, notification: Notification) -> None:
    """Publish until confirmed, as a publisher does that is told to wait."""
    while True:
        try:
            await adapter.publish([notification])
        except AdapterUnavailable:
            await asyncio.sleep(RETRY)
        else:
            return


async def keep_lives(bench: Workbench) -> str:
    """The system's clock takes no event away that is alive."""
    expires = datetime.now(UTC) + timedelta(seconds=LIFE)
    alive = replace(bench.notification(), expires=expires)
    async with bench.running(bench.interest()) as adapter:
        await adapter.publish([alive])
        await adapter.publish([last := bench.notification()])
        came = await bench.inbox(adapter).until(last.id)
    if came != [alive.id]:
        raise Broken(
            f"an event that lives for {LIFE:.0f} s more was dropped: see whether the clock of the"
            " system is ahead of this machine's"
        )
    return f"an event that lives for {LIFE:.0f} s comes: the clocks agree well enough for that"


async def share(bench: Workbench) -> str:
    """Gateways share partitions: one consumes each, and what it leaves unsettled goes over."""
    if bench.capabilities.sharing is None:
        raise Absent("several gateways cannot share the work here: run one")
    name = f"{bench.name}-2"
    one, other = (bench.make(folder=f"sharing-{each}", name=name) for each in ("one", "other"))
    return await hold_and_take_over(bench, one, other, None)


async def hold_and_take_over(
    bench: Workbench, one: Adapter, other: Adapter, silence: Callable[[], None] | None
) -> str:
    """Have *one* hold events unsettled, and *other* take its partitions over: when *one* releases
    them, or after its *silence*."""
    first, second = (_sharing(each) for each in (one, other))
    first.share()
    second.share()
    numbers = range(one.capabilities.partitions)
    async with started(one, bench.interest()), started(other, bench.interest()):
        for number in numbers:
            first.take(number)
        sent = bench.notifications(20)
        await other.publish(sent)
        await bench.inbox(one).take(min(10, one.capabilities.prefetch), settle=False)
        for number in numbers:
            second.take(number)
        inbox = Inbox(other, TAKEN_OVER)
        waiting = asyncio.create_task(inbox.next())
        await asyncio.wait([waiting], timeout=TOO_SOON)
        if waiting.done():
            raise Broken("two gateways consumed one partition at a time")
        begun = time.monotonic()
        if silence is None:
            await asyncio.gather(*map(first.release, numbers))
        else:
            silence()
        came = [await waiting]
        took = time.monotonic() - begun
        came += await inbox.take(len(sent) - 1)
    if [each.notification for each in came] != sent:
        raise Broken("what one gateway left unsettled did not come to the other one in order")
    if silence is not None:
        return f"when a gateway falls silent, another one has its partitions after {took:.0f} s"
    parts = len(numbers)
    return (
        f"several gateways may share the work, in {parts} partition{'s' if parts > 1 else ''}: one"
        " consumes each, and what it leaves unsettled goes to the next, in order"
    )


def _sharing(adapter: Adapter) -> Sharing:
    sharing = adapter.capabilities.sharing
    assert sharing is not None
    return sharing


def needs_durability(bench: Workbench) -> None:
    """Raise `Absent` where the system forgets."""
    if not bench.capabilities.durable:
        raise Absent("the system forgets all events when it, or the gateway, stops")
