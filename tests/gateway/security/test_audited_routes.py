"""Each route that changes something has a line in the audit log."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.identities.file_editing import add_key, add_user, create_identities
from gateway.security.audit_chain import read_records
from gateway.security.keys import public_id
from gateway.web.room import EventRoom
from tests.rigs.envelopes import Answer
from tests.rigs.gateways import Running, running

RULE = '\n[[rights]]\nwho = ["user:mole"]\nmay = ["everything"]\n'
FETCHES = "who fetches changes nothing that another has"
ELSEWHERE = {
    ("POST", "/mailboxes/{key}/receive"): FETCHES,
    ("POST", "/mailboxes/{key}/acknowledge"): FETCHES,
    ("POST", "/mailboxes/{key}/release"): FETCHES,
    ("POST", "/mailboxes/{key}/extend"): FETCHES,
    ("POST", "/events"): "publications are no changes",
    ("POST", "/soap"): "test_identified.py: each request has its line",
    ("POST", "/events/consents/{key}"): "below: it takes a consumer",
}
"""Routes that are not asked here, and why."""


async def ask(run: Running, key: str, method: str, path: str, sent: object = None) -> Answer:
    octets = b"" if sent is None else json.dumps(sent).encode()
    return await run.request(method, path, octets, content_type="application/json", x_api_key=key)


async def changing_routes(run: Running, key: str) -> set[tuple[str, str]]:
    """The methods and paths of all that changes something, as the gateway describes itself."""
    described = json.loads((await ask(run, key, "GET", "/openapi.json")).body)["paths"]
    return {
        (method.upper(), path)
        for path, methods in described.items()
        for method in methods
        if method not in ("get", "head", "options")
    }


async def change_in_public(run: Running, key: str) -> Mapping[tuple[str, str], tuple[str, str]]:
    """Carry out what changes something at the public listener: what the log must say of each, of
    which resource; empty where the id is not told."""
    expected = {}

    async def change(
        method: str, path: str, sent: object = None, did: str = "", what: str = "", at: str = ""
    ) -> Any:
        answer = await ask(run, key, method, path.format(key=at), sent)
        assert answer.status < 300, (method, path, answer.body)
        said = json.loads(answer.body) if answer.body else {}
        expected[method, path, at] = did or f"{method} {path}", what or f"mailboxes {said['id']}"
        return said

    subscribed = await change("POST", "/mailboxes", {"topic": "a"}, "SubscribePulling", "*")
    plain = await change("POST", "/mailboxes", {}, at=" ")
    renew, mine = {"expires": 60.0}, f"mailboxes {subscribed['id']}"
    await change("POST", "/mailboxes/{key}/renew", renew, what=mine, at=subscribed["key"])
    for one in (plain, subscribed):
        mine = f"mailboxes {one['id']}"
        await change("DELETE", "/mailboxes/{key}", what=mine, at=one["key"])
    wanted = {"sink": "http://consumer.example/", "protocol": "HTTP"}
    path = "/events/subscriptions"
    event = await change("POST", path, wanted, "Subscribe", "*")
    longer = event | {"config": event.get("config", {}) | {"expires": 60.0}}
    await change("PUT", f"{path}/{{key}}", longer, "Renew", "*", event["id"])
    await change("DELETE", f"{path}/{{key}}", None, "Unsubscribe", "*", event["id"])
    return {(method, path): said for (method, path, _), said in expected.items()}


async def test_each_change_has_a_line(tmp_path: Path) -> None:
    """Of the administration each that is asked for, whatever becomes of it; of others those that
    were carried out."""
    file = tmp_path / "identities.toml"
    create_identities(file)
    add_user(file, "mole", None, [])
    key = add_key(file, "mole")
    file.write_text(file.read_text() + RULE)
    async with running(tmp_path / "data", identities=file) as run:
        expected = await change_in_public(run, key)
        routes = await changing_routes(run, key)
        operated = {one for one in routes if one[1].startswith("/api/")}
        for method, path in operated:
            await ask(run, key, method, re.sub(r"\{[^}]*\}", "x", path), {})
    assert routes - operated == expected.keys() | ELSEWHERE.keys(), "each is looked at"
    records = list(read_records(tmp_path / "data" / "audit.jsonl"))
    done = {(one["did"], one["what"]) for one in records if one["who"] == "user:mole"}
    for did, what in expected.values():
        assert any(one[0] == did and what in ("*", one[1]) for one in done), (did, what, done)
    for method, path in operated:
        form = re.compile(f"{method} {re.sub(r'{[^}]*}', '.*', path)}")
        assert any(form.fullmatch(did) for did, _ in done), (method, path)


async def test_who_agrees_by_a_callback(tmp_path: Path) -> None:
    """It is known by the address that it comes from alone."""
    file = tmp_path / "identities.toml"
    create_identities(file)
    async with running(tmp_path / "data", identities=file) as run:
        [web_hooks] = [
            room._web_hooks for room in run.gateway.application.rooms if isinstance(room, EventRoom)
        ]
        consents = web_hooks.consents
        path = urlsplit(
            consents.callback(
                "user:mole", "http://sink.example/", asyncio.get_running_loop().time()
            )
        ).path
        assert (await run.request("POST", path)).status == 200
        assert (await run.request("POST", f"{path}0")).status == 404
    records = list(read_records(tmp_path / "data" / "audit.jsonl"))
    [agreed] = [one for one in records if "consents" in one["did"]]
    key = path.rpartition("/")[2]
    assert agreed["what"] == f"consents {public_id(key)}" and key not in str(records)
