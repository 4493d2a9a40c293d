"""What producers send, and what becomes of it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters import AdapterUnavailable
from gateway.delivery.partition_share import everything
from gateway.egress import AddressPolicy
from gateway.exchange import Inbound
from gateway.model.sources import Standing, State
from gateway.publishing.operations import Select
from gateway.security.identify import OPERATOR
from gateway.security.keys import new_key
from gateway.security.password_cipher import PasswordCipher
from gateway.security.principals import OF_STRANGERS, Principal
from gateway.sources.new_sources import NewSource
from gateway.sources.operations import SourceOperations
from gateway.sources.sources import Sources, SourceUnknown
from gateway.store import Store
from gateway.store import sources as rows
from mediation.detect import read
from mediation.model.requests import Acknowledged, Arrival, Incoming, Publish, Published
from tests.rigs.envelopes import RL, Speaker, notification_message, notify
from tests.rigs.stores import on_each_store, sqlite_url

NO_KEY = PasswordCipher(Path("there-is-none"))

BASE = "http://gateway.example.org"
ENDING = f'<r:TerminationNotification xmlns:r="{RL}"/>'


@on_each_store
async def test_an_end_is_noted_behind_the_events_that_came_with_it(store: Store) -> None:
    """Else they come again to a key that is unknown by then."""
    sources = Sources(store, AddressPolicy(), cipher=NO_KEY, shared=False, base=BASE)
    entry = await sources.add(NewSource("http://producer.example.org/", topic="a"), OPERATOR)
    entry.share, key = everything(), new_key()
    await sources.keep(entry, Standing(State.LIVE, key=key), entry.share)
    taken: list[Publish] = []
    away = True

    async def publish(
        request: Publish, _incoming: Incoming, _inbound: Inbound, _select: Select | None
    ) -> Published | Acknowledged | None:
        if away:
            raise AdapterUnavailable("The broker is away.")
        taken.append(request)
        return None

    both = notify(notification_message(ENDING, "a") + notification_message("<e/>", "a"))
    octets = Speaker().envelope(both)
    incoming = read(octets, Arrival("urn:p", datetime.now(UTC), "urn:uuid:fresh"))
    principal = Principal("127.0.0.1", "anonymous:127.0.0.1", "urn:p", OF_STRANGERS)
    inbound = Inbound(octets=octets, principal=principal, base=BASE, path=f"/sources/{key}")
    take_in = SourceOperations(sources, publish, publish).handlers()[Publish]
    with pytest.raises(AdapterUnavailable):
        await take_in(incoming.request, incoming, inbound)
    assert [row.ended for row in await store.submit(rows.load)] == [None]
    away = False
    await take_in(incoming.request, incoming, inbound)
    assert [one.payload for request in taken for one in request.notifications] == [b"<e/>"]
    [row] = await store.submit(rows.load)
    assert row.ended is not None and row.ended.key == key


async def test_a_gateway_alone_asks_no_store_for_keys_that_it_does_not_know(
    tmp_path: Path,
) -> None:
    not_started = Store(sqlite_url(tmp_path))
    sources = Sources(not_started, AddressPolicy(), cipher=NO_KEY, shared=False, base=BASE)
    with pytest.raises(SourceUnknown):
        await sources.find(new_key())
