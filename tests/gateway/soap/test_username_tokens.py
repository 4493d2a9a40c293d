"""Senders that say in the message who they are: UsernameTokens of WS-Security."""

import base64
import json
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.identities.file_editing import add_user, create_identities
from gateway.security.identities import key_file
from mediation.names import WSSE, WSU
from mediation.soap.username_tokens import digest_of
from tests.rigs.envelopes import Answer, Speaker, fresh_id
from tests.rigs.gateways import Running, running

SPEAKER = Speaker()
PASSWORD = "Sesam öffne dich"
RULE = '\n[[rights]]\nwho = ["role:devices"]\nmay = ["publish"]\n'
TYPE = (
    "http://docs.oasis-open.org/wss/2004/01/"
    "oasis-200401-wss-username-token-profile-1.0#PasswordDigest"
)


def make_file(folder: Path) -> Path:
    file = folder / "identities.toml"
    create_identities(file)
    add_user(file, "camera", PASSWORD, ["devices"], digest=True)
    add_user(file, "program", PASSWORD, ["devices"])
    file.write_text(file.read_text() + RULE)
    return file


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("gateway")
    async with running(folder / "data", identities=make_file(folder)) as found:
        yield found


at_the_gateway = pytest.mark.asyncio(loop_scope="module")


def digested(
    user: str = "camera", password: str = PASSWORD, *, age: float = 0.0, nonce: bytes = b""
) -> str:
    """The header block of a token that was made *age* seconds ago."""
    nonce = nonce or os.urandom(16)
    created = f"{datetime.now(UTC) - timedelta(seconds=age):%Y-%m-%dT%H:%M:%S.%fZ}"
    digest = base64.b64encode(digest_of(password, nonce, created)).decode()
    return _security(
        f"<w:Username>{user}</w:Username><w:Password Type='{TYPE}'>{digest}</w:Password>"
        f"<w:Nonce>{base64.b64encode(nonce).decode()}</w:Nonce>"
        f"<u:Created xmlns:u='{WSU}'>{created}</u:Created>"
    )


def plain(user: str, password: str = PASSWORD) -> str:
    return _security(f"<w:Username>{user}</w:Username><w:Password>{password}</w:Password>")


def _security(token: str) -> str:
    return f"<w:Security xmlns:w='{WSSE}'><w:UsernameToken>{token}</w:UsernameToken></w:Security>"


async def send(run: Running, header: str, payload: str = "<event/>") -> Answer:
    envelope = SPEAKER.envelope(payload, message_id=fresh_id(), headers=header)
    return await run.post(envelope, type=SPEAKER.type)


@at_the_gateway
@pytest.mark.parametrize("user", ["camera", "program"])
async def test_a_password_on_this_machine(run: Running, user: str) -> None:
    assert (await send(run, plain(user))).status == 202


@at_the_gateway
async def test_a_digest_counts_once(run: Running) -> None:
    header = digested()
    assert (await send(run, header)).status == 202
    again = await send(run, header)
    assert again.status >= 400 and b"FailedAuthentication" in again.body
    assert b"used before" in again.body
    assert (await send(run, digested(), f"<event>{'x' * 100_000}</event>")).status == 202


WRONG: dict[str, Callable[[], str]] = {
    "another password": lambda: digested(password="wrong"),
    "no password for digests": lambda: digested("program"),
    "nobody": lambda: digested("nobody"),
    "an old one": lambda: digested(age=310),
    "one of tomorrow": lambda: digested(age=-70),
    "another text": lambda: plain("camera", "wrong"),
    "nobody's text": lambda: plain("nobody"),
    "a user without a password": lambda: plain("administrator", ""),
}
FORGED: dict[str, Callable[[], str]] = {
    "an empty password": lambda: plain("camera", ""),
    "the digest as text": lambda: plain("camera", base64.b64encode(b"x" * 20).decode()),
    "the password as its digest": lambda: parts(
        digest=base64.b64encode(PASSWORD.encode()).decode()
    ),
    "an empty digest": lambda: parts(digest=""),
    "a digest of the nonce as it is written": lambda: parts(of=b"as written"),
    "a digest without the nonce": lambda: parts(of=b""),
    "another time than that of the digest": lambda: parts(created="2026-01-01T00:00:00Z"),
    "the name of another case": lambda: digested("Camera"),
    "the name of another tenant": lambda: digested("tenant:acme:user:camera"),
    "the owner in place of the name": lambda: digested("user:camera"),
    "a time without a zone, long ago": lambda: parts(created="2026-01-01T00:00:00"),
    "a time in another zone, long ago": lambda: parts(created="2026-01-01T00:00:00+14:00"),
}


def parts(*, digest: str | None = None, created: str | None = None, of: bytes | None = None) -> str:
    """A token of the camera in which one thing is wrong."""
    nonce, said = os.urandom(16), f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    written = base64.b64encode(nonce).decode()
    over = nonce if of is None else written.encode() if of else b""
    made = base64.b64encode(digest_of(PASSWORD, over, said)).decode()
    return _security(
        f"<w:Username>camera</w:Username><w:Password Type='{TYPE}'>"
        f"{made if digest is None else digest}</w:Password><w:Nonce>{written}</w:Nonce>"
        f"<u:Created xmlns:u='{WSU}'>{created or said}</u:Created>"
    )


def unreadable() -> dict[str, str]:
    """What is no token that is taken."""
    name, text = "<w:Username>camera</w:Username>", f"<w:Password>{PASSWORD}</w:Password>"
    typed = f"<w:Password Type='{TYPE}'>AAAA</w:Password>"
    nonce = f"<w:Nonce>{base64.b64encode(b'n' * 16).decode()}</w:Nonce>"
    created = f"<u:Created xmlns:u='{WSU}'>{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}</u:Created>"
    return {
        "no password": name,
        "no name": text,
        "an empty name": f"<w:Username/>{text}",
        "two names": name + name + text,
        "two passwords": name + text + text,
        "no nonce": name + typed + created,
        "no time": name + typed + nonce,
        "two nonces": name + typed + nonce + nonce + created,
        "a nonce that is no base64": name + typed + "<w:Nonce>%%%</w:Nonce>" + created,
        "a digest that is no base64": name + typed.replace("AAAA", "%%%") + nonce + created,
        "a short nonce": name + typed + "<w:Nonce>AAAA</w:Nonce>" + created,
        "a long nonce": f"{name}{typed}<w:Nonce>{'A' * 400}</w:Nonce>{created}",
        "a time that is none": f"{name}{typed}{nonce}<u:Created xmlns:u='{WSU}'>now</u:Created>",
        "a type that is not known": f"{name}<w:Password Type='urn:x'>x</w:Password>",
    }


@at_the_gateway
@pytest.mark.parametrize("header", WRONG.values(), ids=WRONG.keys())
async def test_what_proves_nothing(run: Running, header: Callable[[], str]) -> None:
    """The fault is that of WS-Security, and says nothing of the password."""
    answer = await send(run, header())
    assert answer.status >= 400
    assert b"FailedAuthentication" in answer.body
    assert PASSWORD.encode() not in answer.body


EACH = 8
"""As many as a user may get wrong at a gateway, and less."""


async def test_what_is_forged(tmp_path: Path) -> None:
    file, headers = make_file(tmp_path), list(FORGED.items())
    for first in range(0, len(headers), EACH):
        async with running(tmp_path / f"data-{first}", identities=file) as found:
            for name, header in headers[first : first + EACH]:
                answer = await send(found, header())
                assert answer.status >= 400, name
                assert b"FailedAuthentication" in answer.body, (name, answer.body)
                assert PASSWORD.encode() not in answer.body, name
            assert (await send(found, digested())).status == 202


@at_the_gateway
async def test_what_is_no_token(run: Running) -> None:
    for inner in unreadable().values():
        answer = await send(run, _security(inner))
        assert answer.status >= 400 and PASSWORD.encode() not in answer.body, inner
        assert b"wsse:" in answer.body or b"FailedAuthentication" in answer.body, answer.body
    twice = plain("camera").replace("</w:Security>", "") + digested().partition(">")[2]
    for header, fault in (
        (_security("<w:Username>camera</w:Username>"), b"InvalidSecurity"),
        (twice, b"InvalidSecurity"),
        (f"<w:Security xmlns:w='{WSSE}'><w:Other/></w:Security>", b"UnsupportedSecurityToken"),
    ):
        answer = await send(run, header)
        assert answer.status >= 400 and fault in answer.body


@at_the_gateway
async def test_a_user_has_its_own_rights(run: Running) -> None:
    body = SPEAKER.wse_subscribe("http://consumer.example.org/")
    answer = await send(run, digested(), body)
    assert b"You have no right to subscribe" in answer.body


async def test_a_password_in_the_clear_from_elsewhere(tmp_path: Path) -> None:
    """Only its digest is taken: others could have read the password."""
    file = make_file(tmp_path)
    async with running(tmp_path / "data", identities=file, trusted_proxies=["127.0.0.1"]) as run:
        for header, taken in ((plain("camera"), False), (digested(), True)):
            envelope = SPEAKER.envelope("<event/>", message_id=fresh_id(), headers=header)
            answer = await run.post(
                envelope, type=SPEAKER.type, x_forwarded_for="192.0.2.7", x_forwarded_proto="http"
            )
            assert (answer.status == 202) is taken, answer.body


async def test_a_nonce_is_remembered_over_restarts(tmp_path: Path) -> None:
    file, header = make_file(tmp_path), digested()
    statuses = []
    for _ in range(2):
        async with running(tmp_path / "data", identities=file) as run:
            statuses.append((await send(run, header)).status)
    assert statuses[0] == 202 and statuses[1] >= 400


READER_RULES = """
[[rights]]
who = ["role:devices"]
may = ["everything"]
"""


async def test_nobody_is_passed_a_password(tmp_path: Path) -> None:
    """Neither who reads a mailbox, nor who looks at messages and requests, nor who has the files:
    of an event, of one for a mailbox by each address, of one that cannot be read, of a Subscribe."""
    file, said = make_file(tmp_path), []
    file.write_text(file.read_text() + READER_RULES)
    basic = base64.b64encode(f"program:{PASSWORD}".encode()).decode()
    tokens = (plain("program"), digested())
    secrets = [PASSWORD, tokens[1].partition("Digest'>")[2].partition("<")[0]]
    settings: dict[str, Any] = {
        "console_messages": 100,
        "trusted": (),
        "egress_allow": ["127.0.0.1"],
    }
    async with running(tmp_path / "data", identities=file, **settings) as run:

        async def ask(method: str, path: str, sent: object = None) -> str:
            octets = b"" if sent is None else json.dumps(sent).encode()
            type_ = "application/json"
            answer = await run.request(
                method, path, octets, content_type=type_, authorization=f"Basic {basic}"
            )
            return answer.body.decode()

        key = json.loads(await ask("POST", "/mailboxes", {}))["key"]
        paths = ("/soap/topic/a", f"/mailboxes/{key}", f"/msgbox/clientid/{key}")
        unread = "<x:Notify xmlns:x='http://docs.oasis-open.org/wsn/b-2'/>"
        bodies = ("<event/>", unread, SPEAKER.wse_subscribe("http://consumer.example.org/"))
        for number, token in enumerate(tokens * len(paths) * len(bodies)):
            body, path = bodies[number // 2 % 3], paths[number // 6]
            if number % 2:
                token = digested()
                secrets.append(token.partition("Digest'>")[2].partition("<")[0])
            envelope = SPEAKER.envelope(body, message_id=f"urn:m:{number}", headers=token)
            await run.post(envelope, path, type=SPEAKER.type)
            said.append(await ask("GET", f"/api/v1/messages/urn:m:{number}?content=true"))
        for _ in range(20):
            said.append(await ask("POST", f"/mailboxes/{key}/receive", {"wait": 0}))
        for entry in run.gateway.subscriptions.entries:
            said.append(await ask("GET", f"/api/v1/subscriptions/{entry.id}/request"))
    kept = b"".join(one.read_bytes() for one in (tmp_path / "data").rglob("*") if one.is_file())
    said.append(kept.decode("utf-8", "replace"))
    assert sum("as_it_came" in text for text in said) >= 2, "a Subscribe of each token"
    assert sum("urn:m:" in text and "<event" in text for text in said) >= 4, "they were kept"
    assert not [text for text in said if any(one in text for one in secrets)]


def test_the_kept_password_is_encrypted(tmp_path: Path) -> None:
    file = make_file(tmp_path)
    assert PASSWORD not in file.read_text()
    assert key_file(file).stat().st_mode & 0o777 == 0o600
