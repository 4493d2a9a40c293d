"""Each route that changes something has lines in the audit log, which say what became of that."""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway.identities.file_editing import add_key, add_user, create_identities
from gateway.security.audit_chain import read_records, verify
from gateway.security.keys import public_id
from gateway.web.changes import NESTED, SECRETS, TOLD
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


QUESTIONS = {("POST", "/api/v1/subscriptions/{id}/explain")}
"""Routes of the administration that change nothing."""
WITHHELD = {
    "payload", "xpath", "example", "protocolsettings", "filters", "tdn_authorization",
    "tdn_request", "digest", "allow_basic", "negotiate", "silence", "binding", "assurance",
    "order_key",
}  # fmt: skip
"""Fields of requests of which the audit log tells nothing: they have what is confidential, or say
little."""
SECRET = "5ecret"
URL = f"http://mole:{SECRET}@camera.example/onvif?token={SECRET}"
LOGIN = (
    "This is not an address to send to: it has a user or a password before @, which nothing is sent "
    "with."
)
SHOWN_URL = "url=http://camera.example/onvif?***"


@dataclass(frozen=True)
class Asked:
    """A change that was asked for, and what the audit log must say of it: before it, and at last."""

    route: tuple[str, str]
    request: str
    asked: str
    ended: str
    result: str


async def change_administered(run: Running, key: str) -> list[Asked]:
    """Carry out what changes something through the administration, and what cannot be carried
    out."""
    all_: list[Asked] = []

    async def change(
        method: str,
        path: str,
        what: str,
        sent: object = None,
        *,
        at: str = "",
        query: str = "",
        result: str = "done",
    ) -> Any:
        """*what*: of the record before the change; and, where something was made, behind ``|`` what
        the record of the result has, with ``ID`` for its id."""
        answer = await ask(run, key, method, re.sub(r"\{[^}]*\}", at, path) + query, sent)
        said = json.loads(answer.body) if answer.body else {}
        assert answer.status < 300 or result != "done", (method, path, said)
        asked, made, ended = what.partition("|")
        ended = ended.replace("ID", str(said.get("id"))) if made else asked
        all_.append(Asked((method, path), answer.headers["x-request-id"], asked, ended, result))
        return said

    api, gone = "/api/v1", "refused: 404 There is no such "
    event = {
        "sink": "http://consumer.example/in?code=5ecret",
        "protocol": "HTTP",
        "config": {"topic": "a"},
        "protocolsettings": {"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
    }
    asked = "sink=http://consumer.example/in?*** topic=a protocol=HTTP"
    at = f"{api}/subscriptions"
    made = await change("POST", at, f"{asked}|ID {asked}", event)
    id_ = made["id"]
    await change("POST", at + "/{id}/pause", f"{id_} hold=true", {"hold": True}, at=id_)
    await change("POST", at + "/{id}/resume", id_, at=id_)
    await change("POST", at + "/{id}/renew", f"{id_} expires=PT2H", {"expires": "PT2H"}, at=id_)
    await change(
        "POST",
        at + "/{id}/send-again",
        f"{id_} message=urn:uuid:5b0f",
        {"message": "urn:uuid:5b0f"},
        at=id_,
        result="refused: 404 The message is not kept: it neither waits for this subscription nor "
        "died, and is none of the last that the setting console_messages keeps.",
    )
    replay = {"from": "2026-11-21T12:00:00Z", "topic": "a", "xpath": "//confidential"}
    await change(
        "POST", at + "/{id}/replay", f"{id_} topic=a from=2026-11-21T12:00:00Z", replay, at=id_,
        result="refused: 400 This gateway has no archive: start it with --archive DIR.",
    )  # fmt: skip
    await change(
        "DELETE", at + "/{id}/replay", id_, at=id_,
        result="refused: 404 Nothing was replayed into this subscription.",
    )  # fmt: skip
    chosen = "consumer=http://consumer.example/"
    query = "?dry_run=true&consumer=http://consumer.example/&topic=a"
    told = f"dry_run=true {chosen} topic=a"
    await change("DELETE", at, f"{told}|(1) {told}", query=query)
    await change("DELETE", at + "/{id}", id_, at=id_)
    await change("DELETE", at + "/{id}", id_, at=id_, result=f"{gone}subscription.")
    mailbox = json.loads((await ask(run, key, "POST", "/mailboxes", {})).body)["id"]
    await change("DELETE", f"{api}/mailboxes/{{id}}", mailbox, at=mailbox)

    source = {"url": URL, "topic": "a", "user": "eve", "password": SECRET, "spec": "wsn-1.3"}
    told = f"user=eve {SHOWN_URL} topic=a spec=wsn-1.3 password=***"
    await change("POST", f"{api}/sources", told, source, result=f"refused: 400 {LOGIN}")
    source["url"] = "http://camera.example/onvif"
    told = told.replace("?***", "")
    made = await change("POST", f"{api}/sources", f"{told}|ID {told}", source)
    await change("DELETE", f"{api}/sources/{{id}}", made["id"], at=made["id"])
    await change("DELETE", f"{api}/sources/{{id}}", "none", at="none", result=f"{gone}source.")
    channel = {"name": "tides", "xpath": "//confidential"}
    await change("POST", f"{api}/channels", "name=tides|tides name=tides", channel)
    await change("PUT", f"{api}/channels/{{name}}", "tides", {}, at="tides")
    await change("DELETE", f"{api}/channels/{{name}}", "tides", at="tides")
    link = {"url": "http://other.example/", "spec": "wsn-1.3", "topic": "a"}
    told = "url=http://other.example/ topic=a spec=wsn-1.3"
    made = await change("POST", f"{api}/links", f"{told}|ID {told}", link)
    await change("DELETE", f"{api}/links/{{id}}", made["id"], at=made["id"])
    relay = {"location": "http://listener.example/in", "token": f"{SECRET}0123456789abcdef"}
    told = "location=http://listener.example/in token=***"
    made = await change("POST", f"{api}/relays", f"{told}|ID {told}", relay)
    await change("DELETE", f"{api}/relays/{{id}}", made["id"], at=made["id"])
    await change("DELETE", f"{api}/sequences/{{id}}", "x", at="x", result=f"{gone}sequence.")

    letters = {"topic": "a", "since": "2026-11-21T12:00:00Z"}
    told = "topic=a since=2026-11-21T12:00:00Z"
    for did in ("redrive", "purge"):
        await change("POST", f"{api}/deadletters/{did}", f"{told}|(0) {told}", letters)
    many = {"numbers": list(range(30))}
    told = f"numbers={','.join(map(str, range(20)))},... 30"
    for did in ("retry", "discard"):
        await change("POST", f"{api}/spool/{did}", f"{told}|(0) {told}", many)
    for did in ("approve", "forbid", "reset"):
        path = f"{api}/destinations/{{destination}}/{did}"
        await change("POST", path, "consumer.example", at="consumer.example")
    login = f"eve:{SECRET}@consumer.example"
    await change("POST", path, "consumer.example", at=login, result=f"refused: 400 {LOGIN}")

    user = {"name": "ann@example.org", "password": SECRET, "roles": ["shift", "crew"]}
    told = "name=ann@example.org roles=shift,crew password=***"
    await change("POST", f"{api}/users", f"{told}|ann@example.org {told}", user)
    made = await change(
        "POST",
        f"{api}/keys",
        "user=ann@example.org|ID user=ann@example.org",
        {"user": "ann@example.org"},
    )
    old = made["id"]
    again = await change(
        "POST",
        f"{api}/keys/{{id}}/rotate",
        f"{old} hours=1|{old} -> ID hours=1",
        {"hours": 1},
        at=old,
    )
    await change("DELETE", f"{api}/keys/{{id}}", again["id"], at=again["id"])
    rule = {"who": ["user:ann@example.org"], "may": ["publish"], "topics": ["a", "b//."]}
    told = "topics=a,b//. who=user:ann@example.org may=publish"
    made = await change("POST", f"{api}/rights", f"{told}|ID {told}", rule)
    await change("DELETE", f"{api}/rights/{{id}}", made["id"], at=made["id"])
    await change("DELETE", f"{api}/users/{{name}}", "ann@example.org", at="ann@example.org")
    return all_


async def test_each_change_has_a_line(tmp_path: Path) -> None:
    """Of the administration two: what is asked for, before it is done, and what became of it; of
    others one, where they were carried out."""
    file = tmp_path / "identities.toml"
    create_identities(file)
    add_user(file, "mole", None, [])
    key = add_key(file, "mole")
    file.write_text(file.read_text() + RULE)
    async with running(tmp_path / "data", identities=file) as run:
        expected = await change_in_public(run, key)
        routes = await changing_routes(run, key)
        operated = {one for one in routes if one[1].startswith("/api/")}
        changes = await change_administered(run, key)
    assert {one.route for one in changes} == operated - QUESTIONS, "each is looked at"
    assert routes - operated == expected.keys() | ELSEWHERE.keys(), "each is looked at"
    log = tmp_path / "data" / "audit.jsonl"
    for change in changes:
        did = " ".join(change.route)
        said = [
            (one["who"], one["what"], one["result"])
            for one in read_records(log)
            if one.get("request") == change.request and one["did"] == did
        ]
        mole = "user:mole"
        assert said == [
            (mole, change.asked, "asked for"), (mole, change.ended, change.result)
        ], change  # fmt: skip
    done = {(one["did"], one["what"]) for one in read_records(log) if one["who"] == "user:mole"}
    for did, what in expected.values():
        assert any(one[0] == did and what in ("*", one[1]) for one in done), (did, what, done)
    assert SECRET not in log.read_text() and "confidential" not in log.read_text()
    assert verify(log)


async def test_each_field_of_a_change_is_told_or_withheld(tmp_path: Path) -> None:
    """Whoever adds one decides."""
    async with running(tmp_path) as run:
        described = json.loads((await run.request("GET", "/openapi.json")).body)
    schemas, fields = described["components"]["schemas"], set()
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            if method in ("get", "head", "options") or not path.startswith("/api/"):
                continue
            fields |= {one["name"] for one in route.get("parameters", ()) if one["in"] == "query"}
            for content in route.get("requestBody", {}).get("content", {}).values():
                body = schemas[content["schema"]["$ref"].rpartition("/")[2]]["properties"]
                fields |= body.keys()
    fields |= schemas["Wanting"]["properties"].keys()  # What is nested.
    assert fields == (fields & {*TOLD, *SECRETS, NESTED, *WITHHELD}), "none is forgotten"
    assert not WITHHELD & {*TOLD, *SECRETS} and fields >= WITHHELD


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
