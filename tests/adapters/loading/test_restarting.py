"""An adapter of a third party that raises: it is started anew, and the gateway goes on."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest
from structlog.testing import capture_logs

from adapters import (
    Adapter,
    AdapterError,
    AdapterFailed,
    AdapterState,
    AdapterUnavailable,
    Capabilities,
    Delivery,
    Interest,
    RefusalMemory,
    Sharing,
)
from adapters.embedded import EmbeddedAdapter, EmbeddedDelivery
from adapters.loading import RestartingAdapter, restarting
from adapters.memory import MemoryAdapter, MemoryDelivery
from adapters.testing import AdapterContract, Inbox
from mediation.model.messages import Notification
from tests.rigs.adapters import STORM, storm
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.waiting import until

SECONDS = 20.0
EVENT = '<o:Storm xmlns:o="urn:test:weather"><n>{}</n></o:Storm>'


class Frail(EmbeddedAdapter):
    """One whose author forgot that a system can go away: all it has been asked raises then."""

    away = False
    started = 0
    gone: asyncio.Event
    """Of the one that runs: its system goes away."""
    secret = "the system at frail://user:s3cr%2Fet@host is gone, s3cr/et"

    @classmethod
    def from_url(cls, url: str, *, data: Path, settings: Mapping[str, str]) -> Self:
        return super().from_url("embedded:", data=data, settings=settings)

    async def start(self, interests: Collection[Interest]) -> None:
        if Frail.away:
            raise ConnectionRefusedError("refused")
        Frail.gone = asyncio.Event()
        Frail.started += 1
        await super().start(interests)

    async def publish(self, notifications: Sequence[Notification]) -> None:
        if Frail.away:
            raise BrokenPipeError("broken")
        await super().publish(notifications)

    async def deliveries(self) -> AsyncIterator[EmbeddedDelivery]:
        gone = asyncio.ensure_future(Frail.gone.wait())
        all_of_it = super().deliveries()
        while True:
            coming = asyncio.ensure_future(anext(all_of_it, None))
            await asyncio.wait((coming, gone), return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                coming.cancel()
                raise ConnectionResetError(self.secret)
            delivery = coming.result()
            if delivery is None:
                gone.cancel()
                return
            yield delivery

    @classmethod
    def interrupt(cls) -> None:
        cls.away = True
        cls.gone.set()

    @classmethod
    def resume(cls) -> None:
        cls.away = False


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarting, "SHORTEST", 0.02)
    monkeypatch.setattr(restarting, "LONGEST", 0.1)
    monkeypatch.setattr(restarting, "STEADY", 0.2)
    monkeypatch.setattr(Frail, "away", False)
    monkeypatch.setattr(Frail, "started", 0)


class TestContract(AdapterContract):
    """It keeps the contract, of any adapter, through outages that the adapter cannot stand."""

    durable = True

    def make_adapter(self, data: Path) -> Adapter:
        return RestartingAdapter(lambda: Frail.from_url("frail:", data=data, settings={}))

    async def interrupt(self) -> None:
        Frail.interrupt()

    async def resume(self) -> None:
        Frail.resume()


async def test_what_is_wanted_meanwhile_is_wanted_afterwards(tmp_path: Path) -> None:
    adapter = RestartingAdapter(lambda: Frail.from_url("", data=tmp_path, settings={}))
    await adapter.start([])
    inbox = Inbox(adapter, SECONDS)
    coming = asyncio.create_task(inbox.next())
    await asyncio.sleep(0)
    await adapter.want(STORM)
    with capture_logs() as logs:
        Frail.interrupt()
        await until(lambda: adapter.state is not None and not adapter.state.connected)
        with pytest.raises(AdapterUnavailable, match="started anew"):
            await adapter.want(STORM)
        Frail.resume()
        await until(lambda: "adapter.recovered" in [log["event"] for log in logs])
    await adapter.publish([sent := storm()])
    assert (await coming).notification == sent
    await adapter.close()
    failed, recovered = logs
    assert (failed["event"], recovered["event"]) == ("adapter.failed", "adapter.recovered")
    assert failed["at"].rpartition(":")[0] == __file__


@pytest.fixture
def scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """That of `Frail`, installed as pip would leave it."""
    about = tmp_path / "site" / "frail-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: frail\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[dragoman.adapters]\nfrail = {__name__}:Frail\n")
    monkeypatch.syspath_prepend(about.parent)
    return "frail"


async def test_the_gateway_goes_on(tmp_path: Path, scheme: str) -> None:
    speaker = Speaker()
    async with (
        consumers() as sinks,
        running(tmp_path / "data", adapter=f"{scheme}://user:s3cr%2Fet@host") as run,
    ):
        consumer = sinks.add()
        await run.subscribe(speaker, speaker.wse_subscribe(consumer.url))
        await run.publish(EVENT.format(1))
        assert await consumer.have(1, SECONDS) == ["1"]
        assert "broker" not in run.gateway.serving.site.readiness()
        Frail.interrupt()
        await until(lambda: "broker" in run.gateway.serving.site.readiness(), SECONDS)
        broker = run.gateway.serving.site.readiness()["broker"]
        assert not broker["connected"]
        assert broker["last_error"].startswith("Connection")
        assert "s3cr" not in broker["last_error"]
        metrics = await run.admin("GET", "/metrics")
        assert b"dragoman_adapter_up 0.0" in metrics.body
        refused = await run.post(speaker.envelope(EVENT.format(2), action="urn:test:event"))
        assert refused.status == 503
        Frail.resume()
        await until(
            lambda: bool(run.gateway.serving.site.readiness()["broker"]["connected"]), SECONDS
        )
        await run.publish(EVENT.format(3))
        assert await consumer.have(2, SECONDS) == ["1", "3"]
        await until(lambda: "adapter.recovered" in [log["event"] for log in run.logs], SECONDS)
        events = [log["event"] for log in run.logs if log["event"].startswith("adapter.")]
        assert events == ["adapter.failed", "adapter.recovered"]
        assert "s3cr" not in str(run.logs)
        assert Frail.started == 2


class Shared(MemoryAdapter):
    """One that several gateways may share, with a note of what it was asked for."""

    def __init__(self) -> None:
        super().__init__(prefetch=16)
        self.asked: list[str] = []
        self.capabilities = Capabilities(durable=False, prefetch=16, sharing=self)

    def share(self) -> None:
        self.asked.append("share")

    async def adopt(self, interest: Interest) -> None:
        self.asked.append("adopt")

    def take(self, partition: int) -> None:
        self.asked.append(f"take {partition}")

    async def release(self, partition: int) -> None:
        self.asked.append(f"release {partition}")

    def arrived(self, delivery: Delivery) -> float:
        return 1.5


async def test_sharing_passes_through() -> None:
    made: list[Shared] = []

    def make() -> Adapter:
        made.append(Shared())
        return made[-1]

    adapter = RestartingAdapter(make)
    sharing = adapter.capabilities.sharing
    assert sharing is adapter
    sharing.share()
    sharing.take(0)
    await adapter.start([STORM])
    [inner] = made
    assert inner.asked == ["share"]
    await adapter.publish([storm()])
    async with asyncio.timeout(SECONDS):
        delivery = await anext(adapter.deliveries())
    assert sharing.arrived(delivery) == 1.5
    await sharing.adopt(STORM)
    await sharing.release(0)
    assert inner.asked[-2:] == ["adopt", "release 0"]
    await adapter.close()


class Raising(MemoryAdapter):
    """One that raises *error* in whatever it is asked, once it is *broken*."""

    def __init__(self, error: type[BaseException]) -> None:
        super().__init__(prefetch=16)
        self.error = error
        self.broken = False
        self.asked: list[str] = []
        self.capabilities = Capabilities(
            durable=False, prefetch=16, sharing=self, refusals=self, reporting=self.reporting
        )

    def _asked(self, what: str) -> None:
        self.asked.append(what)
        if self.broken:
            raise self.error

    def reporting(self) -> AdapterState | None:
        self._asked("reporting")
        return None

    async def start(self, interests: Collection[Interest]) -> None:
        self.asked += [f"start {one.expression}" for one in interests]
        await super().start(interests)

    async def publish(self, notifications: Sequence[Notification]) -> None:
        self._asked("publish")
        await super().publish(notifications)

    async def want(self, interest: Interest) -> None:
        self._asked("want")
        await super().want(interest)

    async def unwant(self, interest: Interest) -> None:
        self._asked("unwant")
        await super().unwant(interest)

    def share(self) -> None:
        self._asked("share")

    async def adopt(self, interest: Interest) -> None:
        self._asked("adopt")
        await super().want(interest)

    def take(self, partition: int) -> None:
        self._asked(f"take {partition}")

    async def release(self, partition: int) -> None:
        self._asked(f"release {partition}")

    def arrived(self, delivery: Delivery) -> float:
        self._asked("arrived")
        return 0.0

    def refusal_of(self, notification: Notification) -> str | None:
        self._asked("refusal_of")
        return None

    def forget(self, notification: Notification) -> None:
        self._asked("forget")

    async def close(self) -> None:
        await super().close()
        self._asked("close")


class Made:
    """The adapters that were made one after the other; each begins to raise when told to."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error
        self.adapters: list[Raising] = []

    def __call__(self) -> Adapter:
        self.adapters.append(Raising(self._error))
        return self.adapters[-1]

    async def started(self) -> RestartingAdapter:
        adapter = RestartingAdapter(self)
        adapter.share()
        await adapter.start([STORM])
        return adapter


ERRORS = [
    pytest.param(ConnectionResetError, id="it raises"),
    pytest.param(asyncio.CancelledError, id="a task of its own was cancelled"),
]
ELSE = Interest(None)
DELIVERY = EmbeddedDelivery.__new__(EmbeddedDelivery)
CALLS: dict[str, Callable[[RestartingAdapter], object]] = {
    "publish": lambda adapter: adapter.publish([storm()]),
    "want": lambda adapter: adapter.want(ELSE),
    "unwant": lambda adapter: adapter.unwant(STORM),
    "close": lambda adapter: adapter.close(),
    "adopt": lambda adapter: adapter.adopt(ELSE),
    "take": lambda adapter: adapter.take(0),
    "release": lambda adapter: adapter.release(0),
    "arrived": lambda adapter: adapter.arrived(DELIVERY),
    "refusal_of": lambda adapter: adapter.refusal_of(storm()),
    "forget": lambda adapter: adapter.forget(storm()),
    "reporting": lambda adapter: adapter.state,
}
REFUSED = {"publish": AdapterFailed, "want": AdapterUnavailable, "unwant": AdapterUnavailable}
"""What asks for something new is refused; whoever asks knows what to do then."""
AT_THE_START = {"from_url", "start", "share"}
"""There one that raises is refused: a gateway that does not start loses nothing."""


def test_each_call_of_an_adapter_is_among_those_that_may_raise() -> None:
    asked = {
        name
        for protocol in (Adapter, Sharing, RefusalMemory)
        for name, _ in inspect.getmembers(protocol, inspect.isfunction)
        if not name.startswith("_")
    }
    assert asked - AT_THE_START - {"deliveries"} == CALLS.keys() - {"reporting"}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", CALLS)
async def test_whatever_it_raises_is_no_more_than_a_refusal(
    name: str, error: type[BaseException]
) -> None:
    made = Made(error)
    adapter = await made.started()
    made.adapters[0].broken = True
    raised: BaseException | None = None
    try:
        answer = CALLS[name](adapter)
        if inspect.isawaitable(answer):
            await answer
    except AdapterError as exc:
        raised = exc
    assert type(raised) is REFUSED.get(name, type(None))
    made.adapters[0].broken = False
    await adapter.close()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", ["adopt", "take", "release"])
async def test_one_that_does_not_do_what_nobody_asks_for_again_is_made_anew(
    name: str, error: type[BaseException]
) -> None:
    """What it was told is known, and the next one is told."""
    made = Made(error)
    adapter = await made.started()
    adapter.take(1)
    adapter.take(2)
    coming = asyncio.create_task(Inbox(adapter, SECONDS).next())
    await until(lambda: adapter._yields, SECONDS)
    made.adapters[0].broken = True
    with capture_logs() as logs:
        told = {"adopt": ELSE, "take": 3, "release": 1}[name]
        answer = getattr(adapter, name)(told)
        if inspect.isawaitable(answer):
            await answer
        with pytest.raises(AdapterUnavailable, match="started anew"):
            await adapter.publish([storm()])
        await until(lambda: len(made.adapters) == 2 and adapter._up, SECONDS)
    [failed] = [log for log in logs if log["event"] == "adapter.failed"]
    assert failed["reason"].startswith(error.__name__)
    wanted = ["start None"] if name == "adopt" else []
    taken = {"adopt": [1, 2], "take": [1, 2, 3], "release": [2]}[name]
    assert made.adapters[1].asked[-len(taken) :] == [f"take {partition}" for partition in taken]
    assert [one for one in made.adapters[1].asked if one == "start None"] == wanted
    await adapter.publish([sent := storm()])
    assert (await coming).notification == sent
    await adapter.close()


async def test_one_whose_task_was_cancelled_yields_again_when_it_is_made_anew() -> None:
    """Its deliveries end with CancelledError, though nobody has cancelled who takes them."""

    class Yielding(Raising):
        async def deliveries(self) -> AsyncIterator[MemoryDelivery]:
            if self.broken:
                raise self.error
            async for delivery in super().deliveries():
                yield delivery

    made: list[Yielding] = []

    def make() -> Adapter:
        made.append(Yielding(asyncio.CancelledError))
        made[-1].broken = len(made) == 1
        return made[-1]

    adapter = RestartingAdapter(make)
    await adapter.start([STORM])
    coming = asyncio.create_task(Inbox(adapter, SECONDS).next())
    await until(lambda: len(made) == 2 and adapter._up, SECONDS)
    await adapter.publish([sent := storm()])
    assert (await coming).notification == sent
    await adapter.close()


async def test_who_takes_deliveries_can_be_cancelled() -> None:
    adapter = await Made(ConnectionResetError).started()
    coming = asyncio.create_task(Inbox(adapter, SECONDS).next())
    await until(lambda: adapter._yields, SECONDS)
    coming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await coming
    await adapter.close()


async def raise_at_once() -> None:
    raise ConnectionResetError("it is gone")


async def hang() -> None:
    await asyncio.Event().wait()


async def hang_on() -> None:
    """Take no notice of a cancellation, as what waits for others in a loop; the end of the test
    is the next one."""
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("closing", "reason"),
    [
        (raise_at_once, "ConnectionResetError: it is gone"),
        (hang, "it took longer than 0.05 seconds"),
        (hang_on, "it took longer than 0.05 seconds"),
    ],
)
async def test_one_that_does_not_close_holds_up_no_stop(
    closing: Callable[[], Awaitable[None]], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarting, "CLOSING", 0.05)
    made = Made(ConnectionResetError)
    adapter = await made.started()
    monkeypatch.setattr(made.adapters[0], "close", closing)
    with capture_logs() as logs:
        async with asyncio.timeout(SECONDS):
            await adapter.close()
    assert [(log["event"], log["reason"]) for log in logs] == [
        ("adapter.not-closed-at-the-end", reason)
    ]
