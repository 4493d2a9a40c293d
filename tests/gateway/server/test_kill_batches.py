"""What survives kill -9 for sinks of WS-Management: every event that was acknowledged, in its order,
in messages that are acknowledged as a whole."""

import asyncio
import itertools
import random
from pathlib import Path

import pytest

from mediation.model.versions import Wsa
from mediation.names import WSE_2004_08 as WSE
from mediation.names import WSMAN, WSMAN_ACTIONS
from tests.gateway.server.test_kill import MOST, RATE, more_acknowledged
from tests.rigs.consumers import (
    Behaviour,
    Connection,
    Consumer,
    Receipt,
    accept,
    acknowledge,
    consumers,
    status,
)
from tests.rigs.envelopes import S12, Speaker
from tests.rigs.processes import GatewayProcess, Publisher, gateway_process, publishing

SPEAKER = Speaker(S12, Wsa.V2004_08)
SINKS = 6
AT_ONCE = {"DRAGOMAN_RETRY_DELAYS": ",".join(["0.05"] * 60)}


def unreliable() -> Behaviour:
    """A sink that refuses each fifth message, and does not acknowledge each seventh."""
    numbers = itertools.count(1)

    def behave(connection: Connection, receipt: Receipt) -> None:
        number = next(numbers)
        if number % 5 == 0:
            status(503)(connection, receipt)
        elif number % 7 == 0:
            accept(connection, receipt)
        else:
            acknowledge(connection, receipt)

    return behave


async def subscribe(gateway: GatewayProcess, url: str, inner: str) -> None:
    body = (
        f'<e:Subscribe xmlns:e="{WSE}" xmlns:w="{WSMAN}"><e:Delivery Mode="{WSMAN_ACTIONS}Events">'
        f"<e:NotifyTo>{SPEAKER.epr(url)}</e:NotifyTo>{inner}</e:Delivery></e:Subscribe>"
    )
    answer = await gateway.request(
        "POST", "/soap", SPEAKER.envelope(body), content_type=S12.media_type
    )
    assert answer.status == 200, answer.body


def judge(publishers: list[Publisher], sink: Consumer, most: int) -> None:
    acknowledged = {number for one in publishers for number in one.acknowledged}
    attempted = {number for one in publishers for number in one.attempted}
    batches = [receipt.events for receipt in sink.received]
    assert max(map(len, batches)) <= most
    delivered = {number for batch in batches for number in batch}
    assert acknowledged - delivered == set(), "lost"
    assert delivered - attempted == set(), "unexpected"
    ids: dict[str, list[str]] = {}
    for receipt in sink.received:
        assert ids.setdefault(receipt.id, receipt.events) == receipt.events, "another content"
    last = dict.fromkeys("abcdefgh", 0)
    seen: set[str] = set()
    for number in itertools.chain.from_iterable(batches):
        if number not in seen:
            seen.add(number)
            assert int(number[1:]) > last[number[0]], "out of order"
            last[number[0]] = int(number[1:])


async def crash_often(data: Path, cycles: int, seed: int) -> None:
    choose = random.Random(seed)
    async with consumers() as sinks, gateway_process(data, AT_ONCE) as gateway:
        those = [sinks.add(acknowledge if number % 2 else unreliable()) for number in range(SINKS)]
        for number, sink in enumerate(those):
            # Some wait for full batches, and so in the store; some do not wait.
            time = "<w:MaxTime>PT2S</w:MaxTime>" if number % 3 == 0 else ""
            await subscribe(gateway, sink.url, f"<w:MaxElements>7</w:MaxElements>{time}")
        async with publishing(gateway, RATE) as publishers:
            for _ in range(cycles):
                await more_acknowledged(publishers, choose.randrange(1, MOST))
                await gateway.kill()
                await gateway.start()
            await more_acknowledged(publishers, MOST)
        await asyncio.sleep(0)
        await gateway.at_rest()
        for sink in those:
            judge(list(publishers), sink, 7)


@pytest.mark.slow
async def test_batches_under_kill(tmp_path: Path) -> None:
    await crash_often(tmp_path / "data", 5, seed=4)


@pytest.mark.release
async def test_batches_under_kill_500_times(tmp_path: Path) -> None:
    await crash_often(tmp_path / "data", 500, seed=5)
