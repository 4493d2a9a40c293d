"""The JSON administration, health and metrics."""

import asyncio
import json
import socket
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from prometheus_client.parser import text_string_to_metric_families

from filters.spark.subscriptions import filter_of
from gateway.delivery import BlackList
from tests.rigs.cloudevents import agreeing, event, publish
from tests.rigs.consumers import Consumers, accept, status
from tests.rigs.envelopes import (
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
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

SPEAKER = Speaker()
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SOMEWHERE = "http://consumer.example.org/sink"


def read(answer: Answer, status: int = 200) -> Any:
    assert answer.status == status, answer.body
    problem = status >= 400 and answer.type == "application/problem+json"
    assert problem or answer.type == "application/json"
    return json.loads(answer.body)


async def test_subscriptions(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        filter_ = topic_expression("a/b") + message_content("/a")
        old = Speaker(S11)
        await run.subscribe(
            SPEAKER, SPEAKER.wsn_subscribe(SOMEWHERE, filter=filter_, raw=True, expires="nil")
        )
        wse = wse_filter("widget:storms", IBM_SIMPLE)
        await run.subscribe(
            old, old.wse_subscribe(SOMEWHERE, filter=wse, end_to=SOMEWHERE, expires="3600000")
        )
        listed = read(await run.api("GET", "/subscriptions"))
        assert listed["next"] is None
        views = {view["spec"]: view for view in listed["subscriptions"]}
        one, other = views["wsn-1.3"], views["wse-2004-08"]
        assert (one["topics"], one["contents"]) == (["a/b"], ["/a"])
        assert (one["soap"], other["soap"]) == ("1.2", "1.1")
        assert (one["raw"], one["paused"], one["expires"]) == (True, False, None)
        assert one["profiles"] == []
        assert (one["owner"], one["consumer"]) == ("anonymous:127.0.0.1", SOMEWHERE)
        assert (other["topics"], other["end_to"]) == (["widget:storms"], SOMEWHERE)
        assert other["expires"] > other["created"]
        shown = read(await run.api("GET", f"/subscriptions/{one['id']}"))
        counts = dict.fromkeys(
            ("matched", "delivered", "waiting", "dead", "expired", "cancelled", "skipped"), 0
        )
        assert shown == one
        assert (one["counts"], one["state"]) == (counts, "active")
        for view in listed["subscriptions"]:
            made = run.gateway.subscriptions.by_id(view["id"])
            assert made is not None and filter_of(view["filter"]) == made.subscription.filter


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
    async with running(tmp_path, adapter="embedded:") as run, Consumers() as consumer:
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
            [identifier] = told.root.iter("{*}Identifier")
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
    async with running(tmp_path, adapter="embedded:") as run, Consumers() as consumer:
        url = consumer.fresh()
        consumer.at(url).behaviour = status(400)
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

        consumer.at(url).behaviour = accept
        body = json.dumps({"numbers": [second, 10**12]}).encode()
        rejected = {"number": 1, "reasons": {"rejected": 1}, "next": None}
        assert read(await run.api("POST", "/deadletters/redrive", body)) == rejected
        again = (await consumer.next(url)).message
        assert (again.wsa("MessageID"), again.body[0].tag) == (ids[1], "a1")
        await run.quiet()
        body = json.dumps({"numbers": [first]}).encode()
        assert read(await run.api("POST", "/deadletters/purge", body)) == rejected
        everything = b'{"all": true}'
        assert read(await run.api("POST", "/deadletters/redrive", everything)) == rejected
        assert (await consumer.next(url)).message.wsa("MessageID") == ids[2]
        await run.quiet()
        assert read(await run.api("GET", "/deadletters"))["dead_letters"] == []
        assert read(await run.api("POST", "/deadletters/purge", everything))["number"] == 0
        counts = read(await run.api("GET", f"/subscriptions/{view['id']}"))["counts"]
        assert (counts["matched"], counts["delivered"], counts["dead"]) == (3, 2, 1)


NOT_CHOSEN = [
    b"",
    b"{}",
    b"null",
    b'{"number": [999999]}',
    b'{"ids": [5]}',
    b'{"a": 1, "a": 2}',
    b'{"numbers": []}',
    b'{"numbers": null}',
    b'{"all": false}',
    b'{"all": 1}',
    b'{"all": "true"}',
    b'{"all": true, "extra": 1}',
    b'{"all": true, "numbers": [1]}',
    b'{"all": true, "topic": "storms"}',
    b'{"numbers": [1], "reason": "rejected"}',
    b'{"dry_run": true}',
    b'{"limit": 5}',
    b'{"reason": "bored"}',
    b'{"since": "yesterday"}',
    b'{"since": "2026-03-01T12:00:00"}',
    b'{"topic": ""}',
    b'{"topic": "//"}',
    b'{"namespaces": {"a": "urn:a"}, "subscription": "x"}',
    b'{"all": true, "after": "x"}',
]


async def test_a_slip_never_means_all_dead_letters(tmp_path: Path) -> None:
    async with running(tmp_path, adapter="embedded:") as run, Consumers() as consumer:
        url = consumer.fresh()
        consumer.at(url).behaviour = status(400)
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        await run.publish("<a/>", path="/soap/topic/storms")
        await run.quiet()
        for command in ("purge", "redrive"):
            for body in NOT_CHOSEN:
                answer = await run.api("POST", f"/deadletters/{command}", body)
                assert answer.status in (400, 422), (body, answer.body)
        assert len(read(await run.api("GET", "/deadletters"))["dead_letters"]) == 1


async def test_dead_letters_by_what_they_have_in_common(tmp_path: Path) -> None:
    async with running(tmp_path, adapter="embedded:") as run, Consumers() as consumer:
        one, other = consumer.fresh(), consumer.fresh()
        for url in (one, other):
            consumer.at(url).behaviour = status(400)
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        for topic in ("storms", "storms/coast", "storms/coast", "calms"):
            await run.publish("<a/>", path=f"/soap/topic/{topic}")
        await run.quiet()
        letters = read(await run.api("GET", "/deadletters"))["dead_letters"]
        assert {letter["consumer"] for letter in letters} == {one, other}
        subscription = letters[0]["subscription"]
        for chosen, number in (
            ({"all": True}, 8),
            ({"subscription": subscription}, 4),
            ({"topic": "storms//."}, 6),
            ({"topic": "storms/coast", "subscription": subscription}, 2),
            ({"topic": "storms", "reason": "exhausted"}, 0),
            ({"since": letters[0]["died"]}, 8),
            ({"since": "2999-01-01T00:00:00Z"}, 0),
        ):
            for command in ("purge", "redrive"):
                body = json.dumps({**chosen, "dry_run": True}).encode()
                said = read(await run.api("POST", f"/deadletters/{command}", body))
                assert said["number"] == number, chosen
        assert len(read(await run.api("GET", "/deadletters"))["dead_letters"]) == 8

        body = b'{"topic": "storms/coast", "limit": 1}'
        gone = read(await run.api("POST", "/deadletters/purge", body))
        assert gone["number"] == 4 and gone["next"] is None  # One slice is the least.
        left = read(await run.api("GET", "/deadletters"))["dead_letters"]
        assert sorted({letter["topic"] for letter in left}) == ["calms", "storms"]
        assert (await metrics(run))["dragoman_dead_letters_purged_total"] == 4


async def test_a_dead_letter_shows_what_died(tmp_path: Path) -> None:
    async with running(tmp_path, adapter="embedded:") as run, Consumers() as consumer:
        url = consumer.fresh()
        consumer.at(url).behaviour = status(400)
        path = await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        await run.publish(f"<a>{'x' * 30_000}</a>", path="/soap/topic/storms")
        sent = await consumer.next(url)
        await run.quiet()
        [letter] = read(await run.api("GET", "/deadletters"))["dead_letters"]
        where = f"/deadletters/{letter['number']}"
        shown = read(await run.api("GET", where))
        assert shown.items() >= letter.items()
        assert (shown["consumer"], shown["topic"], shown["status"]) == (url, "storms", 400)
        assert shown["failure"] == "answered 400 Bad Request"
        assert not shown["payload"]["whole"] and shown["payload"]["bytes"] > 30_000
        assert shown["payload"]["text"].startswith("<a") and len(shown["payload"]["text"]) == 16384
        whole = read(await run.api("GET", f"{where}?limit={2**20}"))
        assert whole["envelope"]["text"].encode() == sent.body
        assert whole["payload"]["text"] in whole["envelope"]["text"]
        for wrong in (f"{where}?limit=-1", "/deadletters/x", f"/deadletters/{2**63}"):
            assert (await run.api("GET", wrong)).status == 422
        assert (await run.api("GET", "/deadletters/999")).status == 404
        await run.ask(SPEAKER, f'<e:Unsubscribe xmlns:e="{WSE}"/>', path)
        ended = read(await run.api("GET", where))
        assert ended["envelope"] is None and ended["payload"] is not None


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
        assert answer.status == 415
        assert read(await run.api("POST", path, b'{"all": true}'))["number"] == 0


async def test_pages_of_other_sites_change_nothing(tmp_path: Path) -> None:
    """A form that somebody's browser sends cannot be of a type that changes anything."""
    async with running(tmp_path) as run:
        for type_ in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain"):
            answer = await run.request(
                "POST", "/api/v1/deadletters/purge", b"{}", content_type=type_
            )
            assert answer.status == 415
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
    async with running(tmp_path) as run, Consumers() as consumer:
        before = await metrics(run)
        assert before["dragoman_subscriptions"] == before["dragoman_accepted_total"] == 0
        url, refusing = consumer.fresh(), consumer.fresh()
        consumer.at(refusing).behaviour = status(400)
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
        run.gateway.application.drain()
        assert read(await run.request("GET", "/readyz"), 503)["draining"] is True
        assert (await run.request("GET", "/healthz")).status == 200
        assert (await run.request("GET", "/")).headers["location"] == "/docs"
        schema = read(await run.request("GET", "/openapi.json"))
        assert "/api/v1/subscriptions/{id}" in schema["paths"]


async def test_keys_are_told_to_nobody(tmp_path: Path) -> None:
    """The key of a subscription is what allows to end it: only the subscriber knows it."""
    async with running(tmp_path, adapter="embedded:") as run, Consumers() as consumer:
        url, refusing = consumer.fresh(), consumer.fresh()
        consumer.at(refusing).behaviour = status(400)
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


def logged(run: Running, event: str) -> list[Any]:
    return [log for log in run.logs if log["event"] == event]


async def view_of(run: Running, path: str = "/subscriptions") -> Any:
    [view] = read(await run.api("GET", path))["subscriptions"]
    return view


async def test_why_a_subscription_gets_nothing(tmp_path: Path) -> None:
    """The last error, when it is tried again, and one line of the log as it begins and as it ends,
    whatever is tried in between."""
    async with (
        running(tmp_path, adapter="embedded:", retry_delays=(0.01,) * 50) as run,
        Consumers() as consumer,
    ):
        url = consumer.fresh()
        consumer.at(url).behaviour = status(500)
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        fresh = await view_of(run)
        assert (fresh["state"], fresh["delivery"]["last_error"]) == ("active", None)
        assert fresh["counts"]["waiting"] == 0
        await run.publish("<a/>", path="/soap/topic/storms")
        for _ in range(5):
            await consumer.next(url)
        entry = run.gateway.subscriptions.by_id(fresh["id"])
        assert entry is not None
        await run.until(lambda: run.gateway.dispatchers.open_breakers == 1)
        view = await view_of(run)
        assert view["state"] == "failing"
        assert view["delivery"]["failures"] == 5
        assert view["delivery"]["last_error"].startswith("answered 500 Internal Server Error")
        assert view["delivery"]["breaker_until"] > view["delivery"]["last_error_at"]
        assert view["counts"]["waiting"] == 1
        shown = read(await run.api("GET", f"/subscriptions/{view['id']}"))
        for name in ("next_attempt", "breaker_until"):  # Told by two clocks, to the microsecond.
            one, other = (each["delivery"].pop(name) for each in (shown, view))
            away = datetime.fromisoformat(one) - datetime.fromisoformat(other)
            assert abs(away) < timedelta(seconds=1)
        assert shown == view
        [said] = logged(run, "delivery.failing")
        assert (said["subscription"], said["consumer"]) == (view["id"], url.rpartition("/")[0])
        assert said["reason"].startswith("answered 500")
        numbers = await metrics(run)
        assert numbers["dragoman_open_breakers"] == 1
        assert numbers["dragoman_failing_subscriptions"] == 1
        steps = {step["name"]: step for step in await explained(run, view["id"])}
        assert not steps["delivery"]["holds"] and "probe" in steps["delivery"]["text"]
        assert "5 attempts in a row failed" in steps["last error"]["text"]
        assert not logged(run, "delivery.recovered")

        consumer.at(url).behaviour = accept
        entry_outbox = run.gateway.dispatchers.outboxes(entry)
        entry_outbox[0].breaker.until = 0.0
        run.gateway.dispatchers.resume(entry)
        await run.until(lambda: bool(logged(run, "delivery.recovered")))
        view = await view_of(run)
        assert (view["state"], view["delivery"]["failures"]) == ("active", 0)
        assert len(logged(run, "delivery.failing")) == 1
        assert (await metrics(run))["dragoman_failing_subscriptions"] == 0
        await run.quiet()


async def explained(run: Running, id_: str, **asked: str) -> Any:
    return read(await run.api("POST", f"/subscriptions/{id_}/explain", json.dumps(asked).encode()))


async def test_many_subscriptions_to_a_dead_host_fill_no_log(tmp_path: Path) -> None:
    async with running(tmp_path, adapter="embedded:") as run, Consumers() as consumer:
        url = consumer.fresh()
        consumer.at(url).behaviour = status(400)
        for _ in range(30):
            await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(url))
        await run.publish("<a/>")
        for _ in range(30):
            await consumer.next(url)
        await run.quiet()
        views = read(await run.api("GET", "/subscriptions"))["subscriptions"]
        assert {view["state"] for view in views} == {"failing"}
        assert {view["counts"]["dead"] for view in views} == {1}
        assert len(logged(run, "delivery.failing")) == 5


async def test_explain_a_subscription(tmp_path: Path) -> None:
    async with running(tmp_path, adapter="embedded:") as run, Consumers() as consumer:
        url = consumer.fresh()
        filter_ = topic_expression("storms/coast") + message_content("/speed > 100")
        path = await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url, filter=filter_))
        view = await view_of(run)
        steps = {step["name"]: step for step in await explained(run, view["id"])}
        assert list(steps) == [
            *("subscription", "lease", "paused", "filter", "topics", "delivered by", "address"),
            *("delivery", "counts"),
        ]
        assert steps["topics"]["text"] == "nothing was published since this gateway started"
        for topic in ("calms", "storms/coast"):
            await run.publish("<speed>120</speed>", path=f"/soap/topic/{topic}")
        await consumer.next(url)
        await run.quiet()
        steps = {step["name"]: step for step in await explained(run, view["id"])}
        assert steps["topics"]["holds"] and steps["topics"]["details"] == ["storms/coast"]
        assert {step["holds"] for step in steps.values()} == {True, None}
        assert "0 wait, 1 delivered, 0 dead" in steps["counts"]["text"]

        for payload, topic, holds in (
            ("<speed>120</speed>", "storms/coast", True),
            ("<speed>90</speed>", "storms/coast", False),
            ("<speed>120</speed>", "calms", False),
        ):
            steps = {
                step["name"]: step
                for step in await explained(run, view["id"], payload=payload, topic=topic)
            }
            assert steps["filter"]["holds"] is holds, (payload, topic)
            assert len(steps["filter"]["details"]) >= 2
        where = f"/subscriptions/{view['id']}/explain"
        for wrong in ('{"payload": "<a"}', '{"payload": "<a/>", "topic": "a b"}', '{"topic": "a"}'):
            assert (await run.api("POST", where, wrong.encode())).status in (400, 422), wrong
        assert (await run.api("POST", "/subscriptions/0/explain", b"{}")).status == 404
        await run.ask(SPEAKER, f'<b:PauseSubscription xmlns:b="{WSNT}"/>', path)
        steps = {step["name"]: step for step in await explained(run, view["id"])}
        assert not steps["paused"]["holds"]
        assert (await view_of(run))["state"] == "paused"


@pytest.mark.parametrize("elsewhere", [False, True], ids=["one listener", "a listener of its own"])
async def test_an_operator_subscribes_consumers(tmp_path: Path, *, elsewhere: bool) -> None:
    """By the administration alone; the manager it names is the public one, wherever it was asked."""
    settings: dict[str, Any] = {"egress_allow": "127.0.0.0/8"}
    if elsewhere:
        settings |= {"host": "0.0.0.0", "public_url": "https://events.example.org/"}
    wanted = {
        "protocol": "HTTP",
        "types": ["com.example.tide"],
        "config": {"topic": "tides//.", "expires": "PT1H"},
        "protocolsettings": {"mode": "binary", "secret": SECRET},
    }
    async with running(tmp_path, adapter="embedded:", **settings) as run, Consumers() as consumers:
        sink = consumers.add(agreeing())
        body = json.dumps({"sink": sink.url, **wanted}).encode()
        made = read(await run.api("POST", "/subscriptions", body), 201)
        manager = made.pop("manager")
        base = "https://events.example.org" if elsewhere else run.url
        key = manager.removeprefix(f"{base}/events/subscriptions/")
        assert len(key) == 36
        assert (made["spec"], made["consumer"], made["topics"]) == (
            "cloudevents", sink.url, ["tides//."],
        )  # fmt: skip
        [listed] = read(await run.api("GET", "/subscriptions"))["subscriptions"]
        assert listed.pop("manager") == manager.replace(key, made["id"])
        assert listed == made
        public = read(await run.request("GET", f"/events/subscriptions/{key}"))
        assert public["protocolsettings"]["signed"] and public["name"] == made["id"]
        await publish(run, event(topic="tides/north", data="x"))
        while (receipt := await sink.next()).method == "OPTIONS":
            pass
        assert receipt.headers["ce-topic"] == "tides/north"
        assert "webhook-signature" in receipt.headers
        assert (await run.api("DELETE", f"/subscriptions/{made['id']}")).status == 204
        assert (await run.request("GET", f"/events/subscriptions/{key}")).status == 404
        said = b"".join([(await run.api("GET", "/subscriptions")).body, repr(run.logs).encode()])
        assert key.encode() not in said and SECRET.encode() not in said


async def test_what_is_wrong_with_a_subscription_is_said(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        for wanted, status_ in (
            ({"sink": SOMEWHERE}, 422),
            ({"sink": "ftp://a/", "protocol": "HTTP"}, 400),
            ({"sink": SOMEWHERE, "protocol": "HTTP", "config": {"xpath": "///"}}, 400),
        ):
            answer = await run.api("POST", "/subscriptions", json.dumps(wanted).encode())
            assert answer.status == status_, answer.body
            assert "detail" in json.loads(answer.body)
        assert read(await run.api("GET", "/subscriptions"))["subscriptions"] == []


async def test_the_manager_of_a_subscription_in_soap(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        path = await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(SOMEWHERE))
        view = await view_of(run)
        key = path.removeprefix("/subscriptions/")
        assert view["manager"] == f"{run.url}/subscriptions/{view['id']}" != f"{run.url}{path}"
        assert key not in view["manager"]


async def test_a_black_listed_subscription_says_so(tmp_path: Path) -> None:
    async with running(tmp_path, black_list_after=2, black_list_for=60) as run, Consumers() as some:
        await run.subscribe(SPEAKER, SPEAKER.wse_subscribe(some.fresh()))
        [entry] = run.gateway.subscriptions.entries
        [dispatcher] = run.gateway.dispatchers._of.values()
        assert dispatcher._schedule.black_list == BlackList(2, 60.0)
        assert (await view_of(run))["delivery"]["black_listed_until"] is None
        entry.state.rests_until = asyncio.get_running_loop().time() + 60.0
        view = await view_of(run, "/subscriptions?state=failing")
        assert view["delivery"]["black_listed_until"] == view["delivery"]["breaker_until"]
        await run.publish("<a/>")

        async def is_dead() -> bool:
            return bool((await view_of(run))["counts"]["dead"] == 1)

        await until(is_dead)
        [letter] = read(await run.api("GET", "/deadletters"))["dead_letters"]
        assert letter["reason"] == "black-listed"


async def test_failing_destinations_and_histograms(tmp_path: Path) -> None:
    async with (
        running(tmp_path, adapter="memory:", retry_delays=(60,)) as run,
        Consumers() as consumer,
    ):
        bad, good = consumer.add(status(500)).url, consumer.fresh()
        started = read(await run.api("GET", "/destinations"))
        assert started == {"destinations": []}
        for url in (bad, good):
            await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url))
        for _ in range(2):
            await run.publish(f"<a>{'x' * 300}</a>")
        await consumer.next(good)
        await consumer.next(good)

        async def failing() -> Any:
            return read(await run.api("GET", "/destinations"))["destinations"]

        async with asyncio.timeout(60):
            while not (found := await failing()):
                await run.quiet()
        [one] = found
        assert bad.startswith(f"{one['destination']}/")
        assert one["failures"] >= 1 and one["last_error"] and one["last_failure"]
        # It took nothing, and who subscribed it is trusted: so it is not on probation.
        assert (one["agreement"], one["credentials"]) == ("unknown", [])
        assert (await run.api("GET", "/destinations?limit=0")).status == 422
        text = (await run.request("GET", "/metrics")).body.decode()
    families = {one.name: one for one in text_string_to_metric_families(text)}
    sizes = {
        sample.labels.get("le", sample.name): sample.value
        for sample in families["dragoman_accepted_bytes"].samples
    }
    assert (sizes["256.0"], sizes["1024.0"], sizes["+Inf"]) == (0, 2, 2)
    assert sizes["dragoman_accepted_bytes_sum"] == 2 * len(f"<a>{'x' * 300}</a>")
    assert "dragoman_accepted_octets" in families, "its former name, until the next release"
    delivered = [
        sample
        for sample in families["dragoman_attempt_seconds"].samples
        if sample.labels.get("verdict") == "delivered"
    ]
    counted = [one.value for one in delivered if one.name.endswith("_count")]
    assert counted == [2]
    [start] = families["dragoman_start_time_seconds"].samples
    assert start.value > 1.7e9


async def test_the_cause_of_a_failure_is_told_in_the_same_words_everywhere(tmp_path: Path) -> None:
    """In the list, its selection, `explain`, destinations and the log."""
    said = "connection refused"
    async with running(
        tmp_path, adapter="memory:", retry_delays=(0.01,) * 10, deliver_to_self=True
    ) as run:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{closed.getsockname()[1]}/x"
            for _ in range(2):  # The second fails for the breaker of both, without an attempt.
                await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url))
            await run.publish("<a/>")

            async def are_failing() -> bool:
                return (await metrics(run))["dragoman_failing_subscriptions"] == 2

            await until(are_failing)
            listed = read(await run.api("GET", "/subscriptions?state=failing"))["subscriptions"]
            assert [(one["state"], one["delivery"]["last_error"]) for one in listed] == [
                ("failing", said)
            ] * 2
            steps = {step["name"]: step for step in await explained(run, listed[0]["id"])}
            assert steps["last error"]["text"].startswith(said)
            [destination] = read(await run.api("GET", "/destinations"))["destinations"]
            assert destination["last_error"] == said
            assert {line["reason"] for line in logged(run, "delivery.failing")} == {said}


async def test_dead_letters_are_listed_by_what_they_are_redriven_and_purged_by(
    tmp_path: Path,
) -> None:
    """Each selection lists as many as a dry run of `purge` counts, page by page or at once."""
    async with running(tmp_path, adapter="memory:") as run, Consumers() as consumer:
        url = consumer.add(status(400)).url
        for topic in ("storms", "floods"):
            filter_ = topic_expression(topic)
            await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url, filter=filter_))
        for topic in ("storms", "storms", "floods"):
            await run.publish(f"<a>{topic}</a>", path=f"/soap/topic/{topic}")

        async def dead() -> list[Any]:
            return list(read(await run.api("GET", "/deadletters"))["dead_letters"])

        async def are_dead() -> bool:
            return len(await dead()) == 3

        await until(are_dead)
        letters = await dead()
        one = letters[0]
        assert one["published_id"] != one["message_id"]
        assert len({letter["published_id"] for letter in letters}) == 3
        selections: list[tuple[dict[str, str], int]] = [
            ({"topic": "storms"}, 2),
            ({"topic": "storms", "reason": "rejected"}, 2),
            ({"reason": "too-large"}, 0),
            ({"since": "2999-01-01T00:00:00Z"}, 0),
            ({"since": one["died"]}, 3),
            ({"subscription": one["subscription"]}, sum(
                one["subscription"] == each["subscription"] for each in letters)),
            ({"message": one["message_id"]}, 1),
            ({"message": one["published_id"]}, 1),
            ({"message": "urn:other"}, 0),
            ({"message": one["published_id"], "topic": "other"}, 0),
        ]  # fmt: skip
        for selection, number in selections:
            asked = json.dumps({**selection, "dry_run": True}).encode()
            purged = read(await run.api("POST", "/deadletters/purge", asked))
            assert purged["number"] == number, selection
            found = 0
            after: int | None = 0
            while after is not None:
                query = urlencode({**selection, "limit": 1, "after": after})
                page = read(await run.api("GET", f"/deadletters?{query}"))
                found += len(page["dead_letters"])
                after = page["next"]
            assert found == number, selection
        assert (await run.api("GET", "/deadletters?ns=w")).status == 422


async def test_what_became_of_a_message_is_told_by_each_of_its_ids(tmp_path: Path) -> None:
    """Accepted when, of whom and on which topic; matched how many; delivered, waits and died for
    whom; after a restart, what waits and died."""
    published = "urn:uuid:11111111-2222-3333-4444-555555555555"
    folder = tmp_path / "data"

    async def trace(run: Running, id_: str) -> Any:
        answer = await run.api("GET", f"/messages/{quote(id_, safe='')}")
        return read(answer)["messages"] if answer.status == 200 else []

    async with Consumers() as consumer:
        async with running(folder, adapter="embedded:", retry_delays=(3600,)) as run:
            good, bad, away = consumer.fresh(), consumer.add(status(400)), consumer.add(status(503))
            for url in (good, bad.url, away.url):
                await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(url))
            await run.publish("<a/>", path="/soap/topic/storms", message_id=published)
            got = await consumer.next(good)

            async def known() -> bool:
                [one] = await trace(run, published)
                return bool(one["dead"] and one["waiting"] and one["delivered"])

            await until(known)
            [one] = await trace(run, published)
            assert (one["id"], one["topic"], one["matched"]) == (published, "storms", 3)
            assert one["accepted"] and "127.0.0.1" in one["by"] and one["under_way"] == 0
            [delivered], [waits], [dead] = one["deliveries"], one["waiting"], one["dead"]
            assert len({each["subscription"] for each in (delivered, waits, dead)}) == 3
            assert dead["failure"].startswith("answered 400")
            for other in (got.id, dead["message_id"]):
                assert [each["id"] for each in await trace(run, other)] == [published]
            assert (await run.api("GET", "/messages/urn:other")).status == 404
        async with running(folder, adapter="embedded:", retry_delays=(3600,)) as run:
            [one] = await trace(run, published)
            assert (one["waiting"][0]["subscription"], one["dead"]) == (
                waits["subscription"],
                [dead],
            )
            assert [each["id"] for each in await trace(run, dead["message_id"])] == [published]
