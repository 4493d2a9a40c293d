"""ONVIF's event service through a running gateway, as its clients use it."""

import asyncio
import contextlib
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from onvif import ONVIFCamera  # type: ignore[import-untyped]
from zeep.exceptions import Fault

from filters.dialects import TOPIC_CONCRETE_SET
from gateway.client import Client
from mediation import names
from mediation.model.versions import Soap, Wsa
from tests.conftest import ROOT
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    BW,
    CONCRETE,
    S11,
    S12,
    WSA10,
    WSNT,
    Answer,
    R,
    Speaker,
    children,
    fresh_id,
    next_number,
    notification_message,
    notify,
    topic_expression,
)
from tests.rigs.gateways import Running, http_request, running
from tests.rigs.processes import GatewayProcess, gateway_process
from tests.rigs.waiting import DEADLINE

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEV, TNS1, TT = names.ONVIF_EVENTS, names.ONVIF_TOPICS, names.ONVIF_SCHEMA
EVENTS, PULLS = f"{TEV}/EventPortType", f"{TEV}/PullPointSubscription"
SCOPE = f'xmlns:tns1="{TNS1}"'
SECURITY = (
    f'<w:Security xmlns:w="{names.WSSE}" s:mustUnderstand="true"><w:UsernameToken>'
    "<w:Username>admin</w:Username></w:UsernameToken></w:Security>"
)
LONG = "PT60S"
AT_ONCE = 30.0
"""Seconds: far less than `LONG`, far more than a busy machine needs."""


def fresh_topic() -> str:
    return f"RuleEngine/Detector{next_number()}/Motion"


def message(number: object, operation: str = "Changed") -> str:
    return (
        f'<tt:Message xmlns:tt="{TT}" UtcTime="2026-01-31T10:00:04Z" '
        f'PropertyOperation="{operation}"><tt:Data>'
        f'<tt:SimpleItem Name="State" Value="{number}"/></tt:Data></tt:Message>'
    )


async def publish(
    run: Running | GatewayProcess, topic: str, *numbers: object, operation: str = "Changed"
) -> None:
    """Publish as a camera notifies, one event after the other."""
    for number in numbers:
        sent = notify(
            notification_message(message(number, operation), f"tns1:{topic}"), scope=SCOPE
        )
        await post(run, Speaker().envelope(sent, message_id=fresh_id()), status=202)


async def post(
    run: Running | GatewayProcess, octets: bytes, path: str = "/soap", *, status: int = 200
) -> Answer:
    answer = await run.request("POST", path, octets, content_type=S12.media_type)
    assert answer.status == status, answer.body
    return answer


def tev(operation: str, inner: str = "") -> str:
    return f'<tev:{operation} xmlns:tev="{TEV}" xmlns:n="{WSNT}">{inner}</tev:{operation}>'


def filtering(topic: str) -> str:
    expression = topic_expression(f"tns1:{topic}", TOPIC_CONCRETE_SET, SCOPE)
    return f"<tev:Filter>{expression}</tev:Filter>"


def pulling(timeout: str, limit: int) -> str:
    return tev(
        "PullMessages",
        f"<tev:Timeout>{timeout}</tev:Timeout><tev:MessageLimit>{limit}</tev:MessageLimit>",
    )


def pulled(answer: Answer) -> list[str]:
    """What the messages of an answer say."""
    assert answer.status == 200, answer.body
    [response] = answer.message.body
    assert response.tag == f"{{{TEV}}}PullMessagesResponse", answer.body
    return [str(item.get("Value")) for item in response.iter(f"{{{TT}}}SimpleItem")]


def time_of(answer: Answer, name: str) -> datetime:
    """A time of an answer, written as Reolink's clients read it."""
    [found] = [
        element for element in answer.message.body[0] if etree.QName(element).localname == name
    ]
    return datetime.strptime(found.text or "", "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


class Puller:
    """A client that pulls from the address that it was given."""

    def __init__(self, run: Running | GatewayProcess, address: str) -> None:
        self.run = run
        self.address = address
        self.path = address[address.index("/", 8) :]

    @classmethod
    async def create(cls, run: Running | GatewayProcess, inner: str = "") -> "Puller":
        asked = Speaker().envelope(
            tev("CreatePullPointSubscription", inner),
            action=f"{EVENTS}/CreatePullPointSubscriptionRequest",
            message_id=fresh_id(),
        )
        answer = await post(run, asked)
        assert answer.message.wsa("Action") == f"{EVENTS}/CreatePullPointSubscriptionResponse"
        [response] = answer.message.body
        address = response.findtext(f"{{{TEV}}}SubscriptionReference/{{{WSA10}}}Address")
        assert address is not None
        return cls(run, address)

    async def ask(self, body: str, action: str) -> Answer:
        octets = Speaker().envelope(
            body, action=action, to=self.address, message_id=fresh_id(), headers=SECURITY
        )
        return await self.run.request("POST", self.path, octets, content_type=S12.media_type)

    async def pull(self, timeout: str = "PT0S", limit: int = 100) -> Answer:
        return await self.ask(pulling(timeout, limit), f"{PULLS}/PullMessagesRequest")

    async def synchronize(self) -> None:
        answer = await self.ask(
            tev("SetSynchronizationPoint"), f"{PULLS}/SetSynchronizationPointRequest"
        )
        assert answer.status == 200, answer.body
        [response] = answer.message.body
        assert response.tag == f"{{{TEV}}}SetSynchronizationPointResponse"

    async def unsubscribe(self) -> Answer:
        return await self.ask(
            f'<n:Unsubscribe xmlns:n="{WSNT}"/>', f"{BW}/SubscriptionManager/UnsubscribeRequest"
        )

    async def renew(self, time: str) -> Answer:
        return await self.ask(
            f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>{time}</n:TerminationTime></n:Renew>',
            f"{BW}/SubscriptionManager/RenewRequest",
        )

    async def collect(self, number: int) -> list[str]:
        found: list[str] = []
        async with asyncio.timeout(2 * DEADLINE):
            while len(found) < number:
                found += pulled(await self.pull("PT5S"))
        return found


# A subscription's life.


async def test_life(gateway: Running) -> None:
    topic, before = fresh_topic(), datetime.now(UTC).replace(microsecond=0)
    asked = filtering(topic) + "<tev:InitialTerminationTime>PT600S</tev:InitialTerminationTime>"
    answer = await gateway.ask(Speaker(), tev("CreatePullPointSubscription", asked))
    assert time_of(answer, "CurrentTime") >= before
    lease = time_of(answer, "TerminationTime") - time_of(answer, "CurrentTime")
    assert abs(lease - timedelta(minutes=10)) <= timedelta(seconds=1)
    puller = await Puller.create(gateway, asked)
    assert puller.address.startswith(f"{gateway.url}/subscriptions/")

    pull = asyncio.create_task(puller.pull(LONG))
    await gateway.until(lambda: waits(gateway))
    await publish(gateway, fresh_topic(), "elsewhere")
    await publish(gateway, topic, 1)
    answer = await asyncio.wait_for(pull, AT_ONCE)
    assert pulled(answer) == ["1"]
    assert answer.message.wsa("Action") == f"{PULLS}/PullMessagesResponse"
    [told] = answer.message.body[0].iter(f"{{{WSNT}}}Topic")
    assert (told.text, told.get("Dialect")) == (f"tns1:{topic}", TOPIC_CONCRETE_SET)
    assert told.nsmap["tns1"] == TNS1

    await publish(gateway, topic, *range(2, 7))
    assert await puller.collect(5) == ["2", "3", "4", "5", "6"]
    answer = await puller.renew("PT20M")
    lease = time_of(answer, "TerminationTime") - time_of(answer, "CurrentTime")
    assert abs(lease - timedelta(minutes=20)) <= timedelta(seconds=1)
    assert (await puller.unsubscribe()).status == 200
    for gone in (await puller.pull(), await puller.unsubscribe(), await puller.renew("PT1M")):
        assert gone.fault.element == f"{{{R}}}ResourceUnknownFault"


def waits(gateway: Running, number: int = 1) -> bool:
    """Whether so many readers wait for messages."""
    return len(gateway.gateway.mailboxes.waiting) >= number


async def test_no_more_than_was_asked_for(gateway: Running) -> None:
    topic = fresh_topic()
    puller = await Puller.create(gateway, filtering(topic))
    await publish(gateway, topic, *range(5))
    found: list[str] = []
    async with asyncio.timeout(DEADLINE):
        while len(found) < 5:
            some = pulled(await puller.pull("PT5S", limit=2))
            assert 1 <= len(some) <= 2
            found += some
    assert found == ["0", "1", "2", "3", "4"]
    assert pulled(await puller.pull("PT0S", limit=2**31 - 1)) == []


async def test_nothing_comes_only_when_the_time_is_over(gateway: Running) -> None:
    puller = await Puller.create(gateway, filtering(fresh_topic()))
    start = time.monotonic()
    answer = await puller.pull("PT0.3S")
    assert pulled(answer) == []
    assert time.monotonic() - start >= 0.3
    assert time_of(answer, "TerminationTime") > time_of(answer, "CurrentTime")


async def test_one_pulls_at_a_time(gateway: Running) -> None:
    topic = fresh_topic()
    puller = await Puller.create(gateway, filtering(topic))
    first = asyncio.create_task(puller.pull(LONG))
    await gateway.until(lambda: waits(gateway))
    second = await puller.pull(LONG)
    assert (second.status, second.fault.code) == (500, f"{{{S12.value}}}Receiver")
    assert second.fault.element == f"{{{WSNT}}}UnableToGetMessagesFault"
    await publish(gateway, topic, 1)
    assert pulled(await first) == ["1"]
    assert pulled(await puller.pull()) == []  # Now it may.


async def test_a_pull_keeps_the_subscription_alive(gateway: Running) -> None:
    topic = fresh_topic()
    asked = filtering(topic) + "<tev:InitialTerminationTime>PT2S</tev:InitialTerminationTime>"
    puller = await Puller.create(gateway, asked)
    answer = await puller.pull()
    left = time_of(answer, "TerminationTime") - time_of(answer, "CurrentTime")
    assert left >= timedelta(seconds=30)
    status = await puller.ask(f'<n:GetStatus xmlns:n="{WSNT}"/>', f"{BW}/GetStatusRequest")
    assert status.status == 200, status.body


async def test_who_has_gone_waits_no_more(gateway: Running) -> None:
    topic = fresh_topic()
    puller = await Puller.create(gateway, filtering(topic))
    octets = Speaker().envelope(pulling(LONG, 100), to=puller.address)
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(
        http_request(gateway.port, "POST", puller.path, octets, {"Content-Type": S12.media_type})
    )
    await writer.drain()
    await gateway.until(lambda: waits(gateway))
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    await gateway.until(lambda: not waits(gateway))
    await publish(gateway, topic, 1)
    assert pulled(await puller.pull("PT5S")) == ["1"]


async def test_a_gateway_that_stops_sends_its_readers_away(tmp_path: Path) -> None:
    async with running(tmp_path) as run:
        puller = await Puller.create(run)
        pull = asyncio.create_task(puller.pull(LONG))
        await run.until(lambda: waits(run))
        run.stop.set()
        assert pulled(await asyncio.wait_for(pull, AT_ONCE)) == []


async def test_changes_only(gateway: Running) -> None:
    topic = fresh_topic()
    policy = "<tev:SubscriptionPolicy><tev:ChangedOnly/></tev:SubscriptionPolicy>"
    puller = await Puller.create(gateway, policy + filtering(topic))
    for number, operation in enumerate(("Initialized", "Changed", "Deleted", "Changed")):
        await publish(gateway, topic, number, operation=operation)
    assert await puller.collect(2) == ["1", "3"]


async def test_it_survives_a_crash(tmp_path: Path) -> None:
    topic = fresh_topic()
    async with gateway_process(tmp_path / "data") as gateway:
        puller = await Puller.create(gateway, filtering(topic))
        await publish(gateway, topic, *range(5))
        assert pulled(await puller.pull("PT5S", limit=1)) == ["0"]
        await gateway.kill()
        await gateway.start()
        await publish(gateway, topic, 5)
        assert await puller.collect(5) == ["1", "2", "3", "4", "5"]
        assert (await puller.unsubscribe()).status == 200
        await gateway.at_rest()


# Synchronisation.


async def test_synchronization(gateway: Running) -> None:
    topic, other = fresh_topic(), fresh_topic()
    await publish(gateway, topic, 1, 2)
    await publish(gateway, other, 3)
    puller = await Puller.create(gateway, filtering(topic))
    assert pulled(await puller.pull()) == []
    await puller.synchronize()
    assert await puller.collect(1) == ["2"]
    assert pulled(await puller.pull()) == []


async def test_synchronization_of_a_push_subscription(
    gateway: Running, consumer: Consumers
) -> None:
    """Home Assistant asks for it to see whether its webhook is reached."""
    topic, url = fresh_topic(), consumer.fresh()
    await publish(gateway, topic, 1)
    filter_ = topic_expression(f"tns1:{topic}", TOPIC_CONCRETE_SET, SCOPE)
    path = await gateway.subscribe(Speaker(), Speaker().wsn_subscribe(url, filter=filter_))
    await Puller(gateway, gateway.url + path).synchronize()
    assert (await consumer.next(url)).payload.tag == f"{{{TT}}}Message"


# What the service can do.


async def test_what_the_service_says_of_itself(gateway: Running) -> None:
    topic = fresh_topic()
    await publish(gateway, topic, 1)
    answer = await gateway.ask(Speaker(), tev("GetEventProperties"))
    assert answer.message.wsa("Action") == f"{EVENTS}/GetEventPropertiesResponse"
    step = answer.message.find(f"{{{TEV}}}GetEventPropertiesResponse/{{{names.WSTOP_1_3}}}TopicSet")
    first, *others = topic.split("/")
    for name in (f"{{{TNS1}}}{first}", *others):
        assert step is not None
        step = step.find(name)
    assert step is not None and step.get(f"{{{names.WSTOP_1_3}}}topic") == "true"
    spoken = [
        element.text for element in answer.message.body[0].iter(f"{{{WSNT}}}TopicExpressionDialect")
    ]
    assert {TOPIC_CONCRETE_SET, CONCRETE} <= set(spoken)
    answer = await gateway.ask(Speaker(), tev("GetServiceCapabilities"))
    [said] = children(answer.message.body[0])
    assert int(said.get("MaxPullPoints", "0")) > 0


@pytest.mark.parametrize("soap", [S11, S12])
async def test_seek(gateway: Running, soap: Soap) -> None:
    puller = await Puller.create(gateway)
    sought = tev("Seek", "<tev:UtcTime>2026-01-31T10:00:00Z</tev:UtcTime>")
    answer = await gateway.ask(Speaker(soap), sought, puller.path)
    assert (answer.status, answer.fault.subcode) == (
        500, "{http://www.onvif.org/ver10/error}ActionNotSupported"
    )  # fmt: skip


# The habits of clients.


@pytest.mark.parametrize("where", ["the whole address", "its path"])
async def test_reolink(gateway: Running, where: str) -> None:
    """reolink_aio posts all to one URL and names the subscription in ``wsa:To``; a component of
    its users keeps no more than the path. Both name the action in a header of HTTP of its own."""

    async def ask(body: str, action: str, to: str = "") -> Answer:
        said = f"<wsa:Action>{action}</wsa:Action>" + (f"<wsa:To>{to}</wsa:To>" if to else "")
        octets = b"\n    " + Speaker().envelope(body, headers=said + SECURITY)
        answer = await gateway.request(
            "POST", "/soap", octets,
            content_type="application/soap+xml;charset=UTF-8", action=action,
        )  # fmt: skip
        assert answer.status == 200, answer.body
        return answer

    topic = fresh_topic()
    answer = await ask(
        tev("CreatePullPointSubscription",
            "<tev:InitialTerminationTime>PT15M</tev:InitialTerminationTime>"),
        f"{EVENTS}/CreatePullPointSubscriptionRequest",
    )  # fmt: skip
    (first, *_) = answer.message.root.iter(f"{{{WSA10}}}Address")
    to = first.text or ""
    if where == "its path":
        to = to[to.index("/", 8) :]
    pull = asyncio.create_task(ask(pulling("PT5M", 100), f"{PULLS}/PullMessagesRequest", to))
    await gateway.until(lambda: waits(gateway))
    await publish(gateway, topic, 1)
    answer = await pull
    assert pulled(answer) == ["1"]
    [told] = answer.message.body[0].iter(f"{{{WSNT}}}Topic")
    assert told.get("Dialect") == TOPIC_CONCRETE_SET
    renewed = await ask(
        f'<n:Renew xmlns:n="{WSNT}"><n:TerminationTime>PT15M</n:TerminationTime></n:Renew>',
        f"{BW}/SubscriptionManager/RenewRequest", to,
    )  # fmt: skip
    lease = time_of(renewed, "TerminationTime") - time_of(renewed, "CurrentTime")
    assert abs(lease - timedelta(minutes=15)) <= timedelta(seconds=1)
    await ask(
        f'<n:Unsubscribe xmlns:n="{WSNT}"/>', f"{BW}/SubscriptionManager/UnsubscribeRequest", to
    )


def searched(answered: str, section: str, key: str) -> str:
    """The text behind *key* behind *section*, as openHAB looks for it in octets."""
    behind = answered[answered.index(section) + len(section) :]
    behind = behind[behind.index(key) + len(key) :]
    return behind[: behind.index("<")]


async def test_openhab(gateway: Running) -> None:
    """OpenHAB's binding writes some requests in a namespace that is none, says no action, and
    searches the text of the answers."""

    async def ask(namespace: str, operation: str, inner: str = "", address: str = "") -> str:
        to = f'<wsa:To s:mustUnderstand="1">{address}</wsa:To>' if address else ""
        octets = Speaker(S12, Wsa.V2005_08 if address else None).envelope(
            f'<{operation} xmlns="{namespace}">{inner}</{operation}>', headers=to + SECURITY
        )
        answer = await gateway.request(
            "POST",
            address[address.index("/", 8) :] if address else "/soap",
            octets,
            content_type=f'application/soap+xml; charset=utf-8; action="{namespace}/{operation}"',
            soapaction=f'"{namespace}/{operation}"',
        )
        assert answer.status == 200, answer.body
        return answer.body.decode()

    topic = fresh_topic()
    said = await ask(f"{WSNT}/", "GetServiceCapabilities")
    assert "GetServiceCapabilitiesResponse" in said
    assert 'WSSubscriptionPolicySupport="true"' in said
    assert "GetEventPropertiesResponse" in await ask(TEV, "GetEventProperties")
    time = "<InitialTerminationTime>PT600S</InitialTerminationTime>"
    said = await ask(TEV, "CreatePullPointSubscription", time)
    assert "CreatePullPointSubscriptionResponse" in said
    address = searched(said, "SubscriptionReference>", "Address>")
    asked = "<Timeout>PT8S</Timeout><MessageLimit>1</MessageLimit>"
    for number in (1, 2):
        await publish(gateway, topic, number)
        said = await ask(TEV, "PullMessages", asked, address)
        assert "PullMessagesResponse" in said
        assert searched(said, "Topic", "tns1:") == topic
        assert searched(said, "tt:Data", 'Value="').startswith(f'{number}"')
        time = "<TerminationTime>PT1M</TerminationTime>"
        assert "RenewResponse" in await ask(WSNT, "Renew", time, address)
    assert "UnsubscribeResponse" in await ask(f"{WSNT}/", "Unsubscribe", "", address)


@contextlib.asynccontextmanager
async def camera(gateway: Running) -> AsyncIterator[ONVIFCamera]:
    """The gateway as Home Assistant's client library sees a camera, of which it knows no more than
    host and port."""
    one = ONVIFCamera("127.0.0.1", gateway.port, "admin", "secret", no_cache=True)
    try:
        await one.update_xaddrs()
        yield one
    finally:
        await one.close()


def seen_by_client(response: Any) -> list[tuple[str, str]]:
    """Topic and state of each message that the library read; Home Assistant strips topics so."""
    return [
        (one.Topic._value_1.rstrip("/."), one.Message._value_1.Data.SimpleItem[0].Value)
        for one in response.NotificationMessage
    ]


async def test_home_assistant_finds_the_services(gateway: Running) -> None:
    async with camera(gateway) as one, asyncio.timeout(2 * DEADLINE):
        device = f"{gateway.url}/onvif/device_service"
        assert one.xaddrs == {names.ONVIF_DEVICE: device, TEV: f"{gateway.url}/soap"}
        capabilities = await one.get_capabilities()
        assert capabilities["Events"]["XAddr"] == f"{gateway.url}/soap"
        assert capabilities["Events"]["WSPullPointSupport"] is True
        assert capabilities["Device"]["XAddr"] == device
        assert capabilities["Media"] is None
        service = await one.create_devicemgmt_service()
        told = await service.GetDeviceInformation()
        assert (told.Manufacturer, told.Model) == ("Dragoman", "Dragoman")
        assert told.FirmwareVersion == version("dragoman") and told.SerialNumber
        assert (await service.GetDeviceInformation()).SerialNumber == told.SerialNumber
        clock = (await service.GetSystemDateAndTime()).UTCDateTime
        said = datetime(
            clock.Date.Year, clock.Date.Month, clock.Date.Day,
            clock.Time.Hour, clock.Time.Minute, clock.Time.Second, tzinfo=UTC,
        )  # fmt: skip
        assert abs(datetime.now(UTC) - said) < timedelta(minutes=1)
        assert (await service.GetServiceCapabilities()).Security.UsernameToken is False
        detailed = await service.GetServices({"IncludeCapability": True})
        assert [one.Namespace for one in detailed] == [names.ONVIF_DEVICE, TEV]
        assert all(one.Capabilities is not None for one in detailed)
        with pytest.raises(Fault, match="Not Implemented") as refused:
            await service.GetNetworkInterfaces()
        # Home Assistant looks for these words, and goes on.
        assert "not implemented" in refused.value.message
        with pytest.raises(Fault):
            await service.GetCapabilities({"Category": "Media"})


async def test_home_assistant_pulls(gateway: Running) -> None:
    lost: list[str] = []
    topic = fresh_topic()
    async with camera(gateway) as one, asyncio.timeout(2 * DEADLINE):
        await publish(gateway, topic, "before")
        manager = await one.create_pullpoint_manager(
            timedelta(minutes=10), lambda: lost.append("lost")
        )
        assert not one._has_broken_relative_timestamps
        service = manager.get_service()
        assert re.fullmatch(f"{gateway.url}/subscriptions/[-0-9a-f]{{36}}", service.xaddr)

        async def pull() -> list[tuple[str, str]]:
            request = {"MessageLimit": 100, "Timeout": timedelta(seconds=60)}
            response = await service.PullMessages(request)
            assert response.CurrentTime.tzinfo is not None
            assert response.TerminationTime > response.CurrentTime
            return seen_by_client(response)

        async def pull_until(value: str) -> None:
            """What is synchronised is of all topics."""
            while (f"tns1:{topic}", value) not in await pull():
                pass

        waiting = asyncio.create_task(pull())
        await gateway.until(lambda: waits(gateway))
        await publish(gateway, topic, "true")
        assert await waiting == [(f"tns1:{topic}", "true")]
        await manager.set_synchronization_point()
        await pull_until("true")
        first = service.xaddr
        await manager._renew_or_restart_subscription()
        await publish(gateway, topic, "false")
        await pull_until("false")
        assert manager.get_service().xaddr == first, "it was renewed, not made anew"
        await manager.shutdown()
        assert lost == []
        with pytest.raises(Fault):
            await pull()


async def test_home_assistant_is_notified(gateway: Running, consumer: Consumers) -> None:
    topic, url = fresh_topic(), consumer.fresh()
    await publish(gateway, topic, "true")
    async with camera(gateway) as one, asyncio.timeout(2 * DEADLINE):
        manager = await one.create_notification_manager(url, timedelta(minutes=10), lambda: None)
        await manager.set_synchronization_point()
        seen: list[tuple[str, str]] = []
        while (f"tns1:{topic}", "true") not in seen:
            seen += seen_by_client(manager.process((await consumer.next(url)).body))
        await manager.shutdown()


async def test_the_program_of_the_guide(tmp_path: Path) -> None:
    [program] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/onvif.md").read_text(), re.DOTALL)
    async with running(tmp_path / "data") as run:
        await publish(run, "VideoSource/MotionAlarm", "false", "true")
        async with Client(run.url) as stranger:
            await stranger.publish(b"<speed>120</speed>", topic="storms")
        here = program.replace("8080", str(run.port)).replace("localhost", "127.0.0.1")
        (tmp_path / "program.py").write_text(here)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-W", "error", str(tmp_path / "program.py"),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        )  # fmt: skip
        said, _ = await asyncio.wait_for(process.communicate(), 3 * DEADLINE)
    assert said.decode() == "tns1:VideoSource/MotionAlarm State true\n"
    assert process.returncode == 0
