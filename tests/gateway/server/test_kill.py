"""What survives kill -9: every message that was acknowledged, in its order."""

import asyncio
import contextlib
import itertools
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mediation.names import WSE_2004_08 as WSE
from tests.rigs.consumers import Consumer, consumers
from tests.rigs.processes import Publisher, gateway_process, publishing
from tests.rigs.waiting import until

CONSUMERS = 20
RATE = 200.0
MOST = 100
"""Messages between two crashes."""
REPEATS = 32
"""Deliveries that one crash may repeat to one consumer."""


def judge(
    publishers: Sequence[Publisher],
    those: Sequence[Consumer],
    crashes: Sequence[float] = (),
) -> None:
    """Compare what each consumer got with what was attempted and acknowledged."""
    attempted = {number for one in publishers for number in one.attempted}
    acknowledged = {number for one in publishers for number in one.acknowledged}
    for consumer in those:
        delivered = set(consumer.numbers)
        assert acknowledged - delivered == set(), "lost"
        assert delivered - attempted == set(), "unexpected"
        ids: dict[str, str] = {}
        last = dict.fromkeys("abcdefgh", 0)
        repeats: Counter[int] = Counter()
        for receipt in consumer.received:
            if receipt.number in ids:
                assert ids[receipt.number] == receipt.id, "another message id"
                repeats[sum(crash <= receipt.at for crash in crashes)] += 1
                continue
            ids[receipt.number] = receipt.id
            publisher, number = receipt.number[0], int(receipt.number[1:])
            assert number > last[publisher], "out of order"
            last[publisher] = number
        assert repeats[0] == 0, "twice without a crash"
        assert max(repeats.values(), default=0) <= REPEATS


async def more_acknowledged(publishers: Sequence[Publisher], number: int) -> None:
    """Wait until so many more messages are acknowledged."""

    def total() -> int:
        return sum(len(one.acknowledged) for one in publishers)

    before = total()
    await until(lambda: total() >= before + number)


async def crash_often(
    data: Path, cycles: int, seed: int, environment: Mapping[str, str] | None = None
) -> None:
    """Kill a gateway in traffic *cycles* times, each after some more messages."""
    choose = random.Random(seed)
    clock = asyncio.get_running_loop().time
    crashes = []
    async with consumers() as sinks, gateway_process(data, environment) as gateway:
        those = [sinks.add(keep=False) for _ in range(CONSUMERS)]
        for consumer in those:
            await gateway.subscribe(consumer.url)
        async with publishing(gateway, RATE) as publishers:
            for _ in range(cycles):
                await more_acknowledged(publishers, choose.randrange(1, MOST))
                await gateway.kill()
                crashes.append(clock())
                await gateway.start()
            await more_acknowledged(publishers, MOST)
        await gateway.at_rest()
        judge(publishers, those, crashes)


async def test_clocks() -> None:
    """The consumers' clock and the event loop's are one: `judge` compares them."""
    assert abs(asyncio.get_running_loop().time() - time.monotonic()) < 1


async def test_kill_6_times(tmp_path: Path) -> None:
    await crash_often(tmp_path / "data", 6, seed=1)


@pytest.mark.release
async def test_kill_1000_times(tmp_path: Path) -> None:
    await crash_often(tmp_path / "data", 1000, seed=2)


async def test_subscriptions_under_kill(tmp_path: Path) -> None:
    """Subscribe, Renew, Unsubscribe: none answered and gone, none ended and alive."""
    choose = random.Random(3)
    alive: dict[str, str] = {}
    ended: set[str] = set()
    async with gateway_process(tmp_path / "data") as gateway:

        async def operate(number: int) -> None:
            await gateway.up.wait()
            manager = choose.choice(list(alive)) if alive else None
            what = choose.choice(("subscribe", "subscribe", "renew", "unsubscribe"))
            if what == "subscribe" or manager is None:
                url = f"http://127.0.0.1:50009/{number}"
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    alive[await gateway.subscribe(url)] = url
                return
            url = alive.pop(manager)  # So that no other operation of this time names it.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                if what == "unsubscribe":
                    answer = await gateway.ask(f'<e:Unsubscribe xmlns:e="{WSE}"/>', manager)
                    assert answer.status == 200
                    ended.add(manager)
                else:
                    answer = await gateway.ask(
                        f'<e:Renew xmlns:e="{WSE}"><e:Expires>PT2H</e:Expires></e:Renew>', manager
                    )
                    assert answer.status == 200
            if what == "renew":
                alive[manager] = url

        # As long as it takes until there is something to judge: what is killed is not answered.
        for cycle in itertools.count():
            if cycle >= 5 and len(alive) > 20 and len(ended) > 10:
                break
            assert cycle < 100, (len(alive), len(ended))
            operations = [asyncio.create_task(operate(20 * cycle + n)) for n in range(20)]
            done = choose.randrange(5, 20)
            while sum(task.done() for task in operations) < done:
                await asyncio.wait(
                    [task for task in operations if not task.done()],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            await gateway.kill()
            await gateway.start()
            await asyncio.gather(*operations)
        status = f'<e:GetStatus xmlns:e="{WSE}"/>'
        for manager in alive:
            assert (await gateway.ask(status, manager)).status == 200, "answered and gone"
        for manager in ended:
            assert (await gateway.ask(status, manager)).status != 200, "ended and alive"
