"""Subscriptions to CloudEvents, through a running gateway."""

import json
from asyncio import gather
from base64 import b64decode, b64encode
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import digest
from pathlib import Path
from typing import Any

import pytest

from gateway.security.keys import public_id
from mediation.cloudevents.mapping import GATEWAY as NOBODY
from tests.rigs.cloudevents import (
    BATCH,
    agreeing,
    event,
    publish,
    received,
    subscribe,
    subscribed,
)
from tests.rigs.consumers import Connection, Consumers, status
from tests.rigs.envelopes import Answer, Speaker
from tests.rigs.gateways import Running, exchange, http_request, running
from tests.rigs.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
GATEWAY = {
    "adapter": "embedded:",
    "trusted": "127.0.0.1",
    "retry_delays": "0.05,0.05",
    "egress_allow": "127.0.0.0/8",
}
SPEAKER = Speaker()
STRANGER = "127.0.0.9"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STORM = '<w:storm xmlns:w="urn:w"><w:speed>60</w:speed></w:storm>'


def path_of(subscription: dict[str, Any]) -> str:
    return f"/events/subscriptions/{subscription['id']}"


def read(answer: Answer, status: int = 200) -> dict[str, Any]:
    assert answer.status == status, answer.body
    found: dict[str, Any] = json.loads(answer.body)
    return found


async def test_what_a_soap_publisher_sends(gateway: Running, consumer: Consumers) -> None:
    sink = consumer.add()
    await subscribed(gateway, sink, config={"topic": "one"})
    await gateway.publish(STORM, path="/soap/topic/one", message_id="urn:m:1")
    found = received(await sink.next())
    time = found.pop("time")
    assert datetime.fromisoformat(time).utcoffset() == timedelta(0)
    assert found == {
        "specversion": "1.0",
        "id": "urn:m:1",
        "source": NOBODY,
        "type": "urn:w/storm",
        "subject": "one",
        "topic": "one",
        "datacontenttype": "application/xml",
        "data": STORM,
    }


async def test_what_another_sends_comes_unchanged(gateway: Running, consumer: Consumers) -> None:
    sink = consumer.add()
    await subscribed(gateway, sink, config={"topic": "unchanged"})
    sent = event(
        topic="unchanged", subject="gauge 7 \u20ac", n=5, flag=True, time="2026-03-01T11:00:00+01:00",
        datacontenttype="application/json", dataschema="urn:schema", data={"level": [1.5, None]},
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )  # fmt: skip
    await publish(gateway, sent)
    assert received(await sink.next()) == sent


async def test_modes(gateway: Running, consumer: Consumers) -> None:
    binary, batched = consumer.add(), consumer.add()
    for sink, mode in ((binary, "binary"), (batched, "batched")):
        await subscribed(gateway, sink, config={"topic": "modes"}, protocolsettings={"mode": mode})
    sent = event(topic="modes", subject="a \u20ac", n=5, data="x", datacontenttype="text/plain")
    await publish(gateway, sent)
    receipt = await binary.next()
    assert receipt.body == b"x"
    headers = receipt.headers
    assert headers["content-type"] == "text/plain"
    assert headers["ce-subject"] == "a%20%E2%82%AC"
    assert (headers["ce-id"], headers["ce-n"]) == (sent["id"], "5")
    assert headers["webhook-request-origin"] == "127.0.0.1"
    assert not {"soapaction", "ce-datacontenttype"} & headers.keys()
    receipt = await batched.next()
    assert receipt.headers["content-type"] == BATCH
    [found] = json.loads(receipt.body)
    assert {**sent, "time": found["time"]} == found


async def test_xml_as_json(gateway: Running, consumer: Consumers) -> None:
    sink = consumer.add()
    settings = {"data": "json"}
    await subscribed(gateway, sink, config={"topic": "json"}, protocolsettings=settings)
    await gateway.publish(STORM, path="/soap/topic/json")
    found = received(await sink.next())
    assert found["datacontenttype"] == "application/json"
    assert found["data"] == {"w:storm": {"@xmlns:w": "urn:w", "w:speed": "60"}}


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({"types": ["com.example.tide"]}, [1, 2]),
        ({"types": ["com.example.tide", "com.example.storm"]}, [1, 2, 3]),
        ({"source": "/sensors/5"}, [2]),
        ({"filters": [{"exact": {"subject": "gauge 7"}}]}, [1]),
        ({"filters": [{"prefix": {"subject": "gauge"}}, {"suffix": {"type": "tide"}}]}, [1, 2]),
        ({"filters": [{"not": {"exact": {"n": "1"}}}]}, [2, 3, 4]),
        ({"filters": [{"any": [{"exact": {"n": "1"}}, {"exact": {"source": "/sensors/6"}}]}]}, [1, 3]),
        ({"filters": [{"all": [{"exact": {"n": "1"}}, {"exact": {"source": "/sensors/6"}}]}]}, []),
        ({"filters": [{"exact": {"topic": "filtered"}}]}, [1, 2, 3, 4]),
        ({"filters": [{"exact": {"type": "urn:w/storm"}}]}, [4]),
        ({"filters": []}, [1, 2, 3, 4]),
        ({"config": {"xpath": "/w:storm", "namespaces": {"w": "urn:w"}}}, [4]),
        ({"config": {"xpath": "contains(., 'level')"}}, [1]),
    ],
)  # fmt: skip
async def test_filters(
    gateway: Running, consumer: Consumers, wanted: dict[str, Any], numbers: list[int]
) -> None:
    sink, last = consumer.add(), consumer.add()
    config = {"topic": "filtered", **wanted.get("config", {})}
    made = await subscribed(gateway, sink, **{**wanted, "config": config})
    everything = await subscribed(gateway, last, config={"topic": "filtered"})
    tide, storm = "com.example.tide", "com.example.storm"
    await publish(
        gateway,
        event(topic="filtered", n=1, type=tide, subject="gauge 7", data={"level": 1}),
        event(topic="filtered", n=2, type=tide, subject="gauge 8", source="/sensors/5"),
        event(topic="filtered", n=3, type=storm, source="/sensors/6"),
    )
    await gateway.publish(STORM, path="/soap/topic/filtered")
    for _ in range(4):
        await last.next()
    await sink.until(lambda: sink.waiting >= len(numbers))
    await gateway.quiet()
    found = [received(await sink.next()).get("n", 4) for _ in range(sink.waiting)]
    assert found == numbers
    for one in (made, everything):
        assert (await gateway.request("DELETE", path_of(one))).status == 204


async def test_messages_are_signed(gateway: Running, consumer: Consumers) -> None:
    """Each attempt is, with one id."""
    answers = iter((503, 202))
    sink = consumer.add(agreeing(lambda connection, _: connection.answer(next(answers))))
    made = await subscribed(
        gateway, sink, config={"topic": "signed"}, protocolsettings={"secret": SECRET}
    )
    assert made["protocolsettings"]["signed"] is True
    assert "MfKQ9r8G" not in str(made)
    assert b"MfKQ9r8G" not in (await gateway.request("GET", path_of(made))).body
    assert b"MfKQ9r8G" not in (await gateway.api("GET", "/subscriptions")).body
    assert "MfKQ9r8G" not in str(gateway.logs)
    await publish(gateway, event(topic="signed", data=1))
    ids = set()
    for _ in range(2):
        receipt = await sink.next()
        headers = receipt.headers
        ids.add(headers["webhook-id"])
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode()
        key = b64decode(SECRET.removeprefix("whsec_"))
        expected = b64encode(digest(key, signed + receipt.body, sha256)).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
    assert len(ids) == 1


async def test_a_secret_survives_a_restart(tmp_path: Path) -> None:
    """And is in no file that others may read."""
    async with Consumers() as consumer:
        sink = consumer.add()
        async with running(tmp_path, **GATEWAY) as run:
            await subscribed(run, sink, protocolsettings={"secret": SECRET, "mode": "binary"})
        async with running(tmp_path, **GATEWAY) as run:
            await publish(run, event(data=1))
            headers = (await sink.next()).headers
            assert headers["webhook-signature"].startswith("v1,")
            assert headers["ce-type"] == "com.example.tide"
    kept = list(tmp_path.rglob("store.db*"))
    assert kept
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)


async def test_management(gateway: Running, consumer: Consumers) -> None:
    filters = [{"prefix": {"subject": "gauge"}}]
    answer = await subscribe(
        gateway, consumer.add(), types=["a", "b"], filters=filters, unknown="", id="mine",
        config={"topic": "{urn:w}storms//.", "xpath": "/a", "namespaces": {"w": "urn:w"}, "expires": 60},
    )  # fmt: skip
    assert answer.status == 422
    sink = consumer.add()
    answer = await subscribe(
        gateway, sink, types=["a", "b"], filters=filters, id="mine",
        config={"topic": "{urn:w}storms//.", "xpath": "/a", "namespaces": {"w": "urn:w"}, "expires": 60},
    )  # fmt: skip
    made = read(answer, 201)
    assert answer.headers["location"] == f"{gateway.url}{path_of(made)}"
    assert made["id"] != "mine"
    assert (made["sink"], made["protocol"]) == (sink.url, "HTTP")
    assert (made["types"], made["filters"]) == (["a", "b"], filters)
    assert b"null" not in answer.body and "source" not in made
    config = made["config"]
    assert config["topic"] == "w:storms//."
    assert (config["xpath"], config["namespaces"]) == ("/a", {"w": "urn:w"})
    assert read(await gateway.request("GET", path_of(made))) == made
    listed = read(await gateway.api("GET", f"/subscriptions/{made['name']}"))
    assert (listed["spec"], listed["soap"]) == ("cloudevents", None)
    longer = read(await put(gateway, path_of(made), {"config": {"expires": "PT1H"}}))
    before, after = (datetime.fromisoformat(one["config"]["expires"]) for one in (made, longer))
    assert after > before
    assert (await put(gateway, path_of(made), {"sink": "http://x/"})).status == 422
    assert (await gateway.request("DELETE", path_of(made))).status == 204
    for method in ("GET", "DELETE"):
        gone = await gateway.request(method, path_of(made))
        assert read(gone, 404)["reason"] == "subscription-unknown"


async def test_what_is_read_can_be_written_back(gateway: Running, consumer: Consumers) -> None:
    sink = consumer.add()
    path = path_of(
        await subscribed(
            gateway, sink, types=["a"], filters=[{"exact": {"subject": "b"}}],
            protocolsettings={"mode": "batched", "batchsize": 2, "secret": SECRET},
            config={"topic": "{urn:w}a", "xpath": "/b", "expires": 600},
        )
    )  # fmt: skip
    shown = read(await gateway.request("GET", path))
    assert read(await put(gateway, path, shown)) == shown
    forever = path_of(await subscribed(gateway, consumer.add(), config={"topic": "a"}))
    endless = read(await gateway.request("GET", forever))
    assert read(await put(gateway, forever, endless)) == endless
    nulls = {**shown, "source": None, "config": {**shown["config"], "expires": "PT1H"}}
    longer = read(await put(gateway, path, nulls))
    assert longer["config"]["expires"] > shown["config"]["expires"]
    longer["config"]["expires"] = shown["config"]["expires"]
    assert longer == shown


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"sink": "http://127.0.0.1:9/"}, "sink"),
        ({"types": ["b"]}, "types"),
        ({"source": "/s"}, "source"),
        ({"types": None}, "types"),
        ({"colour": "red"}, "colour"),
        ({"protocolsettings": {"secret": SECRET}}, "protocolsettings.secret"),
        ({"protocolsettings": {"mode": "binary"}}, "protocolsettings.mode"),
        ({"config": {"topic": "b", "expires": "PT1H"}}, "config.topic"),
        ({"config": {"namespaces": {"p": "urn:p"}}}, "config.namespaces.p"),
    ],
)
async def test_what_cannot_be_changed(
    gateway: Running, consumer: Consumers, change: dict[str, Any], named: str
) -> None:
    made = await subscribed(gateway, consumer.add(), types=["a"], config={"topic": "a"})
    answer = await put(gateway, path_of(made), {**made, **change})
    assert named in read(answer, 422)["detail"]
    assert read(await gateway.request("GET", path_of(made))) == made


async def test_methods(gateway: Running, consumer: Consumers) -> None:
    made = await subscribed(gateway, consumer.add(), config={"topic": "a"})
    rows = [("/events/subscriptions", "POST, OPTIONS", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])]
    rows += [(path_of(made), "GET, PUT, DELETE, OPTIONS", ["PATCH", "HEAD"])]
    for path, allowed, others in rows:
        for method, status_ in [("OPTIONS", 204), *((other, 405) for other in others)]:
            answer = await gateway.request(method, path)
            assert (answer.status, answer.headers["allow"]) == (status_, allowed), (path, method)


async def put(gateway: Running, path: str, value: dict[str, Any]) -> Answer:
    body = json.dumps(value).encode()
    return await gateway.request("PUT", path, body, content_type="application/json")


async def test_a_subscription_in_soap_is_not_managed_here(
    gateway: Running, consumer: Consumers
) -> None:
    manager = await gateway.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.fresh()))
    key = manager.rpartition("/")[2]
    for form in (
        "{}",
        "urn:uuid:{}",
        "uuid:{}",
        "%20{}",
        "{}%20",
        "x%2Fsubscriptions%2F{}",
        "{}%3F",
    ):
        for named in (key, key.upper()):
            path = f"/events/subscriptions/{form.format(named)}"
            assert (await gateway.request("GET", path)).status == 404
            assert (await put(gateway, path, {"config": {"expires": 60}})).status == 404
            assert (await gateway.request("DELETE", path)).status == 404
    listed = json.loads((await gateway.api("GET", "/subscriptions")).body)
    assert public_id(key) in {one["id"] for one in listed["subscriptions"]}


async def test_a_key_has_one_form(gateway: Running, consumer: Consumers) -> None:
    made = await subscribed(gateway, consumer.add())
    key = made["id"]
    for named in (f"urn:uuid:{key}", f"uuid:{key}", f"%20{key}", "%00", "a" * 5000, made["name"]):
        assert (await gateway.request("GET", f"/events/subscriptions/{named}")).status == 404
    upper = await gateway.request("GET", f"/events/subscriptions/{key.upper()}")
    assert read(upper)["id"] == key


async def test_namespaces_that_nothing_uses_are_not_kept(
    gateway: Running, consumer: Consumers
) -> None:
    others = {f"p{number}": f"urn:{number}:" + "x" * 8000 for number in range(50)}
    config = {"topic": "v:a/b", "xpath": "/w:storm", "namespaces": {"w": "urn:w", "v": "urn:v"}}
    config["namespaces"] |= others  # type: ignore[operator]
    made = await subscribed(gateway, consumer.add(), config=config)
    assert made["config"]["namespaces"] == {"w": "urn:w", "v": "urn:v"}
    config["xpath"] = "/p0:a/p1:b"
    answer = await subscribe(gateway, consumer.add(), config=config)
    assert read(answer, 422)["detail"].startswith("config.namespaces: ")


async def test_an_event_in_an_event_stays_there(gateway: Running, consumer: Consumers) -> None:
    """In binary mode it would be taken for the event itself."""
    sink = consumer.add()
    config = {"topic": "nested"}
    await subscribed(gateway, sink, config=config, protocolsettings={"mode": "binary"})
    for type_ in ("application/cloudevents+json", "Application/CloudEvents-batch+json; a=b"):
        sent = event(topic="nested", datacontenttype=type_, data=event(id="inner"))
        await publish(gateway, sent)
        found = received(await sink.next())
        assert (found["id"], found["data"]) == (sent["id"], sent["data"])


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"protocol": "MQTT3"}, 422),
        ({"filters": [{"sql": "type = 'x'"}]}, 400),
        ({"filters": [{}]}, 400),
        ({"filters": [{"exact": {}}]}, 400),
        ({"filters": [{"exact": {"type": ""}}]}, 400),
        ({"filters": [{"any": []}]}, 400),
        ({"filters": [{"exact": {"a": "b"}}] * 101}, 422),
        ({"filters": [{"exact": {"a": "b"}}] * 40}, 400),
        ({"types": []}, 422),
        ({"types": [""]}, 422),
        ({"protocolsettings": {"mode": "xml"}}, 422),
        ({"protocolsettings": {"method": "PUT"}}, 422),
        ({"protocolsettings": {"headers": {}}}, 422),
        ({"protocolsettings": {"secret": "whsec_AAAA"}}, 400),
        ({"config": {"topic": "a b"}}, 400),
        ({"config": {"xpath": "//["}}, 400),
        ({"config": {"expires": "soon"}}, 400),
        ({"config": {"namespaces": {"a": "urn:a"}}}, 422),
        ({"config": {"interval": 5}}, 422),
        ({"sink": "soap.tcp://127.0.0.1:8081/"}, 400),
        ({"sink": "http://www.w3.org/2005/08/addressing/anonymous"}, 400),
        ({"sink": "mailto:a@example.org"}, 400),
        ({"sink": "http://169.254.169.254/"}, 400),
    ],
)  # fmt: skip
async def test_what_is_refused(
    gateway: Running, consumer: Consumers, more: dict[str, Any], status: int
) -> None:
    url = consumer.fresh()
    wanted = {"sink": url, "protocol": "HTTP", **more}
    body = json.dumps(wanted).encode()
    answer = await gateway.request(
        "POST", "/events/subscriptions", body, content_type="application/json"
    )
    assert answer.status == status, answer.body
    assert b"AAAA" not in answer.body
    assert consumer.waiting(url) == 0, "nobody is asked on behalf of it"


async def test_a_mailbox_is_no_sink(gateway: Running) -> None:
    box = read(
        await gateway.request("POST", "/mailboxes", b"{}", content_type="application/json"), 201
    )
    assert (await subscribe(gateway, box["address"])).status == 400


async def test_gone_ends_the_subscription(gateway: Running, consumer: Consumers) -> None:
    sink = consumer.add(agreeing(status(410)))
    made = await subscribed(gateway, sink, config={"topic": "gone"})
    await publish(gateway, event(topic="gone"))
    await sink.next()
    await gateway.quiet()
    assert (await gateway.request("GET", path_of(made))).status == 404


class TestHandshake:
    async def test_a_stranger_s_consumer_must_agree(
        self, gateway: Running, consumer: Consumers
    ) -> None:
        for behaviour in (
            status(202),
            status(405),
            status(200, WebHook_Allowed_Origin="other.example.com"),
        ):
            sink = consumer.add(behaviour)
            answer = await subscribe(gateway, sink, address=STRANGER)
            assert read(answer, 400)["reason"] == "consumer-address"
            assert [one.method for one in sink.received] == ["OPTIONS"]

    async def test_one_that_agrees(self, gateway: Running, consumer: Consumers) -> None:
        sink = consumer.add(agreeing(WebHook_Allowed_Rate="6000"))
        answer = await subscribe(gateway, sink, address=STRANGER, config={"topic": "agreed"})
        assert read(answer, 201)["protocolsettings"]["rate"] == 6000
        asked = sink.received[0]
        assert (asked.method, asked.headers["webhook-request-origin"]) == ("OPTIONS", "127.0.0.1")
        await publish(gateway, event(topic="agreed"))
        assert (await sink.next()).headers["webhook-request-origin"] == "127.0.0.1"

    async def test_one_that_names_us(self, gateway: Running, consumer: Consumers) -> None:
        sink = consumer.add(agreeing(WebHook_Allowed_Origin="127.0.0.1"))
        assert (await subscribe(gateway, sink, address=STRANGER)).status == 201

    @pytest.mark.parametrize(
        ("said", "rate"),
        [("*", None), ("120", 120), ("0", 1), ("-1", 1), ("NaN", 1), ("0.5", 1), ("2.7", 2),
         ("inf", 1), ("1e9", 1), ("many", 1), ("9" * 40, None)],
    )  # fmt: skip
    async def test_the_rate_that_one_allows(
        self, gateway: Running, consumer: Consumers, said: str, rate: int | None
    ) -> None:
        """What is neither a positive number nor ``*`` is the smallest rate, never none."""
        stranger = f"127.0.0.{31 + sum(said.encode()) % 100}"  # Each may ask now and then.
        sink = consumer.add(agreeing(WebHook_Allowed_Origin="127.0.0.1", WebHook_Allowed_Rate=said))
        made = read(await subscribe(gateway, sink, address=stranger), 201)
        assert made["protocolsettings"].get("rate") == rate

    @pytest.mark.parametrize(
        ("method", "stranger"), [("GET", "127.0.0.21"), ("POST", "127.0.0.22")]
    )
    async def test_one_that_agrees_by_callback(
        self, gateway: Running, consumer: Consumers, method: str, stranger: str
    ) -> None:
        sink = consumer.add(status(405))
        assert (await subscribe(gateway, sink, address=stranger)).status == 400
        callback = sink.received[0].headers["webhook-request-callback"]
        path = callback.removeprefix(gateway.url)
        assert path.startswith("/events/consents/")
        for wrong in (path[:-1], f"{path}0", "/events/consents/x"):
            assert (await gateway.request(method, wrong)).status == 404
        other = await gateway.request(method, path, webhook_allowed_origin="other.example.com")
        assert other.status == 404
        assert (await subscribe(gateway, sink, address=stranger)).status == 400
        assert sink.received[1].headers["webhook-request-callback"] == callback
        agreed = http_request(gateway.port, method, path, b"", {"WebHook-Allowed-Rate": "600"})
        # As curl -X POST does, which says no length.
        read(
            await exchange(gateway.port, agreed.replace(b"Content-Length: 0\r\n", b""), "127.0.0.8")
        )
        assert (await subscribe(gateway, sink, address="127.0.0.7")).status == 400, "another's"
        asked = len(sink.received)
        made = read(await subscribe(gateway, sink, address=stranger), 201)
        assert made["protocolsettings"]["rate"] == 600
        assert len(sink.received) == asked

    async def test_who_is_trusted_asks_for_no_callback(
        self, gateway: Running, consumer: Consumers
    ) -> None:
        sink = consumer.add(status(405))
        assert (await subscribe(gateway, sink)).status == 201
        assert "webhook-request-callback" not in sink.received[0].headers

    async def test_a_full_quota_asks_nobody(self, tmp_path: Path) -> None:
        settings = {**GATEWAY, "max_subscriptions_per_owner": 1}
        async with Consumers() as consumer, running(tmp_path, **settings) as run:
            sink = consumer.add(agreeing())
            assert (await subscribe(run, sink, address=STRANGER)).status == 201
            asked = len(sink.received)
            answer = await subscribe(run, sink.url, address=STRANGER)
            assert read(answer, 403)["reason"] == "quota"
            assert len(sink.received) == asked

    async def test_a_rate_that_is_exceeded_asks_nobody(self, tmp_path: Path) -> None:
        """Of one address, with all its subscriptions."""
        async with Consumers() as consumer, running(tmp_path, **GATEWAY) as run:
            sink = consumer.add(agreeing())
            body = SPEAKER.wsn_subscribe(consumer.fresh())
            for _ in range(100):  # What it may do at once comes back at two a second.
                others = (run.ask(SPEAKER, body, source=STRANGER) for _ in range(8))
                before = len(sink.received)
                *_, answer = await gather(*others, subscribe(run, sink.url, address=STRANGER))
                if b"Too many Subscribe requests" in answer.body:
                    break
            assert answer.status == 429
            assert len(sink.received) == before

    async def test_a_host_is_asked_seldom(self, tmp_path: Path) -> None:
        """On behalf of strangers, before it has taken anything: a handshake is an attempt."""
        settings = {"trusted": "127.0.0.1", "probation_per_minute": 2}
        async with (
            running(tmp_path, egress_allow="127.0.0.0/8", **settings) as run,
            Consumers() as consumer,
        ):
            url = consumer.fresh()
            answers = [await subscribe(run, url, address=STRANGER) for _ in range(3)]
            assert [answer.status for answer in answers] == [400, 400, 429]
            assert consumer.waiting(url) == 2
            assert (await subscribe(run, url)).status == 201

    async def test_nobody_there(self, gateway: Running) -> None:
        answer = await subscribe(gateway, "http://127.0.0.1:8099/", address=STRANGER)
        assert "connect" in read(answer, 400)["detail"]

    @pytest.mark.parametrize(("handshake", "status"), [("always", 400), ("never", 201)])
    async def test_the_setting(self, tmp_path: Path, handshake: str, status: int) -> None:
        async with running(tmp_path, webhook_handshake=handshake) as run, Consumers() as consumer:
            sink = consumer.add()
            assert (await subscribe(run, sink.url)).status == status
            assert sink.count == (handshake == "always")


async def test_the_rate_that_a_consumer_allows(gateway: Running, consumer: Consumers) -> None:
    """Messages come so far apart, at least."""
    sink = consumer.add(agreeing(WebHook_Allowed_Rate="600"))
    await subscribed(gateway, sink, config={"topic": "paced"})
    await publish(gateway, *(event(topic="paced", n=number) for number in range(5)))
    receipts = [await sink.next() for _ in range(5)]
    assert [received(one)["n"] for one in receipts] == list(range(5))
    assert receipts[-1].at - receipts[0].at >= 4 * 0.1 - 0.05


async def test_consumers_of_both_worlds(gateway: Running, consumer: Consumers) -> None:
    """One event reaches subscribers of SOAP and of CloudEvents, whoever published it."""
    sink, wse = consumer.add(), consumer.fresh()
    await subscribed(gateway, sink, config={"topic": "both"})
    await gateway.subscribe(SPEAKER, SPEAKER.wse_subscribe(wse))
    xml = event(topic="both", datacontenttype="application/xml", data=STORM)
    await publish(gateway, xml)
    assert (await consumer.next(wse)).payload.tag == "{urn:w}storm"
    assert received(await sink.next())["data"] == STORM
    await gateway.publish(STORM, path="/soap/topic/both")
    assert (await consumer.next(wse)).payload.tag == "{urn:w}storm"
    found = received(await sink.next())
    assert (found["datacontenttype"], found["data"]) == ("application/xml", STORM)


class TestBatches:
    """Several events in a message, as many as the subscriber allows."""

    async def test_what_comes_while_one_is_under_way(
        self, gateway: Running, consumer: Consumers
    ) -> None:
        waiting: list[Connection] = []
        sink = consumer.add(agreeing(lambda connection, _: waiting.append(connection)))
        settings = {"mode": "batched", "batchsize": 3}
        made = await subscribed(
            gateway, sink, config={"topic": "batches"}, protocolsettings=settings
        )
        assert made["protocolsettings"]["batchsize"] == 3
        await publish(gateway, event(topic="batches", n=0))
        numbers = [[one["n"] for one in json.loads((await sink.next()).body)]]
        await publish(gateway, *(event(topic="batches", n=number) for number in range(1, 8)))
        sink.behaviour = agreeing()
        waiting.pop().answer(202)
        while sum(map(len, numbers)) < 8:
            numbers.append([one["n"] for one in json.loads((await sink.next()).body)])
        assert [number for batch in numbers for number in batch] == list(range(8))
        assert max(map(len, numbers)) == 3

    async def test_a_batch_that_fails_comes_again(
        self, gateway: Running, consumer: Consumers
    ) -> None:
        answers = iter((503, 503, 202))
        sink = consumer.add(agreeing(lambda connection, _: connection.answer(next(answers, 202))))
        settings = {"mode": "batched", "batchtime": 0.2, "secret": SECRET, "data": "json"}
        await subscribed(gateway, sink, config={"topic": "again"}, protocolsettings=settings)
        await publish(gateway, *(event(topic="again", n=number) for number in range(4)))
        receipts = [await sink.next() for _ in range(3)]
        assert len({one.headers["webhook-id"] for one in receipts}) == 1
        for receipt in receipts:
            assert receipt.headers["content-type"] == BATCH
            assert [one["n"] for one in json.loads(receipt.body)] == [0, 1, 2, 3]
        await gateway.quiet()

    @pytest.mark.parametrize(
        "settings",
        [{"batchsize": 3}, {"mode": "binary", "batchtime": 1}, {"mode": "batched", "batchsize": 0}],
    )
    async def test_what_is_refused(
        self, gateway: Running, consumer: Consumers, settings: dict[str, Any]
    ) -> None:
        assert (await subscribe(gateway, consumer.add(), protocolsettings=settings)).status == 422


async def test_a_subscriber_chooses_the_assurance(gateway: Running, consumer: Consumers) -> None:
    """At most once is one attempt, and is shown; exactly once takes a sequence."""
    failing = consumer.add(status(503))
    config = {"topic": "once", "assurance": "at-most-once"}
    made = await subscribed(gateway, failing, config=config)
    assert made["config"]["assurance"] == "at-most-once"
    path = path_of(made)
    shown = read(await gateway.request("GET", path))
    assert read(await put(gateway, path, shown)) == shown
    view = read(await gateway.api("GET", f"/subscriptions/{made['name']}"))
    assert view["mode"]["assurance"] == "at-most-once"
    for number in range(3):
        await gateway.publish(f"<n>{number}</n>", path="/soap/topic/once")

    async def given_up() -> bool:
        counts = read(await gateway.api("GET", f"/subscriptions/{made['name']}"))["counts"]
        assert counts["delivered"] == counts["dead"] == 0
        return bool(counts["cancelled"] == 3)

    await until(given_up)
    assert failing.numbers[1:] == ["0", "1", "2"]  # Before them it was asked.
    usual = await subscribed(gateway, consumer.add(), config={"topic": "a"})
    assert "assurance" not in usual["config"]
    for said, told in (("exactly-once", "sequences"), ("sometimes", "at-most-once")):
        answer = await subscribe(gateway, consumer.add(), config={"assurance": said})
        assert 400 <= answer.status < 500 and told in answer.body.decode()
