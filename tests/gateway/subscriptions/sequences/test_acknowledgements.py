"""Consumers that acknowledge at an address of the gateway, and not on connections."""

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gateway.delivery.sequences.protocol import CALLED_BACK
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import (
    Acknowledgement,
    CreateSequence,
    FaultName,
    Ranges,
    ReliableMessage,
    Rm,
    RmFault,
    RmSpec,
    acknowledgement_block,
    write_acknowledgement,
    write_rm_fault,
)
from tests.gateway.delivery.test_sequence_attempt import SETTINGS, Rig, rig
from tests.rigs.consumers import Connection, Receipt
from tests.rigs.envelopes import WSE, Speaker
from tests.rigs.gateways import running
from tests.rigs.reliable_consumers import ReliableConsumer
from tests.rigs.waiting import until

ROWS = {"consumers": [{"address": "*", "acknowledgements": "address"}]}


@dataclass(eq=False)
class CallingConsumer(ReliableConsumer):
    """Sends its acknowledgements to where it was told."""

    run: Rig | None = None
    calls: set["asyncio.Task[None]"] = field(default_factory=set)
    addresses: set[str] = field(default_factory=set)
    holds: bool = False
    """It acknowledges nothing for the present."""

    def __call__(self, connection: Connection, receipt: Receipt) -> None:
        super().__call__(connection, receipt)
        self.call()

    def call(self) -> None:
        """Send what it has to say."""
        if self.holds or self.run is None:
            return
        self.elsewhere += self.endpoint.due(time.time() + 1.0)
        elsewhere, self.elsewhere = self.elsewhere, []
        for outgoing in elsewhere:
            self.addresses.add(outgoing.to.address)
            path = urlsplit(outgoing.to.address).path
            kind = dict(outgoing.http_headers)["Content-Type"]
            post = self.run.run.post(outgoing.envelope, path, type=kind)
            task = asyncio.ensure_future(self._sent(post))
            self.calls.add(task)
            task.add_done_callback(self.calls.discard)

    @staticmethod
    async def _sent(post: object) -> None:
        answer = await post  # type: ignore[misc]
        assert answer.status == 202, answer.body


@pytest.mark.parametrize("rm", list(Rm))
async def test_each_once_in_order(tmp_path: Path, rm: Rm) -> None:
    consumer = CallingConsumer()
    async with rig(tmp_path, consumer, **ROWS) as r:
        consumer.run = r
        manager = await r.subscribe(rm=rm)
        await r.publish(1, 2, 3)
        await r.got(1, 2, 3)
        await r.conserved(matched=3, delivered=3)
        assert consumer.sequences == [[1, 2, 3]]
        [create] = [one.body for one in consumer.sent if isinstance(one.body, CreateSequence)]
        assert consumer.addresses == {create.acks_to.address}
        assert urlsplit(create.acks_to.address).path.startswith("/sequences/")
        await r.run.ask(Speaker(), f'<e:Unsubscribe xmlns:e="{WSE}"/>', manager)
        await until(lambda: "TerminateSequence" in consumer.bodies())


async def test_what_was_taken_and_whose_answer_was_lost(tmp_path: Path) -> None:
    """1.0, in which nobody can be asked for the last word: the acknowledgement comes by itself."""
    consumer = CallingConsumer(mute=True)
    async with rig(tmp_path, consumer, **ROWS) as r:
        consumer.run = r
        await r.subscribe(rm=Rm.V1_0)
        lost = iter(["answer"])

        def loses(said: ReliableMessage) -> str:
            return next(lost, "") if said.sequence is not None else ""

        consumer.loses = loses
        await r.publish(1, 2)
        await r.got(1, 2)
        await r.conserved(matched=2, delivered=2)


async def test_one_that_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No attempt waits for it any more: the next one finds it in the store, and sends nothing."""
    monkeypatch.setattr("gateway.delivery.sequences.protocol.CALLED_BACK", 0.05)
    consumer = CallingConsumer(holds=True)
    async with rig(tmp_path, consumer, retry_delays="600", **ROWS) as r:
        consumer.run = r
        await r.subscribe()
        await r.publish(1)

        async def outcome(name: str) -> bool:
            text = (await r.run.admin("GET", "/metrics")).body.decode()
            return f'dragoman_sequence_deliveries_total{{outcome="{name}"}} 1' in text

        await until(lambda: outcome("unacknowledged"))
        consumer.holds = False
        consumer.call()
        await until(lambda: outcome("repeated"))
        assert list(consumer.numbers.values()) == [[1]]

        async def delivered() -> bool:
            found = await r.run.gateway.dispatchers.conservation()
            return found.totals.delivered == 1

        await until(delivered)
        await r.conserved(matched=1, delivered=1)


@pytest.mark.parametrize("rm", list(Rm))
async def test_a_stop_waits_for_it(tmp_path: Path, rm: Rm) -> None:
    """What is out when the gateway is asked to stop is acknowledged before it listens no more."""
    consumer = CallingConsumer(holds=True)
    async with rig(tmp_path, consumer, **ROWS) as r:
        consumer.run = r
        await r.subscribe(rm=rm)
        await r.publish(1)
        await r.got(1)
        r.run.stop.set()
        await until(lambda: r.run.gateway.soap.draining)
        clock = asyncio.get_running_loop().time
        began, answers = clock(), set[int]()
        while clock() < began + 0.3:  # uvicorn looks every 0.1 seconds whether it is to end.
            answers.add((await r.run.ask(Speaker(), "<t:event xmlns:t='urn:t'/>")).status)
        assert answers == {503}
        consumer.holds = False
        consumer.call()
        await asyncio.gather(*consumer.calls)
    async with running(tmp_path, **{**SETTINGS, **ROWS}) as again:
        await again.quiet()
        found = await again.gateway.dispatchers.conservation()
        assert (found.waiting, found.totals.delivered) == (0, 1)  # Nothing is left to be repeated.
    assert list(consumer.numbers.values()) == [[1]]


async def test_a_stop_waits_for_nobody_who_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = CallingConsumer(holds=True)
    async with rig(tmp_path, consumer, drain=0.1, **ROWS) as r:
        consumer.run = r
        await r.subscribe()
        await r.publish(1)
        await r.got(1)
        began = asyncio.get_running_loop().time()
        r.run.stop.set()
    # An attempt alone would have waited for longer.
    assert asyncio.get_running_loop().time() - began < CALLED_BACK


async def test_nobody_acknowledges_for_one_that_does_on_connections(tmp_path: Path) -> None:
    """Who read the messages knows both names: the address was told to nobody, and what comes there
    counts for nothing. So the message goes again."""
    consumer = ReliableConsumer(loses=lambda said: "request" if said.sequence is not None else "")
    async with rig(tmp_path, consumer) as r:
        await r.subscribe()
        await r.publish(1)
        await until(lambda: any(one.sequence is not None for one in consumer.sent))
        header = next(one.sequence for one in consumer.sent if one.sequence is not None)
        [create] = [one for one in consumer.sent if isinstance(one.body, CreateSequence)]
        told = Acknowledgement(header.identifier, Ranges.of([(1, 1)]))
        path = f"/sequences/{(create.headers.message_id or '').removeprefix('urn:uuid:')}"
        spec = RmSpec(Rm.V1_1, Soap.V1_2, Wsa.V2005_08)
        to = EndpointReference(f"{r.run.url}{path}", Wsa.V2005_08)
        _, forged = write_acknowledgement(spec, to, acknowledgement_block(Rm.V1_1, told))
        assert (await r.run.post(forged, path)).status == 202
        consumer.loses = lambda said: ""
        await r.got(1)
        await r.conserved(matched=1, delivered=1)


async def test_what_is_no_acknowledgement(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        path = "/sequences/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
        answer = await r.run.ask(Speaker(), "<t:event xmlns:t='urn:t'/>", path)
        assert answer.status >= 400
        assert b"Acknowledgements are taken here" in answer.body


@pytest.mark.parametrize("soap", list(Soap))
@pytest.mark.parametrize("about_header", [False, True])
async def test_a_fault_about_the_sequence(tmp_path: Path, soap: Soap, about_header: bool) -> None:
    """The consumer has forgotten it, and says so there; nobody knows what it had."""
    consumer = CallingConsumer(holds=True)
    async with rig(tmp_path, consumer, **ROWS) as r:
        consumer.run = r
        await r.subscribe()
        [create] = [one.body for one in consumer.sent if isinstance(one.body, CreateSequence)]
        await r.publish(1)
        await r.got(1)
        spec = RmSpec(Rm.V1_1, soap, Wsa.V2005_08)
        fault = RmFault(FaultName.UNKNOWN_SEQUENCE, next(iter(consumer.numbers)))
        _, octets = write_rm_fault(spec, fault, about_header=about_header, to=create.acks_to)
        path = urlsplit(create.acks_to.address).path
        assert (await r.run.post(octets, path)).status == 202
        await until(lambda: len(consumer.bodies()) == 2)
        assert consumer.bodies() == ["CreateSequence"] * 2
        consumer.holds = False
        consumer.call()
