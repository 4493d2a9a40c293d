"""Secrets stay inside: marked ones, planted wherever the gateway keeps any, are looked for in all
that it says and keeps, though consumers and authorization servers repeat them."""

import asyncio
import json
import re
from base64 import b64encode
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from gateway.settings.settings import Settings
from tests.rigs.envelopes import S12, Speaker
from tests.rigs.gateways import running
from tests.rigs.identity_provider import identity_provider
from tests.rigs.scripted_peers import consuming, read_request
from tests.rigs.waiting import until

MARK = "m4rked+secret/"
KEY = f"whsec_{b64encode(MARK.encode() * 2).decode()}"
MARK_LINE = re.compile(rb"(?i)^(authorization|x-api-key):")
PASSWORD_ELEMENT = re.compile(rb"<[^<>]*Password[^<>]*>([^<]+)<")
PATHS = (
    "/metrics",
    *(
        f"/api/v1/{path}"
        for path in (
            "subscriptions", "deadletters", "destinations", "overview", "topology", "spool",
            "sources", "links", "mailboxes", "sequences", "topics",
        )
    ),
)  # fmt: skip


USERS = ("basic", "asked", "asked-of-file")
"""Of which secrets there are forms together with the user."""


def traces(kept: str) -> list[str]:
    """The forms of secrets that are in *kept*."""
    pairs = (b64encode(f"us:{MARK}{kind}".encode()).decode() for kind in USERS)
    forms = (MARK, KEY, quote_plus(MARK), *pairs)
    return [form for form in forms if form in kept]


async def echoing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers every message with a refusal that repeats it, head and all."""
    while True:
        said = await read_request(reader)
        writer.write(b"HTTP/1.1 400 x\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))


def row(folder: Path, port: int, kind: str, **more: Any) -> dict[str, Any]:
    secret = folder / f"{kind}.secret"
    secret.write_text(f"{MARK}{kind}")
    (folder / "keys").write_text(KEY)
    credential = {"kind": kind, "secret_file": secret, **more}
    return {
        "address": f"127.0.0.1:{port}/{kind}",
        "credential": credential,
        "signature": {"secret_file": folder / "keys"},
    }


async def repeating(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A producer that asks for a password, and answers every other request with a fault that
    repeats it, head and all."""
    while True:
        said = await read_request(reader)
        if b"/asked" in said and b"authorization:" not in said.lower():
            challenge = b'WWW-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n'
            writer.write(b"HTTP/1.1 401 x\r\n" + challenge)
            continue
        # The end, where the header and the token of a message are: a text of an error is cut.
        head, _, body = said.partition(b"\r\n\r\n")
        shown = [line for line in head.split(b"\r\n") if MARK_LINE.search(line)]
        password = PASSWORD_ELEMENT.search(body)
        shown += [password[1]] if password else []
        text = escape(b" ".join(shown).decode("latin-1"))
        fault = (
            f'<s:Envelope xmlns:s="{S12.value}"><s:Body><s:Fault><s:Code><s:Value>s:Sender</s:Value>'
            f'</s:Code><s:Reason><s:Text xml:lang="en">{text}</s:Text></s:Reason></s:Fault></s:Body>'
            "</s:Envelope>"
        ).encode()
        type_ = S12.media_type.encode()
        writer.write(
            b"HTTP/1.1 500 x\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
            % (type_, len(fault), fault)
        )


def of_producer(folder: Path, port: int, kind: str, **more: Any) -> dict[str, Any]:
    """A row of the settings for a producer, with a credential of *kind*."""
    secret = folder / f"producer-{kind}.secret"
    secret.write_text(f"{MARK}{kind}")
    if kind == "asked-of-file":
        shown = {"user": "us", "password_file": secret, "allow_basic": True}
    else:
        shown = {"credential": {"kind": kind, "secret_file": secret, **more}}
    return {"url": f"http://127.0.0.1:{port}/{kind}", **shown}


async def test_nothing_of_producers_that_is_said_or_kept_has_a_secret(tmp_path: Path) -> None:
    """Of sources and links, of the settings and of operators, whose producers repeat all."""
    data, folder = tmp_path / "data", tmp_path / "secrets"
    folder.mkdir()
    async with consuming(repeating) as producer:
        with identity_provider() as provider:
            provider.clients["known"] = f"{MARK}client-credentials"
            endpoint = {"token_url": f"{provider.issuer}/token"}
            rows = [
                of_producer(folder, producer.port, "basic", user="us"),
                of_producer(folder, producer.port, "bearer"),
                of_producer(folder, producer.port, "api-key"),
                of_producer(folder, producer.port, "username-token", user="us", password="text"),
                of_producer(folder, producer.port, "client-credentials", client_id="known", **endpoint),
                of_producer(folder, producer.port, "asked-of-file"),
            ]  # fmt: skip
            refused = of_producer(
                folder, producer.port, "client-credentials", client_id="refused",
                authentication="body", **endpoint,
            )  # fmt: skip
            given: list[dict[str, Any]] = [
                {"bearer": f"{MARK}given"},
                {"user": "us", "password": f"{MARK}asked", "allow_basic": True},
            ]
            settings: dict[str, Any] = {
                "sources": [*rows, refused],
                "links": [{**one, "spec": "wsn-1.3", "lease": 60} for one in rows],
            }
            said: list[str] = []
            async with running(data, store=f"sqlite:///{data}/store.db", **settings) as run:
                for path in ("/sources", "/links"):
                    for one in given:
                        asked = {"url": producer.url("/asked"), "spec": "wsn-1.3", **one}
                        asked["topic"] = next(iter(one))
                        made = await run.api("POST", path, json.dumps(asked).encode())
                        assert made.status == 201, made.body
                        said.append(made.body.decode())
                number = len(rows) + len(given)

                async def failed() -> bool:
                    answers = [await run.api("GET", path) for path in ("/sources", "/links")]
                    sources = json.loads(answers[0].body)["sources"]
                    links = json.loads(answers[1].body)["links"]
                    said.extend(one.body.decode() for one in answers)
                    told = [one for one in sources if one["last_error"]]
                    return len(links) == number and len(told) == 2 * number + 1

                await until(failed)
                for one in json.loads((await run.api("GET", "/sources")).body)["sources"]:
                    answer = await run.api("GET", f"/sources/{one['id']}")
                    said.append(answer.body.decode())
                    assert answer.status == 200
                    kind = one["credential"]
                    if "refused" not in one["last_error"] and "no token" not in one["last_error"]:
                        assert "***" in one["last_error"], (kind, one["last_error"])
                wrong = {"url": "http://10.0.0.9/", "bearer": f"{MARK}given"}
                for path in ("/sources", "/links"):
                    refusal = await run.api("POST", path, json.dumps(wrong).encode())
                    assert refusal.status >= 400
                    said.append(refusal.body.decode())
                said += [(await run.admin("GET", path)).body.decode() for path in PATHS]
                said.append(repr(run.logs))
                said.append(repr(run.gateway.sources.entries))
            said.append(repr(Settings(data=data, **settings)))
            tokens = list(provider.granted)
    kept = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert tokens
    assert traces(kept.decode("latin-1")) == []
    assert [found for text in said if (found := traces(text))] == []
    assert not [one for one in tokens for text in (*said, kept.decode("latin-1")) if one in text]


async def test_nothing_that_is_said_or_kept_has_a_secret(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "secrets"
    folder.mkdir()
    async with consuming(echoing) as consumer:
        with identity_provider() as provider:
            provider.clients["refused"] = "another"
            at = consumer.port
            endpoint = {"token_url": f"{provider.issuer}/token", "client_id": "refused"}
            consumers = [
                row(folder, at, "basic", user="us"),
                row(folder, at, "bearer"),
                row(folder, at, "username-token", user="us", password="text"),
                row(folder, at, "client-credentials", authentication="body", **endpoint),
            ]
            settings: dict[str, Any] = {
                "consumers": consumers,
                "store": f"sqlite:///{data}/store.db",
            }
            async with running(data, **settings) as run:
                kinds = [one["credential"]["kind"] for one in consumers]
                said = [
                    str(
                        (
                            await run.ask(
                                Speaker(), Speaker().wse_subscribe(consumer.url(f"/{one}"))
                            )
                        ).body
                    )
                    for one in kinds
                ]
                await run.publish("<event/>")
                dead = run.gateway.dispatchers.scheduler

                async def refused() -> bool:
                    letters = await run.api("GET", "/deadletters")
                    return len(json.loads(letters.body)["dead_letters"]) == 3 and bool(
                        provider.asked
                    )

                await until(refused)
                said += [(await run.admin("GET", path)).body.decode() for path in PATHS]
                listed = json.loads((await run.api("GET", "/subscriptions")).body)
                for one in listed["subscriptions"]:
                    for path in ("", "/attempts"):
                        answer = await run.api("GET", f"/subscriptions/{one['id']}{path}")
                        assert answer.status == 200
                        said.append(answer.body.decode())
                letters = json.loads((await run.api("GET", "/deadletters")).body)["dead_letters"]
                for one in letters:
                    said.append(
                        (await run.api("GET", f"/deadletters/{one['number']}")).body.decode()
                    )
                assert any("***" in text for text in said)  # So answers were looked at.
                assert any("no token for client-credentials" in text for text in said)
                said.append(repr(run.logs))
                said.append(repr(dead))
            said.append(repr(Settings(data=data, **settings)))
    kept = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert traces(kept.decode("latin-1")) == []
    assert [found for text in said if (found := traces(text))] == []
