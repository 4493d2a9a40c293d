"""The JSON administration, health and metrics."""

import json
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.envelopes import (
    IBM_SIMPLE,
    S11,
    WSE,
    WSNT,
    Answer,
    Speaker,
    message_content,
    topic_expression,
    wse_filter,
)
from tests.gateway.soap import Consumer, Running, running

SPEAKER = Speaker()
SOMEWHERE = "http://consumer.example.org/sink"


def read(answer: Answer, status: int = 200) -> Any:
    assert answer.status == status, answer.body
    assert answer.type == "application/json"
    return json.loads(answer.body)


async def test_subscriptions(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        filter_ = topic_expression("a/b") + message_content("/a")
        old = Speaker(S11)
        await run.subscribe(
            SPEAKER, SPEAKER.wsn_subscribe(SOMEWHERE, filter=filter_, raw=True, expires="nil")
        )
        wse = wse_filter("widget:storms", IBM_SIMPLE)
        await run.subscribe(old, old.wse_subscribe(SOMEWHERE, filter=wse, end_to=SOMEWHERE))
        listed = read(await run.api("GET", "/subscriptions"))
        assert listed["next"] is None
        views = {view["spec"]: view for view in listed["subscriptions"]}
        one, other = views["wsn-1.3"], views["wse-2004-08"]
        assert (one["topics"], one["contents"]) == (["a/b"], ["/a"])
        assert (one["soap"], other["soap"]) == ("1.2", "1.1")
        assert (one["raw"], one["paused"], one["expires"]) == (True, False, None)
        assert (one["owner"], one["consumer"]) == ("anonymous:127.0.0.1", SOMEWHERE)
        assert (other["topics"], other["end_to"]) == (["widget:storms"], SOMEWHERE)
        assert other["expires"] > other["created"]
        shown = read(await run.api("GET", f"/subscriptions/{one['id']}"))
        counts = dict.fromkeys(
            ("matched", "delivered", "waiting", "dead", "expired", "cancelled", "skipped"), 0
        )
        assert shown == one | {"counts": counts}


async def test_paging(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for _ in range(5):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(SOMEWHERE))
        seen, after = [], ""
        while True:
            page = read(await run.api("GET", f"/subscriptions?limit=2&after={after}"))
            assert len(page["subscriptions"]) <= 2
            seen += [view["id"] for view in page["subscriptions"]]
            if page["next"] is None:
                break
            after = page["next"]
        assert len(seen) == 5 and seen == sorted(set(seen))
        for query in ("limit=0", "limit=1001", "limit=x"):
            assert (await run.api("GET", f"/subscriptions?{query}")).status == 422
        assert read(await run.api("GET", "/subscriptions?after=zzz"))["subscriptions"] == []


async def test_counts_and_an_operator_who_ends_one(tmp_path: Path) -> None:
    async with running(tmp_path, adapter="embedded:") as run, Consumer() as consumer:
        url, end = consumer.fresh(), consumer.fresh()
        for soap in (SPEAKER, Speaker(S11)):
            path = await run.subscribe(soap, soap.wse_subscribe(url, end_to=end))
            [view] = read(await run.api("GET", "/subscriptions"))["subscriptions"]
            for _ in range(3):
                await run.publish("<a/>")
                await consumer.next(url)
            await run.quiet()
            counts = read(await run.api("GET", f"/subscriptions/{view['id']}"))["counts"]
            assert (counts["matched"], counts["delivered"], counts["waiting"]) == (3, 3, 0)
            answer = await run.api("DELETE", f"/subscriptions/{view['id']}")
            assert (answer.status, answer.body) == (204, b"")
            told = (await consumer.next(end)).message
            assert told.soap is soap.soap
            assert told.wsa("Action") == f"{WSE}/SubscriptionEnd"
            assert told.wsa("To") == end
            assert (
                told.text(f"{{{WSE}}}SubscriptionEnd/{{{WSE}}}Status") == f"{WSE}/SourceCancelling"
            )
            [identifier] = told.root.iter(f"{{{WSE}}}Identifier")
            assert (identifier.text or "").endswith(path.rpartition("/")[2])
            assert (await run.api("DELETE", f"/subscriptions/{view['id']}")).status == 404
            assert (await run.ask(soap, f'<e:GetStatus xmlns:e="{WSE}"/>', path)).status >= 400
        assert consumer.waiting(end) == 0


async def test_what_is_not_there(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        path = await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(SOMEWHERE))
        key = path.rpartition("/")[2]
        for id_ in ("0" * 12, key, "x", "%00", "..%2F..", "%2e%2e"):
            for method in ("GET", "DELETE"):
                answer = await run.api(method, f"/subscriptions/{id_}")
                assert answer.status == 404, id_
                assert key not in answer.body.decode()
        assert (await run.api("GET", "/nothing")).status == 404
        assert (await run.request("GET", "/nothing")).status == 404
        assert (await run.api("PUT", "/subscriptions", b"{}")).status == 405
        assert len(run.gateway.subscriptions) == 1


async def test_dead_letters(tmp_path: Path) -> None:
    async with running(tmp_path, adapter="embedded:") as run, Consumer() as consumer:
        url = consumer.fresh()
        consumer.answers[url[url.index("/", 8) :]] = 400
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        [view] = read(await run.api("GET", "/subscriptions"))["subscriptions"]
        ids = []
        for number in range(3):
            await run.publish(f"<a{number}/>", path="/soap/topic/dead/letters")
            ids.append((await consumer.next(url)).message.wsa("MessageID"))
        await run.quiet()
        listed = read(await run.api("GET", f"/deadletters?subscription={view['id']}"))
        letters = listed["dead_letters"]
        assert [letter["message_id"] for letter in letters] == ids
        assert {letter["reason"] for letter in letters} == {"rejected"}
        assert {letter["status"] for letter in letters} == {400}
        assert {letter["topic"] for letter in letters} == {"dead/letters"}
        assert {letter["attempts"] for letter in letters} == {1}
        first, second, third = (letter["number"] for letter in letters)
        page = read(await run.api("GET", "/deadletters?limit=2"))
        assert [one["number"] for one in page["dead_letters"]] == [first, second]
        page = read(await run.api("GET", f"/deadletters?limit=2&after={page['next']}"))
        assert [one["number"] for one in page["dead_letters"]] == [third]
        assert read(await run.api("GET", "/deadletters?subscription=none"))["dead_letters"] == []
        counts = read(await run.api("GET", f"/subscriptions/{view['id']}"))["counts"]
        assert (counts["dead"], counts["waiting"], counts["delivered"]) == (3, 0, 0)

        del consumer.answers[url[url.index("/", 8) :]]
        body = json.dumps({"numbers": [second, 10**12]}).encode()
        assert read(await run.api("POST", "/deadletters/redrive", body)) == {"number": 1}
        again = (await consumer.next(url)).message
        assert (again.wsa("MessageID"), again.body[0].tag) == (ids[1], "a1")
        await run.quiet()
        body = json.dumps({"numbers": [first]}).encode()
        assert read(await run.api("POST", "/deadletters/purge", body)) == {"number": 1}
        assert read(await run.api("POST", "/deadletters/redrive", b"{}")) == {"number": 1}
        assert (await consumer.next(url)).message.wsa("MessageID") == ids[2]
        await run.quiet()
        assert read(await run.api("GET", "/deadletters"))["dead_letters"] == []
        assert read(await run.api("POST", "/deadletters/purge", b"{}")) == {"number": 0}
        counts = read(await run.api("GET", f"/subscriptions/{view['id']}"))["counts"]
        assert (counts["matched"], counts["delivered"], counts["dead"]) == (3, 2, 1)


async def test_bodies(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        path = "/deadletters/redrive"
        for body in (b"", b"[]", b"x", b'{"numbers": "x"}', b'{"numbers": [1.5]}', b"\xff"):
            assert (await run.api("POST", path, body)).status in (400, 422), body
        assert (await run.api("POST", path, b'{"a":' * 100_000 + b"1")).status in (400, 422)
        many = json.dumps({"numbers": list(range(10_001))}).encode()
        assert (await run.api("POST", path, many)).status == 422
        for number in (-1, 2**63, 2**200):
            huge = json.dumps({"numbers": [number]}).encode()
            assert (await run.api("POST", path, huge)).status == 422
            assert (await run.api("GET", f"/deadletters?after={number}")).status == 422
        assert (await run.api("GET", "/deadletters?subscription=%00")).status == 422
        large = b" " * (2**20) + b"{}"
        assert (await run.api("POST", path, large)).status == 413
        chunked = (
            f"POST /api/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        ).encode() + b"".join(b"10000\r\n" + b" " * 65536 + b"\r\n" for _ in range(17))
        assert (await run.raw(chunked + b"0\r\n\r\n")).status == 413
        answer = await run.request("POST", f"/api/v1{path}", b"{}", content_type="text/plain")
        assert answer.status == 422
        assert read(await run.api("POST", path, b"{}")) == {"number": 0}


async def test_pages_of_other_sites_change_nothing(tmp_path: Path) -> None:
    """A form that somebody's browser sends cannot be of a type that changes anything."""
    async with running(tmp_path) as run:
        for type_ in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain"):
            answer = await run.request(
                "POST", "/api/v1/deadletters/purge", b"{}", content_type=type_
            )
            assert answer.status == 422
            assert "access-control-allow-origin" not in answer.headers
        answer = await run.request(
            "OPTIONS", "/api/v1/subscriptions/x", origin="http://evil.example",
            access_control_request_method="DELETE",
        )  # fmt: skip
        assert answer.status == 405


async def metrics(run: Running) -> dict[str, float]:
    answer = await run.request("GET", "/metrics")
    assert answer.status == 200 and answer.type.startswith("text/plain; version=")
    return {
        sample.name + "".join(f"[{value}]" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


async def test_metrics(tmp_path: Path) -> None:
    async with running(tmp_path) as run, Consumer() as consumer:
        before = await metrics(run)
        assert before["dragoman_subscriptions"] == before["dragoman_accepted_total"] == 0
        url, refusing = consumer.fresh(), consumer.fresh()
        consumer.answers[refusing[refusing.index("/", 8) :]] = 400
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(refusing))
        await run.publish("<a/>")
        await run.ask(SPEAKER, f'<e:Renew xmlns:e="{WSE}"/>')
        await run.request("GET", "/soap")
        await run.quiet()
        after = await metrics(run)
        expected = {
            "dragoman_subscriptions": 2,
            "dragoman_accepted_total": 1,
            "dragoman_matched_total": 2,
            "dragoman_delivered_total": 1,
            "dragoman_dead_total": 1,
            "dragoman_dead_letters": 1,
            "dragoman_waiting": 0,
            "dragoman_in_flight": 0,
            "dragoman_conservation_error": 0,
            "dragoman_store_writable": 1,
            "dragoman_requests_total[Subscribe]": 2,
            "dragoman_requests_total[Notify]": 1,
            "dragoman_refusals_total[subscription-unknown]": 1,
            "dragoman_refusals_total[http-405]": 1,
        }
        assert {name: after.get(name) for name in expected} == expected


async def test_health(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        assert read(await run.request("GET", "/healthz")) == {"status": "alive"}
        ready = read(await run.request("GET", "/readyz"))
        assert ready == {
            "ready": True,
            "draining": False,
            "store": "writable",
            "adapter": "memory",
            "subscriptions": 0,
        }
        run.gateway.drain()
        assert read(await run.request("GET", "/readyz"), 503)["draining"] is True
        assert (await run.request("GET", "/healthz")).status == 200
        assert (await run.request("GET", "/")).headers["location"] == "/docs"
        schema = read(await run.request("GET", "/openapi.json"))
        assert "/api/v1/subscriptions/{id}" in schema["paths"]


async def test_keys_are_told_to_nobody(tmp_path: Path) -> None:
    """The key of a subscription is what allows to end it: only the subscriber knows it."""
    async with running(tmp_path, adapter="embedded:") as run, Consumer() as consumer:
        url, refusing = consumer.fresh(), consumer.fresh()
        consumer.answers[refusing[refusing.index("/", 8) :]] = 400
        keys = []
        for body in (
            SPEAKER.wse_subscribe(url, end_to=url),
            SPEAKER.wsn_subscribe(refusing),
            SPEAKER.wsn_subscribe("http://consumer.example.org:6553/gone"),
        ):
            keys.append((await run.subscribe(SPEAKER, body)).rpartition("/")[2])
        await run.publish("<a/>")
        await run.quiet()
        said = []
        for path in (
            "/api/v1/subscriptions",
            "/api/v1/deadletters",
            "/metrics",
            "/readyz",
            "/docs",
        ):
            said.append((await run.request("GET", path)).body.decode())
        for view in read(await run.api("GET", "/subscriptions"))["subscriptions"]:
            said.append((await run.api("GET", f"/subscriptions/{view['id']}")).body.decode())
        for key in keys:
            path = f"/subscriptions/{key}"
            await run.ask(SPEAKER, f'<n:PauseSubscription xmlns:n="{WSNT}"/>', path)
            bad = f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>x</n:TerminationTime></n:Renew>'
            await run.ask(SPEAKER, bad, path)
            await run.ask(SPEAKER, f'<n:Unsubscribe xmlns:n="{WSNT}"/>', path)
            said.append((await run.ask(SPEAKER, bad, path)).body.decode())
        said += [repr(log) for log in run.logs]
        for key in keys:
            assert not [text for text in said if key in text]
