"""Cameras of ONVIF as sources, with users and passwords, whatever is wrong with them."""

import base64
import json
import ssl
import stat
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.egress import Consumer
from gateway.sources.held_leases import UNAUTHORIZED
from mediation.names import ONVIF_TOPICS
from tests.gateway.sources.test_sources import shown, state
from tests.rigs.cameras import MOTION, PASSWORD, TT, USER, Camera
from tests.rigs.certificates import Authority
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import FULL, Speaker, wse_filter
from tests.rigs.gateways import Running, running
from tests.rigs.producers import Producers, producers, silent
from tests.rigs.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOGIN = {"user": USER, "password": PASSWORD}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def some() -> AsyncIterator[Producers]:
    async with producers() as those:
        yield those


async def add(gateway: Running, camera: Camera, **asked: Any) -> str:
    body = {"url": camera.device, "profile": "onvif", **LOGIN, **asked}
    answer = await gateway.api("POST", "/sources", json.dumps(body).encode())
    assert answer.status == 201, answer.body
    assert PASSWORD.encode() not in answer.body and b'"password":' not in answer.body
    return str(json.loads(answer.body)["id"])


async def listen(gateway: Running, consumer: Consumers) -> str:
    url = consumer.fresh()
    filter_ = wse_filter("t:VideoSource//.", FULL, f'xmlns:t="{ONVIF_TOPICS}"')
    await gateway.subscribe(Speaker(), Speaker().wse_subscribe(url, filter=filter_))
    return url


async def states(consumer: Consumers, url: str, number: int) -> list[str]:
    """The states of so many motion alarms."""
    found = []
    for _ in range(number):
        receipt = await consumer.next(url)
        [item] = receipt.payload.iterfind("{*}Data/{*}SimpleItem")
        found.append(str(item.get("Value")))
    return found


ODD: list[Any] = [
    pytest.param({}, {}, id="as ONVIF has it"),
    pytest.param({"takes": ()}, {}, id="no password wanted"),
    pytest.param({"clock": -7380.0}, {}, id="two hours behind"),
    pytest.param({"clock": 1e8}, {}, id="years ahead"),
    pytest.param({"takes": ("digest",)}, {}, id="HTTP Digest alone"),
    pytest.param({"takes": ("digest",), "digest": "SHA-256"}, {}, id="Digest with SHA-256"),
    pytest.param({"takes": ("digest",), "once": True}, {}, id="a nonce for each request"),
    pytest.param({"takes": ("digest", "basic")}, {}, id="Digest or Basic"),
    pytest.param({"takes": ("basic",)}, {"allow_basic": True}, id="Basic alone"),
    pytest.param({"host": "192.168.1.88:8899"}, {}, id="an XAddr with another host"),
    pytest.param({"services": False}, {}, id="GetCapabilities alone"),
    pytest.param({"most": 3, "renews": False}, {}, id="a short lease that is not renewed"),
    pytest.param({"state": None}, {}, id="no synchronization point"),
]


@pytest.mark.parametrize(("odd", "asked"), ODD)
async def test_events_of_a_camera_are_pulled(
    gateway: Running,
    consumer: Consumers,
    some: Producers,
    odd: dict[str, Any],
    asked: dict[str, Any],
) -> None:
    camera = some.put(lambda url: Camera(url, **odd))
    url = await listen(gateway, consumer)
    id_ = await add(gateway, camera, mode="pull", **asked)
    await state(gateway, id_, "live")
    initial = [] if camera.state is None else ["initial"]
    await camera.move("true", "false")
    assert await states(consumer, url, len(initial) + 2) == [*initial, "true", "false"]
    seen = await shown(gateway, id_)
    assert seen["user"] == USER and seen["failures"] == 0
    answer = await gateway.api("DELETE", f"/sources/{id_}")
    assert answer.status == 204
    await camera.asked("Unsubscribe")
    assert PASSWORD.encode() not in b"".join(one.message.octets for one in camera.told)


REFUSED = [
    pytest.param({}, {"password": "wrong"}, f"it refused the user '{USER}', or the password", 1),
    pytest.param({"takes": ("digest",)}, {"password": "wrong"}, "answered 401", 2),
    pytest.param({"takes": ("basic",)}, {}, "--allow-basic", 1),
    pytest.param({"takes": ("basic",)}, {"password": "no", "allow_basic": True}, "refused", 2),
    pytest.param({}, {"user": None, "password": None}, "it wants a user and a password", 1),
    pytest.param({"events": False}, {}, "it has no event service", 0),
]


@pytest.mark.parametrize(("odd", "asked", "told", "refusals"), REFUSED)
async def test_a_refusal_is_told_in_plain_words(
    gateway: Running,
    some: Producers,
    odd: dict[str, Any],
    asked: dict[str, Any],
    told: str,
    refusals: int,
) -> None:
    camera = some.put(lambda url: Camera(url, **odd))
    id_ = await add(gateway, camera, mode="pull", **asked)
    seen = await state(gateway, id_, "backing-off")
    assert told in seen["last_error"] and PASSWORD not in seen["last_error"]
    # Cameras lock out who is wrong too often: nothing is tried once more that is wrong anyway.
    assert camera.refused == ["GetServices"] * refusals
    wait = datetime.fromisoformat(seen["next"]) - datetime.fromisoformat(seen["since"])
    assert (wait >= timedelta(seconds=UNAUTHORIZED / 2)) is bool(refusals)
    await gateway.api("DELETE", f"/sources/{id_}")


async def test_events_of_a_camera_are_pushed(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    camera = some.put(Camera)
    url = await listen(gateway, consumer)
    id_ = await add(gateway, camera, topic="tns1:VideoSource//.")
    await state(gateway, id_, "live")
    [topic] = camera.last("Subscribe").message.root.iter("{*}TopicExpression")
    assert topic.text == "tns1:VideoSource//." and topic.nsmap["tns1"] == ONVIF_TOPICS
    assert str(topic.get("Dialect")).endswith("topicExpression/ConcreteSet")
    assert camera.count("SetSynchronizationPoint") == 1
    item = '<tt:SimpleItem Name="State" Value="true"/>'
    payload = f'<tt:Message xmlns:tt="{TT}"><tt:Data>{item}</tt:Data></tt:Message>'
    assert await camera.send(payload, topic=MOTION) == 202
    assert await states(consumer, url, 1) == ["true"]


async def test_each_message_has_a_nonce_and_a_time_of_its_own(
    gateway: Running, some: Producers
) -> None:
    camera = some.put(Camera)
    id_ = await add(gateway, camera, mode="pull")
    await state(gateway, id_, "live")
    await camera.move("true")
    await camera.asked("PullMessages", 2)
    nonces = [one.text("Nonce") for one in camera.told]
    assert nonces[0] is None and camera.told[0].operation == "GetSystemDateAndTime"
    assert None not in nonces[1:] and len(set(nonces)) == len(nonces)
    assert not camera.refused


AWAY = [
    pytest.param(None, id="its memory is lost"),
    pytest.param(-90000.0, id="its clock is another one, too"),
]


@pytest.mark.parametrize("clock", AWAY)
async def test_a_camera_that_restarts_is_subscribed_at_again(
    gateway: Running, consumer: Consumers, some: Producers, clock: float | None
) -> None:
    camera = some.put(lambda url: Camera(url, state=None))
    url = await listen(gateway, consumer)
    id_ = await add(gateway, camera, mode="pull")
    await camera.asked("PullMessages")
    await camera.restart(clock)
    await camera.asked("CreatePullPointSubscription", 2)
    await camera.move("after")
    assert await states(consumer, url, 1) == ["after"]
    await state(gateway, id_, "live")


async def test_a_password_that_is_changed_locks_nobody_out(
    gateway: Running, some: Producers
) -> None:
    camera = some.put(Camera)
    id_ = await add(gateway, camera, mode="pull")
    await camera.asked("PullMessages")
    camera.password = "another"
    await camera.move("true")  # Answers the pull that waits.
    seen = await state(gateway, id_, "backing-off")
    assert "it refused the user" in seen["last_error"]
    assert sorted(camera.refused) == ["GetServices", "PullMessages"]


LEASES = [
    pytest.param(True, "Renew", 1, id="it is renewed"),
    pytest.param(False, "CreatePullPointSubscription", 2, id="Renew is refused"),
]


@pytest.mark.parametrize(("renews", "operation", "number"), LEASES)
async def test_a_lease_that_is_shorter_than_asked_goes_on(
    gateway: Running,
    consumer: Consumers,
    some: Producers,
    renews: bool,
    operation: str,
    number: int,
) -> None:
    camera = some.put(lambda url: Camera(url, most=2, renews=renews, state=None))
    url = await listen(gateway, consumer)
    await add(gateway, camera, mode="pull")
    created = await camera.asked("CreatePullPointSubscription")
    assert created.text("InitialTerminationTime") == "PT10M"
    told = await camera.asked(operation, number)
    assert told.text("Password") not in (None, created.text("Password"))
    await camera.move("true")
    assert await states(consumer, url, 1) == ["true"]
    assert not camera.refused


async def test_a_camera_that_does_not_answer_stops_no_other(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    slow = some.put(lambda url: Camera(url, answers={"GetSystemDateAndTime": silent}))
    hung = some.put(lambda url: Camera(url, answers={"PullMessages": silent}))
    for one in (slow, hung):
        await add(gateway, one, mode="pull")
    await hung.asked("PullMessages")
    camera = some.put(lambda url: Camera(url, state=None))
    url = await listen(gateway, consumer)
    await add(gateway, camera, mode="pull")
    await camera.move("true")
    assert await states(consumer, url, 1) == ["true"]


async def test_what_is_pulled_is_published_before_the_next_pull(
    gateway: Running, consumer: Consumers, some: Producers
) -> None:
    """The next pull is what tells the camera that the events before it have arrived."""
    camera = some.put(lambda url: Camera(url, state=None))
    url = await listen(gateway, consumer)
    id_ = await add(gateway, camera, mode="pull")
    await camera.asked("PullMessages")
    await camera.move("true")
    await camera.asked("PullMessages", 2)
    assert (await shown(gateway, id_))["events"] == 1
    assert await states(consumer, url, 1) == ["true"]


async def test_a_password_goes_to_no_other_host(gateway: Running, some: Producers) -> None:
    """Not to the one that a manager's address names, whatever producer it is."""
    other = some.put(lambda url: Camera(url, takes=("basic",)))
    elsewhere = other.url.replace("127.0.0.1", "localhost")
    producer = some.add()
    producer.manager, producer.grants = f"{elsewhere}/onvif/pull/x", "PT2S"
    body = {"url": producer.url, **LOGIN, "allow_basic": True}
    answer = await gateway.api("POST", "/sources", json.dumps(body).encode())
    id_ = json.loads(answer.body)["id"]
    told = await other.asked("Renew")
    assert "authorization" not in told.headers and told.text("Password") is None

    async def failed() -> bool:
        return "another host" in str((await shown(gateway, id_))["last_error"])

    await until(failed)


WRONG = [
    pytest.param({"spec": "wse-2004-08"}, "wsn-1.3", id="another specification"),
    pytest.param({"resource": "urn:r"}, "wsman", id="a resource"),
    pytest.param({"mode": "events"}, "push and pull", id="another mode"),
    pytest.param({"user": None}, "a password is somebody's", id="a password of nobody"),
    pytest.param({"user": "a\tb"}, "control characters", id="a control character"),
    pytest.param({"topic": "tns2:a"}, "tns2", id="a prefix that nobody declared"),
]


@pytest.mark.parametrize(("asked", "told"), WRONG)
async def test_what_no_camera_can_be_asked_is_refused(
    gateway: Running, some: Producers, asked: dict[str, Any], told: str
) -> None:
    camera = some.put(Camera)
    body = {"url": camera.device, "profile": "onvif", **LOGIN, **asked}
    answer = await gateway.api("POST", "/sources", json.dumps(body).encode())
    assert answer.status in (400, 422) and told.encode() in answer.body, answer.body
    assert PASSWORD.encode() not in answer.body


async def test_the_store_and_the_logs_have_no_password(tmp_path: Path, some: Producers) -> None:
    """And a gateway that is started again knows it, by the key beside the store."""
    camera = some.put(lambda url: Camera(url, takes=("digest",)))
    data = tmp_path / "data"
    async with running(data=data) as gateway:
        id_ = await add(gateway, camera, mode="pull")
        await state(gateway, id_, "live")
        logs = repr(gateway.logs)
    key = data / "source.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    kept = b"".join(path.read_bytes() for path in data.iterdir() if path.is_file())
    assert camera.count("PullMessages") and key.read_bytes() in kept
    for text in (PASSWORD, base64.b64encode(PASSWORD.encode()).decode()):
        assert text.encode() not in kept and text not in logs
    key.unlink()
    await camera.restart()
    async with running(data=data) as gateway:
        seen = await state(gateway, id_, "backing-off")
        assert "was not encrypted with the key" in seen["last_error"]


async def test_over_https_with_a_certificate_basic_is_enough(tmp_path: Path) -> None:
    """The password is not read on the way, and the gateway shows a certificate of its own."""
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("127.0.0.1"))
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = authority.issue("gateway.example.org")
    row = Consumer(
        address="127.0.0.1", ca=authority.certificate,
        client_certificate=certificate, client_key=key,
    )  # fmt: skip
    async with producers(context) as some, running(tmp_path / "data", consumers=[row]) as gateway:
        camera = some.put(lambda url: Camera(url, takes=("basic",)))
        id_ = await add(gateway, camera, mode="pull")
        await camera.asked("PullMessages")
        assert (await state(gateway, id_, "live"))["last_error"] is None
