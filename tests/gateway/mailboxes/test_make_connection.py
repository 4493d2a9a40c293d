"""WS-MakeConnection 1.1 through a running gateway: consumers that cannot be called."""

import asyncio
import itertools
from pathlib import Path
from uuid import UUID

import pytest

from mediation import names
from mediation.model.versions import Soap, Wsa
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    S11,
    S12,
    SIMPLE,
    WSE,
    WSNT,
    Answer,
    Message,
    Speaker,
    canonical,
    children,
    topic_expression,
)
from tests.rigs.gateways import Running, running
from tests.rigs.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

WSMC = names.MAKE_CONNECTION_1_1
_numbers = itertools.count(1)


GATEWAY = {"adapter": "embedded:"}
"""Settings of the module's gateway."""


def fresh_uri() -> str:
    return f"{names.MAKE_CONNECTION_ANONYMOUS}{UUID(int=next(_numbers) << 64)}"


ASKING = Speaker(S11)


async def make_connection(
    run: Running,
    uri: str | None,
    *,
    speaker: Speaker = ASKING,
    inner: str = "",
    headers: str = "",
    path: str = "/soap",
) -> Answer:
    address = f"<c:Address>{uri}</c:Address>" if uri is not None else ""
    return await run.ask(
        speaker,
        f'<c:MakeConnection xmlns:c="{WSMC}">{address}{inner}</c:MakeConnection>',
        path,
        action=f"{WSMC}/MakeConnection",
        headers=headers,
    )


def pending(message: Message) -> str | None:
    block = message.header("MessagePending", WSMC)
    assert block is not None
    return block.get("pending")


async def drain(run: Running, uri: str) -> list[Message]:
    """All that waits; each but the last must say that more does."""
    found: list[Message] = []
    while True:
        answer = await make_connection(run, uri)
        if answer.status == 202:
            assert answer.body == b""
            break
        assert answer.status == 200, answer.body
        found.append(answer.message)
    assert [pending(message) for message in found] == ["true"] * (len(found) - 1) + [
        "false"
    ] * bool(found)
    return found


@pytest.mark.parametrize("wsa", [Wsa.V2004_08, Wsa.V2005_08])
@pytest.mark.parametrize("soap", [S11, S12])
async def test_ws_eventing(gateway: Running, soap: Soap, wsa: Wsa) -> None:
    """Each message is what a consumer with an address would have been sent."""
    uri, topic = fresh_uri(), f"t{next(_numbers)}"
    speaker = Speaker(soap, wsa)
    parameters = speaker.parameters('<app:seat xmlns:app="urn:app">7</app:seat>')
    await gateway.subscribe(speaker, speaker.wse_subscribe(uri, inner=parameters))
    for number in range(3):
        await gateway.publish(f"<e>{number}</e>", path=f"/soap/topic/{topic}", action="urn:said")
    await gateway.quiet()
    messages = await drain(gateway, uri)
    assert [canonical(message.body[0]) for message in messages] == [
        f"<e>{number}</e>".encode() for number in range(3)
    ]
    for message in messages:
        assert message.soap is soap
        assert message.wsa("To", wsa) == uri
        assert message.wsa("Action", wsa) == "urn:said"
        seat = message.header("seat", "urn:app")
        assert seat is not None and seat.text == "7"
    assert len({message.wsa("MessageID", wsa) for message in messages}) == 3


@pytest.mark.parametrize("raw", [False, True])
async def test_ws_notification(gateway: Running, raw: bool) -> None:
    uri, topic = fresh_uri(), f"t{next(_numbers)}"
    speaker = Speaker(S12)
    subscribe = speaker.wsn_subscribe(uri, filter=topic_expression(topic, SIMPLE), raw=raw)
    await gateway.subscribe(speaker, subscribe)
    for number in range(2):
        await gateway.publish(f"<e>{number}</e>", path=f"/soap/topic/{topic}")
    await gateway.publish("<e>elsewhere</e>", path="/soap/topic/elsewhere")
    await gateway.quiet()
    messages = await drain(gateway, uri)
    assert [message.wsa("To") for message in messages] == [uri, uri]
    payloads = []
    for message in messages:
        [child] = message.body
        if not raw:
            assert child.tag == f"{{{WSNT}}}Notify"
            [child] = children(next(child.iter(f"{{{WSNT}}}Message")))
        payloads.append(child.text)
    assert payloads == ["0", "1"]


async def test_the_answer_is_in_the_version_of_soap_that_the_consumer_subscribed_in(
    gateway: Running,
) -> None:
    uri = fresh_uri()
    await gateway.subscribe(Speaker(S12), Speaker(S12).wse_subscribe(uri))
    await gateway.publish("<e/>", action="urn:said")
    await gateway.quiet()
    answer = await make_connection(gateway, uri, speaker=Speaker(S11))
    assert answer.message.soap is S12
    assert answer.type.startswith(S12.media_type)


async def test_a_second_subscription_of_one_consumer_shares_its_messages(gateway: Running) -> None:
    uri, topic = fresh_uri(), f"t{next(_numbers)}"
    wse, wsn = Speaker(S11, Wsa.V2004_08), Speaker(S12)
    manager = await gateway.subscribe(wse, wse.wse_subscribe(uri))
    filter_ = topic_expression(topic, SIMPLE)
    await gateway.subscribe(wsn, wsn.wsn_subscribe(uri, filter=filter_))
    await gateway.publish("<e>1</e>", path=f"/soap/topic/{topic}")
    await gateway.quiet()
    assert {message.soap for message in await drain(gateway, uri)} == {S11, S12}
    answer = await gateway.ask(wse, f'<e:Unsubscribe xmlns:e="{WSE}"/>', manager)
    assert answer.status == 200
    await gateway.publish("<e>2</e>", path=f"/soap/topic/{topic}")
    await gateway.quiet()
    assert [message.soap for message in await drain(gateway, uri)] == [S12]


async def test_where_nothing_waits(gateway: Running) -> None:
    uri = fresh_uri()
    await gateway.subscribe(Speaker(), Speaker().wse_subscribe(uri))
    for address in (uri, fresh_uri(), "http://consumer.example/", uri.replace("?id=", "?ID=")):
        answer = await make_connection(gateway, address)
        assert (answer.status, answer.body) == (202, b"")


async def test_a_reply_address_has_no_effect(gateway: Running) -> None:
    """Section 3.2: there is no reply to MakeConnection, only what waits."""
    uri = fresh_uri()
    await gateway.subscribe(Speaker(), Speaker().wse_subscribe(uri))
    await gateway.publish("<e/>")
    await gateway.quiet()
    async with Consumers() as consumer:
        url = consumer.fresh()
        reply_to = f"<wsa:ReplyTo><wsa:Address>{url}</wsa:Address></wsa:ReplyTo>"
        answer = await make_connection(gateway, uri, headers=reply_to)
        assert answer.status == 200
        assert answer.message.body[0].tag == "e"
        answer = await make_connection(gateway, None, headers=reply_to)
        assert answer.status == 500
        assert answer.fault.subcode == f"{{{WSMC}}}MissingSelection"
        assert consumer.waiting(url) == 0


@pytest.mark.parametrize("where", ["ReplyTo", "FaultTo"])
async def test_other_requests_of_such_a_consumer_are_answered_where_they_come(
    gateway: Running, where: str
) -> None:
    """Section 3.1: its address stands for a back-channel, and one is open."""
    uri, speaker = fresh_uri(), Speaker(S12)
    manager = await gateway.subscribe(speaker, speaker.wse_subscribe(uri))
    address = f"<wsa:{where}><wsa:Address>{uri}</wsa:Address></wsa:{where}>"
    asked = f'<e:GetStatus xmlns:e="{WSE}"/>'
    answer = await gateway.ask(speaker, asked, manager, headers=address)
    assert answer.status == 200
    assert answer.message.body[0].tag == f"{{{WSE}}}GetStatusResponse"
    answer = await gateway.ask(speaker, asked, headers=address)
    assert answer.status == 400
    assert answer.fault.subcode == f"{{{WSE}}}InvalidMessage"
    assert (await make_connection(gateway, uri)).status == 202


@pytest.mark.parametrize("soap", [S11, S12])
@pytest.mark.parametrize(
    ("uri", "inner", "subcode"),
    [
        pytest.param(None, "", "MissingSelection", id="no address"),
        pytest.param("urn:a", "<c:Other/>", "UnsupportedSelection", id="another element"),
        pytest.param(
            None,
            '<r:Identifier xmlns:r="http://docs.oasis-open.org/ws-rx/wsrm/200702">urn:s'
            "</r:Identifier>",
            "UnsupportedSelection",
            id="a sequence",
        ),
    ],
)
async def test_faults(
    gateway: Running, soap: Soap, uri: str | None, inner: str, subcode: str
) -> None:
    answer = await make_connection(gateway, uri, inner=inner, speaker=Speaker(soap))
    assert answer.status == 500
    assert answer.message.wsa("Action") == f"{WSMC}/fault"
    assert answer.fault.subcode == f"{{{WSMC}}}{subcode}"
    if subcode == "UnsupportedSelection":
        assert answer.fault.element == f"{{{WSMC}}}UnsupportedElement"


async def test_connections_at_the_same_time_never_get_the_same_message(gateway: Running) -> None:
    uri = fresh_uri()
    await gateway.subscribe(Speaker(), Speaker().wse_subscribe(uri))
    for number in range(20):
        await gateway.publish(f"<e>{number}</e>")
    await gateway.quiet()

    async def fetch() -> list[str]:
        got = []
        while (answer := await make_connection(gateway, uri)).status == 200:
            got.append(answer.message.body[0].text or "")
        return got

    fetched = await asyncio.gather(*(fetch() for _ in range(4)))
    assert sorted(itertools.chain(*fetched), key=int) == [str(number) for number in range(20)]
    for some in fetched:
        assert some == sorted(some, key=int)


async def test_what_waits_outlives_the_gateway(tmp_path: Path) -> None:
    uri = fresh_uri()
    async with running(tmp_path, adapter="embedded:") as run:
        await run.subscribe(Speaker(), Speaker().wse_subscribe(uri))
        await run.publish("<e>1</e>")
        await run.quiet()
    async with running(tmp_path, adapter="embedded:") as run:
        await run.publish("<e>2</e>")
        await run.quiet()
        messages = await drain(run, uri)
        assert [message.body[0].text for message in messages] == ["1", "2"]


async def test_an_end_is_fetched_too(tmp_path: Path) -> None:
    """SubscriptionEnd goes to where EndTo says, which may be such an address, too."""
    uri = fresh_uri()
    async with running(tmp_path, adapter="embedded:") as run:
        await run.subscribe(Speaker(), Speaker().wse_subscribe(fresh_uri(), end_to=uri))
        [entry] = run.gateway.subscriptions.entries
        answer = await run.api("DELETE", f"/subscriptions/{entry.subscription.id}")
        assert answer.status in (200, 204), answer.body
        fetched = await make_connection(run, uri)

        async def is_there() -> bool:
            nonlocal fetched
            fetched = await make_connection(run, uri)
            return fetched.status != 202

        if fetched.status == 202:
            await until(is_there)
        assert fetched.message.body[0].tag == f"{{{WSE}}}SubscriptionEnd"
