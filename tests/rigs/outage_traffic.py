"""Publishers and consumers while a broker fails, and the judgement afterwards."""

import asyncio
from collections.abc import Sequence

from tests.rigs.consumers import Consumer
from tests.rigs.processes import SPEAKER, GatewayProcess, Publisher
from tests.rigs.waiting import until

SECONDS = 90.0


async def refused(publisher: Publisher) -> None:
    """Publish until it is refused: with 503, and when to come again."""
    async with asyncio.timeout(SECONDS):
        while (status := await publisher.publish()) == 202:
            pass
    assert status == 503
    assert int(publisher.headers["retry-after"]) >= 1


async def accepted(publisher: Publisher) -> None:
    """Publish until it is accepted."""

    async def is_accepted() -> bool:
        return await publisher.publish() == 202

    await until(is_accepted, SECONDS)


async def subscribed(gateway: GatewayProcess, consumer: Consumer) -> None:
    """Subscribe until it is accepted."""

    async def is_accepted() -> bool:
        answer = await gateway.ask(SPEAKER.wse_subscribe(consumer.url))
        assert answer.status in (200, 503)
        return answer.status == 200

    await until(is_accepted, SECONDS)


def judge(publishers: Sequence[Publisher], those: Sequence[Consumer]) -> int:
    """Nothing acknowledged is lost, what comes twice has the same id, and all is in order; how
    much came twice."""
    attempted = {number for one in publishers for number in one.attempted}
    acknowledged = {number for one in publishers for number in one.acknowledged}
    repeats = 0
    for consumer in those:
        ids: dict[str, str] = {}
        last: dict[str, int] = {}
        for receipt in consumer.received:
            if receipt.number in ids:
                assert ids[receipt.number] == receipt.id, "another message id"
                repeats += 1
                continue
            ids[receipt.number] = receipt.id
            publisher, number = receipt.number[0], int(receipt.number[1:])
            assert number > last.get(publisher, 0), "out of order"
            last[publisher] = number
        assert acknowledged - ids.keys() == set(), "lost"
        assert ids.keys() - attempted == set(), "unexpected"
    return repeats
