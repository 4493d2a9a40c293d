"""Readers that wait, or have a stream: what they may have is asked again when it is handed out."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.identities.file_editing import add_key, add_user, create_identities, remove_key
from gateway.security.api_key_hashes import api_key_id, hash_api_key
from mediation.soap.username_tokens import add_username_token
from tests.rigs.cases import for_each
from tests.rigs.envelopes import Answer, Speaker, fresh_id, notify
from tests.rigs.envelopes import notification_message as message
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import DEADLINE, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
SPEAKER = Speaker()
MAY_READ = """
[[rights]]
who = ["role:reader"]
may = ["subscribe", "manage"]
"""
PULL = (
    '<t:PullMessages xmlns:t="http://www.onvif.org/ver10/events/wsdl"><t:Timeout>PT30S</t:Timeout>'
    "<t:MessageLimit>9</t:MessageLimit></t:PullMessages>"
)


@dataclass
class Guarded:
    """A gateway, its file of identities, and the key of its administrator."""

    run: Running
    file: Path
    administrator: str

    async def ask(self, key: str, method: str, path: str, said: object = None) -> Answer:
        body = b"" if said is None else json.dumps(said).encode()
        shown = {"authorization": f"Bearer {key}"}
        return await self.run.request(method, path, body, content_type="application/json", **shown)

    async def status(self, **shown: str) -> int:
        """Of a request for a mailbox that is not there: who may read any is told so (404). Whoever
        shows what is wrong too often is told that (429)."""
        return (await self.run.request("GET", "/mailboxes/x", b"", **shown)).status

    async def may(self, **shown: str) -> bool:
        """Whether who shows that may read mailboxes."""
        return await self.status(**shown) == 404

    async def reader(self, name: str) -> str:
        """The key of a new user, who may read mailboxes, once the gateway knows it."""
        add_user(self.file, name, "secret", ["reader"], digest=True)
        key = add_key(self.file, name)
        await until(lambda: self.may(x_api_key=key))
        return key

    async def make(self, key: str) -> str:
        """The key of a new mailbox."""
        answer = await self.ask(key, "POST", "/mailboxes", {})
        assert answer.status == 201, answer.body
        return str(json.loads(answer.body)["key"])

    async def deposit(self, mailbox: str) -> None:
        body = notify(message("<storm/>"))
        shown = {"authorization": f"Bearer {self.administrator}"}
        envelope = SPEAKER.envelope(body, message_id=fresh_id())
        answer = await self.run.post(envelope, f"/mailboxes/{mailbox}", **shown)
        assert answer.status == 202, answer.body

    async def lying_in(self, mailbox: str) -> int:
        answer = await self.ask(self.administrator, "GET", f"/mailboxes/{mailbox}")
        return int(json.loads(answer.body)["messages"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    folder = tmp_path_factory.mktemp("gateway")
    file = folder / "identities.toml"
    administrator = create_identities(file)
    file.write_text(file.read_text() + MAY_READ)
    async with running(folder / "data", identities=file) as run:
        yield Guarded(run, file, administrator)


async def receive(guarded: Guarded, key: str, mailbox: str, _name: str) -> Answer:
    return await guarded.ask(key, "POST", f"/mailboxes/{mailbox}/receive", {"wait": 30})


async def pull(guarded: Guarded, key: str, mailbox: str, _name: str) -> Answer:
    envelope = SPEAKER.envelope(PULL, message_id=fresh_id())
    shown = {"authorization": f"Bearer {key}"}
    return await guarded.run.post(envelope, f"/pullpoints/{mailbox}", **shown)


async def pull_with_token(guarded: Guarded, _key: str, mailbox: str, name: str) -> Answer:
    envelope = SPEAKER.envelope(PULL, message_id=fresh_id())
    nonce, now = fresh_id().encode()[-16:], datetime.now(UTC)
    shown = add_username_token(envelope, name, "secret", nonce=nonce, created=now)
    return await guarded.run.post(shown, f"/pullpoints/{mailbox}")


async def remove_its_key(guarded: Guarded, key: str, _name: str) -> None:
    remove_key(guarded.file, api_key_id(hash_api_key(key)))
    await until(lambda: is_refused(guarded, key))


async def take_its_role(guarded: Guarded, key: str, name: str) -> None:
    add_user(guarded.file, name, None, ["former"])
    await until(lambda: is_refused(guarded, key))


async def change_its_password(guarded: Guarded, _key: str, name: str) -> None:
    add_user(guarded.file, name, "another", [], digest=True)
    key = add_key(guarded.file, name)
    await until(lambda: guarded.may(x_api_key=key))


async def is_refused(guarded: Guarded, key: str) -> bool:
    return await guarded.status(x_api_key=key) in (401, 403)


Asks = Callable[[Guarded, str, str, str], Awaitable[Answer]]
Withdraws = Callable[[Guarded, str, str], Awaitable[None]]
ROWS = [
    (receive, remove_its_key),
    (receive, take_its_role),
    (pull, remove_its_key),
    (pull_with_token, take_its_role),
    (pull_with_token, change_its_password),
]


@for_each(("asks", "withdraw"), ROWS, ids=[f"{one.__name__}, {two.__name__}" for one, two in ROWS])
async def test_who_waits_is_given_nothing_once_its_right_is_gone(
    guarded: Guarded, asks: Asks, withdraw: Withdraws
) -> None:
    """And what it would have got is there for others."""
    name = f"{asks.__name__}-{withdraw.__name__}".replace("_", "-")
    key = await guarded.reader(name)
    mailbox = await guarded.make(key)
    waiting = asyncio.ensure_future(asks(guarded, key, mailbox, name))
    await until(lambda: mailbox in guarded.run.gateway.mailboxes.waiting.keys)
    await withdraw(guarded, key, name)
    assert not waiting.done()
    await guarded.deposit(mailbox)
    answer = await waiting
    assert answer.status in (400, 401, 403), answer.body
    assert b"storm" not in answer.body
    assert await guarded.lying_in(mailbox) == 1


async def test_a_stream_ends_with_the_right_to_read_and_with_its_key(guarded: Guarded) -> None:
    """A right that other requests have does not keep it open; a key that expires changes no file."""
    key = await guarded.reader("streaming")
    made = datetime.now(UTC)
    short = add_key(guarded.file, "streaming", (), made + timedelta(seconds=4))
    await until(lambda: guarded.may(x_api_key=short))
    boxes = [await guarded.make(key) for _ in range(2)]
    async with asyncio.timeout(DEADLINE):
        expiring = await opened(guarded.run, boxes[0], short)
        reading = await opened(guarded.run, boxes[1], key)
        await ended(*expiring)
        assert datetime.now(UTC) - made < timedelta(seconds=9)  # And what a busy machine adds.
        text = guarded.file.read_text()
        guarded.file.write_text(text.replace('"subscribe", "manage"', '"subscribe"'))
        await ended(*reading)
    guarded.file.write_text(text)


async def opened(
    run: Running, mailbox: str, key: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection with the stream of *mailbox*, which has begun."""
    reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
    first = f"GET /mailboxes/{mailbox}/events HTTP/1.1"
    lines = (first, f"Host: 127.0.0.1:{run.port}", f"Authorization: Bearer {key}")
    writer.write("\r\n".join((*lines, "", "")).encode())
    await reader.readuntil(b"retry: 2000")
    return reader, writer


async def ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n0\r\n\r\n")
    writer.close()
    await writer.wait_closed()
