"""Users, keys and rules that the store keeps, beside those of the file."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Reason, Refused
from gateway.identities import stored as module
from gateway.identities.file import IdentitiesFile
from gateway.identities.file_editing import (
    add_key,
    add_rule,
    add_user,
    create_identities,
    remove_rule,
)
from gateway.identities.in_force import put_in_force
from gateway.identities.stored import StoredIdentities
from gateway.model.stored_identities import IdentityKind, StoredIdentity
from gateway.security.api_key_hashes import api_key_id, hash_api_key
from gateway.security.identities import (
    Identities,
    Key,
    RightsRow,
    User,
    load_identities,
    parse_identities,
)
from gateway.store import Store, StoreUnavailable, identities
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import Answer, Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.stores import on_each_store
from tests.rigs.waiting import until

SPEAKER = Speaker()
ADA = "user:ada"
TENANT = '[[tenants]]\nname = "acme"\n'
PORT = '[[users]]\nname = "mole"\n[[rights]]\nwho = ["user:mole"]\nmay = ["publish"]\n'


async def _use(_: Identities) -> None:
    pass


@contextlib.asynccontextmanager
async def opened(url: str, file: Path) -> AsyncIterator[StoredIdentities]:
    """What one gateway of the store knows of it."""
    store = Store(url)
    await store.start()
    try:
        found = StoredIdentities(store, IdentitiesFile(file), _use, shared=True)
        await found.learn()
        yield found
    finally:
        await store.close()


def file_of(folder: Path, text: str = "") -> Path:
    file = folder / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + text)
    return file


def rule(*who: str, may: str = "publish") -> RightsRow:
    return RightsRow.model_validate({"who": who, "may": [may]})


def rights_of(found: StoredIdentities, name: str) -> set[str]:
    grants = found.in_force.identities.policy.grants([name])
    return {right.value for right in grants.rights}


@on_each_store
async def test_what_is_kept_is_there_after_a_restart_and_in_all_gateways(
    store_url: str, tmp_path: Path
) -> None:
    file = file_of(tmp_path, TENANT)
    async with opened(store_url, file) as here, opened(store_url, file) as there:
        await here.keep_user("maria", ADA, password="secret", roles=["ward"], tenant="acme")
        await here.keep_user("maria", ADA, roles=["ward", "desk"])
        key, key_id = await here.add_key("maria", ADA, ["publish"])
        rule_id = await here.add_rule(rule("role:ward"), ADA)
        await there.learn()
        for found in (here.in_force, there.in_force):
            maria = found.identities.user_of_name["maria"]
            assert (maria.roles, maria.tenant) == (["ward", "desk"], "acme")
            assert maria.password is not None, "what is not said stays"
            assert found.identities.key_of_hash[hash_api_key(key)].may == ["publish"]
        assert rights_of(there, "role:ward") == {"publish"}
        await there.remove_rule(rule_id)
        await there.remove_user("maria")
    async with opened(store_url, file) as again:
        assert rights_of(again, "role:ward") == set()
        whole = again.in_force.identities
        assert "maria" not in whole.user_of_name
        assert hash_api_key(key) not in whole.key_of_hash, "a user's keys go with it"
        assert whole.users and api_key_id(hash_api_key(key)) == key_id


@on_each_store
async def test_gateways_that_change_at_once(store_url: str, tmp_path: Path) -> None:
    file = file_of(tmp_path)
    async with opened(store_url, file) as one, opened(store_url, file) as other:
        await asyncio.gather(
            *(each.add_rule(rule(f"user:{number}"), ADA) for number in range(10)
              for each in (one, other))
        )  # fmt: skip
        await one.learn()
        await other.learn()
        assert len(one.in_force.rules) == len(other.in_force.rules) == 20


async def test_a_key_is_replaced_and_the_former_is_taken_for_a_while(
    store_url: str, tmp_path: Path
) -> None:
    async with opened(store_url, file_of(tmp_path)) as found:
        await found.keep_user("maria", ADA)
        former, former_id = await found.add_key("maria", ADA, ["publish"])
        fresh, _ = await found.rotate_key(former_id, ADA, 24.0)
        keys = found.in_force.identities.key_of_hash
        old, new = keys[hash_api_key(former)], keys[hash_api_key(fresh)]
        assert new.may == old.may == ["publish"] and new.expires is None
        assert old.expires is not None
        assert timedelta(hours=23) < old.expires - datetime.now(UTC) < timedelta(hours=25)
        soon = datetime.now(UTC) + timedelta(hours=1)
        short, short_id = await found.add_key("maria", ADA, (), soon)
        await found.rotate_key(short_id, ADA, 24.0)
        assert found.in_force.identities.key_of_hash[hash_api_key(short)].expires == soon, "no more"


async def test_what_is_refused(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(tmp_path, TENANT + PORT)
    [in_file] = load_identities(file).keys
    file_key = api_key_id(in_file.hash)
    async with opened(store_url, file) as found:
        await found.keep_user("maria", ADA)
        unknown, allowed = Reason.RESOURCE_UNKNOWN, Reason.NOT_ALLOWED
        invalid = Reason.MESSAGE_INVALID
        for reason, asked in (
            (allowed, lambda: found.keep_user("mole", ADA)),
            (allowed, lambda: found.remove_user("mole")),
            (allowed, lambda: found.remove_key(file_key)),
            (allowed, lambda: found.rotate_key(file_key, ADA, 1.0)),
            (unknown, lambda: found.remove_user("nobody")),
            (unknown, lambda: found.remove_key("nothing")),
            (unknown, lambda: found.rotate_key("nothing", ADA, 1.0)),
            (unknown, lambda: found.remove_rule("file-1")),
            (unknown, lambda: found.add_key("nobody", ADA)),
            (unknown, lambda: found.add_key("maria", ADA, tenant="acme")),
            (unknown, lambda: found.add_key("mole", ADA, tenant="acme")),
            (invalid, lambda: found.keep_user("eve", ADA, tenant="nowhere")),
            (invalid, lambda: found.add_rule(rule("ca:nowhere"), ADA)),
            (invalid, lambda: found.add_rule(
                RightsRow(who=["everybody"], may=["publish"], topics=["a["]), ADA
            )),
        ):  # fmt: skip
            with pytest.raises(Refused) as refused:
                await asked()
            assert refused.value.reason is reason, refused.value.text
        assert len(found.in_force.stored) == 1
        monkeypatch.setattr(module, "MOST", 1)
        with pytest.raises(Refused) as refused:
            await found.keep_user("eve", ADA)
        assert refused.value.reason is Reason.QUOTA
        await found.keep_user("maria", ADA, roles=["ward"])  # One that is there may be changed.


async def test_the_file_comes_first(store_url: str, tmp_path: Path) -> None:
    """What does not go with it is set aside, says why, and is in force again when it does."""
    file = file_of(tmp_path, TENANT)
    with_tenant = file.read_text()
    async with opened(store_url, file) as found:
        await found.keep_user("pump", ADA, tenant="acme")
        await found.keep_user("mole", ADA, roles=["ward"])
        key, _ = await found.add_key("pump", ADA)
        await found.add_rule(rule("user:pump"), ADA)

        async def follow(text: str) -> Identities:
            file.write_text(text)
            found._file.identities = load_identities(file)
            await found.follow_file()
            return found.in_force.identities

        whole = await follow(with_tenant.replace(TENANT, "") + PORT)
        assert whole.user_of_name["mole"].roles == [], "the file's"
        assert "pump" not in whole.user_of_name and hash_api_key(key) not in whole.key_of_hash
        whys = {one.id: found.in_force.problem_of(one) for one in found.in_force.stored}
        assert whys["pump"] == "is of acme, which is no tenant"
        assert "of the file, too" in str(whys["mole"])
        assert [one is None for one in whys.values()].count(True) == 1, "the rule alone"
        whole = await follow(with_tenant)
        assert whole.user_of_name["mole"].roles == ["ward"]
        assert hash_api_key(key) in whole.key_of_hash
        assert not found.in_force.unusable


async def test_a_key_is_of_the_user_for_whom_it_was_made(store_url: str, tmp_path: Path) -> None:
    """Not of another one who is called so: in the file, in another tenant, or later."""
    file = file_of(tmp_path, TENANT)
    plain = file.read_text()
    async with opened(store_url, file) as found:

        async def counts(key: str, text: str) -> bool:
            file.write_text(text)
            found._file.identities = load_identities(file)
            await found.follow_file()
            return hash_api_key(key) in found.in_force.identities.key_of_hash

        await found.keep_user("mole", ADA, tenant="acme")
        stored, _ = await found.add_key("mole", ADA)
        assert await counts(stored, plain)
        assert not await counts(stored, plain + PORT), "the file has another mole"
        in_file, _ = await found.add_key("mole", ADA)
        assert await counts(in_file, plain + PORT)
        other = PORT.replace('"mole"', '"mole"\ntenant = "acme"', 1)
        assert not await counts(in_file, plain + other), "in another tenant"
        await found.remove_user("mole")  # That of the store, behind the file's.
        assert await counts(in_file, plain + PORT)
        assert not await counts(stored, plain + PORT)
        with pytest.raises(Refused, match="file of identities"):
            await found.remove_user("mole")
        assert not await counts(in_file, plain)
        await found.keep_user("mole", ADA)
        assert not await counts(in_file, plain), "it was the file's"


async def test_a_change_is_in_force_though_it_could_not_be_read(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store goes away just behind the commit: it is looked at again."""
    async with opened(store_url, file_of(tmp_path)) as found:
        found._shared = False
        await found.keep_user("maria", ADA)
        key, key_id = await found.add_key("maria", ADA)
        read = identities.version

        def gone(_: object) -> int:
            monkeypatch.setattr(identities, "version", read)
            raise StoreUnavailable

        monkeypatch.setattr(identities, "version", gone)
        with pytest.raises(StoreUnavailable):
            await found.remove_key(key_id)
        running_ = asyncio.create_task(found.run())
        try:
            await until(lambda: hash_api_key(key) not in found.in_force.identities.key_of_hash)
        finally:
            running_.cancel()


async def test_what_a_newer_gateway_has_kept_stops_nobody(store_url: str, tmp_path: Path) -> None:
    async with opened(store_url, file_of(tmp_path)) as found:
        row = StoredIdentity(
            IdentityKind.USER, "eve", "", "", '{"name": "eve", "new": 1}', ADA, 1.0
        )
        await found._store.submit(lambda connection: identities.write(connection, row))
        await found.add_rule(rule("user:maria"), ADA)
        assert "another version" in str(found.in_force.problem_of(row))
        assert rights_of(found, "user:maria") == {"publish"}
        with pytest.raises(Refused, match="another version"):
            await found.keep_user("eve", ADA, roles=["a"])
        await found.remove_user("eve")
        assert not found.in_force.unusable


def born(kind: IdentityKind, row: User | Key | RightsRow) -> tuple[str, str]:
    """The columns ``user`` and ``born``: keys are of users of the store."""
    if kind is IdentityKind.KEY and isinstance(row, Key):
        return row.user, "store"
    return "", "store" if kind is IdentityKind.USER else ""


NAMES = st.sampled_from(["ann", "bob", "eve"])


@given(
    in_file=st.lists(NAMES, unique=True),
    in_store=st.lists(NAMES, unique=True),
    keys=st.lists(NAMES),
    who=st.lists(st.sampled_from(["user:ann", "role:ward", "ca:port", "everybody"])),
)
def test_what_is_in_force_together_is_valid(
    in_file: list[str], in_store: list[str], keys: list[str], who: list[str]
) -> None:
    """Whatever the store has, the whole has no problem, the file's part is as it was, and each row
    of the store is in force or says why not."""
    text = "".join(f'[[users]]\nname = "{name}"\n' for name in in_file)
    file = parse_identities(text.encode(), Path("identities.toml"))
    rows: list[tuple[IdentityKind, str, User | Key | RightsRow]] = [
        (IdentityKind.USER, name, User(name=name)) for name in in_store
    ]
    rows += [
        (IdentityKind.KEY, str(number), Key(user=name, hash=hash_api_key(str(number))))
        for number, name in enumerate(keys)
    ]
    rows += [(IdentityKind.RULE, str(number), rule(one)) for number, one in enumerate(who)]
    stored = [
        StoredIdentity(kind, id_, *born(kind, row), row.model_dump_json(), ADA, 1.0)
        for kind, id_, row in rows
    ]
    found = put_in_force(file, stored)
    whole = found.identities
    assert not list(whole.problems())
    assert whole.users[: len(file.users)] == file.users
    number = len(whole.users) + len(whole.keys) + len(whole.rights)
    assert number == len(file.users) + len(stored) - len(found.unusable)
    for each in whole.policy.rules:
        kept = found.stored_rule(each.number)
        assert kept is not None and json.loads(kept.row)["who"] == list(each.who)


def test_rules_of_the_file(tmp_path: Path) -> None:
    file = file_of(tmp_path, "# Ours.\n")
    wanted = {"who": ["role:ward"], "may": ["publish"], "topics": ["w:a"], "namespaces": {"w": "u"}}
    assert add_rule(file, wanted) == 2
    assert load_identities(file).rights[1] == RightsRow.model_validate(wanted)
    remove_rule(file, 2)
    assert len(load_identities(file).rights) == 1 and "# Ours." in file.read_text()
    for place in (0, 2):
        with pytest.raises(Refused, match="no rule"):
            remove_rule(file, place)


# A gateway.


async def ask(run: Running, key: str, method: str, path: str, sent: object = None) -> Answer:
    octets = b"" if sent is None else json.dumps(sent).encode()
    return await run.request(
        method, f"/api/v1{path}", octets, content_type="application/json", x_api_key=key
    )


async def post(run: Running, key: str, body: str, path: str = "/soap") -> int:
    octets = SPEAKER.envelope(body, message_id=fresh_id())
    return (await run.post(octets, path, x_api_key=key)).status


@pytest.mark.parametrize("removed", ["rights", "users"])
async def test_a_gateway_goes_by_them_at_once(tmp_path: Path, removed: str) -> None:
    """From the answer on, after a restart, and until the rule is removed, or the user: what it
    subscribed to gets nothing any more."""
    file = tmp_path / "identities.toml"
    key = create_identities(file)
    async with consumers() as sinks:
        hers, others = sinks.add(), sinks.add()
        async with running(tmp_path / "data", identities=file) as run:
            answer = await ask(run, key, "POST", "/users", {"name": "maria", "password": "secret"})
            assert answer.status == 201 and b"argon2" not in answer.body
            made = await ask(run, key, "POST", "/keys", {"user": "maria"})
            maria = json.loads(made.body)["key"]
            assert await post(run, maria, SPEAKER.wse_subscribe(hers.url)) == 403
            may = {"who": ["user:maria"], "may": ["publish", "subscribe"]}
            added = json.loads((await ask(run, key, "POST", "/rights", may)).body)
            assert (added["kept_by"], added["kept_in"]) == ("user:administrator", "store")
            assert await post(run, maria, SPEAKER.wse_subscribe(hers.url)) == 200
            assert await post(run, key, SPEAKER.wse_subscribe(others.url)) == 200
        async with running(tmp_path / "data", identities=file) as run:
            assert await post(run, maria, "<a/>") == 202
            await hers.until(lambda: len(hers.received) == 1)
            path = "/rights/check?principal=maria&right=subscribe"
            assert json.loads((await ask(run, key, "GET", path)).body)["rule"]["id"] == added["id"]
            id_ = added["id"] if removed == "rights" else "maria"
            assert (await ask(run, key, "DELETE", f"/{removed}/{id_}")).status == 204
            assert await post(run, maria, "<a/>") == (403 if removed == "rights" else 401)
            assert await post(run, key, "<b/>") == 202
            await others.until(lambda: len(others.received) == 2)
        assert len(hers.received) == 1


async def test_whoever_may_not_do_everything_changes_nothing(tmp_path: Path) -> None:
    """An operator, a key of the administrator that may less, everything on some topics, or in a
    tenant: with any of these changes one could give itself all rights."""
    file = file_of(
        tmp_path,
        TENANT
        + """
[[rights]]
who = ["user:operator"]
may = ["operate", "read"]
[[rights]]
who = ["user:limited"]
may = ["everything"]
topics = ["storms"]
[[rights]]
who = ["user:theirs"]
may = ["everything"]
tenant = "acme"
""",
    )
    for name in ("operator", "limited", "theirs"):
        add_user(file, name, None, [], tenant="acme" if name == "theirs" else None)
    keys = {name: add_key(file, name) for name in ("operator", "limited", "theirs")}
    keys["key"] = add_key(file, "administrator", ["operate", "read"])
    changes: tuple[tuple[str, str, object], ...] = (
        ("POST", "/users", {"name": "eve"}),
        ("DELETE", "/users/eve", None),
        ("POST", "/keys", {"user": "administrator"}),
        ("POST", "/keys/a/rotate", {}),
        ("DELETE", "/keys/a", None),
        ("POST", "/rights", {"who": ["anonymous"], "may": ["everything"]}),
        ("DELETE", "/rights/a", None),
    )
    async with running(tmp_path / "data", identities=file) as run:
        for name, key in keys.items():
            for method, path, sent in changes:
                answer = await ask(run, key, method, path, sent)
                assert answer.status == (404 if name == "theirs" else 403), (
                    name,
                    path,
                    answer.body,
                )
        for name in ("operator", "key"):
            for path in ("/users", "/keys", "/rights"):
                assert (await ask(run, keys[name], "GET", path)).status == 200
        room = run.gateway.application
        assert not any(one.stored.in_force.stored for one in room.rooms if hasattr(one, "stored"))
    async with running(tmp_path / "other") as run:
        answer = await ask(run, "", "GET", "/users")
        assert answer.status == 404 and b"--identities" in answer.body
