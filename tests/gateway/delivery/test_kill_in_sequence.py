"""What kill -9 of the gateway does to deliveries in sequences: each event comes to the consumer's
application once, in order."""

import random
from pathlib import Path

import pytest

from tests.rigs.consumers import consumers
from tests.rigs.processes import SPEAKER, GatewayProcess, event, gateway_process, publishing
from tests.rigs.reliable_consumers import ReliableConsumer, policy
from tests.rigs.waiting import until

ENVIRONMENT = {"DRAGOMAN_RETRY_DELAYS": ",".join(["0.1"] * 30)}
MOST = 40
"""Messages between two kills."""


async def subscribe(gateway: GatewayProcess, consumer: str) -> None:
    body = SPEAKER.wse_subscribe(consumer)
    answer = await gateway.ask(body.replace("</e:Delivery>", f"{policy()}</e:Delivery>"))
    assert answer.status == 200, answer.body


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_killed_between_the_number_and_the_acknowledgement(tmp_path: Path, lost: str) -> None:
    """The same event gets the same number, whether the consumer has it or not."""
    reliable = ReliableConsumer()
    async with consumers() as some, gateway_process(tmp_path / "data", ENVIRONMENT) as gateway:
        consumer = some.add(reliable)
        await subscribe(gateway, consumer.url)

        async def publish(number: int) -> None:
            answer = await gateway.request(
                "POST", "/soap", event(str(number)), content_type=SPEAKER.soap.media_type
            )
            assert answer.status == 202

        await publish(1)
        await until(lambda: reliable.got == ["1"])
        reliable.loses = lambda said: lost
        before = len(reliable.sent)
        await publish(2)
        await publish(3)
        await until(lambda: len(reliable.sent) > before)
        await gateway.kill()
        reliable.loses = lambda said: ""
        await gateway.start()
        await until(lambda: reliable.got == ["1", "2", "3"])
        assert reliable.sequences == [[1, 2, 3]]
        await gateway.at_rest()


async def kill_often(data: Path, cycles: int, seed: int) -> None:
    choose = random.Random(seed)
    reliable = ReliableConsumer()
    reliable.loses = lambda said: choose.choices(["request", "answer", ""], [0.05, 0.05, 0.9])[0]
    async with consumers() as some, gateway_process(data, ENVIRONMENT) as gateway:
        consumer = some.add(reliable)
        reliable.loses, loses = (lambda said: ""), reliable.loses
        await subscribe(gateway, consumer.url)
        reliable.loses = loses
        async with publishing(gateway, 200.0, publishers=1) as [publisher]:
            for _ in range(cycles):
                enough = len(reliable.got) + choose.randrange(1, MOST)
                await until(lambda enough=enough: len(reliable.got) >= enough)  # type: ignore[misc]
                await gateway.kill()
                await gateway.start()
        await until(lambda: len(reliable.got) >= len(publisher.acknowledged))
        await gateway.at_rest()
        assert reliable.got == [n for n in publisher.attempted if n in set(reliable.got)], "order"
        assert set(publisher.acknowledged) <= set(reliable.got), "lost"
        [numbers] = reliable.sequences
        assert numbers == list(range(1, len(numbers) + 1)), "a gap"


@pytest.mark.nightly
async def test_kill_twice(tmp_path: Path) -> None:
    await kill_often(tmp_path / "data", 2, seed=1)


@pytest.mark.release
async def test_kill_500_times(tmp_path: Path) -> None:
    await kill_often(tmp_path / "data", 500, seed=2)
