"""What may be registered, by whom, and what becomes known of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.egress import AddressPolicy
from gateway.replicas.alone import Alone
from gateway.security.identify import anonymous
from gateway.security.keys import new_key, public_id
from gateway.security.password_cipher import PasswordCipher
from gateway.security.principals import OF_TRUSTED, Principal
from gateway.security.quotas import QuotaExceeded
from gateway.sources.registrations import MOST, RESERVED, Registrations
from gateway.sources.sources import Sources
from gateway.store import Store
from gateway.store import registrations as rows
from gateway.subscriptions.lifecycle.leases import LeaseTerms
from mediation.client import SPECS
from mediation.model.requests import RegisterPublisher
from mediation.model.versions import Version
from mediation.names import WSN_1_3
from tests.gateway.sources.test_registrations import register
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.producers import producers

NO_KEY = PasswordCipher(Path("there-is-none"))

SPEAKER = Speaker()
STRANGER = "127.0.0.9"
LOOPBACK = {"trusted": "127.0.0.1", "egress_allow": "127.0.0.0/8"}
SPEC = SPECS[Version.WSN_1_3]
PEER = Principal("127.0.0.1", "peer", "urn:peer", OF_TRUSTED)
NOW = datetime.now(UTC)
WEATHER = (
    '<w:TopicNamespace xmlns:w="http://docs.oasis-open.org/wsn/t-1" targetNamespace="urn:w">'
    '<w:Topic name="storms"/><w:Topic name="quakes"/></w:TopicNamespace>'
)
STORMS = '<b:Topic xmlns:w="urn:w">w:storms</b:Topic>'


def registrations(store: Store, most: int = MOST) -> Registrations:
    policy = AddressPolicy()
    sources = Sources(store, policy, cipher=NO_KEY, shared=False, base="http://gateway.example.org")
    terms = LeaseTerms(timedelta(hours=1), timedelta(days=1), grace=timedelta(0))
    return Registrations(store, sources, policy, Alone(store), terms=terms, most=most)


async def test_strangers_leave_registrations_to_trusted_peers(store: Store) -> None:
    few = registrations(store, most=RESERVED + 1)
    one, other = (anonymous(f"192.0.2.{last}", trusted=False) for last in (1, 2))
    await few.register(RegisterPublisher(), SPEC, one, now=NOW)
    with pytest.raises(QuotaExceeded):
        await few.register(RegisterPublisher(), SPEC, other, now=NOW)
    await few.register(RegisterPublisher(), SPEC, PEER, now=NOW)


async def test_moving_an_end_reads_no_other_registration(store: Store) -> None:
    here = registrations(store)
    moved = await here.register(RegisterPublisher(), SPEC, PEER, now=NOW)
    key = new_key()
    unread = replace(moved, key=key, id=public_id(key))
    await store.submit(lambda connection: rows.insert(connection, unread, of_owner=None, in_all=9))
    end = NOW + timedelta(hours=2)
    await here.move(moved, end)
    assert [(one.id, one.expires) for one in here.all] == [(moved.id, end)]
    assert (await here.find(moved.key)).expires == end


async def test_a_fixed_topic_set_binds_who_registers(tmp_path: Path) -> None:
    (declared := tmp_path / "weather.xml").write_text(WEATHER)
    fixed = {"topic_namespaces": (declared,), "fixed_topic_set": True}
    fault = f"{{{WSN_1_3}}}TopicNotSupportedFault"
    async with (
        producers() as some,
        consumers() as those,
        running(tmp_path / "data", **LOOPBACK, **fixed) as run,
    ):
        sink, producer = those.add(), some.add()
        other = await run.ask(SPEAKER, register(topic="secret"), source=STRANGER)
        assert other.fault.element == fault
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(sink.url))
        there = register(producer.url, demand=True, inner=STORMS)
        assert (await run.ask(SPEAKER, there, source=STRANGER)).status == 200
        await producer.asked("Subscribe")
        assert await producer.send("<secret/>", topic="secret") >= 400
        assert await producer.send("<storm/>") == 202
        assert b"<storm" in (await sink.next()).body


async def test_a_publisher_on_demand_publishes_what_was_registered(tmp_path: Path) -> None:
    async with (
        producers() as some,
        consumers() as those,
        running(tmp_path, **LOOPBACK, requires_registration=True) as run,
    ):
        sink, producer = those.add(), some.add()
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(sink.url))
        there = register(producer.url, "storms", demand=True)
        assert (await run.ask(SPEAKER, there, source=STRANGER)).status == 200
        await producer.asked("Subscribe")
        assert await producer.send("<quake/>", topic="quakes") >= 400
        assert await producer.send("<storm/>", topic="storms") == 202
        assert b"<storm" in (await sink.next()).body


async def test_logs_show_no_keys_and_no_passwords(tmp_path: Path) -> None:
    key, secret = new_key(), "s" + new_key()
    async with running(tmp_path) as run:
        addresses = [
            f"{run.url}/pullpoints/{key}",
            f"http://user:{secret}@p.example.org/",
            "http://p.example.org/" + "y" * 3000,
        ]
        for address in addresses:
            assert (await run.ask(SPEAKER, register(address, "t"))).status == 200
        there = f"http://127.0.0.1:20009/subscriptions/{key}"
        assert (await run.ask(SPEAKER, register(there, "t", demand=True))).status == 200
        added = await run.api("POST", "/sources", f'{{"url": "{there}"}}'.encode())
        assert added.status == 201
        listed = await run.api("GET", "/sources")
        told = [log for log in run.logs if log["event"] in ("publisher.registered", "source.added")]
        assert len(told) == 6
        said = f"{run.logs} {listed.body.decode()}"
        assert public_id(key) in said
        assert key not in said
        assert secret not in said
        assert max(len(str(log)) for log in told) < 1000
