"""What delivery does to subscriptions, in a whole gateway."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from structlog.testing import capture_logs

from gateway.server.application import Application
from gateway.server.process import listen, serve
from gateway.settings.settings import Settings
from mediation.model.versions import Wsa
from mediation.names import WSE_2004_08 as WSE
from mediation.names import WSN_1_3 as WSN
from tests.rigs.consumers import Consumers, accept, consumers, reset, status
from tests.rigs.envelopes import S12, Speaker, notification_message, notify
from tests.rigs.gateway_parts import GatewayParts
from tests.rigs.gateways import Running, running
from tests.rigs.json_mailboxes import Box
from tests.rigs.stores import check_store, execute, sqlite_url
from tests.rigs.waiting import until

EVENT = '<o:Storm xmlns:o="urn:test:weather"><n>{}</n></o:Storm>'
WSE_SPEAKER = Speaker(S12, Wsa.V2004_08)
RETRIES = (0.05,) * 20


@pytest_asyncio.fixture
async def sinks() -> AsyncIterator[Consumers]:
    async with consumers() as all_of_them:
        yield all_of_them


def many(number: int) -> str:
    """A Notify with so many events."""
    return notify(*(notification_message(EVENT.format(each)) for each in range(number)))


async def counts(run: Running, **expected: int) -> None:
    """Wait until nothing is under way or waits, and the totals are as *expected*."""

    async def as_expected() -> bool:
        law = await run.gateway.dispatchers.conservation()
        found = {name: getattr(law.totals, name) for name in expected}
        return found == expected and law.in_flight == law.waiting == law.error == 0

    await until(as_expected)


async def test_a_large_backlog_ends_with_its_subscription(tmp_path: Path) -> None:
    """In slices: the answer waits for the first, and nobody asks for the others."""
    number = 3 * 256
    async with running(tmp_path, retry_delays=(60.0,)) as run:
        manager = await run.subscribe(
            WSE_SPEAKER, WSE_SPEAKER.wse_subscribe("http://127.0.0.1:1024/nobody")
        )
        for _ in range(3):
            await run.publish(many(256))

        async def all_wait() -> bool:
            [[held]] = execute(sqlite_url(tmp_path), "SELECT count(*) FROM held")
            return held == number

        await until(all_wait)
        answer = await run.ask(WSE_SPEAKER, f'<e:Unsubscribe xmlns:e="{WSE}"/>', manager)
        assert answer.status == 200
        await counts(run, matched=number, cancelled=number)
    check_store(sqlite_url(tmp_path))


async def test_the_box_of_a_subscription_ends_with_it(tmp_path: Path) -> None:
    """However full it is."""
    async with running(tmp_path) as run:
        box = await Box.make(run, topic="storms")
        path = "/soap/topic/storms"
        [entry] = run.gateway.subscriptions.entries
        for _ in range(3):
            await run.publish(many(256), path=path)

        async def is_full() -> bool:
            return bool((await box.size())["messages"] == 3 * 256)

        await until(is_full)
        await run.gateway.lifecycle.end(entry)

        async def is_empty() -> bool:
            return execute(sqlite_url(tmp_path), "SELECT count(*) FROM mailbox_messages") == [(0,)]

        await until(is_empty)
        assert execute(sqlite_url(tmp_path), "SELECT count(*) FROM mailboxes") == [(0,)]


async def test_gone_ends_the_subscription(tmp_path: Path, sinks: Consumers) -> None:
    """410: SubscriptionEnd says DeliveryFailure; what waited is cancelled."""
    consumer, end_to = sinks.add(status(410)), sinks.add()
    async with running(tmp_path, retry_delays=RETRIES) as run:
        manager = await run.subscribe(
            WSE_SPEAKER, WSE_SPEAKER.wse_subscribe(consumer.url, end_to=end_to.url)
        )
        await run.publish(EVENT.format(1))
        await end_to.have(1)
        assert f"{WSE}/DeliveryFailure".encode() in end_to.received[0].body
        await counts(run, matched=1, dead=1)
        answer = await run.ask(WSE_SPEAKER, f'<e:GetStatus xmlns:e="{WSE}"/>', manager)
        assert answer.status != 200
        await run.publish(EVENT.format(2))
        await counts(run, matched=1, dead=1)
        assert consumer.numbers == ["1"]


async def test_what_waits_expires_with_its_subscription(tmp_path: Path, sinks: Consumers) -> None:
    consumer = sinks.add(reset)
    async with running(tmp_path, retry_delays=(0.1,) * 100) as run:
        await run.subscribe(WSE_SPEAKER, WSE_SPEAKER.wse_subscribe(consumer.url, expires="PT1S"))
        for number in (1, 2, 3):
            await run.publish(EVENT.format(number))
        await counts(run, matched=3, expired=3)
        assert len(run.gateway.subscriptions) == 0


async def test_a_renewal_in_the_grace_revives_what_waits(tmp_path: Path, sinks: Consumers) -> None:
    consumer = sinks.add(reset)
    speaker = Speaker()
    async with running(tmp_path, retry_delays=RETRIES, grace=30) as run:
        manager = await run.subscribe(speaker, speaker.wsn_subscribe(consumer.url, expires="PT1S"))
        for number in (1, 2):
            await run.publish(EVENT.format(number))
        [entry] = run.gateway.subscriptions.entries
        await run.until(lambda: entry.halted)
        seen = consumer.count
        consumer.behaviour = accept
        await run.publish(EVENT.format(3))  # It matches nobody.
        renew = f'<n:Renew xmlns:n="{WSN}"><n:TerminationTime>PT1H</n:TerminationTime></n:Renew>'
        assert (await run.ask(speaker, renew, manager)).status == 200
        await counts(run, matched=2, delivered=2)
        assert consumer.numbers[seen:][-2:] == ["1", "2"]


async def test_changes_at_the_same_time_lose_nothing(tmp_path: Path, sinks: Consumers) -> None:
    """Pause and Renew, many at once: each keeps what the others changed."""
    speaker = Speaker()
    async with running(tmp_path) as run:
        manager = await run.subscribe(speaker, speaker.wsn_subscribe(sinks.add().url))
        [entry] = run.gateway.subscriptions.entries
        renew = f'<n:Renew xmlns:n="{WSN}"><n:TerminationTime>PT9H</n:TerminationTime></n:Renew>'
        pause = f'<n:PauseSubscription xmlns:n="{WSN}"/>'
        answers = await asyncio.gather(
            *[run.ask(speaker, body, manager) for body in (renew, pause, renew, renew)]
        )
        assert {answer.status for answer in answers} == {200}
        assert entry.subscription.policy.paused
        lease = entry.subscription.lease
        assert lease.expires is not None
        assert (lease.expires - lease.created).total_seconds() > 8 * 3600
        await run.publish(EVENT.format(1))
        await counts(run, matched=0, skipped=1)


async def test_a_gateway_that_cannot_deliver_ends(tmp_path: Path) -> None:
    """Its supervisor starts it again; one that stays up and delivers nothing helps nobody."""
    settings = Settings(data=tmp_path, port=0)
    listener = listen("127.0.0.1", 0)
    known: asyncio.Future[Application] = asyncio.get_running_loop().create_future()
    with capture_logs() as logs:
        serving = asyncio.create_task(
            serve(
                settings,
                listener,
                started=lambda gateway, _: known.set_result(gateway),
                stop=asyncio.Event(),
            )
        )
        gateway = await known
        await GatewayParts(gateway).adapter.close()
        assert await asyncio.wait_for(serving, 20) == 1
    listener.close()
    assert "dragoman.failed" in [log["event"] for log in logs]
