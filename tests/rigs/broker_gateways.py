"""Trials of a gateway in front of a real broker, the same for each: a subclass names the broker.

Native programs and web services hear each other, and both sides survive every failure.
"""

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.rigs.brokers import Node, wire_to
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import notification_message, notify, topic_expression
from tests.rigs.outage_traffic import SECONDS, accepted, judge, refused, subscribed
from tests.rigs.processes import SPEAKER, GatewayProcess, Publisher, gateway_process, publishing
from tests.rigs.waiting import until

ROOT = Path(__file__).parents[2]


async def run(program: str) -> str:
    """What *program*, the text of one in Python, prints."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program], capture_output=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


async def talk_to_native_programs(
    publish: str, hear: str, environment: Mapping[str, str], data: Path
) -> str:
    """One native program publishes what a web service receives, another hears what one publishes;
    what that one prints."""
    async with consumers() as sinks, gateway_process(data, dict(environment)) as gateway:
        consumer = sinks.add()
        answer = await gateway.ask(
            SPEAKER.wsn_subscribe(consumer.url, filter=topic_expression("storms"))
        )
        assert answer.status == 200
        await run(publish)
        assert await consumer.have(1, SECONDS) == ["1"]
        assert b"storms" in consumer.received[0].body

        hearing = asyncio.create_task(run(hear))

        async def heard() -> bool:
            """Published again until the program listens."""
            body = notify(notification_message("<storm><n>2</n></storm>", "storms"))
            assert (await gateway.ask(body)).status == 202
            return hearing.done()

        await until(heard, SECONDS)
        await gateway.at_rest()
        return await hearing


async def die_in_traffic(broker: Node, environment: Mapping[str, str], data: Path) -> None:
    """The gateway is killed, then the broker; the traffic goes on, and loses nothing."""
    async with consumers() as sinks, gateway_process(data, dict(environment)) as gateway:
        those = [sinks.add(keep=False) for _ in range(3)]
        for consumer in those:
            await gateway.subscribe(consumer.url)
        async with publishing(gateway, 100.0) as publishers:
            await those[0].have(30, SECONDS)
            await gateway.kill()
            await gateway.start()
            await those[0].have(those[0].count + 30, SECONDS)
            await asyncio.to_thread(broker.stop, signal.SIGKILL)
            await broker.start_again()
            before = sum(len(one.acknowledged) for one in publishers)
            await until(
                lambda: sum(len(one.acknowledged) for one in publishers) > before + 50, SECONDS
            )
        for consumer in those:
            await consumer.have_all([one for all in publishers for one in all.acknowledged])
        await gateway.at_rest()
        assert any(one.statuses.get(503) for one in publishers)
        judge(publishers, those)


async def start_without(library: str, url: str, folder: Path) -> str:
    """Start a gateway in front of *url* where *library* is not installed; what it says."""
    (folder / f"{library}.py").write_text(f"raise ModuleNotFoundError('gone', name={library!r})\n")
    gateway = GatewayProcess(
        folder / "data", {"DRAGOMAN_ADAPTER": url, "PYTHONPATH": f"{folder}:{ROOT}"}
    )
    with contextlib.suppress(AssertionError):
        await gateway.start()
    assert await gateway.end() == 1
    return gateway.log.read_text()


class GatewayTrials:
    """What a gateway in front of the fixture ``broker`` has to go through."""

    library: ClassVar[tuple[str, str]]
    """The module of the broker's library, and the URL of an adapter that needs it."""

    def environment(self, url: str) -> dict[str, str]:
        """What makes a gateway stand in front of *url*, with queues of its own."""
        raise NotImplementedError

    def programs(self, broker: Any) -> tuple[str, str]:
        """The two programs of the broker's guide, which publish and hear storms at *broker*."""
        raise NotImplementedError

    def orders(self, broker: Any) -> tuple[str, Callable[[Sequence[tuple[str, bytes]]], None]]:
        """Destinations of the broker that exist already, below ``eu``: the table
        ``[[destinations]]`` for them, and what publishes bodies at ``us.new`` and ``eu.new``."""
        raise NotImplementedError

    async def while_short_of_memory(self, broker: Any, publisher: Publisher) -> None:
        """Check that *publisher* is refused while the broker is short of memory, for a broker that
        can be made so."""

    async def test_the_programs_of_the_guide(self, broker: Node, tmp_path: Path) -> None:
        environment = {"DRAGOMAN_ADAPTER": broker.url}
        heard = await talk_to_native_programs(
            *self.programs(broker), environment, tmp_path / "data"
        )
        assert heard.startswith("storms <storm><n>2</n></storm>\n")

    async def test_destinations_that_exist(
        self, broker: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """``[[destinations]]`` of dragoman.toml, for a subscriber of WS-Eventing, which knows no
        topics."""
        table, publish = self.orders(broker)
        (tmp_path / "dragoman.toml").write_text(f"[[destinations]]\n{table}")
        monkeypatch.chdir(tmp_path)
        environment = self.environment(broker.url) | {"PYTHONPATH": str(ROOT)}
        async with consumers() as sinks, gateway_process(tmp_path / "data", environment) as gateway:
            consumer = sinks.add()
            await gateway.subscribe(consumer.url)
            first, second, third = b"<n>1</n>", b'{"n": "<n>2</n>"}', b"<n>3</n>"
            publish([("us.new", first), ("eu.new", second), ("eu.new", third)])
            await consumer.have(2, SECONDS)
            assert "3" in consumer.numbers and "1" not in consumer.numbers
            assert (await gateway.at_rest())["wrapped_total"] == 1

    async def test_a_broker_that_comes_late_and_goes(self, broker: Node, tmp_path: Path) -> None:
        async with wire_to(broker.port) as wire, consumers() as sinks:
            await wire.cut()
            environment = self.environment(broker.at(wire.port))
            async with gateway_process(tmp_path / "data", environment) as gateway:
                publisher, consumer = Publisher(gateway, "a"), sinks.add()
                assert (await gateway.request("GET", "/readyz")).status == 200
                answer = await gateway.ask(SPEAKER.wse_subscribe(consumer.url))
                assert answer.status == 503 and "retry-after" in answer.headers
                await refused(publisher)
                await wire.join()
                await subscribed(gateway, consumer)
                await accepted(publisher)
                await consumer.have(1, SECONDS)
                await wire.cut()
                await refused(publisher)
                await wire.join()
                await accepted(publisher)
                await self.while_short_of_memory(broker, publisher)
                await accepted(publisher)
                await consumer.have_all(publisher.acknowledged)
                await gateway.at_rest()
                judge([publisher], [consumer])
                publisher.close()

    async def test_broker_and_gateway_die_in_traffic(self, broker: Node, tmp_path: Path) -> None:
        await die_in_traffic(broker, self.environment(broker.url), tmp_path / "data")

    async def test_the_library_is_missing(self, tmp_path: Path) -> None:
        library, url = self.library
        said = await start_without(library, url, tmp_path)
        # As the build backend spells the name: ``stomp-py``.
        assert re.search(f"-m pip install '{library}|make .*setup EXTRAS=", said), said
