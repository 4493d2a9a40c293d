"""What strangers try with sequences: others' identifiers, guessed ones, floods, and addresses of
third parties."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap
from mediation.reliable_messaging import (
    LARGEST_NUMBER,
    NO_NUMBERS,
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
    Offer,
    Rm,
    RmFault,
)
from tests.rigs.consumers import Consumers, consumers
from tests.rigs.envelopes import Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.reliable_publishers import ReliablePublisher, fault_of, upto

SPEAKER = Speaker()
STRANGER, ANOTHER = "127.0.0.9", "127.0.0.10"


@asynccontextmanager
async def a_gateway(data: Path, **settings: object) -> AsyncIterator[tuple[Running, Consumers]]:
    """A gateway to which all but 127.0.0.1 are strangers."""
    loopback = {"trusted": "127.0.0.1", "egress_allow": "127.0.0.0/8"}
    chosen = {"wsrm": "offered", "adapter": "embedded:", **loopback, **settings}
    async with consumers() as some, running(data, **chosen) as run:
        yield run, some


def accepted(run: Running) -> int:
    return run.gateway.publishing.accepted


@pytest.mark.parametrize("other", [ANOTHER, "127.0.0.1"])
async def test_a_sequence_of_somebody_else(tmp_path: Path, other: str) -> None:
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run, source=STRANGER)
        identifier = await publisher.create()
        await publisher.send(1)
        thief = ReliablePublisher(run, source=other, identifier=identifier)
        assert fault_of(await thief.send(2)).name is FaultName.UNKNOWN_SEQUENCE
        if other == "127.0.0.1":  # A stranger is not told that often.
            assert fault_of(await thief.ask()).name is FaultName.UNKNOWN_SEQUENCE
            assert fault_of(await thief.close(1)).name is FaultName.UNKNOWN_SEQUENCE
            assert fault_of(await thief.terminate()).name is FaultName.UNKNOWN_SEQUENCE
        else:
            assert await thief.ask() is None
            assert await thief.close(1) is None
            assert await thief.terminate() is None
        await publisher.send(2)
        assert publisher.acknowledged == upto(2)
        assert accepted(run) == 2


async def test_a_refused_message_in_a_sequence_of_somebody_else_takes_no_turn(
    tmp_path: Path,
) -> None:
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run, source=STRANGER)
        identifier = await publisher.create()
        thief = ReliablePublisher(run, source=ANOTHER, identifier=identifier)
        said = await thief.send(1, SPEAKER.wsn_subscribe("http://a.example.com/"))
        assert said is not None
        assert not said.acknowledgements
        await publisher.send(1)
        assert accepted(run) == 1


async def test_who_guesses_learns_little(tmp_path: Path) -> None:
    """A fault for the first, and then hardly a word."""
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run, source=STRANGER)
        begun, told = time.monotonic(), 0
        for number in range(30):
            answer = await publisher.post(
                publisher.message(1, "<a/>", identifier=f"urn:uuid:{number}")
            )
            told += bool(answer.body)
        assert 1 <= told <= 2 + time.monotonic() - begun
        assert accepted(run) == 0


async def test_identifiers_are_random(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, some):
        consumer = some.add()
        await run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(consumer.url))
        publisher = ReliablePublisher(run)
        made = {await publisher.create() for _ in range(5)}
        assert len(made) == 5
        await publisher.send(1)
        await run.until(lambda: bool(consumer.received))
        assert publisher.identifier[9:].encode() not in consumer.received[0].body
        assert not [each for each in run.logs if publisher.identifier in str(each)]


async def test_numbers_far_above_those_before(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run, source=STRANGER)
        await publisher.create()
        await publisher.send(1)
        for number in (10_002, 10**9, LARGEST_NUMBER):
            await publisher.send(number)
        assert run.gateway.sequences is not None
        assert run.gateway.sequences.messages["dropped"] == 3
        [state] = await run.gateway.sequences.listed()
        assert (str(state.sequence.received), state.waiting) == ("1", 0)


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("rm", Rm)
async def test_numbers_that_are_none(tmp_path: Path, rm: Rm, soap: Soap) -> None:
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run, rm, soap)
        await publisher.create()
        octets = publisher.message(7, "<a/>")
        for number, name in (
            ("9223372036854775808", FaultName.MESSAGE_NUMBER_ROLLOVER),
            ("18446744073709551615", FaultName.MESSAGE_NUMBER_ROLLOVER),
            ("18446744073709551616", None),
            ("0", None),
            ("-1", None),
            ("1" * 60_000, None),
        ):
            said = await publisher.exchange(octets.replace(b">7<", b">%b<" % number.encode()))
            assert said is not None
            assert said.fault is not None
            assert (said.fault.name if isinstance(said.fault, RmFault) else None) is name
        await publisher.send(1)
        assert publisher.acknowledged == upto(1)


async def test_more_messages_than_may_wait(tmp_path: Path) -> None:
    async with a_gateway(tmp_path, wsrm_messages=50) as (run, _):
        publisher = ReliablePublisher(run, source=STRANGER)
        await publisher.create()
        for number in range(2, 102, 2):
            await publisher.send(number)
        await publisher.send(102)
        sequences = run.gateway.sequences
        assert sequences is not None
        [state] = await sequences.listed()
        assert (state.waiting, state.sequence.received.highest) == (50, 100)
        await publisher.send(1)
        assert publisher.acknowledged == upto(2), "what fills the first gap is taken always"


async def test_more_bytes_than_may_wait_in_all_sequences_of_one(tmp_path: Path) -> None:
    body = f"<e>{'x' * 4000}</e>"
    async with a_gateway(tmp_path, wsrm_bytes_per_owner=10_000) as (run, _):
        some = [ReliablePublisher(run, source=STRANGER) for _ in range(3)]
        for publisher in some:
            await publisher.create()
            await publisher.send(2, body)
        sequences = run.gateway.sequences
        assert sequences is not None
        assert sequences.messages["dropped"] == 1
        late = some[2]
        [kept] = [
            state
            for state in await sequences.listed()
            if state.sequence.identifier == late.identifier
        ]
        assert (kept.waiting, kept.sequence.received) == (0, NO_NUMBERS), "no number is taken"
        other = ReliablePublisher(run, source=ANOTHER)
        await other.create()
        await other.send(2, body)
        assert sequences.messages["dropped"] == 1
        await some[0].send(1, body)
        assert some[0].acknowledged == upto(2), "what is next in order may always come"
        await late.send(2, body)
        await late.send(1, body)
        assert late.acknowledged == upto(2), "there is room again"


async def test_the_default_bounds_what_waits(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, _):
        assert run.gateway.settings.wsrm_messages == 10_000


async def test_a_flood_of_sequences(tmp_path: Path) -> None:
    async with a_gateway(tmp_path, wsrm_sequences_per_owner=5) as (run, _):
        publisher = ReliablePublisher(run, source=STRANGER)
        for _ in range(5):
            await publisher.create()
        assert fault_of(await publisher.ask_to_create()).name is FaultName.CREATE_SEQUENCE_REFUSED
        statuses = set[int]()
        for _ in range(40):
            posts = [publisher.post(publisher.create_message()) for _ in range(50)]
            statuses |= {answer.status for answer in await asyncio.gather(*posts)}
            if 429 in statuses:
                break
        assert 429 in statuses
        other = ReliablePublisher(run, source=ANOTHER)
        await other.create()
        trusted = ReliablePublisher(run)
        for _ in range(7):
            await trusted.create()
        await publisher.terminate(identifier=publisher.identifier)


async def test_strangers_behind_a_proxy_have_so_many_each(tmp_path: Path) -> None:
    settings = {"wsrm_sequences_per_owner": 2, "trusted_proxies": STRANGER}
    async with a_gateway(tmp_path, **settings) as (run, _):
        for peer in ("192.0.2.1", "192.0.2.2"):
            # The last word is the proxy's own; those before it are its client's.
            headers = {"x_forwarded_for": f"203.0.113.{peer[-1]}, {peer}"}
            publisher = ReliablePublisher(run, source=STRANGER, headers=headers)
            for _ in range(2):
                await publisher.create()
            said = await publisher.ask_to_create()
            assert fault_of(said).name is FaultName.CREATE_SEQUENCE_REFUSED
            # Where no proxy is believed, what it says makes nobody another one.
            outside = ReliablePublisher(run, source=ANOTHER, headers=headers)
            await outside.create()
        said = await ReliablePublisher(run, source=ANOTHER).ask_to_create()
        assert fault_of(said).name is FaultName.CREATE_SEQUENCE_REFUSED


async def test_strangers_leave_room_for_trusted_peers(tmp_path: Path) -> None:
    async with a_gateway(tmp_path, wsrm_sequences=10) as (run, _):
        for number in range(9):
            await ReliablePublisher(run, source=f"127.0.1.{number + 1}").create()
        late = ReliablePublisher(run, source=STRANGER)
        assert fault_of(await late.ask_to_create()).name is FaultName.CREATE_SEQUENCE_REFUSED
        trusted = ReliablePublisher(run)
        await trusted.create()
        said = await trusted.ask_to_create()
        assert fault_of(said).name is FaultName.CREATE_SEQUENCE_REFUSED


async def test_acknowledgements_go_to_no_third_party(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, some):
        victim = some.add()
        publisher = ReliablePublisher(run, source=STRANGER, acks_to=victim.url)
        assert fault_of(await publisher.ask_to_create()).name is FaultName.CREATE_SEQUENCE_REFUSED
        trusted = ReliablePublisher(run, acks_to=victim.url)
        await trusted.create()
        assert not victim.received


@pytest.mark.parametrize(
    "address", ["http://169.254.169.254/latest", "http://10.0.0.1/", "file:///etc/passwd", "gopher://a.example.com/"]
)  # fmt: skip
async def test_acknowledgements_go_to_no_address_that_is_forbidden(
    tmp_path: Path, address: str
) -> None:
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run, acks_to=address)
        assert fault_of(await publisher.ask_to_create()).name is FaultName.CREATE_SEQUENCE_REFUSED


@pytest.mark.parametrize("address", ["http://10.0.0.1/rm", "victim"])
async def test_nothing_is_offered_for_a_third_party(tmp_path: Path, address: str) -> None:
    """The offer is declined, but who names an address in it is told that nothing goes there."""
    async with a_gateway(tmp_path) as (run, some):
        victim = some.add()
        publisher = ReliablePublisher(run, source=STRANGER)
        wsa = publisher.spec.wsa
        endpoint = EndpointReference(victim.url if address == "victim" else address, wsa)
        asked = CreateSequence(publisher.here, offer=Offer(fresh_id(), endpoint))
        said = await publisher.ask_to_create(asked=asked)
        assert fault_of(said).name is FaultName.CREATE_SEQUENCE_REFUSED
        here = CreateSequence(publisher.here, offer=Offer(fresh_id(), publisher.here))
        said = await publisher.ask_to_create(asked=here)
        assert said is not None
        assert isinstance(said.body, CreateSequenceResponse)
        assert not victim.received


async def test_a_life_of_a_year_is_not_given(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run, source=STRANGER)
        asked = CreateSequence(publisher.here, expires=timedelta(days=365))
        said = await publisher.ask_to_create(asked=asked)
        assert said is not None
        assert isinstance(said.body, CreateSequenceResponse)
        assert said.body.expires == timedelta(hours=24)


async def test_tokens_are_not_taken(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run)
        token = b'<w:SecurityTokenReference xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"/>'  # fmt: skip
        asked = CreateSequence(publisher.here, token=token)
        said = await publisher.ask_to_create(asked=asked)
        assert fault_of(said).name is FaultName.CREATE_SEQUENCE_REFUSED


async def test_a_mailbox_has_no_sequences(tmp_path: Path) -> None:
    async with a_gateway(tmp_path) as (run, _):
        publisher = ReliablePublisher(run)
        await publisher.create()
        answer = await publisher.post(
            publisher.message(1, "<a/>").replace(
                b"http://gateway.example.com/soap",
                b"http://gateway.example.com/mailboxes/3f0c9f0e-6d6e-4b84-9d33-3f8a2f0f6f10",
            )
        )
        assert answer.status in (400, 500)
        assert publisher.acknowledged == NO_NUMBERS


async def test_sequences_that_are_ended_at_once(tmp_path: Path) -> None:
    """What is remembered of them is bounded, too."""
    async with a_gateway(tmp_path, wsrm_sequences=4) as (run, _):
        publisher = ReliablePublisher(run, source=STRANGER)
        for _ in range(8):
            await publisher.create()
            await publisher.terminate()
        assert fault_of(await publisher.ask_to_create()).name is FaultName.CREATE_SEQUENCE_REFUSED
        await ReliablePublisher(run).create()


async def test_open_sequences_do_not_count_among_those_that_ended(tmp_path: Path) -> None:
    async with a_gateway(tmp_path, wsrm_sequences=4) as (run, _):
        for _ in range(3):
            await ReliablePublisher(run, source=STRANGER).create()
        publisher = ReliablePublisher(run, source=STRANGER)
        for _ in range(8):
            await publisher.create()
            await publisher.terminate()
        assert fault_of(await publisher.ask_to_create()).name is FaultName.CREATE_SEQUENCE_REFUSED


async def test_a_repeated_request_for_a_sequence_is_answered_where_there_are_too_many(
    tmp_path: Path,
) -> None:
    async with a_gateway(tmp_path, wsrm_sequences=4) as (run, _):
        publisher = ReliablePublisher(run, source=STRANGER)
        octets = publisher.create_message(
            message_id="urn:uuid:3b1c7f0a-2d55-4a58-9c61-0d7f2f4f9b11"
        )
        made = await publisher.exchange(octets)
        assert made is not None
        assert isinstance(made.body, CreateSequenceResponse)
        other = ReliablePublisher(run, source=STRANGER)
        for _ in range(8):
            await other.create()
            await other.terminate()
        assert fault_of(await other.ask_to_create()).name is FaultName.CREATE_SEQUENCE_REFUSED
        again = await publisher.exchange(octets)
        assert again is not None
        assert again.body == made.body
