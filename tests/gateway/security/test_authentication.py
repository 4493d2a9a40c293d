"""What credentials prove: keys, passwords, tokens, certificates; and what they do not."""

import asyncio
import base64
import json
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from filters import Reason, Refused
from gateway.security import issuer_keys, passwords
from gateway.security.api_key_hashes import PREFIX, hash_api_key
from gateway.security.authentication import Authentication
from gateway.security.identities import Identities, parse_identities
from gateway.security.passwords import hash_password
from gateway.security.principals import Identity
from gateway.security.rights import ALL_RIGHTS, Right
from tests.rigs.certificates import Authority
from tests.rigs.identity_provider import (
    ALGORITHMS,
    DOCUMENTS,
    IdentityProvider,
    identity_provider,
)

KEY, SHORT_LIVED, GONE = (PREFIX + letter * 43 for letter in "ksg")
PASSWORD = "öffne dich: Sesam"
AT = "192.0.2.1"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with identity_provider() as found:
        yield found


def identities(issuer: str) -> Identities:
    gone = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    soon = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    text = f"""
        [[users]]
        name = "mole"
        password = "{hash_password(PASSWORD)}"
        roles = ["harbour"]
        [[users]]
        name = "gardener"
        password = "{hash_password("right")}"
        [[users]]
        name = "keyless"
        [[keys]]
        user = "mole"
        hash = "{hash_api_key(KEY)}"
        may = ["publish"]
        [[keys]]
        user = "mole"
        hash = "{hash_api_key(SHORT_LIVED)}"
        expires = {soon}
        [[keys]]
        user = "mole"
        hash = "{hash_api_key(GONE)}"
        expires = {gone}
        [[issuers]]
        issuer = "{issuer}"
        audience = "dragoman"
        roles = "realm.roles"
    """
    return parse_identities(text.encode(), Path("identities.toml"))


@pytest.fixture
async def authentication(
    provider: IdentityProvider, tmp_path: Path
) -> AsyncIterator[Authentication]:
    provider.down = False
    yield Authentication(identities(provider.issuer), tmp_path / "identities.toml", DOCUMENTS)


async def prove(
    authentication: Authentication, value: str, name: bytes = b"authorization", address: str = AT
) -> Identity | None:
    return await authentication.of_headers([(name, value.encode("latin-1"))], address)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def refusal(authentication: Authentication, value: str, address: str = AT) -> Refused:
    with pytest.raises(Refused) as caught:
        await prove(authentication, value, address=address)
    return caught.value


async def test_without_credentials(authentication: Authentication) -> None:
    assert await authentication.of_headers([(b"host", b"x")], AT) is None


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (f"Bearer {KEY}", b"authorization"),
        (f"bearer  {KEY}", b"authorization"),
        (KEY, b"x-api-key"),
    ],
)
async def test_a_key(authentication: Authentication, value: str, name: bytes) -> None:
    found = await prove(authentication, value, name)
    assert found is not None
    assert (found.owner, found.rights) == ("user:mole", frozenset({Right.PUBLISH}))
    assert found.names == {"user:mole", "role:harbour"}


async def test_a_key_is_remembered_no_longer_than_it_lives(authentication: Authentication) -> None:
    found = await prove(authentication, f"Bearer {SHORT_LIVED}")
    assert found is not None
    assert time.time() < found.until <= time.time() + 60


async def test_a_password(authentication: Authentication) -> None:
    found = await prove(authentication, basic("mole", PASSWORD))
    assert found is not None
    assert (found.owner, found.rights) == ("user:mole", ALL_RIGHTS)
    assert await prove(authentication, basic("mole", PASSWORD)) == found  # Not verified again.


@pytest.mark.parametrize(
    "value",
    [
        "Bearer drg_unknown", f"Bearer {GONE}", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}",
        f"Bearer {hash_api_key(KEY)}", "Bearer", "Bearer ", "Bearer a.b", "Bearer a.b.c",
        "Bearer " + "a." * 20_000, "Bearer e30.e30.e30", "Bearer W10.W10.", "Negotiate abc",
        "Digest username=mole", "Basic", "Basic !!!", "Basic bW9sZQ==", "Basic /w==",
        basic("mole", ""), basic("mole", PASSWORD + " "), basic("mole", PASSWORD * 80),
        basic("keyless", ""), basic("nobody", PASSWORD), basic("", ""), basic("MOLE", PASSWORD),
    ],
)  # fmt: skip
async def test_what_proves_nothing(authentication: Authentication, value: str) -> None:
    refused = await refusal(authentication, value)
    assert refused.reason is Reason.NOT_IDENTIFIED
    assert KEY not in refused.text and PASSWORD not in refused.text


async def test_credentials_twice(authentication: Authentication) -> None:
    with pytest.raises(Refused, match="twice"):
        await authentication.of_headers(
            [(b"authorization", f"Bearer {KEY}".encode()), (b"x-api-key", KEY.encode())], AT
        )


async def test_who_guesses_waits(authentication: Authentication) -> None:
    """After ten failures nothing is looked at; others, elsewhere, are not in the way."""
    for _ in range(10):
        refused = await refusal(authentication, basic("mole", "guess"), "192.0.2.66")
        assert refused.reason is Reason.NOT_IDENTIFIED
    refused = await refusal(authentication, basic("mole", PASSWORD), "192.0.2.66")
    assert refused.reason is Reason.RATE and refused.retry_after
    assert await prove(authentication, f"Bearer {KEY}", address="192.0.2.66")
    refused = await refusal(authentication, basic("mole", PASSWORD), "192.0.2.67")
    assert refused.reason is Reason.RATE  # Whoever guesses mole's password, from wherever.
    other = await refusal(authentication, basic("nobody", PASSWORD), "192.0.2.67")
    assert other.reason is Reason.NOT_IDENTIFIED
    assert authentication.failed == {"password": 11}


async def test_a_thousand_guesses_at_once_cost_ten(
    authentication: Authentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits for its turn, and is looked at only if there may still be one."""
    computed = 0

    def count(*_: object) -> bool:
        nonlocal computed
        computed += 1
        return False

    monkeypatch.setattr(passwords, "_verify", count)
    guesses = (refusal(authentication, basic("mole", f"guess {n}"), AT) for n in range(200))
    reasons = [refused.reason for refused in await asyncio.gather(*guesses)]
    assert computed <= 10 + passwords.AT_ONCE
    assert reasons.count(Reason.RATE) == 200 - computed


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The passwords that were computed; those that begin with "right" prove something."""
    seen: list[bytes] = []

    def verify(password: bytes, _: str) -> bool:
        seen.append(password)
        return password.startswith(b"right")

    monkeypatch.setattr(passwords, "_verify", verify)
    return seen


def spellings(name: str, password: str) -> Iterator[str]:
    """The same credentials, as RFC 9110 and RFC 7617 let them be written."""
    value = basic(name, password).partition(" ")[2]
    for scheme in ("Basic", "basic", "BASIC", "bAsIc"):
        for spaces in range(1, 6):
            for behind in ("", " ", "\t"):
                yield f"{scheme}{' ' * spaces}{value}{behind}"


async def test_a_right_password_is_computed_once(
    authentication: Authentication, computed: list[bytes]
) -> None:
    """However it is spelt, in a header or a token, at once or later, from wherever."""
    values = list(spellings("mole", "right"))
    assert all(await asyncio.gather(*(prove(authentication, one) for one in values)))
    for number, one in enumerate(values):
        assert await prove(authentication, one, address=f"192.0.2.{number}")
        await authentication.of_password("mole", "right", f"192.0.3.{number}")
    assert computed == [b"right"]
    authentication.use(identities("https://other.example"))
    await authentication.of_password("mole", "right", AT)
    assert len(computed) == 2, "another file is another password"


async def test_who_has_a_password_stops_nobody(
    authentication: Authentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one user's take long, another's are verified; of each there is one at a time."""
    going, under_way, most = threading.Event(), 0, 0

    def verify(password: bytes, _: str) -> bool:
        nonlocal under_way, most
        if password != b"right":
            under_way += 1
            most = max(most, under_way)
            going.wait(10)
            under_way -= 1
        return password == b"right"

    monkeypatch.setattr(passwords, "_verify", verify)
    flood = [
        asyncio.create_task(refusal(authentication, basic("mole", f"wrong {n}"), f"192.0.2.{n}"))
        for n in range(100)
    ]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(5):
            await authentication.of_password("gardener", "right", "198.51.100.1")
        assert most == 1
    finally:
        going.set()
        await asyncio.gather(*flood)


async def test_what_is_remembered_is_not_guessed(
    authentication: Authentication, computed: list[bytes]
) -> None:
    """Guesses are bound where the password was verified lately, too, and keep nobody out who says
    it where it was verified."""
    home, elsewhere = "198.51.100.1", [f"192.0.2.{number}" for number in range(30)]
    await authentication.of_password("mole", "right", home)
    for number, address in enumerate(elsewhere):
        await refusal(authentication, basic("mole", f"wrong {number}"), address)
    for value in spellings("mole", "right"):
        assert (await refusal(authentication, value, elsewhere[0])).reason is Reason.RATE
    assert await prove(authentication, basic("mole", "right"), address=home)
    for number in range(30):
        await refusal(authentication, basic("mole", f"guess {number}"), home)
    refused = await refusal(authentication, basic("mole", "right"), home)
    assert refused.reason is Reason.RATE, "nor at that address"
    assert len(computed) <= 21


async def test_who_is_removed_while_it_is_verified_is_not_remembered(
    authentication: Authentication,
) -> None:
    proving = asyncio.create_task(refusal(authentication, basic("mole", PASSWORD)))
    await asyncio.sleep(0)  # Its password is being verified now.
    authentication.use(Identities())
    assert (await proving).reason is Reason.NOT_IDENTIFIED


async def test_keys_of_an_issuer_stay_when_the_file_changes(
    authentication: Authentication, provider: IdentityProvider
) -> None:
    assert await prove(authentication, f"Bearer {provider.token()}")
    authentication.use(identities(provider.issuer))
    provider.down = True
    assert await prove(authentication, f"Bearer {provider.token()}")


async def test_other_identities_end_what_was_remembered(authentication: Authentication) -> None:
    assert await prove(authentication, f"Bearer {KEY}")
    authentication.use(Identities())
    assert (await refusal(authentication, f"Bearer {KEY}")).reason is Reason.NOT_IDENTIFIED


# Tokens.


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_token(
    authentication: Authentication, provider: IdentityProvider, algorithm: str
) -> None:
    token = provider.token(algorithm, realm={"roles": ["ward", 7]})
    found = await prove(authentication, f"Bearer {token}")
    assert found is not None
    assert found.names == {"user:mole", "role:harbour", "role:ward"}


async def test_many_at_once_wait_for_the_keys(
    authentication: Authentication, provider: IdentityProvider
) -> None:
    reads, token = provider.reads, provider.token()
    found = await asyncio.gather(*(prove(authentication, f"Bearer {token}") for _ in range(16)))
    assert {identity.owner for identity in found if identity} == {"user:mole"}
    assert provider.reads == reads + 1


FUTURE, PAST = int(time.time()) + 3600, int(time.time()) - 120


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": PAST}, {"exp": None}, {"exp": "soon"}, {"aud": "other"}, {"aud": None},
        {"iss": "https://evil.example"}, {"iss": None}, {"sub": None}, {"sub": ""},
        {"sub": "a\nb"}, {"sub": {"a": 1}}, {"nbf": FUTURE},
        {"header": {"jku": "https://evil.example/keys"}}, {"header": {"x5u": "https://e.example"}},
        {"header": {"jwk": {"kty": "oct", "k": "AA"}}}, {"header": {"crit": ["x"], "x": 1}},
        {"header": {"kid": "unknown"}},
    ],
    ids=lambda claims: " ".join(claims),
)  # fmt: skip
async def test_tokens_that_prove_nothing(
    authentication: Authentication, provider: IdentityProvider, claims: dict[str, Any]
) -> None:
    try:
        token = provider.token(**claims)
    except Exception:  # What the library does not write is written by hand below.
        token = _by_hand(provider, claims)
    refused = await refusal(authentication, f"Bearer {token}")
    assert refused.reason is Reason.NOT_IDENTIFIED


def _by_hand(provider: IdentityProvider, claims: dict[str, Any]) -> str:
    """A good token's claims and signature under another header."""
    _, payload, signature = provider.token().split(".")
    head = json.dumps({"alg": "ES256", "kid": "ES256-0", **claims["header"]}).encode()
    return f"{base64.urlsafe_b64encode(head).decode().rstrip('=')}.{payload}.{signature}"


async def test_a_token_is_signed_by_its_issuer(
    authentication: Authentication, provider: IdentityProvider
) -> None:
    header, payload, signature = provider.token().split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    public = json.dumps(provider.key_set).encode()
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    by_public_key = jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(public))
    other = IdentityProvider(provider.issuer)
    changed = payload[:-3] + ("AAA" if payload[-3:] != "AAA" else "BBB")
    for token in (
        f"{none}.{payload}.", f"{header}.{payload}.", f"{header}.{changed}.{signature}",
        by_public_key, other.token(),
    ):  # fmt: skip
        assert (await refusal(authentication, f"Bearer {token}")).reason is Reason.NOT_IDENTIFIED


@pytest.mark.parametrize("names", ["another name", "the former name", "no name"])
async def test_keys_rotate(
    authentication: Authentication,
    provider: IdentityProvider,
    monkeypatch: pytest.MonkeyPatch,
    names: str,
) -> None:
    """A token of a new key has the keys read again, but not more often than once a minute:
    whatever it says that its key is called. Where there is one key alone, it need not say it."""
    provider.names_keys = names != "no name"
    if names == "no name":
        provider.publishes = ("ES256",)
    if names == "the former name":
        provider.renames = False
    assert await prove(authentication, f"Bearer {provider.token()}")
    provider.rotate()
    reads = provider.reads
    refused = await refusal(authentication, f"Bearer {provider.token()}")
    assert refused.reason is Reason.NOT_IDENTIFIED
    assert provider.reads == reads
    monkeypatch.setattr(issuer_keys, "REFRESH", 0.0)
    assert await prove(authentication, f"Bearer {provider.token()}")
    assert provider.reads == reads + 1


async def test_an_issuer_that_is_down(provider: IdentityProvider, tmp_path: Path) -> None:
    authentication = Authentication(
        identities(provider.issuer), tmp_path / "identities.toml", DOCUMENTS
    )
    provider.down = True
    refused = await refusal(authentication, f"Bearer {provider.token()}")
    assert refused.reason is Reason.UNAVAILABLE
    assert await prove(authentication, f"Bearer {KEY}")


async def test_keys_of_a_file(provider: IdentityProvider, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps(provider.key_set))
    text = f'[[issuers]]\nissuer = "{provider.issuer}"\naudience = "dragoman"\nkeys = "keys.json"'
    authentication = Authentication(
        parse_identities(text.encode(), Path("x")), tmp_path / "identities.toml", DOCUMENTS
    )
    found = await prove(authentication, f"Bearer {provider.token()}")
    assert found is not None and found.owner == "user:mole"


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"keys": 1}, {"keys": [1, {}]}, {"keys": [{"kty": "oct", "k": "AAAA"}]}],
)
def test_keys_that_sign_nothing(document: object) -> None:
    with pytest.raises(ValueError, match="no key"):
        issuer_keys.usable_keys(document)


# Certificates.


def test_a_certificate(tmp_path: Path) -> None:
    pem, _ = Authority(tmp_path).issue("mole.example.org")
    certificate = ssl.PEM_cert_to_DER_cert(pem.read_text())
    known = Authentication(Identities(), tmp_path / "identities.toml", DOCUMENTS)
    found = known.of_certificate(certificate)
    assert found is not None and found.owner.startswith("cert:CN=")
    rows = f"""
        [[users]]
        name = "mole"
        [[certificates]]
        subject = "{found.owner.removeprefix("cert:")}"
        user = "mole"
    """
    known = Authentication(
        parse_identities(rows.encode(), Path("x")), tmp_path / "identities.toml", DOCUMENTS
    )
    mole = known.of_certificate(certificate)
    assert mole is not None and mole.owner == "user:mole"
    assert known.of_certificate(b"no certificate") is None


TENANTS = """
[[tenants]]
name = "acme"
[[tenants]]
name = "umbrella"
[[users]]
name = "mole"
tenant = "umbrella"
roles = ["harbour"]
"""


@pytest.mark.parametrize(
    ("row", "claims", "tenant", "roles"),
    [
        ("", {}, "", set()),
        ('tenant = "acme"', {}, "acme", set()),
        ('tenant = "umbrella"', {}, "umbrella", {"harbour"}),  # As the file's user of that name.
        ('tenant_claim = "org.name"', {"org": {"name": "umbrella"}}, "umbrella", {"harbour"}),
        ('tenant_claim = "org.name"', {"org": {"name": "acme"}}, "acme", set()),
        ('tenant_claim = "org.name"', {"org": {"name": "nobody"}}, None, set()),
        ('tenant_claim = "org.name"', {"org": {"name": ""}}, None, set()),
        ('tenant_claim = "org.name"', {"org": {"name": ["acme"]}}, None, set()),
        ('tenant = "acme"\ntenant_claim = "org"', {}, None, set()),
    ],
)
async def test_the_tenant_of_a_token(
    provider: IdentityProvider,
    tmp_path: Path,
    row: str,
    claims: dict[str, Any],
    tenant: str | None,
    roles: frozenset[str],
) -> None:
    """That of its issuer, or of its claim: without the claim it is nobody's, and never the default
    tenant's."""
    provider.down = False
    issuer = f'[[issuers]]\nissuer = "{provider.issuer}"\naudience = "dragoman"\n{row}\n'
    found = parse_identities((TENANTS + issuer).encode(), Path("identities.toml"))
    authentication = Authentication(found, tmp_path / "identities.toml", DOCUMENTS)
    value = f"Bearer {provider.token(sub='mole', **claims)}"
    if tenant is None:
        assert (await refusal(authentication, value)).reason is Reason.NOT_IDENTIFIED
        return
    identity = await prove(authentication, value)
    assert identity is not None
    assert (identity.tenant, set(identity.roles)) == (tenant, set(roles))
