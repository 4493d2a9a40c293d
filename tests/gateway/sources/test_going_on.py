"""Services of WS-Management whose subscriptions end, however that comes: the gateway goes on behind
the last bookmark, in every delivery mode."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.sources.requests import MODES
from mediation.model.delivery_modes import Mode
from mediation.names import WSMAN, WSMAN_EVENTS
from tests.gateway.sources.test_management import MANAGED, MARK, bookmark
from tests.gateway.sources.test_sources import add, state
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running
from tests.rigs.producers import Producer, Producers, fault, producers, status
from tests.rigs.pulled_producers import PulledProducer, event

pytestmark = pytest.mark.asyncio(loop_scope="module")
ACK = f'<w:AckRequested xmlns:w="{WSMAN}"/>'
SHORT, LONG = 2.0, 3600.0
"""Seconds of a lease that is soon to be renewed, and of one that is not."""


async def tell(producer: Producer, mode: Mode, number: int) -> None:
    """Hand over one event, with the bookmark 17, in the way of *mode*."""
    if isinstance(producer, PulledProducer):
        producer.number = 16
        await producer.give(event(number))
        return
    newest = list(producer.held.values())[-1]
    if mode is Mode.EVENTS:
        body = f'<w:Events xmlns:w="{WSMAN}">{event(number, wrapped=True)}</w:Events>'
        answer = await producer._post(newest.consumer, body, WSMAN_EVENTS, None, MARK + ACK)
    else:
        headers = MARK if mode is Mode.PUSH else MARK + ACK
        answer = await producer.send(event(number), held=newest, headers=headers)
    assert answer in (200, 202)


async def end(_: Producers, producer: Producer) -> None:
    """It says that it ends, or, where that is not allowed, knows nothing of it any more."""
    if isinstance(producer, PulledProducer):
        await producer.lose()
    else:
        await producer.end()


async def refuse(_: Producers, producer: Producer) -> None:
    """It renews nothing."""
    producer.answers["Renew"] = fault("It may not be renewed.", subcode="UnableToRenew")


async def run_out(_: Producers, producer: Producer) -> None:
    """It has no time to renew anything, until the lease is over."""
    producer.answers["Renew"] = status(503)


async def restart(_: Producers, producer: Producer) -> None:
    """It was away, and has forgotten everything."""
    producer.forget()
    if isinstance(producer, PulledProducer):
        await producer.lose()


@pytest.mark.parametrize("ending", [end, refuse, run_out, restart])
async def test_it_goes_on_behind_the_last_bookmark(
    gateway: Running,
    consumer: Consumers,
    ending: Callable[[Producers, Producer], Awaitable[None]],
) -> None:
    url = consumer.fresh()
    await gateway.subscribe(Speaker(), Speaker().wse_subscribe(url))
    async with producers() as some:
        those: list[tuple[Mode, Producer, str]] = []
        for number, mode in enumerate(MODES):
            pulled = mode is Mode.PULL
            producer = some.put(_marking) if pulled else some.add(wse=True)
            asked: dict[str, Any] = {
                **MANAGED,
                "mode": mode.value,
                "lease": LONG if ending is end else SHORT,
            }
            those.append((mode, producer, await add(gateway, producer, **asked)))
            await state(gateway, those[-1][2], "live")
            await tell(producer, mode, number)
            assert (await consumer.next(url)).number == str(number)
            if pulled:
                await producer.asked("Pull", 2)  # The bookmark is kept before that.
        if ending is restart:
            await some.leave()
        subscribed = [producer.count("Subscribe") for _, producer, _ in those]
        for _, producer, _ in those:
            await ending(some, producer)
        if ending is restart:
            await some.listen()
        for number, (mode, producer, id_) in enumerate(those):
            told = await producer.asked("Subscribe", subscribed[number] + 1)
            assert bookmark(told) == "at 17", mode
            producer.answers.clear()
            await state(gateway, id_, "live")
            await tell(producer, mode, 100 + number)
            assert (await consumer.next(url)).number == str(100 + number)


def _marking(url: str) -> PulledProducer:
    return PulledProducer(url, bookmarks=True)
