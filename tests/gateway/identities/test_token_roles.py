"""Roles that a token said count for what its user subscribed to, when the token is gone."""

import asyncio
import itertools
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.identities.file_editing import create_identities
from gateway.identities.token_roles import TokenRolesRoom
from gateway.model.token_roles import TokenRoles
from gateway.security import token_roles as remembering
from gateway.security.authentication import Authentication
from gateway.security.identify import Identification, TransportFacts, anonymous
from gateway.security.identities import parse_identities
from gateway.security.principals import Identity
from gateway.security.token_roles import RolesOfTokens
from gateway.store import Store, token_roles
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.identity_provider import DOCUMENTS, identity_provider
from tests.rigs.waiting import until

SPEAKER = Speaker()
DAY = 86400.0
ISSUER = "https://id.example"
WARD = frozenset({"ward"})
RULES = """
[[issuers]]
issuer = "{}"
audience = "dragoman"
keys = "{}/keys"
roles = "roles"

[[rights]]
who = ["role:ward"]
may = ["subscribe", "publish"]
"""


@pytest_asyncio.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    opened = Store(store_url)
    await opened.start()
    yield opened
    await opened.close()


def test_the_roles_of_the_last_token(monkeypatch: pytest.MonkeyPatch) -> None:
    known = RolesOfTokens()
    assert not known.show("user:a", ISSUER, frozenset(), 1), "nothing to remember"
    assert known.show("user:a", ISSUER, WARD, 1)
    [kept] = known.take_changes()
    assert kept.roles == WARD and abs(kept.until - time.time() - DAY) < 60
    assert not known.show("user:a", ISSUER, WARD, 1)
    assert known.take_changes() == [], "the same again is kept now and then"
    assert known.show("user:a", ISSUER, frozenset(), 1), "withdrawn"
    assert known.find("user:a").roles == frozenset()  # type: ignore[union-attr]
    assert known.learn([kept]) == [], "what is known is newer"
    assert known.learn([TokenRoles("user:b", ISSUER, WARD, time.time() - 1.0)]) == ["user:b"]
    assert known.find("user:b") is None, "too long ago"
    assert known.forget_old() == ["user:b"]
    monkeypatch.setattr(remembering, "MOST", 1)
    known.show("user:c", ISSUER, WARD, 1)
    assert known.find("user:a") is None and known.find("user:c") is not None


def test_an_issuer_whose_roles_count_for_fewer_days_than_before() -> None:
    """What was shown before counts no longer for that, here nor at other gateways."""
    known, other = RolesOfTokens(), RolesOfTokens()
    known.show("user:a", ISSUER, WARD, 30)
    before = known.take_changes()
    other.learn(before)
    assert not known.show("user:a", ISSUER, WARD, 1)
    [fewer] = known.take_changes()
    assert abs(fewer.until - time.time() - DAY) < 60
    known.put_back(before)
    assert known.take_changes() == [], "it has changed since"
    assert known.learn(before) == [], "what the store has is older than what is on its way there"
    assert known.find("user:a") == fewer
    known.note_kept([fewer])
    known.show("user:a", ISSUER, frozenset(), 1)
    [withdrawn] = known.take_changes()
    assert other.learn([withdrawn]) == ["user:a"]
    assert other.find("user:a") == withdrawn


def test_an_older_token_brings_no_role_back() -> None:
    """Here, at other gateways and after a restart; a token of another issuer is another matter."""
    known, other = RolesOfTokens(), RolesOfTokens()
    now = time.time()
    assert known.show("user:a", ISSUER, WARD, 1, now - 60.0)
    before = known.take_changes()
    assert known.show("user:a", ISSUER, frozenset(), 1, now - 30.0), "withdrawn"
    withdrawn = known.take_changes()
    assert not known.show("user:a", ISSUER, WARD, 1, now - 60.0)
    assert not known.show("user:a", ISSUER, WARD, 1), "it does not say when it was issued"
    assert known.take_changes() == []
    assert known.show("user:a", ISSUER, WARD, 1, now - 30.0), "issued in the same second"
    assert other.learn(withdrawn) == ["user:a"]
    assert other.learn(before) == []
    assert not other.show("user:a", ISSUER, WARD, 1, now - 60.0)
    assert other.show("user:a", "https://other.example", WARD, 1, now - 60.0)


def test_the_same_roles_of_a_newer_token() -> None:
    known = RolesOfTokens()
    now = time.time()
    known.show("user:a", ISSUER, WARD, 1, now - 60.0)
    known.note_kept(kept := known.take_changes())
    assert not known.show("user:a", ISSUER, WARD, 1, now - 30.0)
    assert known.take_changes() == []
    assert known.learn(kept) == []
    assert not known.show("user:a", ISSUER, frozenset(), 1, now - 45.0)
    assert known.show("user:a", ISSUER, frozenset(), 1, now + 3600.0), "a clock that is ahead"
    assert known.show("user:a", ISSUER, WARD, 1, time.time()), "does not count for an hour"


async def test_rows_of_what_was_shown(store: Store) -> None:
    one = TokenRoles("user:a", ISSUER, WARD, 100.0)
    before = TokenRoles("user:a", ISSUER, frozenset(), 500.0)
    await store.submit(lambda rows: token_roles.write(rows, [before]))
    await store.submit(lambda rows: token_roles.write(rows, [one]))
    found, moment = await store.submit(lambda rows: token_roles.learn(rows, 0.0))
    assert found == [one], "shown last, though it counts for a shorter time"
    later = await store.submit(lambda rows: token_roles.learn(rows, moment + 60.0))
    assert later[0] == [] and later[1] >= moment
    newer = TokenRoles("user:a", ISSUER, frozenset(), 100.0, issued=20.0)
    older = TokenRoles("user:a", ISSUER, WARD, 100.0, issued=10.0)
    await store.submit(lambda rows: token_roles.write(rows, [newer]))
    await store.submit(lambda rows: token_roles.write(rows, [older]))
    [[stays], _] = await store.submit(lambda rows: token_roles.learn(rows, 0.0))
    assert stays == newer and stays.issued == 20.0
    await store.submit(lambda rows: token_roles.delete_old(rows, 100.0))
    assert (await store.submit(lambda rows: token_roles.learn(rows, 0.0)))[0] == []


@pytest.mark.parametrize("requests", [1, 2, 5])
async def test_nobody_is_answered_before_its_roles_are_kept(store: Store, requests: int) -> None:
    """Neither who shows a token first nor who shows it again meanwhile."""
    identification = Identification()
    room = TokenRolesRoom(store, identification, shared=False)
    await room.start()
    roles = identification.roles_of_tokens
    principal = anonymous("192.0.2.1", trusted=False)
    roles.show(principal.owner, ISSUER, WARD, 1)
    answered = [
        asyncio.ensure_future(identification.save_roles(principal)) for _ in range(requests)
    ]
    for future in asyncio.as_completed(answered):
        await future
        found, _ = await store.submit(lambda rows: token_roles.learn(rows, 0.0))
        assert [one.owner for one in found] == [principal.owner]
    assert not roles.is_unsaved(principal.owner)


async def publish(run: Running, token: str, number: int) -> int:
    envelope = SPEAKER.envelope(f"<a><n>{number}</n></a>", message_id=fresh_id())
    answer = await run.post(envelope, type=SPEAKER.type, authorization=f"Bearer {token}")
    return answer.status


async def test_a_subscription_gets_its_events_after_a_restart(tmp_path: Path) -> None:
    """Until its issuer is one no more; the publisher shows its own token."""
    file = tmp_path / "identities.toml"
    key = create_identities(file)
    with identity_provider() as provider:
        issuer = provider.issuer
        file.write_text(file.read_text() + RULES.format(issuer, issuer))
        mole, publisher = (
            provider.token(sub=name, roles=["ward"]) for name in ("mole", "publisher")
        )
        async with Consumers() as consumer:
            url = consumer.fresh()
            data = tmp_path / "data"
            async with running(data, adapter="embedded:", identities=file) as run:
                envelope = SPEAKER.envelope(SPEAKER.wse_subscribe(url), message_id="urn:uuid:s")
                answer = await run.post(envelope, type=SPEAKER.type, authorization=f"Bearer {mole}")
                assert answer.status == 200, answer.body
            async with running(data, adapter="embedded:", identities=file) as run:
                assert await publish(run, publisher, 1) == 202
                assert (await consumer.next(url)).number == "1"
                text = file.read_text()
                file.write_text(text.replace(f'issuer = "{issuer}"', 'issuer = "https://other"'))

                async def status() -> int:
                    return await publish(run, publisher, 2)

                async def is_unknown() -> bool:
                    return await status() == 401

                await until(is_unknown)
                assert await publish(run, key, 3) == 202
                await run.quiet()
                file.write_text(text)

                async def is_known() -> bool:
                    return await status() == 202

                await until(is_known)
                received = {(await consumer.next(url)).number}
                assert received == {"2"}, "what was published meanwhile goes to nobody"
                await run.quiet()


async def test_the_token_that_was_shown_last_counts(tmp_path: Path) -> None:
    """Though both are remembered as verified."""
    file = tmp_path / "identities.toml"
    create_identities(file)
    with identity_provider() as provider:
        file.write_text(file.read_text() + RULES.format(provider.issuer, provider.issuer))
        ward, former, publisher = (
            provider.token(sub=name, roles=roles)
            for name, roles in (("mole", ["ward"]), ("mole", []), ("publisher", ["ward"]))
        )
        async with Consumers() as consumer, running(tmp_path / "data", identities=file) as run:
            url = consumer.fresh()
            envelope = SPEAKER.envelope(SPEAKER.wse_subscribe(url), message_id="urn:uuid:s")
            answer = await run.post(envelope, type=SPEAKER.type, authorization=f"Bearer {ward}")
            assert answer.status == 200, answer.body
            for shown, status in ((former, 403), (ward, 202), (former, 403)):
                assert await publish(run, shown, 0) == status
                await run.quiet()
            assert (await consumer.next(url)).number == "0"
            assert await publish(run, publisher, 1) == 202
            await run.quiet()
            assert await publish(run, ward, 2) == 202
            assert (await consumer.next(url)).number == "2", "the one before went to nobody"
            await run.quiet()


async def test_a_token_that_was_issued_before_brings_no_role_back(tmp_path: Path) -> None:
    """Though it is valid, and may publish by that role itself."""
    file, now = tmp_path / "identities.toml", int(time.time())
    create_identities(file)
    with identity_provider() as provider:
        file.write_text(file.read_text() + RULES.format(provider.issuer, provider.issuer))
        older = provider.token(roles=["ward"], iat=now - 60)
        newer = provider.token(roles=[], iat=now - 30)
        publisher = provider.token(sub="publisher", roles=["ward"])
        async with Consumers() as consumer, running(tmp_path / "data", identities=file) as run:
            url = consumer.fresh()
            envelope = SPEAKER.envelope(SPEAKER.wse_subscribe(url), message_id="urn:uuid:s")
            answer = await run.post(envelope, type=SPEAKER.type, authorization=f"Bearer {older}")
            assert answer.status == 200, answer.body
            assert await publish(run, newer, 0) == 403
            assert await publish(run, older, 1) == 202
            assert await publish(run, publisher, 2) == 202
            await run.quiet()
            newest = provider.token(roles=["ward"], iat=now)
            assert await publish(run, newest, 3) == 202
            assert (await consumer.next(url)).number == "3", "those before went to nobody"
            await run.quiet()


def test_roles_change_while_threads_ask() -> None:
    """Stores and deliveries ask in threads of their own; nothing of a role that is gone stays."""
    text, path = RULES.format(ISSUER, ISSUER), Path("identities.toml")
    authentication = Authentication(parse_identities(text.encode(), path), path, DOCUMENTS)
    known, facts = Identification(authentication=authentication), TransportFacts("192.0.2.1")
    ended = threading.Event()

    def ask() -> None:
        for number in itertools.count():
            if ended.is_set():
                return
            known.may_receive(f"user:{number}", None)

    usual = sys.getswitchinterval()
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        sys.setswitchinterval(1e-6)
        for number in range(2000):
            roles = frozenset({"ward"} if number % 2 else ())
            identity = Identity("user:mole", roles, issuer=ISSUER, shown=roles, roles_days=30)
            known.principal_of(identity, facts)
            assert known.may_receive("user:mole", None) == bool(roles)
    finally:
        sys.setswitchinterval(usual)
        ended.set()
        thread.join()
