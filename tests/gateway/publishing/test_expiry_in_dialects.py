"""The life of an event, to a subscriber in every dialect: told where the dialect has a place for it,
and nobody gets the event when it is over, not even out of a mailbox."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from mediation.matrix import Fact
from tests.rigs.consumers import Consumers
from tests.rigs.gateways import running
from tests.rigs.subscribers import subscribe_each
from tests.rigs.waiting import until

SHORT = timedelta(seconds=1.5)


def block(expires: str) -> str:
    return f"<p:Expires xmlns:p='urn:dragoman:policy:1'>{expires}</p:Expires>"


async def test_what_is_over_reaches_nobody_and_the_rest_is_told(tmp_path: Path) -> None:
    async with Consumers() as consumers, running(tmp_path) as run:
        subscribers = await subscribe_each(run, consumers)
        soon = datetime.now(UTC) + SHORT
        for payload, expires in (
            ("<e>over</e>", "2020-01-01T00:00:00Z"),
            ("<e>soon</e>", soon.isoformat()),
            ("<e>later</e>", "2037-01-02T03:04:05Z"),
        ):
            await run.publish(payload, headers=block(expires))
        await run.quiet()
        await until(lambda: datetime.now(UTC) > soon)
        for subscriber in subscribers:
            await subscriber.fetch()
            got, dialect = subscriber.received, subscriber.dialect
            assert "over" not in got and "later" in got, dialect.name
            assert ("2037-01-02T03:04:05" in got) == (Fact.EXPIRY in dialect.tells), dialect.name
            assert dialect.fetching is None or "soon" not in got, dialect.name
