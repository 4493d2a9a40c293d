"""An event whose life is over is delivered to nobody, by whatever door it came."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from gateway.store.totals import Totals
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running
from tests.rigs.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
SPEAKER = Speaker()


async def in_soap(run: Running, number: str, expires: str) -> None:
    header = f'<d:Expires xmlns:d="urn:dragoman:policy:1">{expires}</d:Expires>'
    await run.publish(f"<n>{number}</n>", headers=header)


async def as_event(run: Running, number: str, expires: str) -> None:
    answer = await run.request(
        "POST",
        "/events",
        f"<n>{number}</n>".encode(),
        content_type="application/xml",
        ce_specversion="1.0",
        ce_id=f"{number} {expires}",
        ce_source="/s",
        ce_type="t",
        ce_expirytime=expires,
    )
    assert answer.status == 202, answer.body


async def totals(run: Running) -> Totals:
    return (await run.gateway.dispatchers.conservation()).totals


@pytest.mark.parametrize("publish", [in_soap, as_event])
async def test_it_is_counted_and_passed_on(
    gateway: Running,
    consumer: Consumers,
    publish: Callable[[Running, str, str], Awaitable[None]],
) -> None:
    sink = consumer.add()
    await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(sink.url))
    before = (await totals(gateway)).expired
    now = datetime.now(UTC)
    life = (now + timedelta(hours=1)).replace(microsecond=0).isoformat()
    await publish(gateway, "gone", (now - timedelta(seconds=1)).isoformat())
    await publish(gateway, "kept", life)
    assert await sink.have(1) == ["kept"]
    assert f">{life.replace('+00:00', 'Z')}</drg:Expires>".encode() in sink.received[0].body

    async def counted() -> bool:
        return (await totals(gateway)).expired > before

    await until(counted)
    await gateway.quiet()
    assert sink.numbers == ["kept"]


async def test_a_time_that_is_none_is_refused(gateway: Running) -> None:
    answer = await gateway.request(
        "POST", "/events", b"{}", content_type="application/json", ce_specversion="1.0",
        ce_id="1", ce_source="/s", ce_type="t", ce_expirytime="soon",
    )  # fmt: skip
    assert answer.status == 400 and b"expirytime" in answer.body
