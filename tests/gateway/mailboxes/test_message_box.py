"""The message boxes of WS-Messenger and XSUL through a running gateway, as their clients use them."""

import asyncio
import contextlib
import re
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from lxml import etree

from gateway.security.resource_addresses import ResourceKind
from mediation import names
from mediation.model.versions import Wsa
from tests.rigs.envelopes import (
    IBM,
    IBM_SIMPLE,
    S11,
    S12,
    SIMPLE,
    WSE,
    WSNT,
    Answer,
    Speaker,
    canonical,
    children,
    notification_message,
    notify,
    topic_expression,
)
from tests.rigs.gateways import Running, exchange, http_request, running
from tests.rigs.processes import GatewayProcess, gateway_process
from tests.rigs.waiting import DEADLINE

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOX = names.MESSAGE_BOX_2011
BOX_ANSWERS = names.MESSAGE_BOX_2011_SLASH
XSUL = names.MESSAGE_BOX_2004
SERVICE = "/axis2/services/MsgBoxService"
WSE_PUBLISH = "http://org.apache.airavata/WseNotification"
UNKNOWN = "00000000-0000-4000-8000-000000000000"


GATEWAY = {"adapter": "embedded:"}
"""Settings of the module's gateway."""


@dataclass(frozen=True)
class MsgBoxClient:
    """WS-Messenger's client as the wire shows it: it loads no addressing module unless *wsa*, names
    the box in the URL and in the body, and reads answers by position."""

    run: Running | GatewayProcess
    service: str = SERVICE
    wsa: Wsa | None = None
    namespace: str = BOX

    async def call(self, path: str, operation: str, inner: str = "") -> etree._Element:
        """The response element."""
        answer = await self.post(path, operation, inner)
        assert answer.status == 200, answer.body
        message = answer.message
        assert message.soap is S11
        action = f"{BOX_ANSWERS}MsgBoxPT/{operation}Response"
        assert message.wsa("Action", self.wsa or Wsa.V2005_08) == (action if self.wsa else None)
        assert bool(message.headers) == (self.wsa is not None)
        [response] = message.body
        assert response.tag == f"{{{BOX_ANSWERS}}}{operation}Response"
        return response

    async def post(self, path: str, operation: str, inner: str = "") -> Answer:
        body = (
            inner
            if operation == "storeMessages"
            else f'<m:{operation} xmlns:m="{self.namespace}">{inner}</m:{operation}>'
        )
        octets = Speaker(S11, self.wsa).envelope(
            body, action=f"{BOX}/{operation}", message_id="urn:uuid:fixed", to=self.run.url + path
        )
        return await self.raw(path, octets, soapaction=f'"{BOX}/{operation}"')

    async def raw(self, path: str, octets: bytes, **headers: str) -> Answer:
        request = http_request(
            self.run.port, "POST", path, octets, {"content-type": "text/xml", **headers}
        )
        return await exchange(self.run.port, request)

    async def create(self) -> str:
        """The path of a new box."""
        inner = f'<m:MsgBoxId xmlns:m="{self.namespace}">Create message box</m:MsgBoxId>'
        response = await self.call(self.service, "createMsgBox", inner)
        key = _first(response)
        assert key.tag == f"{{{BOX_ANSWERS}}}MsgBoxId"
        return f"{self.service}/clientid/{key.text}"

    async def store(self, box: str, payload: str) -> None:
        # A message id would make the second of two a repetition.
        client = MsgBoxClient(self.run, self.service)
        response = await client.call(box, "storeMessages", payload)
        status = _first(response)
        assert (status.tag, status.text) == (f"{{{BOX_ANSWERS}}}status", "true")

    async def take(self, box: str) -> list[etree._Element]:
        key = box.rpartition("/")[2]
        inner = f'<m:MsgBoxId xmlns:m="{self.namespace}">{key}</m:MsgBoxId>'
        return _messages(await self.call(box, "takeMessages", inner))

    async def destroy(self, box: str) -> None:
        key = box.rpartition("/")[2]
        inner = f'<m:MsgBoxId xmlns:m="{self.namespace}">{key}</m:MsgBoxId>'
        for _ in range(2):  # On purpose or not, that is what it does.
            response = await self.call(box, "destroyMsgBox", inner)
            assert _first(response).text == "true"


def _first(response: etree._Element) -> etree._Element:
    assert response.text is None
    return children(response)[0]


def _messages(response: etree._Element) -> list[etree._Element]:
    """Each child node cast to an element, as the client does."""
    messages = _first(response)
    assert messages.tag == f"{{{BOX_ANSWERS}}}messages"
    assert messages.text is None
    assert all(child.tail is None for child in messages)
    assert len(children(messages)) == len(messages)
    return children(messages)


def sequence(taken: list[etree._Element]) -> list[int]:
    return [int(message.findtext("seq") or "") for message in taken]


def message(number: int) -> str:
    return f"<msg><seq>{number}</seq><filler>{'x' * (45 * number)}</filler></msg>"


# WS-Messenger's own tests.


@pytest.mark.parametrize("wsa", [None, Wsa.V2004_08, Wsa.V2005_08])
@pytest.mark.parametrize("namespace", [BOX, BOX_ANSWERS])
async def test_message_box(gateway: Running, wsa: Wsa | None, namespace: str) -> None:
    """MsgBoxTest."""
    client = MsgBoxClient(gateway, wsa=wsa, namespace=namespace)
    box = await client.create()
    for number in range(10):
        await client.store(box, message(number))
    taken = await client.take(box)
    assert sequence(taken) == list(range(10))
    assert [canonical(one) for one in taken] == [message(n).encode() for n in range(10)]
    assert await client.take(box) == []
    await client.destroy(box)


async def test_message_box_stress(gateway: Running) -> None:
    """MessageBoxStressTest: a bare client posts a bare message with no action at all."""
    client = MsgBoxClient(gateway)
    box = await client.create()
    for number in range(10):
        await client.store(box, message(number))
    assert len(await client.take(box)) == 10
    answer = await client.raw(box, Speaker(S11, None).envelope("<foo>bar</foo>"))
    assert answer.status == 200
    assert answer.message.body[0].tag == f"{{{BOX_ANSWERS}}}storeMessagesResponse"
    taken = await client.take(box)
    assert [canonical(one) for one in taken] == [b"<foo>bar</foo>"]
    await client.destroy(box)


# What else clients of the message box rely on.


@pytest.mark.parametrize("service", [SERVICE, SERVICE + "/", "/msgbox"])
async def test_the_service_has_several_addresses(gateway: Running, service: str) -> None:
    client = MsgBoxClient(gateway, service)
    box = (await client.create()).replace("//", "/")
    await client.store(box, message(1))
    key = box.rpartition("/")[2]
    assert sequence(await client.take(f"{SERVICE}/clientid/{key}/")) == [1]


async def test_without_a_box_in_the_url_the_body_names_it(gateway: Running) -> None:
    client = MsgBoxClient(gateway)
    box = await client.create()
    await client.store(box, message(1))
    inner = f'<m:MsgBoxId xmlns:m="{BOX}">{box.rpartition("/")[2]}</m:MsgBoxId>'
    assert sequence(_messages(await client.call(SERVICE, "takeMessages", inner))) == [1]
    assert _first(await client.call(SERVICE, "destroyMsgBox", inner)).text == "true"
    assert (await client.post(box, "storeMessages", "<msg/>")).status == 500


async def test_the_box_in_the_url_counts_whatever_the_body_says(gateway: Running) -> None:
    client = MsgBoxClient(gateway)
    one, other = await client.create(), await client.create()
    await client.store(one, message(1))
    await client.store(other, message(2))
    inner = f'<m:MsgBoxId xmlns:m="{BOX}">{other.rpartition("/")[2]}</m:MsgBoxId>'
    assert sequence(_messages(await client.call(one, "takeMessages", inner))) == [1]


@pytest.mark.parametrize("operation", ["storeMessages", "takeMessages", "destroyMsgBox"])
async def test_no_box_named_at_all(gateway: Running, operation: str) -> None:
    answer = await MsgBoxClient(gateway).post(SERVICE, operation, "<msg/>")
    assert answer.status == 500
    assert answer.fault.code == f"{{{S11.value}}}Client"


async def test_a_box_that_is_not_there(gateway: Running) -> None:
    """A broker that delivers to it must learn so; a client that takes or destroys need not."""
    client = MsgBoxClient(gateway)
    box = f"{SERVICE}/clientid/{UNKNOWN}"
    answer = await client.post(box, "storeMessages", "<msg/>")
    assert answer.status == 500
    assert answer.fault.code == f"{{{S11.value}}}Client"
    assert await client.take(box) == []
    await client.destroy(box)


STORED = [
    pytest.param(f"<n:Notify xmlns:n='{WSNT}'/>", f"{{{WSNT}}}Notify", id="an empty Notify"),
    pytest.param(f"<e:SubscriptionEnd xmlns:e='{WSE}'/>", f"{{{WSE}}}SubscriptionEnd", id="an end"),
    pytest.param(f"<e:Subscribe xmlns:e='{WSE}'/>", f"{{{WSE}}}Subscribe", id="a request"),
    pytest.param(
        f"<s:Fault xmlns:s='{S11.value}'><faultcode>s:Server</faultcode>"
        "<faultstring>why</faultstring></s:Fault>",
        f"{{{S11.value}}}Fault",
        id="a fault",
    ),
    pytest.param(
        f"<m:takeMessagesResponse xmlns:m='{BOX_ANSWERS}'/>",
        f"{{{BOX_ANSWERS}}}takeMessagesResponse",
        id="an answer of a message box",
    ),
    pytest.param(f"<m:storeMessages xmlns:m='{BOX}'/>", f"{{{BOX}}}storeMessages", id="a store"),
    pytest.param("<a/><b/>", "{urn:dragoman:data:1}data", id="two, which are one message"),
]


@pytest.mark.parametrize(("payload", "tag"), STORED)
async def test_whatever_is_no_operation_of_the_box_is_stored(
    gateway: Running, payload: str, tag: str
) -> None:
    client = MsgBoxClient(gateway)
    box = await client.create()
    octets = Speaker(S11).envelope(payload, action="urn:whatever", message_id="urn:uuid:1")
    answer = await client.raw(box, octets, soapaction='""')
    assert answer.status == 200, answer.body
    assert answer.message.wsa("RelatesTo") == "urn:uuid:1"
    assert [one.tag for one in await client.take(box)] == [tag]


async def test_what_is_no_envelope_is_not_stored(gateway: Running) -> None:
    client = MsgBoxClient(gateway)
    box = await client.create()
    assert (await client.raw(box, b"<event/>")).status == 500
    assert (await client.raw(box, b"<s:Envelope")).status == 500
    assert await client.take(box) == []


async def test_a_chunked_store_in_soap_1_2(gateway: Running) -> None:
    client = MsgBoxClient(gateway)
    box = await client.create()
    octets = Speaker(S12, None).envelope("<event/>")
    chunked = b"".join(
        b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (octets[:100], octets[100:], b"")
    )
    head = (
        f"POST {box} HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\nConnection: close\r\n"
        f"Content-Type: {S12.media_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    answer = await gateway.raw(head.encode() + chunked)
    assert answer.status == 200
    assert answer.message.soap is S12
    assert [one.tag for one in await client.take(box)] == ["event"]


async def test_a_broker_of_the_original_delivers_into_a_box(gateway: Running) -> None:
    """Over HTTP/1.0, without a Host header, with headers of its own in the envelope."""
    client = MsgBoxClient(gateway)
    box = await client.create()
    topic = f'<n:Topic xmlns:n="{IBM}" Dialect="{IBM_SIMPLE}">ns2:storm</n:Topic>'
    octets = Speaker(S11).envelope("<e/>", action=WSE_PUBLISH, to=gateway.url + box, headers=topic)
    head = (
        f"POST {box} HTTP/1.0\r\nContent-Type: text/xml; charset=UTF-8\r\n"
        f'SOAPAction: "{WSE_PUBLISH}"\r\nContent-Length: {len(octets)}\r\n\r\n'
    )
    answer = await gateway.raw(head.encode() + octets)
    assert answer.status == 200, answer.body
    assert [one.tag for one in await client.take(box)] == ["e"]


async def test_takers_at_the_same_time_never_get_the_same_message(gateway: Running) -> None:
    client = MsgBoxClient(gateway)
    box = await client.create()
    for number in range(60):
        await client.store(box, f"<msg><seq>{number}</seq></msg>")

    async def drain() -> list[list[int]]:
        return [sequence(await client.take(box)) for _ in range(4)]

    storing = asyncio.gather(
        *(client.store(box, f"<msg><seq>{n}</seq></msg>") for n in range(60, 80))
    )
    drained = await asyncio.gather(*(drain() for _ in range(5)))
    await storing
    taken = [*(one for some in drained for one in some), sequence(await client.take(box))]
    assert sorted(number for some in taken for number in some) == list(range(80))
    for some in taken:
        before = [number for number in some if number < 60]
        assert all(one < other for one, other in pairwise(before)), "stored in this order"


@pytest.mark.parametrize("kept", [True, False])
async def test_an_answer_that_did_not_arrive_comes_again(gateway: Running, kept: bool) -> None:
    """WM-B-05: the taker reads the first octets of it, and is gone."""
    client = MsgBoxClient(gateway)
    box = await client.create()
    for number in range(4):
        await client.store(box, f"<msg><seq>{number}</seq><filler>{'x' * 200_000}</filler></msg>")
    octets = Speaker(S11, None).envelope(f'<m:takeMessages xmlns:m="{BOX}"/>')
    request = http_request(gateway.port, "POST", box, octets, {"content-type": "text/xml"})
    if kept:
        request = request.replace(b"Connection: close\r\n", b"")
    with socket.socket() as taker:
        taker.setblocking(False)
        taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        taker.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(DEADLINE):
            await loop.sock_connect(taker, ("127.0.0.1", gateway.port))
            await loop.sock_sendall(taker, request)
            assert (await loop.sock_recv(taker, 100)).startswith(b"HTTP/1.1 200 ")
        assert await client.take(box) == []  # They are on their way to somebody.
    taken: list[etree._Element] = []
    async with asyncio.timeout(DEADLINE):
        while not taken:
            taken = await client.take(box)
    assert sequence(taken) == [0, 1, 2, 3]


FULL = {"mailbox_messages": 3, "mailbox_overflow": "refuse"}


async def test_a_full_box_refuses(tmp_path: Path) -> None:
    """WM-B-08."""
    async with running(tmp_path, **FULL) as run:
        client = MsgBoxClient(run)
        box = await client.create()
        for number in range(3):
            await client.store(box, message(number))
        answer = await client.post(box, "storeMessages", message(3))
        assert answer.status == 503
        assert answer.fault.code == f"{{{S11.value}}}Server"
        assert int(answer.headers["retry-after"]) > 0
        assert sequence(await client.take(box)) == [0, 1, 2]
        await client.store(box, message(4))
        assert sequence(await client.take(box)) == [4]


async def test_a_full_box_loses_its_oldest_to_the_dead_letters(tmp_path: Path) -> None:
    async with running(tmp_path, mailbox_messages=3) as run:
        client = MsgBoxClient(run)
        box = await client.create()
        for number in range(5):
            await client.store(box, message(number))
        assert sequence(await client.take(box)) == [2, 3, 4]


async def test_a_stranger_has_a_few_boxes(tmp_path: Path) -> None:
    async with running(tmp_path, max_mailboxes_per_owner=2, trusted="192.0.2.1") as run:
        client = MsgBoxClient(run)
        boxes = [await client.create() for _ in range(2)]
        answer = await client.post(SERVICE, "createMsgBox")
        assert answer.status == 500
        await client.destroy(boxes[0])
        await client.create()


async def test_boxes_and_what_lies_in_them_outlive_the_gateway(tmp_path: Path) -> None:
    async with running(tmp_path, adapter="embedded:") as run:
        client = MsgBoxClient(run)
        box = await client.create()
        for number in range(3):
            await client.store(box, message(number))
    async with running(tmp_path, adapter="embedded:") as run:
        client = MsgBoxClient(run)
        await client.store(box, message(3))
        assert sequence(await client.take(box)) == [0, 1, 2, 3]
        await client.destroy(box)
    async with running(tmp_path, adapter="embedded:") as run:
        assert (await MsgBoxClient(run).post(box, "storeMessages", "<msg/>")).status == 500


async def test_what_was_answered_survives_a_kill(tmp_path: Path) -> None:
    async with gateway_process(tmp_path / "data") as process:
        client = MsgBoxClient(process)
        box = await client.create()
        for number in range(5):
            await client.store(box, message(number))
        await process.kill()
        await process.start()
        assert sequence(await client.take(box)) == [0, 1, 2, 3, 4]
        await process.kill()
        await process.start()
        assert await client.take(box) == []
        await client.destroy(box)


# Subscriptions whose consumer is a box.


def reference(wsa: Wsa, key: str, namespace: str = BOX_ANSWERS) -> str:
    return Speaker(S11, wsa).parameters(f'<m:MsgBoxId xmlns:m="{namespace}">{key}</m:MsgBoxId>')


BY_ADDRESS = "by address"
EPRS = [
    pytest.param(Wsa.V2005_08, BY_ADDRESS, id="by address"),
    pytest.param(Wsa.V2005_08, BOX_ANSWERS, id="by parameter"),
    pytest.param(Wsa.V2005_08, BOX, id="by parameter, no slash"),
    pytest.param(Wsa.V2004_03, BOX_ANSWERS, id="by property"),
]


@pytest.mark.parametrize(("wsa", "named"), EPRS)
async def test_events_of_a_subscription_lie_in_the_box(
    gateway: Running, wsa: Wsa, named: str
) -> None:
    """Both forms of a box's endpoint reference that WS-Messenger's client takes."""
    client = MsgBoxClient(gateway)
    box = await client.create()
    if named == BY_ADDRESS:
        address, inner = gateway.url + box, ""
    else:
        address = gateway.url + SERVICE
        inner = reference(wsa, box.rpartition("/")[2], named)
    speaker = Speaker(S11, wsa)
    await gateway.subscribe(speaker, speaker.wse_subscribe(address, inner=inner))
    wsn = Speaker(S12, wsa)
    filter_ = topic_expression("b", SIMPLE)
    await gateway.subscribe(wsn, wsn.wsn_subscribe(address, inner=inner, filter=filter_))
    sent = Speaker()
    answer = await gateway.ask(sent, "<e><n>1</n></e>", "/soap/topic/a", action=WSE_PUBLISH)
    assert answer.status == 200
    await gateway.quiet()
    assert [canonical(one) for one in await client.take(box)] == [b"<e><n>1</n></e>"]
    await gateway.ask(Speaker(), notify(notification_message("<e><n>2</n></e>", "b")))
    await gateway.quiet()
    tags = {one.tag: one for one in await client.take(box)}
    assert set(tags) == {"e", f"{{{WSNT}}}Notify"}  # The payload, or the whole Notify.
    [payload] = tags[f"{{{WSNT}}}Notify"].iter("e")
    assert payload.findtext("n") == "2"


async def test_a_puller_gets_all_in_order_and_survives_failures(gateway: Running) -> None:
    """WS-Messenger's message puller: take; if there is nothing, sleep; hand each message on, as
    text; on a failure wait longer, and go on. The pauses are those of the puller, shortened."""
    client = MsgBoxClient(gateway)
    box = await client.create()
    await gateway.subscribe(Speaker(S11), Speaker(S11).wse_subscribe(gateway.url + box))
    got: list[bytes] = []
    failures = 0

    async def pull() -> None:
        nonlocal failures
        wait = 0.01
        while len(got) < 30:
            try:
                taken = await client.take(box if failures else "/nowhere")
                got.extend(canonical(one) for one in taken)
                if not taken:
                    await asyncio.sleep(0.01)
            except AssertionError:
                failures += 1
                wait *= 2
                await asyncio.sleep(wait)

    async def publish() -> None:
        for number in range(30):
            await gateway.publish(f"<e>{number}</e>", path="/soap/topic/pulled")

    async with asyncio.timeout(20):
        await asyncio.gather(pull(), publish())
    assert got == [f"<e>{number}</e>".encode() for number in range(30)]


async def test_a_destroyed_box_ends_the_subscriptions_that_fill_it(gateway: Running) -> None:
    client = MsgBoxClient(gateway)
    box = await client.create()
    speaker = Speaker()
    manager = await gateway.subscribe(speaker, speaker.wse_subscribe(gateway.url + box))
    await client.destroy(box)
    answer = await gateway.ask(speaker, f'<e:GetStatus xmlns:e="{WSE}"/>', manager)
    assert answer.status == 400


async def test_a_box_of_nobody_is_no_consumer(gateway: Running) -> None:
    speaker = Speaker()
    answer = await gateway.ask(
        speaker, speaker.wse_subscribe(f"{gateway.url}{SERVICE}/clientid/{UNKNOWN}")
    )
    assert answer.status == 400
    assert answer.fault.subcode == f"{{{WSE}}}InvalidMessage"


async def test_one_box_has_many_doors(gateway: Running) -> None:
    """What one client stored, another takes at another door."""
    client = MsgBoxClient(gateway)
    box = await client.create()
    key = box.rpartition("/")[2]
    await client.store(box, message(1))
    address = ResourceKind.MESSAGE_BOX_2004.address(gateway.url, key)
    [text] = await XsulClient(gateway).take(address)
    assert b"<seq>1</seq>" in text
    await gateway.post(Speaker().envelope("<e/>"), f"/pullpoints/{key}")
    assert [one.tag for one in await client.take(box)] == ["e"]


# XSUL.


@dataclass(frozen=True)
class XsulClient:
    """XSUL's client: all operations are asked of the service, the box is named in the body."""

    run: Running
    speaker: Speaker = field(default_factory=lambda: Speaker(S12, Wsa.V2004_08))
    service: str = "/MsgBox"

    async def call(self, operation: str, inner: str = "") -> etree._Element:
        answer = await self.run.ask(
            self.speaker,
            f'<m:{operation} xmlns:m="{XSUL}">{inner}</m:{operation}>',
            self.service,
            action=XSUL + operation,
        )
        assert answer.status == 200, answer.body
        message = answer.message
        assert message.soap is self.speaker.soap
        [response] = message.body
        assert response.tag == f"{{{XSUL}}}{operation}Response"
        return response

    async def create(self) -> str:
        """The address of a new box."""
        [epr] = await self.call("createMsgBox")
        assert epr.tag == f"{{{XSUL}}}MsgBoxAddr"
        [address] = epr
        wsa = self.speaker.wsa or Wsa.V2005_08
        assert address.tag == f"{{{wsa.value}}}Address"
        assert address.text is not None
        assert address.text.startswith(f"{self.run.url}{self.service}/")
        return address.text

    async def take(self, box: str) -> list[bytes]:
        response = await self.call("takeMessages", self._named(box))
        assert {child.tag for child in response} <= {f"{{{XSUL}}}messageAsString"}
        return [(child.text or "").encode() for child in response]

    async def taking(self, box: str) -> asyncio.Task[list[bytes]]:
        """Take; on return the gateway has been asked."""
        requests = self.run.gateway.soap.requests
        before = requests.get("takeMessages", 0)
        task = asyncio.create_task(self.take(box))
        await self.run.until(lambda: requests.get("takeMessages", 0) > before)
        return task

    async def destroy(self, box: str) -> None:
        assert len(await self.call("destroyMsgBox", self._named(box))) == 0

    def _named(self, box: str) -> str:
        return f'<m:MsgBoxAddr xmlns:m="{XSUL}">{self.speaker.epr(box)}</m:MsgBoxAddr>'

    def path(self, box: str) -> str:
        return box.removeprefix(self.run.url)


XSULS = [
    pytest.param(Speaker(S12, Wsa.V2004_08), id="SOAP 1.2, WS-Addressing 2004/08"),
    pytest.param(Speaker(S11, Wsa.V2004_03), id="SOAP 1.1, WS-Addressing 2004/03"),
    pytest.param(Speaker(S11, Wsa.V2005_08), id="SOAP 1.1, WS-Addressing 1.0"),
    pytest.param(Speaker(S12, None), id="no WS-Addressing"),
]


@pytest.mark.parametrize("speaker", XSULS)
async def test_the_life_of_a_box_of_xsul(gateway: Running, speaker: Speaker) -> None:
    client = XsulClient(gateway, speaker)
    box = await client.create()
    stored = [
        Speaker(S11, None).envelope(f"<msg><seq>{number}</seq>&lt;é&amp;&#13;</msg>")
        for number in range(12)
    ]
    for octets in stored:
        answer = await gateway.post(octets, client.path(box))
        assert (answer.status, answer.body) == (202, b"")
    assert await client.take(box) == stored[:10]
    assert await client.take(box) == stored[10:]
    await client.destroy(box)
    await client.destroy(box)
    assert (await gateway.post(stored[0], client.path(box))).status == 500


async def test_xsul_waits_for_a_message(gateway: Running) -> None:
    client = XsulClient(gateway)
    box = await client.create()
    waiting = await client.taking(box)
    octets = Speaker().envelope("<event/>")
    await gateway.post(octets, client.path(box))
    assert await waiting == [octets]


async def test_xsul_waits_five_seconds(gateway: Running) -> None:
    client = XsulClient(gateway)
    box = await client.create()
    started = time.monotonic()
    assert await client.take(box) == []
    assert time.monotonic() - started > 4.9


async def test_who_has_hung_up_takes_nothing(gateway: Running) -> None:
    client = XsulClient(gateway)
    box = await client.create()
    waiting = await client.taking(box)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    octets = Speaker().envelope("<event/>")
    await gateway.post(octets, client.path(box))
    assert await client.take(box) == [octets]


# A message box service of its own, in front of a consumer behind a firewall.


@pytest.mark.parametrize("named", ["by address", "by property"])
async def test_a_message_box_of_another_gateway(tmp_path: Path, named: str) -> None:
    """Huang et al. 2006, figure 2: create a box, subscribe it elsewhere, pull, destroy."""
    only_boxes = {"DRAGOMAN_MAILBOXES_ONLY": "true"}
    async with (
        gateway_process(tmp_path / "boxes", only_boxes) as boxes,
        running(tmp_path / "broker", adapter="embedded:") as broker,
    ):
        client = MsgBoxClient(boxes)
        box = await client.create()
        key = box.rpartition("/")[2]
        speaker = Speaker(S11, Wsa.V2004_08)
        if named == "by address":
            subscribe = speaker.wse_subscribe(boxes.url + box)
        else:
            subscribe = speaker.wse_subscribe(
                boxes.url + SERVICE, inner=reference(speaker.wsa or Wsa.V2004_08, key)
            )
        await broker.subscribe(speaker, subscribe)
        for number in range(5):
            await broker.publish(message(number), path="/soap/topic/t")
        await broker.quiet()
        assert sequence(await client.take(box)) == [0, 1, 2, 3, 4]
        await client.destroy(box)
        for body in (speaker.wse_subscribe(broker.url), "<event/>"):
            refused = await boxes.ask(body)
            assert refused.status == 400
            assert refused.fault.code == f"{{{S12.value}}}Sender"


# The guide.


async def test_the_program_of_the_guide(gateway: Running) -> None:
    page = (Path(__file__).parents[3] / "docs/message-box.md").read_text()
    [program] = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert "127.0.0.1:8080" in program
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program.replace("127.0.0.1:8080", f"127.0.0.1:{gateway.port}"),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), 3 * DEADLINE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert printed.decode() == "".join(f"<storm><n>{n}</n></storm>\n" for n in range(3))
    assert process.returncode == 0
