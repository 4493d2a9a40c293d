"""What is known of the certificates that owners showed."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.identities.shown_certificates import ShownCertificatesRoom
from gateway.model.shown_certificates import ShownCertificate
from gateway.security import shown_certificates as remembering
from gateway.security.authentication import Authentication
from gateway.security.identify import Identification
from gateway.security.identities import parse_identities
from gateway.security.shown_certificates import ShownCertificates
from gateway.store import Store, shown_certificates
from tests.rigs.identity_provider import DOCUMENTS
from tests.rigs.stores import on_each_store
from tests.rigs.waiting import DEADLINE, until

MOLE = "cert:CN=mole"


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = Store(store_url)
    await opened.start()
    yield opened
    await opened.close()


def test_the_certificate_that_was_shown_last(monkeypatch: pytest.MonkeyPatch) -> None:
    known = ShownCertificates()
    assert not known.show(MOLE, "a:1") and not known.show(MOLE, "a:1")
    [first] = known.take_changes()
    assert known.take_changes() == [], "the same again is kept now and then"
    assert known.withdraw([first]) == [MOLE] and known.is_revoked(MOLE)
    assert known.counting() == [] and known.withdraw([first]) == []
    [revoked] = known.take_changes()
    assert revoked == first.withdrawn()
    assert known.show(MOLE, "a:2") and not known.is_revoked(MOLE), "another one counts"
    assert known.withdraw([first]) == [], "it has shown another since"
    monkeypatch.setattr(remembering, "MOST", 1)
    known.show("cert:CN=pilot", "a:3")
    assert [one.owner for one in known.counting()] == ["cert:CN=pilot"]


def test_what_other_gateways_were_shown() -> None:
    known, now = ShownCertificates(), 1000.0
    first = ShownCertificate(MOLE, "a:1", now)
    assert known.learn([first]) == [MOLE] and known.learn([first]) == []
    assert known.learn([first.withdrawn()]) == [MOLE] and known.is_revoked(MOLE)
    assert known.learn([first]) == [], "what the store had before"
    assert known.is_revoked(MOLE)
    assert known.learn([ShownCertificate(MOLE, "a:2", now + 1)]) == [MOLE]
    assert not known.is_revoked(MOLE)
    assert known.learn([first.withdrawn()]) == []
    known.show(MOLE, "a:3")
    assert known.learn([ShownCertificate(MOLE, "a:4", now * 1e9, True)]) == [], "ours goes there"
    known.put_back(known.take_changes())
    assert [one.numbers for one in known.take_changes()] == ["a:3"]


@on_each_store
async def test_what_the_store_has(store: Store) -> None:
    first = ShownCertificate(MOLE, "a:1 b:2", 1000.0)
    later = ShownCertificate(MOLE, "a:3", 1001.0)
    expected = first
    for one, kept in (
        (first, first),
        (first.withdrawn(), first.withdrawn()),
        (first, first.withdrawn()),
        (later, later),
        (first.withdrawn(), later),
    ):
        await store.submit(partial(shown_certificates.write, shown=[one]))
        found, moment = await store.submit(lambda rows: shown_certificates.learn(rows, 0.0))
        assert found == [kept]
        expected = kept
    assert (await store.submit(lambda rows: shown_certificates.learn(rows, moment)))[0] == [
        expected
    ]
    later_on = await store.submit(lambda rows: shown_certificates.learn(rows, moment + 60.0))
    assert later_on[0] == []
    for before, left in ((1001.0, [later]), (1002.0, [])):
        await store.submit(partial(shown_certificates.delete_old, before=before))
        found, _ = await store.submit(lambda rows: shown_certificates.learn(rows, 0.0))
        assert found == left


@pytest.mark.slow
async def test_another_gateway_of_the_store_knows_it(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "identities.toml"
    rows = b'[[rights]]\nwho = ["cert:CN=mole"]\nmay = ["subscribe"]\n'
    here, there = (
        Identification(authentication=Authentication(parse_identities(rows, path), path, DOCUMENTS))
        for _ in range(2)
    )
    rooms = [ShownCertificatesRoom(store, one, shared=True) for one in (here, there)]
    for room in rooms:
        await room.start()
    working = [asyncio.ensure_future(work()) for room in rooms for work in room.works()]
    try:
        here.shown_certificates.show(MOLE, "a:1")
        assert here.may_receive(MOLE, None) and there.may_receive(MOLE, None)
        here.withdraw_certificates(here.shown_certificates.counting())
        assert not here.may_receive(MOLE, None)
        async with asyncio.timeout(DEADLINE):
            await until(lambda: not there.may_receive(MOLE, None))
        there.shown_certificates.show(MOLE, "a:2")
        there.forget_grants([MOLE])
        await until(lambda: here.may_receive(MOLE, None))
    finally:
        for one in working:
            one.cancel()
        for room in rooms:
            await room.close()
