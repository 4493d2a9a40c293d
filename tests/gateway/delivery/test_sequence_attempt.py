"""Deliveries in sequences, from Subscribe to the consumer's application, over real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import (
    CreateSequence,
    FaultName,
    ReliableMessage,
    Rm,
    RmFault,
    RmSpec,
    TerminateSequence,
    write_rm_fault,
)
from mediation.reliable_messaging.application import write_application_fault
from mediation.soap.envelopes import write_envelope
from tests.rigs.cases import each_value_once
from tests.rigs.consumers import (
    Behaviour,
    Connection,
    Consumer,
    Consumers,
    Receipt,
    accept,
    consumers,
    reset,
    status,
)
from tests.rigs.envelopes import S11, S12, WSE, WSNT, Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.reliable_consumers import ReliableConsumer, policy
from tests.rigs.waiting import until

SETTINGS = {"adapter": "embedded:", "retry_delays": ",".join(["0.05"] * 10)}
IN_2004 = "DeliveryModeRequestedUnavailable"


@dataclass
class Rig:
    """A gateway, and a consumer of sequences."""

    run: Running
    some: Consumers
    consumer: Consumer
    reliable: ReliableConsumer

    async def subscribe(self, speaker: Speaker | None = None, rm: Rm = Rm.V1_1) -> str:
        """Subscribe the consumer, and have its end told; the path of the manager."""
        speaker = speaker or Speaker()
        body = speaker.wse_subscribe(self.consumer.url, end_to=self.some.url("end"))
        body = body.replace("</e:Delivery>", f"{policy(rm)}</e:Delivery>")
        return await self.run.subscribe(speaker, body)

    async def publish(self, *numbers: int) -> None:
        for number in numbers:
            await self.run.publish(f'<t:event xmlns:t="urn:t"><n>{number}</n></t:event>')

    async def got(self, *numbers: int) -> None:
        """Wait until the consumer's application has just these."""
        await until(lambda: self.reliable.got == [str(number) for number in numbers])

    async def ended(self) -> str:
        """Wait for the end of the subscription; why."""
        told = await self.some.next(self.some.url("end"))
        return told.body.decode()

    async def matched(self, count: int) -> None:
        """Wait until so many deliveries were asked for."""

        async def are() -> bool:
            found = await self.run.gateway.dispatchers.conservation()
            return found.totals.matched >= count

        await until(are)

    async def conserved(self, **expected: int) -> None:
        """The totals of all subscriptions once nothing is under way."""
        await self.run.quiet()
        found = await self.run.gateway.dispatchers.conservation()
        assert found.error == 0
        shown = {name: getattr(found.totals, name) for name in expected}
        assert shown == expected


@asynccontextmanager
async def rig(
    tmp_path: Path, reliable: ReliableConsumer | None = None, **settings: Any
) -> AsyncIterator[Rig]:
    async with consumers() as some, running(tmp_path, **{**SETTINGS, **settings}) as run:
        behaviour = reliable or ReliableConsumer()
        yield Rig(run, some, some.add(behaviour), behaviour)


def protocol(reliable: ReliableConsumer) -> list[str]:
    return reliable.bodies()


@each_value_once(
    rm={rm.number: rm for rm in Rm},
    soap={"soap-1.1": S11, "soap-1.2": S12},
    wsa={"2005/08": Wsa.V2005_08, "2004/08": Wsa.V2004_08},
)
async def test_each_once_in_order(tmp_path: Path, rm: Rm, soap: Soap, wsa: Wsa) -> None:
    async with rig(tmp_path) as r:
        manager = await r.subscribe(Speaker(soap, wsa), rm)
        await r.publish(1, 2, 3)
        await r.got(1, 2, 3)
        assert r.reliable.sequences == [[1, 2, 3]]
        [create] = [one for one in r.reliable.sent if isinstance(one.body, CreateSequence)]
        assert (create.rm, create.soap, create.wsa) == (rm, soap, wsa)
        await r.conserved(matched=3, delivered=3)
        speaker = Speaker(soap, wsa)
        await r.run.ask(speaker, f'<e:Unsubscribe xmlns:e="{WSE}"/>', manager)
        ends = ["CloseSequence"] if rm.rules.closes else ["LastMessage"]
        wanted = ["CreateSequence", *ends, "TerminateSequence"]
        await until(lambda: protocol(r.reliable) == wanted)
        last = r.reliable.sent[-1].body
        assert isinstance(last, TerminateSequence)
        assert last.last_number == (3 if rm.rules.closes else None)
        assert r.reliable.sequences == [[1, 2, 3] if rm.rules.closes else [1, 2, 3, 4]]
        assert r.reliable.got == ["1", "2", "3"]


async def test_nothing_is_lost_or_doubled_where_messages_are(tmp_path: Path) -> None:
    """Requests and answers are lost, at random; what was sent is sent again with its number, by
    the schedule of deliveries."""
    draw = Random(7)
    reliable = ReliableConsumer()
    async with rig(tmp_path, reliable) as r:
        await r.subscribe()
        odds = {"request": 0.25, "answer": 0.25, "": 0.5}
        reliable.loses = lambda said: draw.choices(list(odds), list(odds.values()))[0]
        wanted = range(1, 31)
        await r.publish(*wanted)
        await r.got(*wanted)
        assert reliable.sequences == [list(wanted)]
        assert len(reliable.numbers[next(iter(reliable.numbers))]) > len(wanted)
        reliable.loses = lambda said: ""
        await r.conserved(matched=30, delivered=30, dead=0)


async def test_202_is_no_acknowledgement(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        await r.subscribe()
        r.consumer.behaviour = accept
        before = r.consumer.count
        await r.publish(1)
        await r.consumer.until(lambda: r.consumer.count >= before + 3)
        assert r.reliable.got == []
        r.consumer.behaviour = r.reliable
        await r.got(1)
        assert r.reliable.sequences == [[1]]
        await r.conserved(matched=1, delivered=1)


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_consumer_that_keeps_silent_about_what_it_knows(
    tmp_path: Path, arrived: bool
) -> None:
    """Its last word is asked for, which says whether it has the message."""
    async with rig(tmp_path, ReliableConsumer(mute=True)) as r:
        await r.subscribe()
        await r.publish(1)
        await r.got(1)
        lost = iter(["answer" if arrived else "request"])
        r.reliable.loses = lambda said: next(lost, "") if said.sequence is not None else ""
        await r.publish(2, 3)
        await r.got(1, 2, 3)
        assert r.reliable.sequences == ([[1, 2], [1]] if arrived else [[1, 2, 3]])
        assert ("CloseSequence" in r.reliable.bodies()) is arrived
        await r.conserved(matched=3, delivered=3)


# Consumers that make no sequence.


def fault(name: FaultName, soap: Soap = S12) -> Behaviour:
    spec = RmSpec(Rm.V1_1, soap, Wsa.V2005_08)

    def answer(connection: Connection, receipt: Receipt) -> None:
        to = EndpointReference(Wsa.V2005_08.anonymous, Wsa.V2005_08)
        said = RmFault(name, None)
        _, octets = write_rm_fault(
            spec, said, about_header=False, to=to, relates_to=receipt.id or None
        )
        connection.answer(500, octets, Content_Type=soap.media_type)

    return answer


def plain_fault(connection: Connection, receipt: Receipt) -> None:
    """The fault of a service that knows no such operation."""
    body = write_application_fault(S12, "No such operation.")
    octets = write_envelope(S12, Wsa.V2005_08, "", body.decode())
    connection.answer(500, octets, Content_Type=S12.media_type)


@pytest.mark.parametrize(
    ("behaviour", "says"),
    [
        (fault(FaultName.CREATE_SEQUENCE_REFUSED), "refused by the RM Destination"),
        (plain_fault, "No such operation."),
        (accept, "does not answer CreateSequence"),
        (status(400), "answered 400"),
    ],
)
async def test_a_consumer_without_sequences(
    tmp_path: Path, behaviour: Behaviour, says: str
) -> None:
    speaker = Speaker()
    async with rig(tmp_path) as r:
        r.consumer.behaviour = behaviour
        body = speaker.wse_subscribe(r.consumer.url)
        body = body.replace("</e:Delivery>", f"{policy()}</e:Delivery>")
        answer = await r.run.ask(speaker, body)
        text = answer.body.decode()
        assert IN_2004 in text
        assert says in text
        assert len(r.run.gateway.subscriptions) == 0


@pytest.mark.parametrize("behaviour", [reset, status(503)])
async def test_a_consumer_that_does_not_answer_now(tmp_path: Path, behaviour: Behaviour) -> None:
    speaker = Speaker()
    async with rig(tmp_path) as r:
        r.consumer.behaviour = behaviour
        body = speaker.wsn_subscribe(r.consumer.url, policy=policy())
        answer = await r.run.ask(speaker, body)
        assert b"SubscribeCreationFailedFault" in answer.body
        assert b"could not be asked for a sequence" in answer.body


async def test_what_specifications_call_it(tmp_path: Path) -> None:
    speaker = Speaker()
    async with rig(tmp_path) as r:
        r.consumer.behaviour = accept
        answer = await r.run.ask(speaker, speaker.wsn_subscribe(r.consumer.url, policy=policy()))
        assert b"UnsupportedPolicyRequestFault" in answer.body
        assert b"RMAssertion" in answer.body
        body = speaker.wse11_subscribe(r.consumer.url)
        body = body.replace("</e:Delivery>", f"{policy()}</e:Delivery>")
        assert b"UnusableEPR" in (await r.run.ask(speaker, body)).body


async def test_a_messaging_system_that_keeps_nothing(tmp_path: Path) -> None:
    speaker = Speaker()
    async with rig(tmp_path, adapter="memory:") as r:
        answer = await r.run.ask(speaker, speaker.wsn_subscribe(r.consumer.url, policy=policy()))
        assert b"UnsupportedPolicyRequestFault" in answer.body
        assert r.consumer.count == 0


async def test_only_what_is_sent_over_http(tmp_path: Path) -> None:
    speaker = Speaker()
    address = "http://docs.oasis-open.org/ws-rx/wsmc/200702/anonymous?id=1"
    async with rig(tmp_path) as r:
        answer = await r.run.ask(speaker, speaker.wsn_subscribe(address, policy=policy()))
        assert b"UnsupportedPolicyRequestFault" in answer.body


async def test_a_host_is_asked_seldom_for_strangers(tmp_path: Path) -> None:
    """Before it has taken anything: to be asked for a sequence is an attempt."""
    strangers: dict[str, Any] = {
        "trusted": "127.0.0.1",
        "probation_per_minute": 2,
        "egress_allow": "127.0.0.0/8",
    }
    speaker = Speaker()
    async with rig(tmp_path, **strangers) as r:
        r.consumer.behaviour = accept
        body = speaker.wsn_subscribe(r.consumer.url, policy=policy())
        answers = [await r.run.ask(speaker, body, source="127.0.0.9") for _ in range(3)]
        assert b"asked often enough" in answers[-1].body
        assert [b"does not answer" in answer.body for answer in answers] == [True, True, False]
        assert r.consumer.count == 2


async def test_a_stranger_gets_a_sequence(tmp_path: Path) -> None:
    strangers: dict[str, Any] = {"trusted": "127.0.0.1", "egress_allow": "127.0.0.0/8"}
    speaker = Speaker()
    async with rig(tmp_path, **strangers) as r:
        body = speaker.wsn_subscribe(r.consumer.url, policy=policy())
        manager = await r.run.subscribe(speaker, body, source="127.0.0.9")
        await r.publish(1, 2)
        await r.got(1, 2)
        await r.run.ask(speaker, f'<n:Unsubscribe xmlns:n="{WSNT}"/>', manager, source="127.0.0.9")
        await until(lambda: r.reliable.bodies()[-1] == "TerminateSequence")


# Consumers that forget.


async def test_a_consumer_that_forgot_while_nothing_was_under_way(tmp_path: Path) -> None:
    """It has certainly got nothing of what it says that about: a new sequence begins with it."""
    async with rig(tmp_path) as r:
        await r.subscribe()
        await r.publish(1, 2)
        await r.got(1, 2)
        r.reliable.forget()
        await r.publish(3, 4)
        await r.got(1, 2, 3, 4)
        assert r.reliable.sequences == [[1, 2, 3], [1, 2]]
        await r.conserved(matched=4, delivered=4)


async def test_a_consumer_that_forgot_what_it_may_have_got(tmp_path: Path) -> None:
    """Nobody knows whether it was delivered: rather than twice, the subscription ends."""
    async with rig(tmp_path) as r:
        await r.subscribe()

        def loses(said: ReliableMessage) -> str:
            if said.sequence is None:
                return ""
            # It forgets before anything comes again: many attempts would open a breaker.
            asyncio.get_running_loop().call_soon(r.reliable.forget)
            r.reliable.loses = lambda said: ""
            return "answer"

        r.reliable.loses = loses
        await r.publish(1, 2)
        said = await r.ended()
        assert "DeliveryFailure" in said
        assert "UnknownSequence" in said
        assert r.reliable.got == ["1"]
        assert len(r.run.gateway.subscriptions) == 0


@pytest.mark.slow
async def test_a_consumer_that_was_away_has_got_nothing(tmp_path: Path) -> None:
    """Where there was no connection, nothing was sent: it may forget meanwhile."""
    async with rig(tmp_path) as r:
        await r.subscribe()
        await r.publish(1)
        await r.got(1)
        await r.some.leave()
        await r.publish(2)
        await until(lambda: r.run.gateway.dispatchers.scheduler.open_breakers > 0)
        r.reliable.forget()
        await r.some.listen()
        await r.got(1, 2)


async def test_a_sequence_that_expires_is_replaced_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.delivery.sequences.protocol.SHORTEST", timedelta())
    reliable = ReliableConsumer(lifetime=0.2)
    async with rig(tmp_path, reliable) as r:
        await r.subscribe()
        for number in range(1, 6):
            await r.publish(number)
            await until(lambda number=number: len(reliable.got) == number)  # type: ignore[misc]
        await r.got(1, 2, 3, 4, 5)
        firsts = [numbers[0] for numbers in reliable.sequences]
        assert set(firsts) == {1}


async def test_a_sequence_that_ends_within_a_minute_is_none(tmp_path: Path) -> None:
    async with rig(tmp_path, ReliableConsumer(lifetime=59.0)) as r:
        speaker = Speaker()
        body = speaker.wse_subscribe(r.consumer.url)
        body = body.replace("</e:Delivery>", f"{policy()}</e:Delivery>")
        answer = await r.run.ask(speaker, body)
        assert answer.status >= 400, answer.body
        assert b"would end after 0:00:59" in answer.body
        r.reliable.lifetime = 60.0
        r.reliable.forget()
        await r.subscribe()


# Deliveries that cannot be made.


@pytest.mark.parametrize(
    ("behaviour", "says"), [(status(400), "could not be made"), (status(410), "is gone")]
)
async def test_what_cannot_be_delivered_ends_the_subscription(
    tmp_path: Path, behaviour: Behaviour, says: str
) -> None:
    """Nothing behind it is sent: it would come after a gap."""
    async with rig(tmp_path) as r:
        await r.subscribe()
        held: list[tuple[Connection, Receipt]] = []
        r.consumer.behaviour = lambda *call: held.append(call)
        before = r.consumer.count
        await r.publish(1, 2, 3)
        await r.matched(3)  # The end comes after the last of them, then.
        r.consumer.behaviour = behaviour
        for call in held:
            behaviour(*call)
        assert says in await r.ended()
        numbers = {one.number for one in r.consumer.received[before:]}
        assert numbers - {""} == {"1"}
        await r.conserved(matched=3, cancelled=3, dead=0)


async def test_attempts_that_are_used_up_end_the_subscription(tmp_path: Path) -> None:
    async with rig(tmp_path, retry_delays="0.02,0.02") as r:
        await r.subscribe()
        held: list[tuple[Connection, Receipt]] = []
        r.consumer.behaviour = lambda *call: held.append(call)
        await r.publish(1, 2)
        await r.matched(2)
        r.consumer.behaviour = status(503)
        for call in held:
            status(503)(*call)
        assert "could not be made" in await r.ended()
        await r.conserved(matched=2, cancelled=2, dead=0)


# What is kept.


async def test_a_restart_goes_on_with_the_numbers(tmp_path: Path) -> None:
    reliable = ReliableConsumer()
    async with consumers() as some:
        consumer = some.add(reliable)
        for first in (1, 4):
            async with running(tmp_path, **SETTINGS) as run:
                r = Rig(run, some, consumer, reliable)
                if first == 1:
                    await r.subscribe()
                await r.publish(first, first + 1, first + 2)
                await until(lambda first=first: len(reliable.got) == first + 2)  # type: ignore[misc]
        assert reliable.got == ["1", "2", "3", "4", "5", "6"]
        assert reliable.sequences == [[1, 2, 3, 4, 5, 6]]


async def test_what_the_api_shows(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        await r.subscribe(rm=Rm.V1_0)
        [shown] = json.loads((await r.run.api("GET", "/subscriptions")).body)["subscriptions"]
        assert shown["mode"]["reliable"] == "1.0"


async def test_what_expires_before_it_has_a_number_leaves_no_gap(tmp_path: Path) -> None:
    """It waits behind one that cannot be sent; the sequence goes on without it."""
    async with rig(tmp_path, adapter="embedded:") as r:
        await r.subscribe()
        r.consumer.behaviour = status(503)
        await r.publish(1)
        await until(lambda: r.consumer.count > 0)
        expires = datetime.now(UTC) + timedelta(seconds=0.5)
        answer = await r.run.request(
            "POST",
            "/events",
            b"<n>2</n>",
            content_type="application/xml",
            ce_specversion="1.0",
            ce_id="2",
            ce_source="/s",
            ce_type="t",
            ce_expirytime=expires.isoformat(),
        )
        assert answer.status == 202
        await r.publish(3)
        await r.matched(3)
        await until(lambda: datetime.now(UTC) > expires)
        r.consumer.behaviour = r.reliable
        await r.got(1, 3)
        assert r.reliable.sequences == [[1, 2]]
        await r.conserved(matched=3, delivered=2, expired=1)
