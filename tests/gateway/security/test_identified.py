"""A gateway with a file of identities: at every door, who proves what, and what follows of it."""

import asyncio
import base64
import itertools
import json
import re
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from gateway.identities.file_editing import (
    add_key,
    add_user,
    create_identities,
    remove_key,
)
from gateway.security.api_key_hashes import api_key_id, hash_api_key
from gateway.security.audit_chain import read_records, verify
from mediation.model.versions import Soap
from mediation.packaging.dime import DimeMessage, Encoder
from mediation.soap.username_tokens import add_username_token
from tests.rigs.cloudevents import STRUCTURED, event
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import Speaker, fresh_id, notification_message, notify
from tests.rigs.gateways import Running, running
from tests.rigs.soap_tcp import RawPeer
from tests.rigs.waiting import DEADLINE, seconds_of, until

SPEAKER = Speaker()
RULES = """
[[rights]]
who = ["role:harbour"]
may = ["publish", "subscribe", "manage"]
topics = ["weather//."]

[[rights]]
who = ["user:reader"]
may = ["read"]
"""
OPEN = ("/healthz", "/readyz")


@dataclass
class Guarded:
    """A gateway, and keys: of its administrator, of one who may use ``weather``, of a reader, of
    the first again, but expired."""

    run: Running
    file: Path
    administrator: str
    mole: str
    reader: str
    expired: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    folder = tmp_path_factory.mktemp("gateway")
    file = folder / "identities.toml"
    administrator = create_identities(file)
    add_user(file, "mole", "secret", ["harbour"])
    add_user(file, "reader", None, [])
    file.write_text(file.read_text() + RULES)
    async with running(folder / "data", identities=file, soap_tcp_port=0) as run:
        mole, reader = (add_key(file, name) for name in ("mole", "reader"))
        gone = add_key(file, "mole", (), datetime.now(UTC) - timedelta(days=1))
        given = Guarded(run, file, administrator, mole, reader, gone)
        await until(lambda: is_known(given, given.reader))
        yield given


at_the_gateway = pytest.mark.asyncio(loop_scope="module")


async def is_known(guarded: Guarded, key: str) -> bool:
    return await status_of(guarded.run, "GET", "/api/v1/overview", key) != 401


async def status_of(
    run: Running,
    method: str,
    path: str,
    key: str | None,
    body: bytes = b"",
    type: str = "application/json",
) -> int:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    answer = await run.request(method, path, body, content_type=type, **headers)
    if answer.status == 401:
        assert "Bearer" in answer.headers["www-authenticate"]
    return answer.status


@at_the_gateway
async def test_every_route(guarded: Guarded) -> None:
    """Of nobody, of a wrong key and of an expired one: 401; of a key without the right: 403; of the
    administrator's: something else."""
    described = json.loads(
        (
            await guarded.run.request(
                "GET", "/openapi.json", authorization=f"Bearer {guarded.administrator}"
            )
        ).body
    )["paths"]
    wrong = []
    for path, methods in described.items():
        if path in (*OPEN, "/events") or path.startswith(
            ("/soap", "/schemas", "/events/topic", "/events/consents")
        ):
            continue
        concrete = re.sub(r"\{[^}]*\}", "x", path)
        for method in methods:
            if path.startswith("/api/v1/tap") or "stream" in path:
                keys = {None: 401, "drg_x": 401, guarded.expired: 401}
            else:
                keys = {None: 401, "drg_x": 401, guarded.expired: 401, guarded.administrator: 0}
                if method != "get" or path.startswith("/mailboxes"):
                    keys[guarded.reader] = 403
            for key, wanted in keys.items():
                status = await status_of(guarded.run, method.upper(), concrete, key, b"{}")
                if status != wanted if wanted else status in (401, 403):
                    wrong.append((method, path, key, status))
    assert wrong == []


@at_the_gateway
@pytest.mark.parametrize(
    ("topic", "who", "status"),
    [
        ("weather", "mole", 202), ("weather/storms", "mole", 202), ("tides", "mole", 403),
        ("", "mole", 403), ("weather", "reader", 403), ("weather", None, 401),
        ("tides", "administrator", 202), ("", "administrator", 202),
    ],
)  # fmt: skip
async def test_publishing(guarded: Guarded, topic: str, who: str | None, status: int) -> None:
    """Over SOAP and as a CloudEvent; with the envelope's own fault."""
    headers = {} if who is None else {"authorization": f"Bearer {getattr(guarded, who)}"}
    path = f"/topic/{topic}" if topic else ""
    envelope = SPEAKER.envelope("<storm/>", message_id=fresh_id())
    answer = await guarded.run.post(envelope, f"/soap{path}", type=SPEAKER.type, **headers)
    assert answer.status == status
    if status != 202:
        assert b"Fault" in answer.body
    said = await guarded.run.request(
        "POST",
        f"/events{path}",
        json.dumps(event(data=1)).encode(),
        content_type=STRUCTURED,
        **headers,
    )
    assert said.status == status


@at_the_gateway
@pytest.mark.parametrize(("password", "status"), [("secret", 202), ("wrong", 401)])
async def test_a_password(guarded: Guarded, password: str, status: int) -> None:
    envelope = SPEAKER.envelope("<storm/>", message_id=fresh_id())
    basic = "Basic " + base64.b64encode(f"mole:{password}".encode()).decode()
    answer = await guarded.run.post(
        envelope, "/soap/topic/weather", type=SPEAKER.type, authorization=basic
    )
    assert answer.status == status


@at_the_gateway
async def test_soap_tcp_knows_certificates_alone(guarded: Guarded) -> None:
    envelope = SPEAKER.envelope("<storm/>", message_id="urn:x:1", to="/soap/topic/weather")
    peer = await RawPeer.connect(guarded.run.soap_tcp_port)
    await peer.send(Encoder().encode(DimeMessage(Soap.V1_2, envelope)))
    assert b"Say who you are to publish here" in (await peer.receive()).envelope
    await peer.close()


@at_the_gateway
async def test_a_connection_of_soap_tcp_has_the_rights_of_today(guarded: Guarded) -> None:
    """Not those that it had when it was opened."""
    text = guarded.file.read_text()
    rule = '\n[[rights]]\nwho = ["anonymous"]\nmay = ["subscribe"]\n'
    envelope = SPEAKER.envelope(
        SPEAKER.wse_subscribe("http://127.0.0.1:1024/"), message_id="urn:x:2", to="/soap"
    )
    peer = await RawPeer.connect(guarded.run.soap_tcp_port)

    async def refused() -> bool:
        await peer.send(Encoder().encode(DimeMessage(Soap.V1_2, envelope)))
        return b"Say who you are to subscribe" in (await peer.receive()).envelope

    assert await refused()
    guarded.file.write_text(text + rule)
    await until(lambda: _not(refused()))
    guarded.file.write_text(text)
    await until(refused)
    await peer.close()


async def _not(holds: Awaitable[bool]) -> bool:
    return not await holds


@at_the_gateway
async def test_a_subscriber_gets_what_it_may_and_nothing_after_that(guarded: Guarded) -> None:
    """One that names no topic gets those that the rules grant; a right that is withdrawn ends
    deliveries within a second, and they go on when it is granted again."""

    async def post(body: str, path: str, key: str, status: int) -> None:
        envelope = SPEAKER.envelope(body, message_id=fresh_id())
        answer = await guarded.run.post(
            envelope, path, type=SPEAKER.type, authorization=f"Bearer {key}"
        )
        assert answer.status == status

    async with consumers() as sinks:
        consumer = sinks.at("/mole")
        subscribe = SPEAKER.wse_subscribe(sinks.url("mole"))
        await post(subscribe, "/soap", guarded.reader, 403)
        await post(subscribe, "/soap", guarded.mole, 200)

        async def received(*numbers: int) -> None:
            """Publish a number on either topic; the consumer has *numbers* then, of one."""
            for topic in ("tides", "weather"):
                number = next(counting)
                await post(
                    f"<{topic}><n>{number}</n></{topic}>", f"/soap/topic/{topic}",
                    guarded.administrator, 202,
                )  # fmt: skip
            await guarded.run.quiet()
            assert consumer.numbers == [str(number) for number in numbers]

        counting = itertools.count()
        await received(1)
        text = guarded.file.read_text()
        guarded.file.write_text(
            text.replace('may = ["publish", "subscribe", "manage"]', 'may = ["publish"]')
        )
        refused = until(lambda: may_subscribe(guarded, 403))
        assert await seconds_of(refused) < 2  # 0.5 s of looking, and some of asking.
        await received(1)
        guarded.file.write_text(text)
        await until(lambda: may_subscribe(guarded, 201))
        await received(1, 5)


async def may_subscribe(guarded: Guarded, status: int) -> bool:
    return await status_of(guarded.run, "POST", "/mailboxes", guarded.mole, b"{}") == status


@at_the_gateway
async def test_a_page_of_another_site_changes_nothing(guarded: Guarded) -> None:
    """A browser adds the password that it has to whatever a page has it send."""
    for site, status in (("cross-site", 403), ("same-origin", 404)):
        answer = await guarded.run.request(
            "POST",
            "/api/v1/subscriptions/x/pause",
            authorization=f"Bearer {guarded.administrator}",
            sec_fetch_site=site,
        )
        assert answer.status == status, answer.body


@at_the_gateway
async def test_addresses_that_were_given_out(guarded: Guarded) -> None:
    """What is sent to a mailbox, or by a producer to the address of a source, needs no credentials:
    the key is in the address, and one that nobody has is unknown."""
    headers = {"authorization": f"Bearer {guarded.mole}"}
    made = await guarded.run.request(
        "POST", "/mailboxes", b"{}", content_type="application/json", **headers
    )
    address = urlsplit(json.loads(made.body)["address"]).path
    envelope = SPEAKER.envelope(
        notify(notification_message("<storm/>")), message_id=fresh_id(), to=address
    )
    assert (await guarded.run.post(envelope, address, type=SPEAKER.type)).status == 202
    for path in ("/sources/unknown", "/mailboxes/unknown"):
        answer = await guarded.run.post(envelope, path, type=SPEAKER.type)
        assert answer.status not in (202, 401, 403), path


@at_the_gateway
async def test_a_file_that_cannot_be_used_changes_nothing(guarded: Guarded) -> None:
    text = guarded.file.read_text()
    guarded.file.write_text("no TOML")
    await until(lambda: any(log["event"] == "identity.file-unusable" for log in guarded.run.logs))
    assert await is_known(guarded, guarded.mole)
    guarded.file.write_text(text)


@at_the_gateway
async def test_what_was_done_and_refused_is_in_the_audit_log(guarded: Guarded) -> None:
    log = guarded.file.parent / "data/audit.jsonl"

    def noted(who: str, did: str, result: str) -> bool:
        return any(
            (one["who"], one["did"]) == (who, did) and one["result"].startswith(result)
            for one in read_records(log)
        )

    subscribe = SPEAKER.wse_subscribe("http://127.0.0.1:1024/", expires="PT1S")
    for key, status in ((guarded.mole, 200), (guarded.reader, 403)):
        envelope = SPEAKER.envelope(subscribe, message_id=fresh_id())
        answer = await guarded.run.post(envelope, authorization=f"Bearer {key}")
        assert answer.status == status, answer.body
    assert await status_of(guarded.run, "GET", "/api/v1/subscriptions", None) == 401
    assert await status_of(guarded.run, "POST", "/soap", "drg_x", envelope, SPEAKER.type) == 401
    assert await status_of(guarded.run, "POST", "/events", "drg_x", b"{}") == 401
    assert await status_of(guarded.run, "POST", "/relay/x", "drg_x") == 401
    token = add_username_token(
        envelope, "mole", "wrong", nonce=b"12345678", created=datetime.now(UTC)
    )
    assert b"FailedAuthentication" in (await guarded.run.post(token)).body
    for did, result in (
        ("unknown", "refused: There is no such key"),
        ("Publish", "refused: There is no such key"),
        ("relayed", "refused: There is no such key"),
        ("Subscribe", "refused: The user or the password is wrong."),
    ):
        await until(partial(noted, "anonymous:127.0.0.1", did, result))
    await until(lambda: noted("user:mole", "Subscribe", "done"))
    await until(lambda: noted("gateway", "ended the subscription", "done: its lease expired"))
    await until(lambda: noted("user:reader", "Subscribe", "refused: You have no right"))
    await until(lambda: noted("anonymous:127.0.0.1", "GET /api/v1/subscriptions", "refused: Say"))
    await until(lambda: noted("operator", "read the file of identities", "done"))
    verify(log)


@at_the_gateway
async def test_no_secret_is_logged(guarded: Guarded) -> None:
    log = guarded.file.parent / "data/audit.jsonl"
    logged = repr(guarded.run.logs) + log.read_text()
    for secret in (guarded.administrator, guarded.mole, guarded.expired, "secret"):
        assert secret not in logged


@at_the_gateway
@pytest.mark.parametrize("stream", ["tap", "mailbox"])
async def test_a_stream_ends_when_its_reader_may_no_more(guarded: Guarded, stream: str) -> None:
    """Within a second: half of one until the file is read, a fifth until the stream looks."""
    run = guarded.run
    key = add_key(guarded.file, "reader" if stream == "tap" else "mole")
    await until(lambda: is_known(guarded, key))
    path = "/api/v1/tap"
    if stream == "mailbox":
        made = await run.request(
            "POST",
            "/mailboxes",
            b"{}",
            content_type="application/json",
            authorization=f"Bearer {key}",
        )
        assert made.status == 201, made.body
        path = urlsplit(json.loads(made.body)["events"]).path
    reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
    lines = (f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{run.port}", f"Authorization: Bearer {key}")
    writer.write("\r\n".join((*lines, "", "")).encode())
    async with asyncio.timeout(DEADLINE):
        await reader.readuntil(b"retry: 2000")
        remove_key(guarded.file, api_key_id(hash_api_key(key)))
        assert await seconds_of(reader.readuntil(b"\r\n0\r\n\r\n")) < 2
    writer.close()
    await writer.wait_closed()
