"""What a gateway in front of any broker has to go through, each with the programs of its guide."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.rigs.brokers import Node
from tests.rigs.consumers import consumers, until
from tests.rigs.envelopes import notification_message, notify, topic_expression
from tests.rigs.outage_traffic import SECONDS, judge
from tests.rigs.processes import SPEAKER, GatewayProcess, gateway_process, publishing

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
