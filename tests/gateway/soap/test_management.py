"""WS-Management through a running gateway: its delivery modes, and what sources of it send."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from lxml import etree

from mediation.model.versions import Wsa
from mediation.names import WSE_2004_08 as WSE
from mediation.names import WSEN, WSMAN, WSMAN_ACTIONS, WSMAN_EARLIEST, WSMAN_FAULT_DETAIL
from tests.rigs.consumers import Consumer, Consumers, acknowledge, consumers, status
from tests.rigs.envelopes import S12, Answer, Speaker, fresh_id
from tests.rigs.gateways import Running, manager_path, running
from tests.rigs.processes import GatewayProcess
from tests.rigs.waiting import until

SPEAKER = Speaker(S12, Wsa.V2004_08)
SOON = "PT0S"
EVENT = '<o:Reading xmlns:o="urn:test:ocean"><n>{}</n></o:Reading>'
HEADERS = f'<w:ResourceURI xmlns:w="{WSMAN}">urn:test:resource</w:ResourceURI>'


@pytest_asyncio.fixture
async def run(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as one:
        yield one


@pytest_asyncio.fixture
async def sinks() -> AsyncIterator[Consumers]:
    async with consumers() as all_of_them:
        yield all_of_them


def subscribe(mode: str, notify_to: str = "", inner: str = "", more: str = "") -> str:
    to = f"<e:NotifyTo>{SPEAKER.epr(notify_to)}</e:NotifyTo>" if notify_to else ""
    return (
        f'<e:Subscribe xmlns:e="{WSE}" xmlns:w="{WSMAN}"><e:Delivery Mode="{WSMAN_ACTIONS}{mode}">'
        f"{to}{inner}</e:Delivery><e:Expires>PT1H</e:Expires>{more}</e:Subscribe>"
    )


async def ask(run: Running, body: str, path: str = "/soap", headers: str = HEADERS) -> Answer:
    return await run.ask(SPEAKER, body, path, headers=headers)


async def pull(run: Running, context: str, inner: str = "", headers: str = HEADERS) -> Answer:
    return await ask(
        run,
        f'<n:Pull xmlns:n="{WSEN}"><n:EnumerationContext>{context}</n:EnumerationContext>{inner}'
        "</n:Pull>",
        headers=headers,
    )


async def subscribe_pulling(run: Running, more: str = "") -> str:
    """Subscribe in mode Pull; the context."""
    answer = await ask(run, subscribe("Pull", more=more))
    response = answer.message.find(f"{{{WSE}}}SubscribeResponse")
    assert response is not None, answer.body
    assert [etree.QName(child).localname for child in response] == [
        "SubscriptionManager", "Expires", "EnumerationContext",
    ]  # fmt: skip
    return response[2].text or ""


def numbers(answer: Answer) -> list[str]:
    """The numbers of the events that were pulled."""
    items = answer.message.find(f"{{{WSEN}}}PullResponse/{{{WSEN}}}Items")
    assert items is not None, answer.body
    return [text or "" for text in (item.findtext("n") for item in items)]


async def publish(run: Running, *events: int) -> None:
    for number in events:
        await run.publish(EVENT.format(number))


async def waiting(run: Running, count: int) -> None:
    """Wait until so many messages lie in the one mailbox that there is."""

    async def holds() -> bool:
        [(_, size)] = await run.gateway.mailboxes.listed("", 2)
        return size.messages == count

    await until(holds)


async def test_events_are_batched_and_acknowledged(run: Running, sinks: Consumers) -> None:
    sink = sinks.add(acknowledge)
    inner = "<w:MaxElements>3</w:MaxElements><w:MaxTime>PT60S</w:MaxTime>"
    answer = await ask(run, subscribe("Events", sink.url, inner, "<w:SendBookmarks/>"))
    assert answer.status == 200
    await publish(run, 1, 2, 3)
    receipt = await sink.next()
    assert receipt.events == ["1", "2", "3"]
    message = receipt.message
    assert message.header("ReplyTo", Wsa.V2004_08.value) is not None
    for name in ("AckRequested", "Bookmark"):
        assert message.header(name, WSMAN) is not None
    actions = {event.get("Action") for event in message.body[0]}
    assert actions == {f"{WSMAN_ACTIONS}Event"}
    listed = await run.api("GET", "/subscriptions")
    assert b'"mode":"events"' in listed.body and b'"max_elements":3' in listed.body


async def bookmark_of(sink: Consumer) -> str:
    """The bookmark of the next message, as an element."""
    block = (await sink.next()).message.header("Bookmark", WSMAN)
    assert block is not None
    return etree.tostring(block).decode()


async def test_a_sink_goes_on_from_its_bookmark(run: Running, sinks: Consumers) -> None:
    """What it has not acknowledged waits for it; its subscription is the one that it had."""
    sink = sinks.add(acknowledge)
    wanted = subscribe("PushWithAck", sink.url, more="<w:SendBookmarks/>")
    first = await run.subscribe(SPEAKER, wanted, headers=HEADERS)
    await publish(run, 1, 2)
    old, new = await bookmark_of(sink), await bookmark_of(sink)
    await run.quiet()
    sink.behaviour = status(503)
    await publish(run, 3)
    await sink.have(3)
    again = subscribe("PushWithAck", sink.url, more=f"<w:SendBookmarks/>{new}")
    assert await run.subscribe(SPEAKER, again, headers=HEADERS) == first
    answer = await ask(run, again.replace(new, old))
    assert answer.fault.subcode == f"{{{WSMAN}}}InvalidBookmark"
    assert answer.fault.detail is not None
    assert answer.fault.detail.text == f"{WSMAN_FAULT_DETAIL}Expired"
    for changed in (again.replace("PushWithAck", "Events"), again.replace('by="', 'by="0')):
        answer = await ask(run, changed)
        assert answer.fault.subcode == f"{{{WSMAN}}}InvalidBookmark"
    assert len(run.gateway.subscriptions) == 1
    sink.behaviour = acknowledge


@pytest.mark.parametrize("archived", [False, True])
async def test_what_is_not_kept_is_not_promised(
    tmp_path: Path, sinks: Consumers, archived: bool
) -> None:
    """A bookmark of a subscription that has ended, and that of the earliest event: an archive may
    have gaps."""
    settings = {"archive": tmp_path / "archive"} if archived else {}
    async with running(tmp_path / "data", **settings) as run:
        sink = sinks.add(acknowledge)
        wanted = subscribe("PushWithAck", sink.url, more="<w:SendBookmarks/>")
        manager = await run.subscribe(SPEAKER, wanted, headers=HEADERS)
        await publish(run, 1)
        mark = await bookmark_of(sink)
        await ask(run, f'<e:Unsubscribe xmlns:e="{WSE}"/>', manager)
        assert not run.gateway.subscriptions.entries
        earliest = f'<w:Bookmark xmlns:w="{WSMAN}">{WSMAN_EARLIEST}</w:Bookmark>'
        for each in (mark, earliest):
            answer = await ask(run, wanted.replace("<w:SendBookmarks/>", each))
            assert answer.fault.subcode == f"{{{WSMAN}}}InvalidBookmark"
            assert answer.fault.detail is not None
            assert answer.fault.detail.text == f"{WSMAN_FAULT_DETAIL}Expired"


@pytest.mark.slow  # Two processes start.
async def test_bookmarks_outlive_kill(tmp_path: Path, sinks: Consumers) -> None:
    """After kill -9 a sink goes on behind the last message that it acknowledged, and is told where
    that is not possible."""
    sink = sinks.add(acknowledge)
    wanted = subscribe("PushWithAck", sink.url, more="<w:SendBookmarks/>")

    async def say(body: str) -> Answer:
        octets = SPEAKER.envelope(body, message_id=fresh_id(), headers=HEADERS)
        return await gateway.request("POST", "/soap", octets, content_type=S12.media_type)

    async def resumed(mark: str) -> Answer:
        return await say(subscribe("PushWithAck", sink.url, more=f"<w:SendBookmarks/>{mark}"))

    async def tell(*events: int) -> None:
        for number in events:
            assert (await say(EVENT.format(number))).status == 202

    environment = {"DRAGOMAN_RETRY_DELAYS": ",".join(["0.2"] * 40)}
    gateway = GatewayProcess(tmp_path / "data", environment)
    await gateway.start()
    try:
        first = await say(wanted)
        await tell(1, 2)
        old, new = await bookmark_of(sink), await bookmark_of(sink)
        await gateway.at_rest()
        sink.behaviour = status(503)
        await tell(3)
        await sink.have(3)
        await gateway.kill()
        await gateway.start()
        answer = await resumed(old)
        assert answer.fault.subcode == f"{{{WSMAN}}}InvalidBookmark"
        assert answer.fault.detail is not None
        assert answer.fault.detail.text == f"{WSMAN_FAULT_DETAIL}Expired"
        answer = await resumed(new)
        assert answer.status == 200, answer.body
        assert manager_path(answer.message) == manager_path(first.message)
        sink.behaviour = acknowledge
        await gateway.at_rest()
        assert {receipt.number for receipt in sink.received[2:]} == {"3"}
    finally:
        await gateway.kill()


async def test_only_who_answers_acknowledges(run: Running) -> None:
    answer = await ask(run, subscribe("Events", "soap.tcp://127.0.0.1:9999/x"))
    assert answer.fault.subcode == f"{{{WSE}}}EventSourceUnableToProcess"


async def test_pull(run: Running) -> None:
    context = await subscribe_pulling(run)
    await publish(run, 1, 2, 3)
    await waiting(run, 3)
    assert numbers(await pull(run, context)) == ["1"]
    assert numbers(await pull(run, context, "<n:MaxElements>9</n:MaxElements>")) == ["2", "3"]


async def test_with_bookmarks_events_are_kept_until_the_next_context_is_used(run: Running) -> None:
    """So that a reader that is killed loses nothing of what it was answered."""
    first = await subscribe_pulling(run, "<w:SendBookmarks/>")
    await publish(run, 1, 2, 3)
    await waiting(run, 3)
    two = "<n:MaxElements>2</n:MaxElements>"
    answer = await pull(run, first, two)
    assert numbers(answer) == ["1", "2"]
    assert answer.message.header("Bookmark", WSMAN) is not None
    second = following(answer)
    assert numbers(await pull(run, first, two)) == ["1", "2"]  # It was killed.
    await waiting(run, 3)
    answer = await pull(run, first, "<n:MaxElements>1</n:MaxElements>")
    assert numbers(answer) == ["1"]
    answer = await pull(run, following(answer), two)
    assert numbers(answer) == ["2", "3"]
    await waiting(run, 2)
    third = following(answer)
    assert len({first, second, third}) == 3
    answer = await pull(run, third, f"<n:MaxTime>{SOON}</n:MaxTime>")
    assert answer.fault.subcode == f"{{{WSMAN}}}TimedOut"
    await waiting(run, 0)
    await publish(run, 4)
    assert numbers(await pull(run, third)) == ["4"]
    release = f'<n:Release xmlns:n="{WSEN}"><n:EnumerationContext>{third}'
    answer = await ask(run, f"{release}</n:EnumerationContext></n:Release>")
    assert answer.status == 200
    assert not run.gateway.subscriptions.entries


def following(answer: Answer) -> str:
    """The context of an answer."""
    return answer.message.text(f"{{{WSEN}}}PullResponse/{{{WSEN}}}EnumerationContext")


async def test_a_pull_waits_for_an_event(run: Running) -> None:
    context = await subscribe_pulling(run)
    inner = "<n:MaxTime>PT60S</n:MaxTime>"
    answer, _ = await asyncio.gather(pull(run, context, inner), publish(run, 1))
    assert numbers(answer) == ["1"]


@pytest.mark.parametrize(
    ("inner", "headers"),
    [
        pytest.param(f"<n:MaxTime>{SOON}</n:MaxTime>", HEADERS, id="of its own"),
        pytest.param(
            "<n:MaxTime>PT60S</n:MaxTime>",
            f'{HEADERS}<w:OperationTimeout xmlns:w="{WSMAN}">PT0.1S</w:OperationTimeout>',
            id="of the operation",
        ),
    ],
)
async def test_nothing_in_time(inner: str, headers: str, run: Running) -> None:
    """A fault, after which the context is as it was."""
    context = await subscribe_pulling(run)
    answer = await pull(run, context, inner, headers)
    assert answer.fault.subcode == f"{{{WSMAN}}}TimedOut"
    await publish(run, 1)
    assert numbers(await pull(run, context)) == ["1"]


async def test_an_event_beyond_the_answer_is_not_lost(run: Running) -> None:
    context = await subscribe_pulling(run)
    await run.publish(f"<big><n>1</n>{'x' * 9000}</big>")
    await waiting(run, 1)
    answer = await pull(run, context, "<n:MaxCharacters>5000</n:MaxCharacters>")
    assert answer.fault.subcode == f"{{{WSMAN}}}EncodingLimit"
    assert answer.fault.detail is not None
    assert answer.fault.detail.text == f"{WSMAN_FAULT_DETAIL}MaxEnvelopeSizeExceeded"
    answer = await pull(run, context, "<n:MaxCharacters>10000</n:MaxCharacters>")
    assert numbers(answer) == ["1"]


@pytest.mark.parametrize("how", ["Release", "Unsubscribe"])
async def test_the_end_of_pulling(how: str, run: Running) -> None:
    context = await subscribe_pulling(run)
    [entry] = run.gateway.subscriptions.entries
    if how == "Release":
        answer = await ask(
            run,
            f'<n:Release xmlns:n="{WSEN}"><n:EnumerationContext>{context}</n:EnumerationContext>'
            "</n:Release>",
        )
        assert f"{WSEN}/ReleaseResponse".encode() in answer.body
    else:
        path = entry.subscription.manager.partition("127.0.0.1")[2].partition("/")[2]
        answer = await ask(run, f'<e:Unsubscribe xmlns:e="{WSE}"/>', f"/{path}")
    assert answer.status == 200
    assert answer.message.body == []
    answer = await pull(run, context)
    assert answer.fault.subcode == f"{{{WSEN}}}InvalidEnumerationContext"


@pytest.mark.parametrize(
    ("body", "subcode"),
    [
        pytest.param(f'<n:Pull xmlns:n="{WSEN}"/>', None, id="without a context"),
        pytest.param(
            f'<n:Pull xmlns:n="{WSEN}"><n:EnumerationContext>urn:uuid:none'
            "</n:EnumerationContext></n:Pull>",
            f"{{{WSEN}}}InvalidEnumerationContext",
            id="with another",
        ),
        pytest.param(
            f'<n:Enumerate xmlns:n="{WSEN}"/>',
            "{http://schemas.xmlsoap.org/ws/2004/08/addressing}ActionNotSupported",
            id="another operation",
        ),
    ],
)
async def test_what_cannot_be_pulled(body: str, subcode: str | None, run: Running) -> None:
    answer = await ask(run, body)
    assert answer.status in (400, 500)
    if subcode is not None:
        assert answer.fault.subcode == subcode


# The gateway as a sink.

BATCH = (
    f'<w:Events xmlns:w="{WSMAN}"><w:Event Action="urn:a"><n>1</n></w:Event>'
    '<w:Event Action="urn:a"><![CDATA[<e><n>2</n></e>]]></w:Event></w:Events>'
)
ACK_REQUESTED = f'<w:AckRequested xmlns:w="{WSMAN}" s:mustUnderstand="true"/>'
MARK = '<x:Mark xmlns:x="urn:x">7</x:Mark>'
REPLY_TO = (
    "<wsa:ReplyTo><wsa:Address>http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous"
    f"</wsa:Address><wsa:ReferenceParameters>{MARK}</wsa:ReferenceParameters></wsa:ReplyTo>"
)


async def deliver(run: Running, body: str, action: str, encoding: str = "utf-8") -> Answer:
    octets = SPEAKER.envelope(
        body,
        action=f"{WSMAN_ACTIONS}{action}",
        message_id="uuid:AB-cd",
        headers=REPLY_TO + ACK_REQUESTED,
    )
    octets = octets.decode().encode(encoding)
    type = f"application/soap+xml;charset={encoding.upper()}"
    return await run.post(octets, "/soap/topic/logs", type=type)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_a_batch_is_acknowledged_when_it_is_durable(
    encoding: str, run: Running, sinks: Consumers
) -> None:
    sink = sinks.add(acknowledge)
    await ask(run, subscribe("PushWithAck", sink.url))
    answer = await deliver(run, BATCH, "Events", encoding)
    assert answer.status == 200
    message = answer.message
    assert message.body == []
    wsa = Wsa.V2004_08
    assert message.wsa("Action", wsa) == f"{WSMAN_ACTIONS}Ack"
    assert message.wsa("RelatesTo", wsa) == "uuid:AB-cd"
    assert MARK.encode() in answer.body
    assert await sink.have(2) == ["1", "2"]
    assert b">logs<" in sink.received[0].body


@pytest.mark.parametrize("body", ["", f'<w:Events xmlns:w="{WSMAN}"/>'])
async def test_a_heartbeat_is_acknowledged(body: str, run: Running) -> None:
    answer = await deliver(run, body, "Heartbeat")
    assert answer.status == 200
    assert f"{WSMAN_ACTIONS}Ack".encode() in answer.body


async def test_one_gateway_behind_another(tmp_path: Path, run: Running) -> None:
    """Batches and heartbeats of one are understood by the other."""
    async with running(tmp_path / "other") as other:
        context = await subscribe_pulling(other)
        to = f"{other.url}/soap/topic/from/one"
        inner = "<w:MaxElements>2</w:MaxElements><w:MaxTime>PT60S</w:MaxTime>"
        answer = await ask(run, subscribe("Events", to, inner))
        assert answer.status == 200, answer.body
        await publish(run, 1, 2)
        await waiting(other, 2)
        assert numbers(await pull(other, context, "<n:MaxElements>9</n:MaxElements>")) == ["1", "2"]
        law = await run.gateway.dispatchers.conservation()
        assert (law.error, law.totals.delivered) == (0, 2)
