"""Strangers' publishers: which hosts are asked, how often, and who waits for whom."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.delivery import ProbationLimits, Probations
from gateway.egress import parse_target
from gateway.model.sources import Source
from gateway.sources.admission import (
    AT_ONCE,
    AT_ONCE_FOR_STRANGER,
    AT_ONCE_FOR_STRANGERS,
    Admission,
)
from mediation.client import SPECS
from mediation.model.versions import Version
from mediation.names import MAKE_CONNECTION_ANONYMOUS, WSN_BR_1_3
from tests.gateway.sources.test_registrations import register, source_of, unsubscribe
from tests.gateway.sources.test_sources import add, shown, state
from tests.rigs.consumers import Connection, Receipt, consumers, status
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.producers import Producer, Told, producers, silent
from tests.rigs.scripted_peers import consuming, read_request
from tests.rigs.waiting import DEADLINE, until

SPEAKER = Speaker()
STRANGER = "127.0.0.9"
TOPICS = "".join(f"<b:Topic>t{number}</b:Topic>" for number in range(20))
ATTEMPTS = 3
A_STRANGERS = Source(
    "s1", "a stranger", "http://p.example.org/", SPECS[Version.WSN_1_3], registration="r1"
)
AN_OPERATORS = Source("s2", "operator", "http://p.example.org/", SPECS[Version.WSN_1_3])


@asynccontextmanager
async def a_gateway(data: Path) -> AsyncIterator[tuple[Running, str]]:
    """A gateway to which other addresses than 127.0.0.1 are strangers, and the manager of a
    subscription to everything."""
    loopback = {"trusted": "127.0.0.1", "egress_allow": "127.0.0.0/8"}
    few = {"probation_per_minute": ATTEMPTS, "probation_attempts": ATTEMPTS}
    async with consumers() as some, running(data, **loopback, **few) as run:
        wanted = await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(some.add().url))
        yield run, wanted


async def a_stranger_registers(gateway: Running, url: str, topics: str = TOPICS) -> None:
    answer = await gateway.ask(SPEAKER, register(url, demand=True, inner=topics), source=STRANGER)
    assert answer.status == 200, answer.body


async def all_wait(gateway: Running, number: int) -> None:
    """Wait until *number* sources were told that their host is not asked any more."""

    def waiting() -> bool:
        errors = [entry.standing.error for entry in gateway.gateway.sources.entries]
        return sum("asked often enough" in error for error in errors) >= number

    await until(waiting)


def echo(connection: Connection, receipt: Receipt) -> None:
    connection.answer(200, receipt.body)


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(status(400), id="refuses"),
        pytest.param(status(200), id="says yes to anything"),
        pytest.param(status(200, b"<html/>"), id="has a page"),
        pytest.param(echo, id="sends it back"),
    ],
)
async def test_a_host_that_is_no_producer_gets_few_requests(
    tmp_path: Path, behaviour: object
) -> None:
    async with consumers() as some, a_gateway(tmp_path) as (gateway, _):
        victim = some.add(behaviour)  # type: ignore[arg-type]
        await a_stranger_registers(gateway, victim.url)
        await all_wait(gateway, 20 - ATTEMPTS)
        assert len(victim.received) == ATTEMPTS


async def test_the_managers_host_is_on_probation_too(tmp_path: Path) -> None:
    asked = 0

    async def victim(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        while True:
            await read_request(reader)
            asked += 1
            writer.write(b"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n")

    async with (
        producers() as some,
        consuming(victim, host="127.0.0.5") as other,
        a_gateway(tmp_path) as (gateway, everything),
    ):
        producer = some.add()

        def elsewhere(one: Producer, told: Told) -> tuple[int, bytes]:
            code, body = one._do(told)
            held = list(one.held.values())[-1]
            there = other.url(host="127.0.0.5").encode()
            return code, body.replace(f"{one.url}/{held.id}".encode(), there)

        producer.answers["Subscribe"] = elsewhere
        await a_stranger_registers(gateway, producer.url)

        def subscribed() -> bool:
            return all(one.standing.manager for one in gateway.gateway.sources.entries)

        await until(subscribed)
        assert producer.count("Subscribe") == 20, "a producer that answers is asked at will"
        assert asked == 0
        await unsubscribe(gateway, everything)  # Each is to be paused.
        await all_wait(gateway, 20 - ATTEMPTS)
        assert asked == ATTEMPTS


async def test_a_producer_that_answers_is_asked_as_often_as_it_takes(tmp_path: Path) -> None:
    async with producers() as some, a_gateway(tmp_path) as (gateway, _):
        producer = some.add()
        await a_stranger_registers(gateway, producer.url)
        await producer.asked("Subscribe", 20)


async def test_a_host_that_answers_as_a_producer_has_not_asked_for_messages() -> None:
    probations = Probations(limits=ProbationLimits(ATTEMPTS, ATTEMPTS))
    admission, target = Admission(probations), parse_target("http://p.example.org/")
    for _ in range(2 * ATTEMPTS):
        visit = admission.visit(A_STRANGERS, target)
        assert visit is not None
        assert visit.admit is not None
        assert visit.admit("192.0.2.1")
        visit.answered()
    assert not probations.has_agreed(target.destination)


async def test_a_name_that_agreed_does_not_speak_for_other_addresses() -> None:
    probations = Probations(limits=ProbationLimits(ATTEMPTS, ATTEMPTS))
    admission, target = Admission(probations), parse_target("http://p.example.org/")

    def may(address: str) -> bool:
        visit = admission.visit(A_STRANGERS, target)
        assert visit is not None
        assert visit.admit is not None
        return visit.admit(address)

    visit = admission.visit(A_STRANGERS, target)
    assert visit is not None
    assert visit.admit is not None
    assert visit.admit("192.0.2.1")
    visit.answered()
    assert [may("192.0.2.2") for _ in range(ATTEMPTS + 1)] == [True] * ATTEMPTS + [False]
    assert may("192.0.2.1")


async def test_operators_have_places_whatever_strangers_do() -> None:
    admission = Admission()
    held = 0
    async with AsyncExitStack() as stack:

        async def take(number: int) -> None:
            nonlocal held
            source = replace(A_STRANGERS, owner=f"stranger {number % 5}")
            async with admission.place(source, f"host{number}.example.org"):
                held += 1
                await asyncio.Event().wait()

        tasks = [asyncio.create_task(take(number)) for number in range(2 * AT_ONCE)]
        stack.callback(lambda: [task.cancel() for task in tasks])
        await until(lambda: held == AT_ONCE_FOR_STRANGERS)
        for number in range(AT_ONCE - AT_ONCE_FOR_STRANGERS):
            async with asyncio.timeout(DEADLINE):
                host = f"host{number}.example.org"  # Also where a stranger's hangs.
                await stack.enter_async_context(admission.place(AN_OPERATORS, host))
        assert held == AT_ONCE_FOR_STRANGERS


async def test_one_stranger_leaves_places_to_others() -> None:
    admission = Admission()
    async with AsyncExitStack() as stack:
        for number in range(AT_ONCE_FOR_STRANGER):
            place = admission.place(A_STRANGERS, f"host{number}.example.org")
            await stack.enter_async_context(place)
        one_more = asyncio.create_task(
            stack.enter_async_context(admission.place(A_STRANGERS, "more.example.org"))
        )
        other = admission.place(replace(A_STRANGERS, owner="another"), "host0.example.org")
        async with asyncio.timeout(DEADLINE):
            await asyncio.create_task(stack.enter_async_context(other))
        assert not one_more.done()
        one_more.cancel()


async def test_producers_of_strangers_that_hang_hold_no_operators_source_up(
    tmp_path: Path,
) -> None:
    async with producers() as some, a_gateway(tmp_path) as (gateway, _):
        hanging = [some.add() for _ in range(8)]
        for producer in hanging:
            producer.answers["Subscribe"] = silent
            await a_stranger_registers(gateway, producer.url, "<b:Topic>t</b:Topic>")
        await until(lambda: sum(one.count("Subscribe") for one in hanging) >= 2)
        producer = some.add()
        await add(gateway, producer)
        await producer.asked("Subscribe")
        assert sum(one.count("Subscribe") for one in hanging) == 2, "they still hang"


async def test_a_strangers_lease_is_not_renewed_every_second(tmp_path: Path) -> None:
    async with producers() as some, a_gateway(tmp_path) as (gateway, _):
        producer = some.add()
        producer.grants = "PT1S"
        await a_stranger_registers(gateway, producer.url, "<b:Topic>t</b:Topic>")
        id_ = (await source_of(gateway, producer))["id"]
        await state(gateway, id_, "live")
        end = datetime.fromisoformat((await shown(gateway, id_))["expires"])
        assert (end - datetime.now(UTC)).total_seconds() > 10.0


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("http://www.w3.org/2005/08/addressing/anonymous", id="anonymous"),
        pytest.param("http://www.w3.org/2005/08/addressing/role/anonymous", id="as Muse has it"),
        pytest.param("http://www.w3.org/2005/08/addressing/none", id="none"),
        pytest.param(f"{MAKE_CONNECTION_ANONYMOUS}a", id="who fetches"),
        pytest.param("mailto:p@example.org", id="who cannot answer"),
    ],
)
async def test_a_publisher_on_demand_has_an_address(tmp_path: Path, address: str) -> None:
    async with a_gateway(tmp_path) as (gateway, _):
        answer = await gateway.ask(SPEAKER, register(address, "t", demand=True), source=STRANGER)
        assert answer.fault.element == f"{{{WSN_BR_1_3}}}PublisherRegistrationRejectedFault"
        answer = await gateway.ask(SPEAKER, register(address, "t"), source=STRANGER)
        assert answer.status == 200, answer.body
