"""JSON that has no reading, or two, or not the one that is wanted: 4xx with a plain sentence."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fastapi import HTTPException
from pydantic import BaseModel, Field, ValidationError

from gateway.settings.validation_texts import FALLBACK, WANTED
from gateway.web.validation import LONGEST_NAME, check_texts, explain
from gateway.web.views.attempts import AttemptView
from gateway.web.views.message_contents import RecipientView
from gateway.web.views.overview import OverviewView
from gateway.web.views.subscribe_requests import SubscribeRequestView
from gateway.web.views.topology import TopologyView
from gateway.web.views.waiting_messages import WaitingMessageView
from tests.rigs.envelopes import Answer, Speaker
from tests.rigs.gateways import Running, running

SPEAKER = Speaker()
JSON = {"content_type": "application/json"}
ODD = {
    "NaN": b"NaN",
    "Infinity": b"Infinity",
    "minus Infinity": b"-Infinity",
    "a number too large": b"1e999",
    "many digits": b"9" * 5000,
    "half a character": b'"\\ud800"',
    "NUL": b'"a\\u0000b"',
    "a bracket too many": b"[" * 100_000,
    "not UTF-8": b'"\xff"',
    "an object": b'{"__proto__": {"polluted": true}}',
    "a list": b"[[], {}, null]",
    "text": b'"x"',
    "false": b"false",
    "a fraction": b"1.5",
    "below zero": b"-1",
}
"""In place of any value."""
NEVER = frozenset({"NaN", "Infinity", "minus Infinity", "a number too large", "half a character"})
"""No field may have these."""
SEGMENTS = ("NaN", "Infinity", "%00", "%ED%A0%80", "__proto__", "%22", "..%2f..", "-1", "9" * 400)


async def schema_of(run: Running) -> dict[str, Any]:
    return json.loads((await run.request("GET", "/openapi.json")).body)  # type: ignore[no-any-return]


def fields(schema: dict[str, Any], operation: dict[str, Any]) -> list[str] | None:
    """The fields of the JSON that *operation* takes; None where it takes none."""
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" not in content:
        return None
    name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
    return list(schema["components"]["schemas"][name]["properties"])


def bodies(names: list[str]) -> dict[str, bytes]:
    """Wrong requests by what is wrong with them."""
    found = dict(ODD)
    for name in names:
        at_once = b'"wait": 0, ' if "wait" in names and name != "wait" else b""
        for what, octets in ODD.items():
            found[f"{name}: {what}"] = b'{%b"%b": %b}' % (at_once, name.encode(), octets)
        found[f"{name} twice"] = b'{"%b": null, "%b": null}' % (name.encode(), name.encode())
    for name in ("__proto__", "constructor", "x" * 300, "\\ud800", "\\u0000", ""):
        found[f"the field {name!r}"] = b'{"%b": 1}' % name.encode()
    found["no JSON"] = b"{"
    found["nothing"] = b""
    return found


def check(answer: Answer, what: str) -> None:
    assert 400 <= answer.status < 500, (what, answer.status, answer.body)
    said = json.loads(answer.body)["detail"]
    assert isinstance(said, str), (what, said)
    assert len(said) < 600, (what, said)
    assert FALLBACK not in said, (what, said)
    for phrase in ("Input should", "valid", "error parsing", "Traceback"):
        assert phrase not in said, (what, said)


async def test_every_route(tmp_path: Path) -> None:
    """Nothing of this is a 500, and nothing of this does anything."""
    async with running(tmp_path) as run:
        schema = await schema_of(run)
        box = json.loads((await run.request("POST", "/mailboxes", b"{}", **JSON)).body)
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe("http://consumer.example.org/"))
        [view] = json.loads((await run.api("GET", "/subscriptions")).body)["subscriptions"]
        channel = json.dumps({"name": "mine"}).encode()
        assert (await run.request("POST", "/api/v1/channels", channel, **JSON)).status == 201
        tried = 0
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                names = fields(schema, operation)
                if names is None:
                    continue
                target = path.replace("{key}", box["key"]).replace("{id}", view["id"])
                target = target.replace("{name}", "mine")
                assert "{" not in target
                for what, octets in bodies(names).items():
                    answer = await run.request(method.upper(), target, octets, **JSON)
                    at = f"{method} {path}, {what}"
                    assert answer.status < 500, at
                    refused = what in NEVER or what.rpartition(": ")[2] in NEVER
                    if refused or answer.status >= 400:
                        check(answer, at)
                    tried += 1
        assert tried > 400
        assert not [row for row in run.logs if row["log_level"] == "error"]


async def test_every_parameter(tmp_path: Path) -> None:
    """In paths and queries."""
    async with running(tmp_path) as run:
        run.gateway.dispatchers.scheduler.taps.most = 1000  # Those that left are noticed later.
        schema = await schema_of(run)
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                for parameter in operation.get("parameters", ()):
                    name = parameter["name"]
                    for segment in SEGMENTS:
                        target = path.replace("{" + name + "}", segment)
                        if parameter["in"] == "query":
                            target = f"{path}?{name}={segment}".replace("{key}", "x")
                        answer = await run.request(method.upper(), target, b"{}", **JSON)
                        assert answer.status < 500, (method, target)
                        if answer.status >= 400 and answer.type.endswith("json"):
                            check_detail(answer)


def check_detail(answer: Answer) -> None:
    body = json.loads(answer.body)
    # The Subscriptions API has its own problems, which name their type.
    said = body.get("detail", body.get("title"))
    assert isinstance(said, str) and "Input should" not in said, said


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"method": "GET", "path": "/nothing"}, 404),
        ({"method": "GET", "path": "/api/v1/nothing"}, 404),
        ({"method": "GET", "path": "/api/v1/subscriptions/x"}, 404),
        ({"method": "GET", "path": "/api/v1/tap?xpath=%5B"}, 400),
        ({"method": "GET", "path": "/mailboxes/nothing"}, 404),
        ({"method": "PUT", "path": "/healthz"}, 405),
        ({"method": "DELETE", "path": "/openapi.json"}, 405),
        ({"method": "DELETE", "path": "/api/v1/overview"}, 405),
        ({"method": "POST", "path": "/api/v1/sources", "body": b" " * (2**21), **JSON}, 413),
        ({"method": "GET", "path": f"/api/v1/topics?after={'0' * 9000}"}, 414),
        ({"method": "GET", "path": f"/xregistry?{'0' * 9000}"}, 414),
        ({"method": "POST", "path": "/mailboxes", "body": b"<a/>", "content_type": "a/b"}, 415),
        ({"method": "POST", "path": "/api/v1/sources", "body": b"{}", "content_type": "x"}, 415),
        ({"method": "GET", "path": "/api/v1/subscriptions?limit=0"}, 422),
        ({"method": "POST", "path": "/api/v1/sources", "body": b"{}", **JSON}, 422),
        ({"method": "GET", "path": "/mailboxes/nothing", "x": "0" * 70_000}, 431),
    ],
)
async def test_a_refusal_is_a_problem(
    tmp_path: Path, request_: dict[str, Any], status: int
) -> None:
    """RFC 9457, wherever there is JSON, whoever refuses: the parser of HTTP, a route, a handler."""
    async with running(tmp_path) as run:
        answer = await run.request(**request_)
        assert answer.status == status
        assert answer.headers["content-type"] == "application/problem+json"
        said = json.loads(answer.body)
        assert (said["status"], said["type"]) == (status, "about:blank")
        assert said["title"] and said["detail"]


@pytest.mark.parametrize("media_type", ["text/plain", "text/xml", "application/xml", "x", None])
async def test_another_media_type(tmp_path: Path, media_type: str | None) -> None:
    headers = {} if media_type is None else {"content_type": media_type}
    async with running(tmp_path) as run:
        for path in ("/mailboxes", "/api/v1/deadletters/redrive"):
            answer = await run.request("POST", path, b'{"numbers": [1]}', **headers)
            assert answer.status == 415
            assert json.loads(answer.body)["detail"] == "Send application/json."
            assert answer.headers["accept"] == "application/json"


async def test_json_for_soap(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        answer = await run.request("POST", "/soap", b"{}", **JSON)
        assert answer.status == 415
        for taken in ("application/soap+xml", "text/xml", "multipart/related", "application/dime"):
            assert taken in answer.body.decode()
            assert taken in answer.headers["accept-post"]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/mailboxes", '{"limit": 5}', "limit: there is no such field."),
        (
            "/mailboxes",
            '{"topic": "a", "expires": []}',
            "expires: must be a number, or must be text.",
        ),
        ("/mailboxes", '{"topic": 7}', "topic: must be text."),
        ("/mailboxes", '{"topic": "a", "topic": "b"}', 'The body has "topic" twice in one object.'),
        ("/mailboxes", "[]", "the body: must be an object."),
        ("/mailboxes", '{"a": NaN}', "The body is not JSON: NaN is not a number."),
        (
            "/mailboxes",
            '{"a": ]}',
            "The body is not JSON: Expecting value (line 1, column 7).",
        ),
        ("/mailboxes", "", "the body: is missing."),
        ("/api/v1/deadletters/purge", '{"number": [5]}', "number: there is no such field."),
        (
            "/mailboxes/{key}/receive",
            '{"max": 0, "wait": "x"}',
            "max: must be 1 or more; wait: must be a number.",
        ),
        (
            "/mailboxes/{key}/acknowledge",
            '{"ids": [1, -1]}',
            "lease: is missing; ids[1]: must be 0 or more.",
        ),
    ],
)
async def test_sentences(tmp_path: Path, path: str, body: str, said: str) -> None:
    async with running(tmp_path) as run:
        box = json.loads((await run.request("POST", "/mailboxes", b"{}", **JSON)).body)
        target = path.replace("{key}", box["key"])
        answer = await run.request("POST", target, body.encode(), **JSON)
        assert json.loads(answer.body)["detail"] == said
        assert answer.status in (400, 422)


async def test_sentences_about_queries(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for query, said in (
            ("limit=x", "limit: must be a whole number."),
            ("limit=0", "limit: must be 1 or more."),
            ("limit=9999", "limit: must be 1000 or less."),
        ):
            answer = await run.api("GET", f"/subscriptions?{query}")
            assert (answer.status, json.loads(answer.body)["detail"]) == (422, said)


def test_what_is_sent_is_not_repeated() -> None:
    """But for the name of a field, cut short and escaped."""

    class Model(BaseModel, extra="forbid"):
        a: int = Field(ge=1)

    body = {"a": "secret", "\x1b[31m" + "x" * 500: "secret"}
    with pytest.raises(ValidationError) as caught:
        Model.model_validate(body)
    errors = [{**error, "loc": ("body", *error["loc"])} for error in caught.value.errors()]
    said = explain(errors, body)
    assert said.startswith("a: must be a whole number; \\x1b[31m")
    assert "secret" not in said
    assert "x" * LONGEST_NAME not in said


def test_many_errors_are_few_words() -> None:
    errors = [{"loc": ("body", name), "type": "missing"} for name in "abcdefgh"]
    assert explain(errors, {}).endswith("e: is missing; and 3 more.")


def test_each_sentence_has_what_it_names() -> None:
    context = dict.fromkeys(("gt", "ge", "lt", "le", "min_length", "max_length"), 1)
    context |= {"pattern": 1, "expected": 1}
    for form in WANTED.values():
        form.format(**context)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a\0b", "U+0000"),
        ("\u00e9\0", "U+0000"),
        ({"\0\u00e9": 1}, "U+0000"),
        ([["\u00e9\ud800"]], "half a character"),
    ],
)
def test_characters_that_no_text_has(value: Any, said: str) -> None:
    with pytest.raises(HTTPException) as refused:
        check_texts(value)
    assert (refused.value.status_code, said in refused.value.detail) == (422, True)


def test_other_characters() -> None:
    check_texts({"\u00e9": ["\U0001f600", 1, None, True, 1.5, "\\u0000"]})


@pytest.mark.parametrize(
    "model",
    [
        AttemptView,
        OverviewView,
        RecipientView,
        SubscribeRequestView,
        TopologyView,
        WaitingMessageView,
    ],
)
def test_examples_of_the_description_are_right(model: type[BaseModel]) -> None:
    example = model.model_json_schema()["example"]
    assert model.model_validate(example).model_dump(mode="json") == example


async def test_each_operation_of_the_description_has_a_name_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        schema = json.loads((await run.request("GET", "/openapi.json")).body)
    operations = [one for path in schema["paths"].values() for one in path.values()]
    for field in ("summary", "operationId"):
        names = Counter(one[field] for one in operations if field in one)
        assert [name for name, number in names.items() if number > 1] == []
