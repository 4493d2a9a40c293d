"""Relays: what goes through unchanged, and what does not go through."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Scope

from filters import Refused
from gateway.channels.relay import Relays
from gateway.channels.relay_tokens import RelayTokens
from gateway.egress import AddressPolicy, Answer, Request, Transport
from gateway.http import HttpLimits
from gateway.settings.settings import SettingsError, read_settings
from tests.rigs.consumers import Consumers, status
from tests.rigs.gateways import Running, running

TOKEN = "desk-5-0123456789"
ENVELOPE = (
    b"<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'><e:Body/></e:Envelope>\n"
)
ANSWER = b"<a>it was taken</a>"


@contextlib.asynccontextmanager
async def relaying(data: Path, inner: str, **settings: Any) -> AsyncIterator[Running]:
    row = {"token": TOKEN, "location": inner}
    async with running(data, relays=(row,), **settings) as run:
        yield run


async def post(run: Running, token: str = TOKEN, body: bytes = ENVELOPE, **headers: str) -> Any:
    return await run.request("POST", f"/relay/{token}", body, content_type="text/xml", **headers)


async def test_body_action_and_answer_pass_unchanged(tmp_path: Path) -> None:
    async with Consumers() as consumers:
        inner = consumers.at("/listener?a=%20b")
        inner.behaviour = status(500, ANSWER, Content_Type="text/xml")
        async with relaying(tmp_path, inner.url) as run:
            answer = await post(run, SOAPAction='"urn:desk#handleEvent"')
            metrics = await run.admin("GET", "/metrics")
    (came,) = inner.received
    assert came.body == ENVELOPE
    assert came.headers["soapaction"] == '"urn:desk#handleEvent"'
    assert came.headers["content-type"] == "text/xml"
    assert (answer.status, answer.body) == (500, ANSWER)
    assert answer.headers["content-type"] == "text/xml"
    assert b'dragoman_relayed_total{outcome="relayed"} 1.0' in metrics.body


OTHERS = ("", "x", TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "%C3%A4" * 20, TOKEN + "/more")


async def test_other_tokens_lead_nowhere(tmp_path: Path) -> None:
    async with Consumers() as consumers:
        inner = consumers.at("/listener")
        async with relaying(tmp_path, inner.url) as run:
            answers = [await post(run, token) for token in OTHERS]
    assert {answer.status for answer in answers} == {404}
    assert not inner.received


async def test_redirects_are_not_followed(tmp_path: Path) -> None:
    async with Consumers() as consumers:
        inner, other = consumers.at("/listener"), consumers.at("/other")
        inner.behaviour = status(307, ANSWER, Location=other.url)
        async with relaying(tmp_path, inner.url) as run:
            answer = await post(run)
    assert answer.status == 502
    assert "location" not in answer.headers
    assert not other.received


async def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    async with Consumers() as consumers:
        inner = consumers.at("/listener")
        async with relaying(tmp_path, inner.url) as run:
            answer = await post(run, body=b"x" * (HttpLimits().envelope + 1))
            inner.behaviour = status(200, b"y" * (64 * 1024 + 1))
            long = await post(run)
    assert (answer.status, long.status) == (413, 502)
    assert len(inner.received) == 1


async def test_only_posts_are_relayed(tmp_path: Path) -> None:
    async with Consumers() as consumers:
        inner = consumers.at("/listener")
        async with relaying(tmp_path, inner.url) as run:
            answer = await run.request("GET", f"/relay/{TOKEN}")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert not inner.received


async def test_a_circle_of_relays_ends(tmp_path: Path) -> None:
    async with Consumers() as consumers:
        inner = consumers.at("/listener")
        async with relaying(tmp_path, inner.url) as run:
            await post(run, Dragoman_Hops="3")
            answer = await post(run, Dragoman_Hops="8")
    assert answer.status == 508
    (came,) = inner.received
    assert came.headers["dragoman-hops"] == "4"


async def test_nobody_there(tmp_path: Path) -> None:
    async with Consumers() as consumers:
        url = consumers.at("/listener").url
    async with relaying(tmp_path, url) as run:
        answer = await post(run)
    assert answer.status == 502


async def test_the_log_does_not_open_what_a_relay_leads_to(tmp_path: Path) -> None:
    key = "0c7d1f6e-2b3a-4c5d-8e9f-001122334455"
    async with Consumers() as consumers:
        url = consumers.at(f"/mailboxes/{key}").url
    async with relaying(tmp_path, url) as run:
        assert (await post(run)).status == 502
        [failed] = [row for row in run.logs if row["event"] == "relay.failed"]
    assert key not in failed["location"]


def leading(location: str, policy: AddressPolicy | None = None) -> RelayTokens:
    """One token, and where it leads to."""
    return RelayTokens([(TOKEN, location)], policy or AddressPolicy())


class _Hanging(Transport):
    async def send(self, request: Request) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self) -> None:
        pass


async def allowed(_: Scope) -> None:
    """Everybody may publish."""


async def test_deadline_and_number_under_way() -> None:
    relays = Relays(
        leading("http://inner.example.org/"), _Hanging(), limits=HttpLimits(), authorise_sender=allowed,
        seconds=0.3, at_a_time=2,
    )  # fmt: skip

    async def ask() -> int:
        said: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"<a/>"}

        async def send(message: Any) -> None:
            said.append(message)

        scope = {"type": "http", "path": f"/relay/{TOKEN}", "method": "POST", "headers": []}
        await relays(scope, receive, send)
        return int(said[0]["status"])

    async with asyncio.timeout(20):
        assert sorted(await asyncio.gather(ask(), ask(), ask())) == [503, 504, 504]
        assert await ask() == 504  # The places are free again.
    assert relays.outcomes == {"busy": 1, "failed": 3}


async def test_who_sends_slowly_keeps_nobody_out() -> None:
    relays = Relays(
        leading("http://listener.example/"), _Hanging(), limits=HttpLimits(), authorise_sender=allowed,
        seconds=0.1, at_a_time=1,
    )  # fmt: skip
    never, waits = asyncio.Event(), asyncio.Event()
    scope = {"type": "http", "path": f"/relay/{TOKEN}", "method": "POST", "headers": []}
    said: list[Any] = []

    async def nothing() -> Any:
        waits.set()
        await never.wait()

    async def all_of_it() -> Any:
        return {"type": "http.request", "body": b"<a/>"}

    async def send(message: Any) -> None:
        said.append(message)

    async with asyncio.timeout(20):
        slow = asyncio.create_task(relays(scope, nothing, send))
        await waits.wait()
        await relays(scope, all_of_it, send)
        slow.cancel()
    assert said[0]["status"] == 504


@pytest.mark.parametrize(
    "location",
    ["http://10.0.0.7/listener", "http://127.0.0.1:9/", "soap.tcp://example.org/", "mailto:a@b.c",
     "http://a b/"],
)  # fmt: skip
def test_locations_obey_the_policy(location: str) -> None:
    with pytest.raises(Refused, match="relays: nothing may be sent to"):
        leading(location)
    allowed = AddressPolicy(allow=("10.0.0.0/8",))
    leading("http://10.0.0.7/", allowed)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([{"token": "short", "location": "http://a/"}], "16 to 128"),
        ([{"token": "with a blank in it", "location": "http://a/"}], "16 to 128"),
        ([{"token": TOKEN, "location": "http://a/"}] * 2, "two have one token"),
    ],
)
def test_tokens_are_checked(rows: list[dict[str, str]], text: str) -> None:
    with pytest.raises(SettingsError, match=text) as refused:
        read_settings(relays=rows)
    assert "with a blank" not in str(refused.value)


async def make(run: Running, **asked: str) -> Any:
    answer = await run.api("POST", "/relays", json.dumps(asked).encode())
    assert answer.status == 201, answer.body
    return json.loads(answer.body)


async def test_operators_make_and_remove_relays(tmp_path: Path) -> None:
    async with Consumers() as consumers:
        inner = consumers.at("/listener")
        inner.behaviour = status(200, ANSWER, Content_Type="text/xml")
        async with running(tmp_path) as run:
            made = await make(run, location=inner.url)
            given = await make(run, location=inner.url, token=TOKEN)
            assert given["token"] == TOKEN and len(made["token"]) == 32
            assert made["address"] == f"{run.url}/relay/{made['token']}"
            assert [(await post(run, one["token"])).status for one in (made, given)] == [200, 200]
            removed = await run.api("DELETE", f"/relays/{given['id']}")
            assert (removed.status, (await post(run)).status) == (204, 404)
            assert (await run.api("DELETE", f"/relays/{given['id']}")).status == 404
        async with running(tmp_path) as run:  # They outlive the process.
            assert (await post(run, made["token"])).status == 200
            assert (await post(run)).status == 404
            listed = (await run.api("GET", "/relays")).body
            (shown,) = json.loads(listed)["relays"]
            assert shown["id"] == made["id"] and shown["made_by"] == "operator"
            assert made["token"].encode() not in listed
            kept = (tmp_path / "store.db").read_bytes() + (tmp_path / "store.db-wal").read_bytes()
            assert made["id"].encode() in kept and made["token"].encode() not in kept
    assert len(inner.received) == 3


async def test_relays_of_operators_obey_the_policy_and_those_of_settings_stay(
    tmp_path: Path,
) -> None:
    refused = (
        ({"location": "http://10.0.0.7/"}, 400, b"egress_allow"),
        ({"location": "ftp://a.example/"}, 400, b"ftp"),
        ({"location": "http://a.example/", "token": "short"}, 400, b"16 to 128"),
        ({"location": "http://a.example/", "token": TOKEN}, 403, b"with this token"),
    )
    async with relaying(tmp_path, "http://b.example/") as run:
        for asked, code, said in refused:
            answer = await run.api("POST", "/relays", json.dumps(asked).encode())
            assert (answer.status, said in answer.body) == (code, True), (asked, answer.body)
        (ours,) = json.loads((await run.api("GET", "/relays")).body)["relays"]
        assert ours["made_by"] == "settings"
        assert (await run.api("DELETE", f"/relays/{ours['id']}")).status == 403
