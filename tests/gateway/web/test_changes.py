"""What the audit log says of changes, and the ids of requests."""

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from gateway.http import HttpSettings
from gateway.identities.file_editing import create_identities
from gateway.observing.logs import set_up_logs
from gateway.observing.request_ids import current_request, request_under_way
from gateway.security.audit import LONGEST_WHAT, AuditLog
from gateway.security.audit_chain import read_records, verify
from gateway.security.identify import OPERATOR
from gateway.security.networks import networks
from gateway.web.changes import UNANSWERED, Change, ChangeMiddleware, told_fields, told_value
from tests.rigs.cases import for_each
from tests.rigs.gateways import http_request, running
from tests.rigs.processes import gateway_process
from tests.rigs.waiting import until

JSON = {"content_type": "application/json"}


@pytest.mark.slow
async def test_a_change_is_on_the_disk_before_it_is_made(tmp_path: Path) -> None:
    """A gateway that is killed as soon as it has answered leaves a line of what was asked for."""
    file, data = tmp_path / "identities.toml", tmp_path / "data"
    key = create_identities(file)
    async with gateway_process(data, {"DRAGOMAN_IDENTITIES": str(file)}) as gateway:
        body = b'{"name": "tides"}'
        answer = await gateway.request("POST", "/api/v1/channels", body, x_api_key=key, **JSON)
        await gateway.kill()
        assert answer.status == 201
        await gateway.start()
        kept = await gateway.request("GET", "/api/v1/channels/tides", x_api_key=key)
        assert kept.status == 200
    did = [one for one in read_records(data / "audit.jsonl") if "channels" in one["did"]]
    assert (did[0]["what"], did[0]["result"]) == ("name=tides", "asked for")
    assert verify(data / "audit.jsonl")


async def test_who_hangs_up_has_a_line_of_what_became_of_it(tmp_path: Path) -> None:
    file = tmp_path / "identities.toml"
    key = create_identities(file)
    log = tmp_path / "data" / "audit.jsonl"
    async with running(tmp_path / "data", identities=file) as run:
        body = b'{"name": "tides"}'
        headers = {"X-Api-Key": key, "Content-Type": "application/json"}
        _, writer = await asyncio.open_connection("127.0.0.1", run.port)
        writer.write(http_request(run.port, "POST", "/api/v1/channels", body, headers))
        await writer.drain()
        writer.transport.abort()

        def ended() -> bool:
            did = [one for one in read_records(log) if one["did"] == "POST /api/v1/channels"]
            return (
                bool(did) and [one["result"] for one in did[:1]] == ["asked for"] and len(did) > 1
            )

        await until(ended)


async def test_a_button_has_the_lines_of_what_it_asks_for(tmp_path: Path) -> None:
    """And none of its own; pages that ask others than the administration have. Of one request all
    have one id."""
    file = tmp_path / "identities.toml"
    key = create_identities(file)
    form = {"content_type": "application/x-www-form-urlencoded", "x_api_key": key}
    async with running(tmp_path / "data", identities=file) as run:
        added = await run.request("POST", "/console/add/channels", b"name=tides", **form)
        broker = b"url=http://mole:5ecret@broker.example/&action=hold&spec=x&reference=5ecret"
        held = await run.request("POST", "/console/brokers", broker, **form)
    records = list(read_records(tmp_path / "data" / "audit.jsonl"))

    def of(request: str) -> list[tuple[str, str, str]]:
        found = [one for one in records if one.get("request") == request]
        return [(one["did"], one["what"], one["result"]) for one in found]

    did = "POST /api/v1/channels"
    assert of(added.headers["x-request-id"]) == [
        (did, "name=tides", "asked for"), (did, "tides name=tides", "done")
    ]  # fmt: skip
    did, what = "POST /console/brokers", "url=http://broker.example/ action=hold spec=x"
    assert of(held.headers["x-request-id"])[0] == (did, what, "asked for")
    assert len(of(held.headers["x-request-id"])) == 2 and "5ecret" not in str(records)


Ending = Callable[[Send], Awaitable[None]]


def answering(status: int, body: bytes = b"", cut: int | None = None) -> Ending:
    async def answer(send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        parts = [body] if cut is None else [body[:cut], body[cut:]]
        for part in parts:
            more = part is not parts[-1]
            await send({"type": "http.response.body", "body": part, "more_body": more})

    return answer


def raising(error: BaseException) -> Ending:
    async def fail(_: Send) -> None:
        raise error

    return fail


PROBLEM = b'{"detail": "There is no such source: http://a:5ecret@b/."}'
ENDINGS: dict[str, tuple[Ending, str, str]] = {
    "done": (answering(204), "x a=b", "done"),
    "made": (answering(201, b'{"id": "1f"}'), "x -> 1f a=b", "done"),
    "made in two parts": (answering(201, b'{"id": "1f"}', 5), "x -> 1f a=b", "done"),
    "chosen": (answering(200, b'{"number": 3}'), "x (3) a=b", "done"),
    "sent on": (answering(303), "x a=b", "done"),
    "a list": (answering(200, b"[1]"), "x a=b", "done"),
    "no JSON": (answering(200, b'{"id": '), "x a=b", "done"),
    "long": (answering(200, b'"' + b"x" * 2**20 + b'"'), "x a=b", "done"),
    "refused": (
        answering(404, PROBLEM), "x a=b", "refused: 404 There is no such source: http://b/."
    ),
    "refused by a page": (answering(403, b"<p>"), "x a=b", "refused: 403"),
    "failed": (answering(503, b'{"detail": "late"}'), "x a=b", "failed: 503 late"),
    "raised": (raising(ValueError()), "x a=b", UNANSWERED),
    "cancelled": (raising(asyncio.CancelledError()), "x a=b", UNANSWERED),
}  # fmt: skip


@for_each(("ending", "what", "result"), list(ENDINGS.values()))
async def test_however_a_request_ends(ending: Ending, what: str, result: str) -> None:
    noted = await noted_of(ending)
    assert noted == [("x a=b", "asked for"), (what, result)]


async def noted_of(ending: Ending) -> list[tuple[str, str]]:
    log = AuditLog(Path("/nowhere"))

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        scope["dragoman.changes"].append(Change(log, OPERATOR, "POST /x", "x", "a=b"))
        await ending(send)

    async def nothing(*_: Any) -> Any:
        return {}

    scope: Scope = {"type": "http", "path": "/api/v1/x", "headers": [], "client": None}
    with contextlib.suppress(ValueError, asyncio.CancelledError):
        await ChangeMiddleware(app, HttpSettings())(scope, nothing, nothing)
    assert len({one["request"] for one in log._waiting}) == 1
    return [(one["what"], one["result"]) for one in log._waiting]


@for_each(
    ("client", "said", "taken"),
    [
        ("10.0.0.1", "c41d-7", True),
        ("10.0.0.1", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
        ("192.0.2.1", "c41d-7", False),
        ("10.0.0.1", "x" * 65, False),
        ("10.0.0.1", "a b", False),
        ("10.0.0.1", "", False),
        ("10.0.0.1", '{"a"}', False),
    ],
)
async def test_whose_id_is_taken(client: str, said: str, taken: bool) -> None:
    """That of a configured proxy, where it can be one; else there is a new one."""
    answers = []

    async def app(_: Scope, __: Receive, send: Send) -> None:
        assert current_request()
        await answering(200)(send)

    async def send(message: Any) -> None:
        answers.append(message)

    async def receive() -> Any:
        return {}

    settings = HttpSettings(trusted_proxies=networks(["10.0.0.0/8"]))
    headers = [(b"x-request-id", said.encode())]
    scope = {"type": "http", "path": "/api/v1/x", "headers": headers, "client": (client, 1)}
    await ChangeMiddleware(app, settings)(scope, receive, send)
    [(name, id_)] = answers[0]["headers"]
    assert name == b"x-request-id" and (id_.decode() == said) is taken
    assert taken or re.fullmatch(r"[0-9a-f]{16}", id_.decode())
    assert not current_request()


async def test_a_task_that_outlives_its_request_is_of_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What a subscription does for weeks is not of the request that made it."""
    before = structlog.get_config()
    set_up_logs("info", "json")
    log = structlog.get_logger("dragoman.test")
    over = asyncio.Event()

    async def long_task() -> None:
        log.info("first")
        await over.wait()
        log.info("second")

    try:
        with request_under_way("c41d"):
            task = asyncio.create_task(long_task())
            await asyncio.sleep(0)
        over.set()
        await task
    finally:
        structlog.configure(**before)
    lines = map(json.loads, capsys.readouterr().err.splitlines())
    assert [(one["event"], one.get("request")) for one in lines] == [
        ("first", "c41d"), ("second", None)
    ]  # fmt: skip


@for_each(
    ("text", "told"),
    [
        ("http://camera.example:8080/a/b", "http://camera.example:8080/a/b"),
        ("http://eve:5ecret@camera.example/", "http://camera.example/"),
        ("http://5ecret@camera.example/", "http://camera.example/"),
        ("https://h/in?sig=5ecret", "https://h/in?***"),
        ("https://h/in#5ecret", "https://h/in?***"),
        ("http://eve:5e/cret@h/", "***"),
        ("http://eve:5e?cret@h/", "***"),
        ("http://eve:5e#cret@h/", "***"),
        ("http://h/http://eve:5ecret@h/", "***"),
        ("eve:5ecret@camera.example", "camera.example"),
        ("//eve:5ecret@camera.example/", "camera.example/"),
        ("http://eve:5/ecret@h/", "***"),
        ("a/eve:5ecret@h", "***"),
        ("http://[::1]:80/a", "http://[::1]:80/a"),
        ("http://*.example:80*", "http://*.example:80*"),
        ("http://h/relay/5ecret5ecret5ecret5ecret", None),
    ],
)
def test_no_address_has_a_secret(text: str, told: str | None) -> None:
    said = told_value(text, address=True)
    assert "5ecret" not in said and "cret@" not in said
    assert told is None or said == told


NAMES = st.text(max_size=8) | st.sampled_from(["url", "topic", "numbers", "password", "config"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_any_fields_are_told_in_a_line(fields: dict[str, Any]) -> None:
    """Before it is known whether they are such as their route takes."""
    told = list(told_fields(fields))
    assert all(len(one) < LONGEST_WHAT for one in told)
    assert all(one.isprintable() or not one.isascii() for one in told)


def test_whoever_gets_a_right_is_told() -> None:
    """However long the names before it are."""
    for who in ("everybody", "anonymous"):
        fields = {"who": [f"role:{'x' * 90}", *("role:y" for _ in range(30)), who], "may": ["read"]}
        [told, may] = told_fields(fields)
        assert (told, may) == (f"who={who},... 32", "may=read")
    assert list(told_fields({"topics": ["w:a"], "namespaces": {"w": "urn:w"}})) == [
        "topics=w:a", 'namespaces="w=urn:w"'
    ]  # fmt: skip
