"""Deliveries that were acknowledged in sequences, as rows, on each store."""

from functools import partial
from pathlib import Path
from uuid import UUID

from sqlalchemy import Connection

from gateway.store import Store, sequence_deliveries
from gateway.store.sequence_deliveries import KEPT, PRUNED
from tests.rigs.stores import on_each_store


def name(number: int) -> str:
    return f"urn:uuid:{UUID(int=number)}"


@on_each_store
async def test_what_is_remembered(store_url: str, tmp_path: Path) -> None:
    store = Store(store_url)
    await store.start()
    try:

        def known(connection: Connection) -> list[int]:
            numbers = (1, 2, KEPT, KEPT + PRUNED)
            return [
                number
                for number in numbers
                if sequence_deliveries.is_known(connection, "one", name(number))
            ]

        def add(connection: Connection, last: int) -> None:
            sequence_deliveries.add(connection, "one", map(name, range(1, last + 1)))

        await store.submit(lambda connection: add(connection, 2))
        await store.submit(lambda connection: add(connection, 2))  # Twice is no error.
        assert await store.submit(known) == [1, 2]
        assert not await store.submit(
            lambda connection: sequence_deliveries.is_known(connection, "two", name(1))
        )
        await store.submit(lambda connection: sequence_deliveries.forget(connection, "one"))
        assert await store.submit(known) == []
    finally:
        await store.close()


async def test_the_oldest_are_forgotten(tmp_path: Path) -> None:
    store = Store.at(tmp_path)
    await store.start()
    try:

        def add(connection: Connection) -> None:
            last = KEPT + PRUNED
            sequence_deliveries.add(connection, "one", map(name, range(1, last + 1)))

        await store.submit(add)
        for number, kept in ((1, False), (PRUNED, False), (PRUNED + 1, True)):
            find = partial(
                sequence_deliveries.is_known, subscription="one", message_id=name(number)
            )
            assert await store.submit(find) is kept
    finally:
        await store.close()
