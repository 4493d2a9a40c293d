"""What producers are shown, of each kind and from each place, how it changes, and where it goes."""

import json
import sqlite3
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.identities.file_editing import add_key, add_user, create_identities
from mediation.client import SPECS
from mediation.model.versions import Soap, Version
from tests.gateway.sources.test_sources import shown, state
from tests.rigs.certificates import Authority
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import Speaker, notification_message, notify, topic_expression
from tests.rigs.gateways import Running, running
from tests.rigs.identity_provider import IdentityProvider, identity_provider
from tests.rigs.producers import Producer, Producers, Told, producers
from tests.rigs.signers import rsa_pair
from tests.rigs.waiting import until

QUICKLY = 15.0
"""Seconds: half of those after which a producer is asked again that took the gateway for nobody."""
Check = Callable[[Told, str], bool]


@pytest.fixture
async def some() -> AsyncIterator[Producers]:
    async with producers() as those:
        yield those


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as found:
        yield found


def has_header(name: str, value: str) -> Check:
    return lambda told, secret: told.headers.get(name) == value.format(secret)


def has_basic(told: Told, secret: str) -> bool:
    pair = b64encode(f"us:{secret}".encode()).decode()
    return told.headers.get("authorization") == f"Basic {pair}"


def has_password(told: Told, secret: str) -> bool:
    return told.text("Password") == secret and told.text("Username") == "us"


KINDS = [
    pytest.param({"credential": {"kind": "bearer"}}, has_header("authorization", "Bearer {}"), id="bearer"),
    pytest.param({"credential": {"kind": "api-key"}}, has_header("x-api-key", "{}"), id="api-key"),
    pytest.param(
        {"credential": {"kind": "api-key", "header": "Subscription-Key"}},
        has_header("subscription-key", "{}"),
        id="api-key in another header",
    ),
    pytest.param({"credential": {"kind": "basic", "user": "us"}}, has_basic, id="basic"),
    pytest.param(
        {"credential": {"kind": "username-token", "user": "us", "password": "text"}},
        has_password,
        id="username-token",
    ),
    pytest.param({"user": "us", "allow_basic": True}, has_basic, id="a password that is asked for"),
]  # fmt: skip


def row_of(producer: Producer, given: dict[str, Any], secret: Path) -> dict[str, Any]:
    if "credential" in given:
        given = {**given, "credential": {**given["credential"], "secret_file": secret}}
    else:
        given = {**given, "password_file": secret}
    return {"url": producer.url, **given}


def guard(producer: Producer, check: Callable[[Told], bool]) -> list[str]:
    """Have *producer* answer nobody else; the operations that it refused."""
    refused: list[str] = []
    answer = producer.answer

    async def guarded(told: Told) -> tuple[int, bytes] | None:
        if check(told):
            return await answer(told)
        refused.append(told.operation)
        return 401, b""

    producer.answer = guarded  # type: ignore[method-assign]
    wire = producer.wire

    def challenging(code: int, type: str, body: bytes) -> bytes:
        answered = wire(code, type, body)
        if code == 401:
            asks = b'WWW-Authenticate: Basic realm="x"\r\nContent-Length'
            return answered.replace(b"Content-Length", asks, 1)
        return answered

    producer.wire = challenging
    return refused


async def only(run: Running) -> dict[str, Any]:
    [one] = json.loads((await run.api("GET", "/sources")).body)["sources"]
    return dict(one)


async def comes_to(run: Running, wanted: str, seconds: float = 60.0) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    async def holds() -> bool:
        listed = json.loads((await run.api("GET", "/sources")).body)["sources"]
        seen.clear()
        seen.update(listed[0] if listed else {})
        return seen.get("state") == wanted

    await until(holds, seconds)
    return seen


@pytest.mark.parametrize(("given", "check"), KINDS)
async def test_a_file_that_changes_counts_at_once(
    tmp_path: Path, some: Producers, given: dict[str, Any], check: Check
) -> None:
    """A producer that does not take what is shown is asked again as soon as the file is another
    one, and one that takes it is shown the new one from then on; it is the same source."""
    producer, secret, expected = some.add(), tmp_path / "secret", ["rotated-1"]
    producer.grants = "PT2S"
    refused = guard(producer, lambda told: check(told, expected[0]))
    secret.write_text("first-one\n")
    async with running(tmp_path / "data", sources=[row_of(producer, given, secret)]) as run:
        before = await comes_to(run, "backing-off")
        assert refused and "first-one" not in before["last_error"]
        assert "401" in before["last_error"]
        secret.write_text("rotated-1\n")
        assert (await comes_to(run, "live", QUICKLY))["id"] == before["id"]
        refused.clear()
        expected[0] = "rotated-2"  # The lease is short: it is refused now, or shown the new one.
        secret.write_text("rotated-2\n")
        renewed = producer.count("Renew")
        await producer.asked("Renew", renewed + 2)
        assert (await comes_to(run, "live", QUICKLY))["id"] == before["id"]
        assert any(one["event"] == "source.credential-read" for one in run.logs)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert not [one for one in (b"first-one", b"rotated-") if one in kept]


async def test_a_file_that_is_unusable_changes_nothing(tmp_path: Path, some: Producers) -> None:
    producer, secret = some.add(), tmp_path / "secret"
    producer.grants = "PT2S"
    guard(producer, lambda told: told.headers.get("authorization") == "Bearer the-token")
    secret.write_text("the-token")
    row = row_of(producer, {"credential": {"kind": "bearer"}}, secret)
    async with running(tmp_path / "data", sources=[row]) as run:
        await comes_to(run, "live")
        secret.write_text("")

        def told() -> bool:
            said = [one for one in run.logs if one["event"] == "source.credential-unusable"]
            return bool(said) and "is empty" in said[0]["why"]

        await until(told)
        await producer.asked("Renew", producer.count("Renew") + 2)
        assert (await only(run))["failures"] == 0


async def test_client_credentials_get_a_token_first(
    tmp_path: Path, some: Producers, provider: IdentityProvider
) -> None:
    producer, secret = some.add(), tmp_path / "secret"
    guard(producer, lambda told: told.headers.get("authorization", "")[7:] in provider.granted)
    provider.clients["harbour"] = "rotated"
    secret.write_text("wrong")
    credential = {"kind": "client-credentials", "client_id": "harbour"}
    row = row_of(
        producer,
        {"credential": {**credential, "token_url": f"{provider.issuer}/token"}},
        secret,
    )
    async with running(tmp_path / "data", sources=[row]) as run:
        seen = await comes_to(run, "backing-off")
        assert "no token for client-credentials" in seen["last_error"]
        secret.write_text("rotated")
        seen = await comes_to(run, "live", QUICKLY)
        assert (seen["user"], seen["credential"]) == (None, "client-credentials")


async def test_messages_are_signed(tmp_path: Path, some: Producers) -> None:
    producer = some.add()
    certificate, key = rsa_pair(tmp_path, "us")
    guard(producer, lambda told: told.text("SignatureValue") is not None)
    given = {"credential": {"kind": "x509", "certificate": certificate}}
    async with running(tmp_path / "data", sources=[row_of(producer, given, key)]) as run:
        assert (await comes_to(run, "live"))["credential"] == "x509"


async def test_a_client_certificate_of_its_own(tmp_path: Path) -> None:
    """It is shown by the source that has it, and by no other one at the same address."""
    authority, clients = Authority(tmp_path), Authority(tmp_path, "clients")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.issue("127.0.0.1"))
    tls.load_verify_locations(clients.certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    certificate, key = clients.issue("gateway.example")
    async with producers(tls) as those:
        known, other = those.add(), those.add()
        rows = [
            {"url": known.url, "client_certificate": certificate, "client_key": key,
             "ca": authority.certificate},
            {"url": other.url, "ca": authority.certificate},
        ]  # fmt: skip
        async with running(tmp_path / "data", sources=rows) as run:

            async def stands() -> dict[str, str]:
                listed = json.loads((await run.api("GET", "/sources")).body)["sources"]
                return {one["url"]: one["state"] for one in listed}

            async def holds() -> bool:
                return await stands() == {known.url: "live", other.url: "backing-off"}

            await until(holds)
            assert not other.told


async def test_a_credential_of_the_settings_is_for_its_url_alone(
    tmp_path: Path, some: Producers
) -> None:
    """Whoever writes into the store does not have a secret of the settings sent elsewhere."""
    producer, thief, secret = some.add(), some.add(), tmp_path / "secret"
    secret.write_text("the-token")
    row = row_of(producer, {"credential": {"kind": "bearer"}}, secret)
    async with running(tmp_path / "data", sources=[row]) as run:
        await comes_to(run, "live")
    with sqlite3.connect(tmp_path / "data" / "store.db") as store:
        [(definition,)] = store.execute("select definition from sources").fetchall()
        moved = definition.replace(producer.url, thief.url).replace('"settings"', '""')
        assert moved != definition
        store.execute("update sources set definition = ?, standing = replace(standing, ?, ?)",
                      (moved, producer.url, thief.url))  # fmt: skip
    store.close()
    async with running(tmp_path / "data", sources=[row]) as run:

        async def refused() -> bool:
            listed = json.loads((await run.api("GET", "/sources")).body)["sources"]
            return any("those of this gateway" in (one["last_error"] or "") for one in listed)

        await until(refused)
    assert not any("the-token" in str(told.headers) for told in thief.told)


# Two gateways.


@asynccontextmanager
async def guarded_gateway(folder: Path, **settings: Any) -> AsyncIterator[tuple[Running, str]]:
    """A gateway with identities, and the key of who may do all with events there: the user
    ``other``, with a password, too."""
    folder.mkdir()
    file = folder / "identities.toml"
    create_identities(file)
    add_user(file, "other", "pass-word", [])
    file.write_text(
        file.read_text()
        + '[[rights]]\nwho = ["user:other"]\nmay = ["publish", "subscribe", "manage"]\n'
    )
    key = add_key(file, "other")
    async with running(folder / "data", identities=file, soap_tcp_port=0, **settings) as run:
        yield run, key


SPOKEN = [version for version, spec in SPECS.items() if isinstance(spec.form, Soap)]


async def publish(at: Running, topic: str, number: int, key: str) -> None:
    event = notify(notification_message(f"<e xmlns='urn:e'><n>{number}</n></e>", topic))
    octets = Speaker().envelope(event)
    answer = await at.post(octets, authorization=f"Bearer {key}")
    assert answer.status == 202, answer.body


@pytest.mark.parametrize("place", ["the store", "the settings"])
@pytest.mark.parametrize("version", SPOKEN, ids=lambda version: version.value)
async def test_a_gateway_with_identities_is_a_source(
    tmp_path: Path, version: Version, place: str
) -> None:
    asked = {"spec": version.value, "topic": "storms"}
    secret = tmp_path / "key"
    async with Consumers() as consumers, guarded_gateway(tmp_path / "producer") as (producer, key):
        secret.write_text(key)
        asked["url"] = f"{producer.url}/soap"
        rows: list[dict[str, Any]] = []
        if place == "the settings":
            rows = [{**asked, "credential": {"kind": "bearer", "secret_file": secret}}]
        async with running(tmp_path / "own", sources=rows) as run:
            url = consumers.at("/here").url
            await run.subscribe(
                Speaker(), Speaker().wsn_subscribe(url, filter=topic_expression("storms"))
            )
            if place == "the store":
                body = json.dumps({**asked, "bearer": key}).encode()
                assert (await run.api("POST", "/sources", body)).status == 201
            assert (await comes_to(run, "live"))["credential"] == "bearer"
            await publish(producer, "storms", 7, key)
            await consumers.at("/here").have(1)
            assert b">7<" in consumers.at("/here").received[0].body
            [one] = json.loads((await run.api("GET", "/sources")).body)["sources"]
            assert (await run.api("DELETE", f"/sources/{one['id']}")).status == 204
    kept = b"".join(path.read_bytes() for path in (tmp_path / "own").rglob("*") if path.is_file())
    assert key.encode() not in kept


async def test_without_the_key_it_is_none(tmp_path: Path) -> None:
    async with guarded_gateway(tmp_path / "producer") as (producer, _), running(tmp_path) as run:
        body = json.dumps({"url": f"{producer.url}/soap"}).encode()
        id_ = json.loads((await run.api("POST", "/sources", body)).body)["id"]
        seen = await state(run, id_, "backing-off")
        assert "--bearer-file" in seen["last_error"]
        body = json.dumps({"url": f"{producer.url}/soap", "bearer": "drg_wrong"}).encode()
        id_ = json.loads((await run.api("POST", "/sources", body)).body)["id"]
        seen = await state(run, id_, "backing-off")
        assert "the credential bearer" in seen["last_error"]
        assert "drg_wrong" not in json.dumps(await shown(run, id_))


NONSENSE = [
    pytest.param({"bearer": "t", "user": "u"}, "no user", id="with a user"),
    pytest.param({"allow_http": True}, "goes with bearer", id="without a token"),
    pytest.param({"bearer": "two words"}, "no spaces", id="a space"),
    pytest.param({"bearer": ""}, "1 to 8192", id="nothing"),
    pytest.param({"bearer": "t\u00fc"}, "ASCII", id="not ASCII"),
    pytest.param({"bearer": "t", "url": "http://10.0.0.9/"}, "use https", id="over http"),
]


@pytest.mark.parametrize(("asked", "told"), NONSENSE)
@pytest.mark.parametrize("path", ["/sources", "/links"])
async def test_what_makes_no_sense_is_refused(
    tmp_path: Path, asked: dict[str, Any], told: str, path: str
) -> None:
    async with running(tmp_path, egress_allow=["10.0.0.9"]) as run:
        body = json.dumps({"url": "http://127.0.0.1:9/", **asked}).encode()
        answer = await run.api("POST", path, body)
        assert 400 <= answer.status < 500 and told in answer.body.decode()
        asked = {**asked, "bearer": "t", "allow_http": True}
        asked.pop("user", None)
        answer = await run.api(
            "POST", path, json.dumps({"url": "http://127.0.0.1:9/", **asked}).encode()
        )
        assert answer.status == 201, answer.body
