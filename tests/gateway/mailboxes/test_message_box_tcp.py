"""Mailboxes over SOAP.TCP, where ``wsa:To`` is the address that a message was sent to."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from lxml import etree

from mediation import names
from mediation.model.versions import Wsa
from mediation.packaging.dime import DimeMessage, Encoder
from tests.rigs.envelopes import S11, S12, Message, Speaker, canonical, children, fresh_id
from tests.rigs.gateways import Running
from tests.rigs.soap_tcp import RawPeer

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOX, BOX_ANSWERS = names.MESSAGE_BOX_2011, names.MESSAGE_BOX_2011_SLASH
XSUL = names.MESSAGE_BOX_2004
WSMC = names.MAKE_CONNECTION_1_1
URI = f"{names.MAKE_CONNECTION_ANONYMOUS}0c0ffee0-0000-4000-8000-000000000001"


GATEWAY = {"adapter": "embedded:", "soap_tcp_port": 0}
"""Settings of the module's gateway."""


class Peer:
    """A client with one connection, who asks and is answered in turn."""

    def __init__(self, run: Running, raw: RawPeer, speaker: Speaker) -> None:
        self._run = run
        self._raw = raw
        self._speaker = speaker

    async def send(self, path: str, body: str, action: str = "urn:any") -> None:
        octets = self._speaker.envelope(
            body, action=action, to=self._run.soap_tcp + path, message_id=fresh_id()
        )
        await self._raw.send(Encoder().encode(DimeMessage(self._speaker.soap, octets)))

    async def answer(self) -> etree._Element:
        """The first child of the next answer's body."""
        return (await self.message()).body[0]

    async def message(self) -> Message:
        received = await self._raw.receive()
        message = Message(received.envelope)
        assert message.soap is received.soap
        return message

    async def ask(
        self, path: str, operation: str, inner: str = "", space: str = BOX
    ) -> etree._Element:
        await self.send(path, f'<m:{operation} xmlns:m="{space}">{inner}</m:{operation}>')
        return await self.answer()


@contextlib.asynccontextmanager
async def connected(run: Running, speaker: Speaker) -> AsyncIterator[Peer]:
    raw = await RawPeer.connect(run.soap_tcp_port)
    try:
        yield Peer(run, raw, speaker)
    finally:
        await raw.close()


@pytest.mark.parametrize("wsa", [Wsa.V2004_08, Wsa.V2005_08])
@pytest.mark.parametrize("service", ["/msgbox", "/axis2/services/MsgBoxService"])
async def test_the_life_of_a_message_box(gateway: Running, wsa: Wsa, service: str) -> None:
    async with connected(gateway, Speaker(S11, wsa)) as peer:
        [key] = await peer.ask(service, "createMsgBox")
        box = f"{service}/clientid/{key.text}"
        for number in range(3):
            await peer.send(box, f"<msg>{number}</msg>", f"{BOX}/storeMessages")
            [status] = await peer.answer()
            assert (status.tag, status.text) == (f"{{{BOX_ANSWERS}}}status", "true")
        [messages] = await peer.ask(box, "takeMessages")
        assert [one.text for one in messages] == ["0", "1", "2"]
        for _ in range(2):
            [status] = await peer.ask(box, "destroyMsgBox")
            assert status.text == "true"
        await peer.send(box, "<msg/>")
        assert (await peer.answer()).tag == f"{{{S11.value}}}Fault"


async def test_events_are_fetched_over_another_transport(gateway: Running) -> None:
    """Published over HTTP to a box that has an address of SOAP.TCP."""
    async with connected(gateway, Speaker(S11, Wsa.V2004_08)) as peer:
        [key] = await peer.ask("/msgbox", "createMsgBox")
        box = f"/msgbox/clientid/{key.text}"
        speaker = Speaker()
        await gateway.subscribe(speaker, speaker.wse_subscribe(gateway.soap_tcp + box))
        await gateway.publish("<e>1</e>")
        await gateway.quiet()
        [messages] = await peer.ask(box, "takeMessages")
        assert [canonical(one) for one in messages] == [b"<e>1</e>"]


async def test_a_box_of_xsul_that_waits(gateway: Running) -> None:
    speaker = Speaker(S12, Wsa.V2004_08)
    async with connected(gateway, speaker) as peer, connected(gateway, speaker) as other:
        [epr] = await peer.ask("/MsgBox", "createMsgBox", space=XSUL)
        [address] = children(epr)
        box = address.text or ""
        assert box.startswith(f"{gateway.soap_tcp}/MsgBox/")
        named = f'<m:MsgBoxAddr xmlns:m="{XSUL}">{speaker.epr(box)}</m:MsgBoxAddr>'
        requests = gateway.gateway.soap.requests
        before = requests.get("takeMessages", 0)
        taking = asyncio.create_task(peer.ask("/MsgBox", "takeMessages", named, XSUL))
        await gateway.until(lambda: requests.get("takeMessages", 0) > before)
        await other.send(box.removeprefix(gateway.soap_tcp), "<event/>")
        [text] = await taking
        assert b"<event/>" in (text.text or "").encode()


async def test_make_connection(gateway: Running) -> None:
    """Each in the version of SOAP that the consumer subscribed in, and its DIME says so."""
    speaker = Speaker(S12)
    await gateway.subscribe(speaker, speaker.wse_subscribe(URI))
    for number in range(2):
        await gateway.publish(f"<e>{number}</e>")
    await gateway.quiet()
    async with connected(gateway, Speaker(S11)) as peer:
        for number, pending in enumerate(("true", "false")):
            await peer.send(
                "/soap",
                f'<c:MakeConnection xmlns:c="{WSMC}"><c:Address>{URI}</c:Address>'
                "</c:MakeConnection>",
                f"{WSMC}/MakeConnection",
            )
            message = await peer.message()
            assert message.soap is S12
            assert message.wsa("To") == URI
            assert message.body[0].text == str(number)
            block = message.header("MessagePending", WSMC)
            assert block is not None and block.get("pending") == pending
