"""What operators decide about hosts: a row each, of which there are so many."""

from collections.abc import AsyncIterator

import pytest_asyncio

from gateway.model.host_decisions import Decision, HostDecision, HostDecisions
from gateway.store import Store, host_decisions


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = Store(store_url)
    await opened.start()
    yield opened
    await opened.close()


async def test_decisions_are_rows_of_which_there_are_so_many(store: Store) -> None:
    one = HostDecision("a.example", Decision.APPROVED, "user:ada", 1.0)
    other = HostDecision("b.example", Decision.FORBIDDEN, "user:ada", 2.0)
    assert await store.submit(lambda rows: host_decisions.write(rows, one, most=1))
    assert not await store.submit(lambda rows: host_decisions.write(rows, other, most=1))
    again = HostDecision("a.example", Decision.FORBIDDEN, "user:eve", 3.0)
    assert await store.submit(lambda rows: host_decisions.write(rows, again, most=1))
    known = HostDecisions()
    assert known.replace(await store.submit(host_decisions.load)) == {"a.example"}
    assert known.forbids("a.example") and not known.approves("a.example")
    await store.submit(lambda rows: host_decisions.delete(rows, "a.example"))
    assert known.replace(await store.submit(host_decisions.load)) == {"a.example"}
    assert known.find("a.example") is None
