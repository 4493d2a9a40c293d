"""gSOAP as publisher, subscriber and consumer, over SOAP.TCP and with DIME in HTTP."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from mediation.model.messages import Attachment
from mediation.model.versions import Wsa
from mediation.names import WSE_2004_08
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import S11, Speaker
from tests.rigs.gateways import Running
from tests.rigs.gsoap import GsoapMessage, gsoap_consumer, gsoap_publish, gsoap_running, needs_gsoap

needs_gsoap()

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPEAKER = Speaker(S11, Wsa.V2004_08)
ACTION = "urn:weather:Warning"
TRANSPORTS = pytest.mark.parametrize("transport", ["tcp", "http"])
ATTACHMENTS = (
    Attachment("cid:radar", "image/png", bytes(range(256)) * 300),
    Attachment("cid:note", "text/plain; charset=utf-8", b"gusts"),
)


GATEWAY = {"adapter": "embedded:", "soap_tcp_port": 0}
"""Settings of the module's gateway."""


@pytest.fixture
def bases(gateway: Running) -> dict[str, str]:
    """The URL of the gateway by transport."""
    return {"http": gateway.url, "tcp": gateway.soap_tcp}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http_consumer() -> AsyncIterator[Consumers]:
    async with Consumers() as one:
        yield one


def warning(text: str) -> str:
    return f'<w:Warning xmlns:w="urn:weather">{text}</w:Warning>'


async def subscribed(gateway: Running, consumer: str) -> str:
    """Subscribe *consumer* to everything; the path of the manager."""
    return await gateway.subscribe(SPEAKER, SPEAKER.wse_subscribe(consumer))


async def unsubscribe(gateway: Running, *managers: str) -> None:
    for manager in managers:
        body = f'<e:Unsubscribe xmlns:e="{WSE_2004_08}"/>'
        assert (await gateway.ask(SPEAKER, body, manager)).status == 200


@TRANSPORTS
async def test_gsoap_publishes_on_one_connection(
    gateway: Running,
    bases: dict[str, str],
    http_consumer: Consumers,
    transport: str,
    tmp_path: Path,
) -> None:
    url = http_consumer.fresh()
    async with gsoap_consumer(3) as gsoap:
        managers = [
            await subscribed(gateway, url),
            await subscribed(gateway, f"soap.tcp://127.0.0.1:{gsoap.port}/warnings"),
        ]
        body = warning("gusts &amp; hail, é")
        options = ("-n", "3", "--action", ACTION)
        await gsoap_publish(transport, f"{bases[transport]}/soap", body, tmp_path, *options)
        over_http = [(await http_consumer.next(url)).message.octets for _ in range(3)]
        over_tcp = [await gsoap.message() for _ in range(3)]
        await gsoap.ended()
    assert all(b"gusts &amp; hail" in octets for octets in over_http)
    assert [message.body.count("gusts &amp; hail, é") for message in over_tcp] == [1, 1, 1]
    assert {message.action for message in over_tcp} == {ACTION}
    assert len({message.message_id for message in over_tcp}) == 3
    await unsubscribe(gateway, *managers)


@TRANSPORTS
@pytest.mark.parametrize("options", [[], ["--stream"]], ids=["whole", "chunked"])
async def test_attachments_reach_gsoap(
    gateway: Running, bases: dict[str, str], transport: str, options: list[str], tmp_path: Path
) -> None:
    async with gsoap_consumer(1) as gsoap:
        manager = await subscribed(gateway, f"soap.tcp://127.0.0.1:{gsoap.port}/warnings")
        url = f"{bases[transport]}/soap"
        await gsoap_publish(
            transport, url, warning("see radar"), tmp_path, *options, attachments=ATTACHMENTS
        )
        message = await gsoap.message()
        await gsoap.ended()
    assert "see radar" in message.body
    assert message.attachments == ATTACHMENTS
    await unsubscribe(gateway, manager)


@TRANSPORTS
async def test_gsoap_subscribes_renews_and_unsubscribes(
    gateway: Running, bases: dict[str, str], transport: str, tmp_path: Path
) -> None:
    scheme = "soap.tcp" if transport == "tcp" else "http"
    async with gsoap_consumer(1) as consumer:
        notify_to = f"{scheme}://127.0.0.1:{consumer.port}/warnings"
        words = ("subscribe", transport, f"{bases[transport]}/soap", notify_to, "--hold")
        async with gsoap_running(*words) as subscriber:
            answers = [await subscriber.message(), await subscriber.message()]
            assert [answer.action for answer in answers] == [
                f"{WSE_2004_08}/SubscribeResponse",
                f"{WSE_2004_08}/RenewResponse",
            ]
            # Who speaks DIME in HTTP is sent it.
            await gsoap_publish(
                "tcp", f"{bases['tcp']}/soap", warning("now"), tmp_path, attachments=ATTACHMENTS
            )
            message = await consumer.message()
            assert (message.transport, "now" in message.body) == (transport, True)
            assert message.attachments == ATTACHMENTS
            await subscriber.ended()
        await consumer.ended()
    await gateway.quiet()
    listed = json.loads((await gateway.api("GET", "/subscriptions")).body)
    assert listed["subscriptions"] == []


@TRANSPORTS
async def test_answers_and_faults_relate_to_their_requests(
    gateway: Running, bases: dict[str, str], transport: str, tmp_path: Path
) -> None:
    async def get_status(manager: str) -> list[GsoapMessage]:
        body = f'<e:GetStatus xmlns:e="{WSE_2004_08}"/>'
        options = ("--request", "-n", "3", "--action", f"{WSE_2004_08}/GetStatus")
        return await gsoap_publish(transport, bases[transport] + manager, body, tmp_path, *options)

    manager = await subscribed(gateway, "http://127.0.0.1:1024/nobody")
    answers = await get_status(manager)
    assert [answer.action for answer in answers] == [f"{WSE_2004_08}/GetStatusResponse"] * 3
    assert all("Expires" in answer.body for answer in answers)
    relations = [answer.relates_to for answer in answers]
    assert None not in relations
    assert len(set(relations)) == 3
    await unsubscribe(gateway, manager)
    for fault in await get_status(manager):
        assert "Fault" in fault.body
        assert fault.relates_to is not None
