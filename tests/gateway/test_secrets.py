"""Secrets stay inside: marked ones, planted wherever the gateway keeps any, are looked for in all
that it says and keeps, though consumers and authorization servers repeat them."""

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

from gateway.settings.settings import Settings
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.identity_provider import identity_provider
from tests.rigs.scripted_peers import consuming, read_request
from tests.rigs.waiting import until

MARK = "m4rked+secret/"
KEY = f"whsec_{b64encode(MARK.encode() * 2).decode()}"
PATHS = (
    "/metrics",
    *(
        f"/api/v1/{path}"
        for path in (
            "subscriptions", "deadletters", "destinations", "overview", "topology", "spool",
            "sources", "mailboxes", "sequences", "topics",
        )
    ),
)  # fmt: skip


def traces(kept: str) -> list[str]:
    """The forms of secrets that are in *kept*."""
    forms = (MARK, KEY, quote_plus(MARK), b64encode(f"us:{MARK}basic".encode()).decode())
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
