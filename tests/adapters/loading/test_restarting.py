"""An adapter of a third party that raises: it is started anew, and the gateway goes on."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest
from structlog.testing import capture_logs

from adapters import Adapter, AdapterUnavailable, Capabilities, Delivery, Interest
from adapters.embedded import EmbeddedAdapter, EmbeddedDelivery
from adapters.loading import RestartingAdapter, restarting
from adapters.memory import MemoryAdapter
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
