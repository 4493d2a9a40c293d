"""gSOAP's WS-ReliableMessaging publishes in sequences at the gateway, over a net that loses, doubles
and delays what is sent."""

import asyncio
from pathlib import Path

import pytest

from mediation.reliable_messaging import Rm
from tests.rigs.cases import each_value_once
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.gsoap_reliable import needs_gsoap_reliable
from tests.rigs.gsoap_reliable import running as peer_running
from tests.rigs.lossy_relay import ANY, Mishap, relay
from tests.rigs.ports import free_ports

needs_gsoap_reliable()

COUNT = 10
SPEAKER = Speaker()


@pytest.mark.slow
@each_value_once(
    rm={rm.number: rm for rm in Rm},
    called={"on its connections": False, "called back": True},
    soap={"soap-1.1": [], "soap-1.2": ["--soap12"]},
)
async def test_its_client(tmp_path: Path, rm: Rm, called: bool, soap: list[str]) -> None:
    async with (
        consumers() as some,
        running(tmp_path, wsrm="required", adapter="embedded:") as run,
    ):
        consumer = some.add()
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.url))
        with relay(ANY, seed=1) as there, relay(ANY, seed=2) as here:
            there.target = run.url
            words = ["send", f"{there.url}/soap", "note", str(COUNT)]
            if called:
                [port] = free_ports(1)
                here.target = f"http://127.0.0.1:{port}"
                words += [here.url, str(port)]
            with peer_running(rm, *words, *soap) as peer:
                await asyncio.to_thread(peer.ended)
            assert there.counts[Mishap.LOSE_REQUEST] and there.counts[Mishap.DOUBLE]
        assert peer.lines[-2:] == ["left 0", "ended"]
        await run.until(lambda: len(consumer.received) >= COUNT)
        await run.quiet()
        texts = [receipt.body.split(b"text>")[1].split(b"<")[0] for receipt in consumer.received]
        assert texts == [b"%d" % number for number in range(1, COUNT + 1)]
        assert run.gateway.sequences is not None
        [state] = await run.gateway.sequences.listed()
        assert state.sequence.complete and state.sequence.ended_at is not None
