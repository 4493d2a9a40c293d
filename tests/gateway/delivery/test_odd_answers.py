"""Consumers whose answers are written oddly have taken their event: it comes once."""

import contextlib

import pytest

from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running
from tests.rigs.odd_answers import ODD_ANSWERS
from tests.rigs.scripted_peers import ScriptedPeer, consuming, saying
from tests.rigs.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
SPEAKER = Speaker()
MALFORMED = {
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "no chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n<a/>\r\n",
}
"""Nobody can say where these end; what they say of the event, anybody can."""


async def test_an_event_comes_once(gateway: Running) -> None:
    wires = [write(b"<ok/>") for write in ODD_ANSWERS.values()] + list(MALFORMED.values())
    async with contextlib.AsyncExitStack() as stack:
        some: list[ScriptedPeer] = []
        for wire in wires:
            some.append(await stack.enter_async_context(consuming(saying(wire))))
            await gateway.subscribe(SPEAKER, SPEAKER.wse_subscribe(some[-1].url()))
        await gateway.publish('<storm xmlns="urn:storms">7</storm>')

        async def all_delivered() -> bool:
            law = await gateway.gateway.dispatchers.conservation()
            return law.totals.delivered == len(wires)

        await until(all_delivered)
        assert [consumer.connections for consumer in some] == [1] * len(wires)
