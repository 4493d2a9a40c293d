"""gSOAP's WS-ReliableMessaging is the consumer of notifications in sequences, over a net that loses
requests, and with 1.1 answers. gSOAP acknowledges on connections once, and to nobody who asks, but when
it is closed; at an address of ours it does until it is understood."""

import asyncio
from pathlib import Path

import pytest

from mediation.model.versions import Soap
from mediation.reliable_messaging import Rm
from tests.rigs.cases import each_value_once
from tests.rigs.envelopes import S11, S12, WSE, Speaker
from tests.rigs.gateways import running
from tests.rigs.gsoap_reliable import needs_gsoap_reliable
from tests.rigs.gsoap_reliable import running as peer_running
from tests.rigs.lossy_relay import Mishap, relay
from tests.rigs.ports import free_ports
from tests.rigs.reliable_consumers import policy
from tests.rigs.waiting import until

needs_gsoap_reliable()

COUNT = 10
LOSING = {
    Rm.V1_0: {Mishap.LOSE_REQUEST: 0.25, Mishap.LATE: 0.1},
    Rm.V1_1: {Mishap.LOSE_REQUEST: 0.2, Mishap.LOSE_ANSWER: 0.2, Mishap.LATE: 0.1},
}
ELSEWHERE = {Mishap.LOSE_REQUEST: 0.2, Mishap.LOSE_ANSWER: 0.3}
SETTINGS = {"adapter": "embedded:", "retry_delays": ",".join(["0.1"] * 30)}


@pytest.mark.slow
@each_value_once(rm={rm.number: rm for rm in Rm}, soap={"soap-1.1": S11, "soap-1.2": S12})
async def test_its_service(tmp_path: Path, rm: Rm, soap: Soap) -> None:
    [port] = free_ports(1)
    speaker = Speaker(soap)
    async with running(tmp_path, **SETTINGS) as run:
        with peer_running(rm, "serve", str(port)) as peer, relay({}, seed=4) as between:
            between.target = f"http://127.0.0.1:{await asyncio.to_thread(peer.port)}"
            body = speaker.wse_subscribe(f"{between.url}/sink")
            asked = body.replace("</e:Delivery>", f"{policy(rm)}</e:Delivery>")
            manager = await run.subscribe(speaker, asked)
            between.odds = LOSING[rm]
            for number in range(1, COUNT + 1):
                note = f'<p:note xmlns:p="urn:gsoap-peer"><p:text>{number}</p:text></p:note>'
                await run.publish(note, action="urn:gsoap-peer:note")
            await until(lambda: len(peer.got) >= COUNT)
            await run.quiet()
            between.odds = {}
            await run.ask(speaker, f'<e:Unsubscribe xmlns:e="{WSE}"/>', manager)
            if rm is Rm.V1_1:  # It acknowledges no LastMessage on connections.
                await until(
                    lambda: any(b"TerminateSequenceResponse" in o for _, o in between.passed)
                )
            assert between.counts[Mishap.LOSE_REQUEST]
            assert peer.got == [str(number) for number in range(1, COUNT + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("rm", [pytest.param(Rm.V1_0, marks=pytest.mark.nightly), Rm.V1_1])
async def test_its_service_that_acknowledges_elsewhere(tmp_path: Path, rm: Rm) -> None:
    """Answers are lost with 1.0, too."""
    [port] = free_ports(1)
    speaker = Speaker(S11)
    rows = [{"address": "*", "acknowledgements": "address"}]
    async with running(tmp_path, consumers=rows, **SETTINGS) as run:
        with peer_running(rm, "serve", str(port)) as peer, relay({}, seed=4) as between:
            between.target = f"http://127.0.0.1:{await asyncio.to_thread(peer.port)}"
            body = speaker.wse_subscribe(f"{between.url}/sink")
            asked = body.replace("</e:Delivery>", f"{policy(rm)}</e:Delivery>")
            await run.subscribe(speaker, asked)
            between.odds = ELSEWHERE
            for number in range(1, COUNT + 1):
                note = f'<p:note xmlns:p="urn:gsoap-peer"><p:text>{number}</p:text></p:note>'
                await run.publish(note, action="urn:gsoap-peer:note")
            await until(lambda: len(peer.got) >= COUNT)
            await run.quiet()
            assert between.counts[Mishap.LOSE_ANSWER]
            assert peer.got == [str(number) for number in range(1, COUNT + 1)]
