"""How many events of a source came, as its page says."""

import asyncio
from pathlib import Path

from gateway.egress import AddressPolicy
from gateway.security.identify import OPERATOR
from gateway.security.password_cipher import PasswordCipher
from gateway.sources.new_sources import NewSource
from gateway.sources.sources import Sources
from gateway.store import Store
from mediation.model.versions import Version
from tests.rigs.stores import on_each_store

NO_KEY = PasswordCipher(Path("there-is-none"))


@on_each_store
async def test_events_count_while_they_are_written(store: Store) -> None:
    """Not only before and after."""
    sources = Sources(
        store, AddressPolicy(), cipher=NO_KEY, shared=False, base="http://gateway.example.org"
    )
    new = NewSource("http://producer.example.org/", Version.WSN_1_3)
    entry = await sources.add(new, OPERATOR)
    for events, came in ((3, 3), (2, 5)):
        sources.count_events(entry, events)
        learning = asyncio.create_task(sources.learn())
        await asyncio.sleep(0)
        assert not learning.done()
        assert sources.counts(entry)[0] == came
        await learning
        assert sources.counts(entry)[0] == came
