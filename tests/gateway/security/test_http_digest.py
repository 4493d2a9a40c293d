"""Devices that cannot do Basic: Digest of HTTP (RFC 7616), at a running gateway."""

import asyncio
import contextlib
import gc
import hashlib
import json
import re
import secrets
import shutil
import subprocess
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from filters import Refused
from gateway.egress.http_authentication import Authorization, read_challenges
from gateway.identities.file_editing import add_user, create_identities, remove_user
from gateway.security.authentication import OF_NONCES, Authentication
from gateway.security.http_digest import (
    LIFE,
    MAX_LENGTH,
    CredentialsUnreadable,
    DigestCredentials,
    HttpRequest,
    Nonces,
    read_digest,
)
from gateway.security.identify import CHALLENGE, Identification, TransportFacts
from gateway.security.identities import key_file
from gateway.security.password_cipher import PasswordCipher
from gateway.security.passwords import Failures
from tests.rigs.cloudevents import STRUCTURED, event
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import Answer, Speaker, fresh_id
from tests.rigs.gateways import Running, http_request, running
from tests.rigs.gsoap import gsoap_digest, needs_gsoap
from tests.rigs.stores import execute, sqlite_url
from tests.rigs.waiting import DEADLINE, until

SPEAKER = Speaker()
PASSWORD = "Sesam öffne dich"
OVERVIEW = "/api/v1/overview"
RULE = """
[[tenants]]
name = "acme"

[[rights]]
who = ["role:devices"]
may = ["publish", "subscribe", "manage", "read"]
"""
HASHES: Mapping[str, Callable[[bytes], Any]] = {"SHA-256": hashlib.sha256, "MD5": hashlib.md5}


def make_file(folder: Path) -> Path:
    file = folder / "identities.toml"
    create_identities(file)
    for name in ("camera", "guessed", "Kamera Süd", "Камера"):
        add_user(file, name, PASSWORD, ["devices"], digest=True)
    add_user(file, "program", PASSWORD, ["devices"])
    file.write_text(file.read_text() + RULE)
    add_user(file, "pump", PASSWORD, ["devices"], digest=True, tenant="acme")
    return file


@dataclass(frozen=True)
class Guarded:
    run: Running
    file: Path

    @property
    def nonces(self) -> Nonces:
        return nonces_of(self.file)


def nonces_of(file: Path) -> Nonces:
    """What makes nonces as a gateway with the *file* of identities does."""
    key = PasswordCipher(key_file(file)).derive(OF_NONCES)
    assert key is not None
    return Nonces(key)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    folder = tmp_path_factory.mktemp("gateway")
    file = make_file(folder)
    async with running(folder / "data", identities=file, admin_port=None) as run:
        yield Guarded(run, file)


at_the_gateway = pytest.mark.asyncio(loop_scope="module")


@dataclass(frozen=True)
class Signed:
    """What a client computes its response from; its own values, where a test wants others."""

    nonce: str
    user: str = "camera"
    password: str = PASSWORD
    realm: str = "dragoman"
    method: str = "POST"
    uri: str = "/soap"
    nc: str = "00000001"
    cnonce: str = "0a4f113b"
    qop: str = "auth"
    algorithm: str = "SHA-256"

    @property
    def response(self) -> str:
        def hashed(*parts: str) -> str:
            octets = ":".join(parts).encode()
            return str(HASHES[self.algorithm](octets).hexdigest())

        secret = hashed(self.user, self.realm, self.password)
        between = (self.nonce, self.nc, self.cnonce, self.qop) if self.qop else (self.nonce,)
        body = [hashed("")] if self.qop == "auth-int" else []
        return hashed(secret, *between, hashed(self.method, self.uri, *body))

    def header(self, more: str = "", **said: str | None) -> str:
        """The value of Authorization; *said* beside what it is computed from, None for nothing."""
        parameters: dict[str, str | None] = {
            "username": f'"{self.user}"',
            "realm": f'"{self.realm}"',
            "nonce": f'"{self.nonce}"',
            "uri": f'"{self.uri}"',
            "algorithm": self.algorithm,
            "qop": self.qop or None,
            "nc": self.nc,
            "cnonce": f'"{self.cnonce}"',
            "response": f'"{self.response}"',
        } | said
        pairs = (f"{name}={value}" for name, value in parameters.items() if value is not None)
        return "Digest " + ", ".join(pairs) + more


async def publish(run: Running, authorization: str, path: str = "/soap", **headers: str) -> Answer:
    envelope = SPEAKER.envelope("<event/>", message_id=fresh_id())
    return await run.post(envelope, path, type=SPEAKER.type, authorization=authorization, **headers)


async def challenges_at(
    run: Running, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, list[str]]:
    """The status, and all fields ``WWW-Authenticate``, of the answer to a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
    writer.write(http_request(run.port, method, path, body, headers))
    async with asyncio.timeout(DEADLINE):
        head = str((await reader.read()).partition(b"\r\n\r\n")[0], "latin-1")
    writer.close()
    fields = re.findall(r"(?im)^www-authenticate: ([^\r\n]*)", head)
    return int(head.split(" ")[1]), fields


def is_stale(fields: list[str]) -> bool:
    digests = [one for one in fields if one.startswith("Digest ")]
    assert [one.split("algorithm=")[1].split(",")[0] for one in digests] == ["SHA-256", "MD5"]
    stale = {"stale=true" in one for one in digests}
    assert len(stale) == 1
    return stale.pop()


# What is offered.

EVENT = SPEAKER.envelope("<event/>")
DOORS = {
    "SOAP": ("POST", "/soap", EVENT, SPEAKER.type),
    "a topic's SOAP": ("POST", "/soap/topic/tides", EVENT, SPEAKER.type),
    "CloudEvents": ("POST", "/events", json.dumps(event()).encode(), STRUCTURED),
    "a mailbox": ("POST", "/mailboxes", b"{}", "application/json"),
    "a relay": ("POST", "/relay/x", EVENT, "text/xml"),
    "the administration": ("GET", OVERVIEW, b"", "application/json"),
    "metrics": ("GET", "/metrics", b"", "application/json"),
}


@at_the_gateway
@pytest.mark.parametrize(("method", "path", "body", "type"), DOORS.values(), ids=DOORS.keys())
async def test_every_door_offers_it(
    guarded: Guarded, method: str, path: str, body: bytes, type: str
) -> None:
    """The strongest first, each in a field of its own, and one nonce for both."""
    status, fields = await challenges_at(guarded.run, method, path, body, content_type=type)
    assert status == 401
    assert not is_stale(fields)
    assert fields[2:] == [CHALLENGE]
    read = read_challenges(", ".join(fields))
    assert [one.scheme for one in read] == ["digest", "digest", "bearer", "basic"]
    nonces = {one.parameters["nonce"] for one in read[:2]}
    assert len(nonces) == 1 and guarded.nonces.is_fresh(nonces.pop(), time.time())
    assert read[0].parameters["realm"] == "dragoman" and read[0].parameters["qop"] == "auth"


async def test_nobody_else_sees_it(tmp_path: Path) -> None:
    """It is offered, and taken, while a user keeps a password for digests; within a second."""
    file = tmp_path / "identities.toml"
    create_identities(file)
    add_user(file, "program", PASSWORD, ["devices"])
    file.write_text(file.read_text() + RULE)
    async with running(tmp_path / "data", identities=file) as run:
        assert await challenges_at(run, "GET", OVERVIEW) == (401, [CHALLENGE])
        header = Signed("A" * 40, user="program").header()
        answer = await publish(run, header)
        assert answer.status == 401 and b"no kind that is taken" in answer.body

        async def number_offered() -> int:
            return len((await challenges_at(run, "GET", OVERVIEW))[1])

        async def is_offered() -> bool:
            return await number_offered() == 3

        async def is_not_offered() -> bool:
            return await number_offered() == 1

        add_user(file, "camera", PASSWORD, ["devices"], digest=True)
        await until(is_offered)
        assert (
            await publish(run, Signed(nonces_of(file).make(time.time())).header())
        ).status == 202
        remove_user(file, "camera")
        await until(is_not_offered)


@pytest.mark.parametrize("key", [None, b"", b"not a key"], ids=["no file", "empty", "another"])
async def test_where_the_key_is_missing(tmp_path: Path, key: bytes | None) -> None:
    """A gateway that can check no digest starts, and offers none."""
    file = make_file(tmp_path)
    key_file(file).unlink()
    if key is not None:
        key_file(file).write_bytes(key)
    async with running(tmp_path / "data", identities=file) as run:
        assert await challenges_at(run, "GET", OVERVIEW) == (401, [CHALLENGE])
    assert not key_file(file).exists() if key is None else key_file(file).read_bytes() == key


# What proves something.

RIGHT: dict[str, Callable[[Signed], str]] = {
    "SHA-256": lambda it: it.header(),
    "MD5": lambda it: replace(it, algorithm="MD5").header(),
    "MD5, which is not said": lambda it: replace(it, algorithm="MD5").header(algorithm=None),
    "words in quotes": lambda it: it.header(qop='"auth"', algorithm='"SHA-256"'),
    "no spaces": lambda it: it.header().replace(", ", ","),
    "other letters": lambda it: it.header().replace("Digest username", "dIGEST UserName"),
    "empty elements": lambda it: it.header(" , ,"),
    "an unknown parameter": lambda it: it.header(opaque='"x"', more_="1"),
    "a proxy's target": lambda it: replace(it, uri="http://127.0.0.1/soap").header(),
    "a name in UTF-8": lambda it: utf8(replace(it, user="Kamera Süd").header()),
    "a name in Latin-1": lambda it: replace(it, user="Kamera Süd").header(),
    "a name of RFC 5987": lambda it: replace(it, user="Камера").header(
        username=None, **{"username*": "UTF-8''%D0%9A%D0%B0%D0%BC%D0%B5%D1%80%D0%B0"}
    ),
    "an escaped cnonce": lambda it: replace(it, cnonce='a"b').header(cnonce=r'"a\"b"'),
    "any count": lambda it: replace(it, nc="FFffFFff").header(),
}  # fmt: skip


def utf8(text: str) -> str:
    """*text*, which goes into a header in Latin-1, with the octets of its UTF-8."""
    return text.encode().decode("latin-1")


@at_the_gateway
@pytest.mark.parametrize("header", RIGHT.values(), ids=RIGHT.keys())
async def test_what_proves_something(guarded: Guarded, header: Callable[[Signed], str]) -> None:
    signed = Signed(guarded.nonces.make(time.time()))
    answer = await publish(guarded.run, header(signed))
    assert answer.status == 202, answer.body


@at_the_gateway
async def test_a_user_is_of_its_tenant(guarded: Guarded) -> None:
    signed = Signed(guarded.nonces.make(time.time()), user="pump")
    header = (b"authorization", signed.header().encode("latin-1"))
    facts = TransportFacts("192.0.2.7", headers=[header], request=HttpRequest("POST", "/soap"))
    principal = await identification_of(guarded.run).identify(facts)
    assert (principal.name, principal.tenant) == ("pump", "acme")
    over_tcp = replace(facts, request=None)
    with pytest.raises(Refused, match="no kind that is taken"):
        await identification_of(guarded.run).identify(over_tcp)


@at_the_gateway
async def test_the_query_is_a_part_of_the_target(guarded: Guarded) -> None:
    for sent, uri, status in (
        ("/api/v1/subscriptions?limit=5", "/api/v1/subscriptions?limit=5", 200),
        ("/api/v1/subscriptions?", "/api/v1/subscriptions?", 200),
        ("/api/v1/subscriptions?limit=5", "/api/v1/subscriptions", 401),
        ("/api/v1/subscriptions?limit=5", "/api/v1/subscriptions?limit=6", 401),
    ):
        signed = Signed(guarded.nonces.make(time.time()), method="GET", uri=uri)
        answer = await guarded.run.request("GET", sent, authorization=signed.header())
        assert answer.status == status, (sent, uri, answer.body)


def test_which_uri_is_a_request() -> None:
    request = HttpRequest("POST", "/soap/topic/a%20b?x=1", "/dragoman")
    right = (
        "/soap/topic/a%20b?x=1",
        "https://events.example.org/soap/topic/a%20b?x=1",
        "/dragoman/soap/topic/a%20b?x=1",  # Before a proxy that cuts the path of public_url off.
    )
    wrong = (
        "", "*", "/", "/soap/topic/a b?x=1", "/soap/topic/a%20b", "/soap/topic/a%20b?x=1&y=2",
        "/other/soap/topic/a%20b?x=1", "ftp://a/soap/topic/a%20b?x=1", "//soap/topic/a%20b?x=1",
    )  # fmt: skip
    assert [one for one in right if not request.is_for(one)] == []
    assert [one for one in wrong if request.is_for(one)] == []


# What proves nothing. Stale are those alone whose sender knows the password.

WRONG: dict[str, tuple[Callable[[Signed, Nonces], str], bool]] = {
    "another realm": (lambda it, _: replace(it, realm="other").header(), False),
    "a realm that is not said": (lambda it, _: it.header(realm=None), False),
    "an old nonce": (
        lambda it, made: replace(it, nonce=made.make(time.time() - LIFE - 2)).header(), True
    ),
    "a nonce of tomorrow": (
        lambda it, made: replace(it, nonce=made.make(time.time() + 86_400)).header(), True
    ),
    "a nonce of another key": (
        lambda it, _: replace(it, nonce=Nonces(b"x" * 32).make(time.time())).header(), True
    ),
    "a nonce with another time": (
        lambda it, _: replace(it, nonce=changed(it.nonce, 3)).header(), True
    ),
    "a nonce with another MAC": (
        lambda it, _: replace(it, nonce=changed(it.nonce, 39)).header(), True
    ),
    "no nonce of ours": (lambda it, _: replace(it, nonce="dcd98b7102dd2f0e").header(), True),
    "an old nonce and another password": (
        lambda it, made: replace(
            it, nonce=made.make(time.time() - LIFE - 2), password="wrong"
        ).header(),
        False,
    ),
    "another password": (lambda it, _: replace(it, password="wrong").header(), False),
    "nobody": (lambda it, _: replace(it, user="nobody").header(), False),
    "who keeps no password for digests": (
        lambda it, _: replace(it, user="program").header(), False
    ),
    "another uri": (lambda it, _: replace(it, uri="/events").header(), False),
    "a uri that is not that of the response": (
        lambda it, _: replace(it, uri="/events").header(uri='"/soap"'), False
    ),
    "another method": (lambda it, _: replace(it, method="GET").header(), False),
    "no qop, as before RFC 2617": (lambda it, _: replace(it, qop="").header(nc=None), False),
    "auth-int": (lambda it, _: replace(it, qop="auth-int").header(), False),
    "both": (lambda it, _: it.header(qop='"auth,auth-int"'), False),
    "MD5-sess": (lambda it, _: replace(it, algorithm="MD5").header(algorithm="MD5-sess"), False),
    "SHA-512-256": (lambda it, _: it.header(algorithm="SHA-512-256"), False),
    "another algorithm than that of the response": (
        lambda it, _: replace(it, algorithm="MD5").header(algorithm="SHA-256"), False
    ),
    "a hashed name": (lambda it, _: it.header(userhash="true"), False),
    "two names": (lambda it, _: it.header(**{"username*": "UTF-8''camera"}), False),
    "a name in another charset": (
        lambda it, _: it.header(username=None, **{"username*": "ISO-8859-1''camera"}), False
    ),
    "no name": (lambda it, _: it.header(username=None), False),
    "a count of zero": (lambda it, _: replace(it, nc="00000000").header(), False),
    "a short count": (lambda it, _: replace(it, nc="1").header(), False),
    "a negative count": (lambda it, _: replace(it, nc="-0000001").header(), False),
    "no count": (lambda it, _: it.header(nc=None), False),
    "no cnonce": (lambda it, _: it.header(cnonce=None), False),
    "an empty cnonce": (lambda it, _: replace(it, cnonce="").header(), False),
    "no response": (lambda it, _: it.header(response=None), False),
    "an empty response": (lambda it, _: it.header(response='""'), False),
    "a response of other digits": (lambda it, _: it.header(response='"é"'), False),
    "too long": (lambda it, _: replace(it, cnonce="a" * MAX_LENGTH).header(), False),
    "the same twice": (lambda it, _: it.header(f', nonce="{it.nonce}"'), False),
    "another twice": (lambda it, _: it.header(', URI="/events"'), False),
    "no end of quotes": (lambda it, _: it.header(', opaque="'), False),
    "no commas": (lambda it, _: it.header().replace(",", ""), False),
    "nothing": (lambda _, __: "Digest ", False),
    "a scheme alone": (lambda _, __: "Digest", False),
}  # fmt: skip


def changed(nonce: str, at: int) -> str:
    return nonce[:at] + ("B" if nonce[at] == "A" else "A") + nonce[at + 1 :]


@pytest_asyncio.fixture(loop_scope="module")
async def forgiving(guarded: Guarded) -> Guarded:
    """The gateway, where what the other rows guessed is forgotten."""
    authentication_of(guarded.run)._failures = Failures()
    return guarded


@at_the_gateway
@pytest.mark.parametrize(("header", "stale"), WRONG.values(), ids=WRONG.keys())
async def test_what_proves_nothing(
    forgiving: Guarded, header: Callable[[Signed, Nonces], str], stale: bool
) -> None:
    nonces = forgiving.nonces
    signed = Signed(nonces.make(time.time()))
    status, fields = await challenges_at(
        forgiving.run, "POST", "/soap", EVENT, content_type=SPEAKER.type,
        authorization=header(signed, nonces),
    )  # fmt: skip
    assert (status, is_stale(fields)) == (401, stale)
    assert (await publish(forgiving.run, signed.header())).status == 202  # Nothing was used up.


@at_the_gateway
async def test_an_empty_body_is_asked_who_sent_it(guarded: Guarded) -> None:
    """Curl sends none before it has a challenge; of who said who it is, it is wrong as before."""
    for path, type in (("/soap", SPEAKER.type), ("/events", STRUCTURED)):
        status, fields = await challenges_at(guarded.run, "POST", path, content_type=type)
        assert status == 401 and not is_stale(fields)
        signed = Signed(guarded.nonces.make(time.time()), uri=path)
        answer = await guarded.run.request(
            "POST", path, content_type=type, authorization=signed.header()
        )
        assert answer.status == 400


@at_the_gateway
async def test_credentials_twice(guarded: Guarded) -> None:
    signed = Signed(guarded.nonces.make(time.time()))
    answer = await publish(guarded.run, signed.header(), x_api_key="drg_x")
    assert answer.status == 401 and b"credentials twice" in answer.body


@at_the_gateway
async def test_a_count_grows(guarded: Guarded) -> None:
    """What was used, or is behind what was used, is stale; a right client goes on with another
    nonce. Of each user and each nonce it is counted apart."""
    run, one = guarded.run, Signed(guarded.nonces.make(time.time()))
    other = replace(one, nonce=guarded.nonces.make(time.time()))
    for signed, nc, status in (
        (one, "00000002", 202),
        (one, "00000002", 401),
        (one, "00000001", 401),
        (other, "00000001", 202),
        (replace(one, user="guessed"), "00000001", 202),
        (one, "00000003", 202),
        (one, "00000100", 202),
        (one, "000000ff", 401),
        (replace(one, algorithm="MD5"), "00000100", 401),
        (one, "00000101", 202),
    ):
        header = replace(signed, nc=nc).header()
        said, fields = await challenges_at(
            run, "POST", "/soap", EVENT, content_type=SPEAKER.type, authorization=header
        )
        assert said == status, (nc, status)
        assert status == 202 or is_stale(fields)


@at_the_gateway
async def test_of_many_at_once_with_one_count_one_counts(guarded: Guarded) -> None:
    header = Signed(guarded.nonces.make(time.time())).header()
    statuses = [(await one).status for one in [publish(guarded.run, header) for _ in range(10)]]
    assert sorted(statuses) == [202] + [401] * 9


async def test_a_nonce_counts_over_a_restart(tmp_path: Path) -> None:
    file = make_file(tmp_path)
    signed = Signed(nonces_of(file).make(time.time()))
    async with running(tmp_path / "data", identities=file) as run:
        assert (await publish(run, signed.header())).status == 202
    async with running(tmp_path / "data", identities=file) as run:
        assert (await publish(run, signed.header())).status == 401
        assert (await publish(run, replace(signed, nc="00000002").header())).status == 202


# Guessing.


def authentication_of(run: Running) -> Authentication:
    found = identification_of(run).authentication
    assert found is not None
    return found


def identification_of(run: Running) -> Identification:
    return run.gateway.serving.site.asking.identification


@pytest.mark.parametrize("user", ["camera", "program", "nobody"])
async def test_who_guesses_waits(tmp_path: Path, user: str) -> None:
    """As by Basic: after ten wrong passwords nothing is computed, of one that is right neither.
    An old nonce is no guess. Whoever is guessed, the answers are the same."""
    file = make_file(tmp_path)
    async with running(tmp_path / "data", identities=file) as run:
        old = nonces_of(file).make(time.time() - LIFE - 2)
        for _ in range(15):
            assert (await publish(run, Signed(old).header())).status == 401
        for _ in range(10):
            wrong = Signed(nonces_of(file).make(time.time()), user=user, password="wrong")
            answer = await publish(run, wrong.header())
            assert answer.status == 401
            assert b"The user or the password is wrong." in answer.body
        right = Signed(nonces_of(file).make(time.time()), user=user)
        answer = await publish(run, right.header())
        assert answer.status == 429 and int(answer.headers["retry-after"]) > 0
        assert authentication_of(run).failed["digest"] == 10


async def test_a_stranger_keeps_no_device_out(tmp_path: Path) -> None:
    """Where a right digest came from, it is taken whoever guesses elsewhere; who guesses there
    waits, too."""
    file = make_file(tmp_path)
    async with running(tmp_path / "data", identities=file) as run:

        async def send(password: str, source: str) -> int:
            header = Signed(nonces_of(file).make(time.time()), password=password).header()
            return (await publish(run, header, source=source)).status

        assert await send(PASSWORD, "127.0.0.1") == 202
        assert {await send("wrong", "127.0.0.7") for _ in range(12)} == {401, 429}
        assert await send(PASSWORD, "127.0.0.9") == 429
        assert await send(PASSWORD, "127.0.0.1") == 202
        assert {await send("wrong", "127.0.0.1") for _ in range(12)} == {401, 429}
        assert await send(PASSWORD, "127.0.0.1") == 429


async def test_a_password_that_another_key_encrypted(tmp_path: Path) -> None:
    """It proves nobody, and who asks is told what everybody is who is wrong."""
    file = make_file(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    users = file.read_text()
    make_file(other)
    key_file(file).write_bytes(key_file(other / file.name).read_bytes())
    assert file.read_text() == users
    async with running(tmp_path / "data", identities=file) as run:
        for user, source in (("camera", "127.0.0.3"), ("nobody", "127.0.0.4")):
            header = Signed(nonces_of(file).make(time.time()), user).header()
            answers = [await publish(run, header, source=source) for _ in range(11)]
            assert [one.status for one in answers] == [401] * 10 + [429]
            assert b"The user or the password is wrong." in answers[0].body
        assert any(one["event"] == "identity.password-not-decrypted" for one in run.logs)


async def test_whoever_is_guessed_costs_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One password is decrypted, and one response computed, for a user with a password for digests,
    one with another, and nobody."""
    file = make_file(tmp_path)
    done: list[str] = []
    decrypt, is_of = PasswordCipher.decrypt, DigestCredentials.is_of

    def decrypting(cipher: PasswordCipher, sealed: str) -> str:
        done.append("decrypt")
        return decrypt(cipher, sealed)

    def comparing(said: DigestCredentials, password: str, method: str) -> bool:
        done.append("compare")
        return is_of(said, password, method)

    monkeypatch.setattr(PasswordCipher, "decrypt", decrypting)
    monkeypatch.setattr(DigestCredentials, "is_of", comparing)
    async with running(tmp_path / "data", identities=file) as run:
        for user in ("camera", "program", "nobody"):
            done.clear()
            nonce = nonces_of(file).make(time.time())
            assert (await publish(run, Signed(nonce, user, "wrong").header())).status == 401
            assert done == ["decrypt", "compare"], user


@pytest.mark.slow
async def test_ten_thousand_nonces_take_no_memory(tmp_path: Path) -> None:
    """Those that are given out are kept nowhere, nor those that somebody guesses with."""
    file = make_file(tmp_path)
    async with running(tmp_path / "data", identities=file) as run:
        known, authentication = identification_of(run), authentication_of(run)
        authentication._failures = Failures(1e9, 1e9)

        async def ask() -> None:
            request = HttpRequest("POST", "/soap")
            nonce = read_challenges(known.challenges(request)[0])[0].parameters["nonce"]
            text = Signed(nonce, password="wrong").header().encode("latin-1")
            with contextlib.suppress(Refused):
                await authentication.of_headers([(b"authorization", text)], "192.0.2.7", request)

        for _ in range(100):
            await ask()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(10_000):
                await ask()
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert after - before < 40 * 10_000  # Not one character of each nonce.
    assert execute(sqlite_url(tmp_path / "data"), "SELECT count(*) FROM used_nonces") == [(0,)]


# One request, looked at again and again.


@pytest.mark.slow
async def test_a_request_counts_once_however_often_it_is_looked_at(tmp_path: Path) -> None:
    """Its stream goes on for longer than it takes to ask again who reads it, and ends when its
    user has another password."""
    file = make_file(tmp_path)
    async with running(tmp_path / "data", identities=file) as run:
        signed = Signed(nonces_of(file).make(time.time()), method="GET", uri="/api/v1/tap")
        reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
        headers = {"authorization": signed.header()}
        writer.write(http_request(run.port, "GET", "/api/v1/tap", b"", headers))
        async with asyncio.timeout(DEADLINE):
            assert b"200" in await reader.readline()
            ending = asyncio.create_task(reader.read())
            done, _ = await asyncio.wait((ending,), timeout=3.0)
            assert not done
            add_user(file, "camera", "another", ["devices"], digest=True)
            await ending
        writer.close()


@at_the_gateway
async def test_the_console_asks_for_its_reader(guarded: Guarded) -> None:
    """A page asks the administration for several things, with the credentials of its own request,
    which count once."""
    signed = Signed(guarded.nonces.make(time.time()), method="GET", uri="/console/subscriptions")
    answer = await guarded.run.request(
        "GET", "/console/subscriptions", authorization=signed.header()
    )
    assert answer.status == 200, answer.body[:500]
    again = await guarded.run.request(
        "GET", "/console/subscriptions", authorization=signed.header()
    )
    assert again.status == 303


# Clients.


@at_the_gateway
@pytest.mark.parametrize("algorithm", ["SHA-256", "MD5"])
async def test_a_device_subscribes_and_is_sent_events(guarded: Guarded, algorithm: str) -> None:
    """By the challenge that it knows, over SOAP, with one nonce for all that it sends."""
    _, fields = await challenges_at(guarded.run, "POST", "/soap", EVENT, content_type=SPEAKER.type)
    offered = [one for one in read_challenges(", ".join(fields)) if one.scheme == "digest"]
    challenge = next(one for one in offered if one.parameters["algorithm"] == algorithm)
    client = Authorization(challenge, "Камера", PASSWORD)
    async with consumers() as sinks:
        consumer = sinks.at("/camera")
        subscribe = SPEAKER.wse_subscribe(sinks.url("camera"))
        for body in (subscribe, "<event><n>7</n></event>"):
            envelope = SPEAKER.envelope(body, message_id=fresh_id())
            answer = await guarded.run.post(
                envelope, type=SPEAKER.type, authorization=client.header("POST", "/soap")
            )
            assert answer.status in (200, 202), answer.body
        await guarded.run.quiet()
        assert consumer.numbers == ["7"]


def by_requests(url: str, password: str) -> list[int]:
    requests = pytest.importorskip("requests", reason="requests is not installed")
    envelope = partial(SPEAKER.envelope, "<event/>")
    with requests.Session() as session:
        session.trust_env = False
        session.auth = requests.auth.HTTPDigestAuth("camera", password)
        return [session.get(url + OVERVIEW).status_code] + [
            session.post(
                f"{url}/soap",
                data=envelope(message_id=fresh_id()),
                headers={"Content-Type": SPEAKER.type},
            ).status_code
            for _ in range(3)
        ]


def by_httpx(url: str, password: str) -> list[int]:
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")
    envelope = partial(SPEAKER.envelope, "<event/>")
    with httpx.Client(auth=httpx.DigestAuth("camera", password), trust_env=False) as client:
        return [client.get(url + OVERVIEW).status_code] + [
            client.post(
                f"{url}/soap",
                content=envelope(message_id=fresh_id()),
                headers={"Content-Type": SPEAKER.type},
            ).status_code
            for _ in range(3)
        ]


def by_aiohttp(url: str, password: str) -> list[int]:
    aiohttp = pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    digest = aiohttp.DigestAuthMiddleware("camera", password)

    async def ask() -> list[int]:
        async with aiohttp.ClientSession(middlewares=(digest,)) as session:
            statuses = []
            async with session.get(url + OVERVIEW) as answer:
                statuses.append(answer.status)
            for _ in range(3):
                envelope = SPEAKER.envelope("<event/>", message_id=fresh_id())
                headers = {"Content-Type": SPEAKER.type}
                async with session.post(f"{url}/soap", data=envelope, headers=headers) as answer:
                    statuses.append(answer.status)
            return statuses

    return asyncio.run(ask())


def by_curl(url: str, password: str, *, schemes: str = "--digest") -> list[int]:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    said = ["-s", schemes, "-u", f"camera:{password}", "--noproxy", "*"]
    code = ["-o", "/dev/null", "-w", r"%{http_code}\n"]
    command = ["curl", *said, *code, url + OVERVIEW]
    for _ in range(3):  # On the connection of the first, and with its nonce.
        envelope = SPEAKER.envelope("<event/>", message_id=fresh_id()).decode()
        command += ["--next", *said, *code, "-H", f"Content-Type: {SPEAKER.type}"]
        command += ["--data-binary", envelope, f"{url}/soap"]
    made = json.dumps(event())
    command += ["--next", *said, *code, "-H", f"Content-Type: {STRUCTURED}"]
    command += ["--data-binary", made, f"{url}/events"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    statuses = [int(one) for one in found.stdout.split()]
    assert statuses.pop() == statuses[-1]
    return statuses


CLIENTS = {
    "requests": by_requests,
    "httpx": by_httpx,
    "aiohttp": by_aiohttp,
    "curl --digest": by_curl,
    "curl --anyauth": partial(by_curl, schemes="--anyauth"),
}


@at_the_gateway
@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS.keys())
async def test_clients_of_others(
    forgiving: Guarded, client: Callable[[str, str], list[int]]
) -> None:
    url = forgiving.run.url
    assert await asyncio.to_thread(client, url, PASSWORD) == [200, 202, 202, 202]
    assert await asyncio.to_thread(client, url, "wrong") == [401, 401, 401, 401]


@pytest.mark.slow
@at_the_gateway
async def test_a_device_made_with_gsoap(forgiving: Guarded) -> None:
    needs_gsoap()
    program = await asyncio.to_thread(gsoap_digest)

    async def statuses(password: str) -> list[int]:
        words = (str(program), f"{forgiving.run.url}/soap", "camera", password)
        process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
        async with asyncio.timeout(DEADLINE):
            printed, _ = await process.communicate()
        return [int(one) for one in printed.split()]

    assert await statuses(PASSWORD) == [202, 202, 202]
    assert await statuses("wrong") == [401]


@at_the_gateway
async def test_a_client_goes_on_when_its_nonce_is_old(
    forgiving: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is asked for a password again: a request with an old nonce is repeated with the one
    that its answer has."""
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")
    make, is_fresh, later = Nonces.make, Nonces.is_fresh, [0.0]
    monkeypatch.setattr(Nonces, "make", lambda its, now: make(its, now + later[0]))
    monkeypatch.setattr(
        Nonces, "is_fresh", lambda its, nonce, now: is_fresh(its, nonce, now + later[0])
    )

    def ask() -> list[tuple[int, list[str]]]:
        with httpx.Client(auth=httpx.DigestAuth("camera", PASSWORD), trust_env=False) as client:
            found = []
            for seconds in (0.0, LIFE - 60.0, LIFE + 60.0):
                later[0] = seconds
                answer = client.get(forgiving.run.url + OVERVIEW)
                before = [one.headers["www-authenticate"] for one in answer.history]
                found.append((answer.status_code, before))
            return found

    first, second, third = await asyncio.to_thread(ask)
    assert [first[0], second[0], third[0]] == [200, 200, 200]
    assert len(first[1]) == 1 and "stale" not in first[1][0]
    assert second[1] == []  # The nonce that it had counts for so long.
    assert len(third[1]) == 1 and third[1][0].count("stale=true") == 2


# The computation, and what is read.


@pytest.mark.parametrize(
    ("algorithm", "response"),
    [
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
    ],
)
def test_the_example_of_rfc_7616(algorithm: str, response: str) -> None:
    said = DigestCredentials(
        user="Mufasa",
        realm="http-auth@example.org",
        nonce="7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
        uri="/dir/index.html",
        algorithm=algorithm,
        nc="00000001",
        cnonce="f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
        response=response,
    )
    assert said.is_of("Circle of Life", "GET")
    assert not said.is_of("Circle of Life", "HEAD")
    assert not said.is_of("Circle of life", "GET")


TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"))


@given(user=TEXTS, uri=TEXTS, cnonce=TEXTS.filter(bool))
def test_whatever_is_quoted_is_read(user: str, uri: str, cnonce: str) -> None:
    signed = Signed("n", utf8(user), uri=uri, cnonce=cnonce)

    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    header = signed.header(
        username=quoted(utf8(user)), uri=quoted(uri), cnonce=quoted(cnonce)
    ).removeprefix("Digest ")
    said = read_digest(header)
    assert (said.user, said.uri, said.cnonce, said.count) == (user, uri, cnonce, 1)


@given(st.text(st.characters(max_codepoint=255)), st.integers(0, 400))
def test_whatever_is_sent_is_read_or_refused(text: str, at: int) -> None:
    header = Signed("n").header().removeprefix("Digest ")
    for one in (text, header[:at], header[:at] + text + header[at:]):
        with contextlib.suppress(CredentialsUnreadable):
            read_digest(one)


def test_what_is_long_is_read_in_a_time_that_grows_as_it_does() -> None:
    """Of texts that a backtracking expression would try in all ways, too."""
    for part in ('a="', "a=\\", '"\\', "a=b ", " ,", "a", '\\"', "=", "*='"):
        with pytest.raises(CredentialsUnreadable):
            read_digest((part * MAX_LENGTH)[:MAX_LENGTH])


def test_a_nonce() -> None:
    made = Nonces(secrets.token_bytes(32))
    nonce = made.make(1_000_000.0)
    assert re.fullmatch(r"[A-Za-z0-9_-]{40}", nonce) and nonce != made.make(1_000_000.0)
    for now, fresh in ((0.0, True), (LIFE - 1, True), (LIFE + 1, False), (-59, True), (-61, False)):
        assert made.is_fresh(nonce, 1_000_000.0 + now) is fresh
    assert not any(made.is_fresh(changed(nonce, at), 1_000_000.0) for at in range(40))
