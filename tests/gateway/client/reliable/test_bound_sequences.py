"""Programs whose sequences are bound to their certificate, at a gateway that demands it: with the
one parameter all arrives, without it nothing does, and the program is told why."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.client import GatewayError
from gateway.client.reliable import GivenUp, Policy, ReliableClient, Replies, Rm, Soap
from gateway.client.sequence_binding import BoundTo
from gateway.client.sequences import SequencePublisher
from gateway.reliability.values import Notice, NoticeKind
from gateway.security.tls import client_context
from mediation.model.versions import Version
from tests.gateway.sequences.test_secure_sequences import settings_for
from tests.rigs.consumers import Consumer, consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.reliable_publishers import ACTION, numbers_in
from tests.rigs.signers import Signers, envelope
from tests.rigs.waiting import until

SPEAKER = Speaker()
MAY_SUBSCRIBE = '[[rights]]\nwho = ["anonymous"]\nmay = ["subscribe"]\n'
QUICK = Policy(interval=0.2, ceiling=0.5, tries=500)
at_the_gateway = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Demanding:
    """A gateway that takes bound sequences alone, at *url*."""

    run: Running
    url: str
    signers: Signers
    consumer: Consumer

    def tls(self, name: str = "") -> ssl.SSLContext | None:
        """What connects to it, as who has the certificate of that *name*."""
        if not self.url.startswith("https"):
            return None
        certificate, key = self.signers.files[name] if name else (None, None)
        return client_context(
            ca=self.signers.authority.certificate, certificate=certificate, key=key
        )

    async def arrived(self, count: int) -> list[int]:
        """The numbers of the last events."""
        await until(lambda: len(self.consumer.received) >= count)
        return numbers_in(one.body for one in self.consumer.received)[-count:]


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    made = Signers.make(tmp_path_factory.mktemp("signers"), "mole", "ship")
    renewed = made.authority.issue("mole", file="renewed")
    host = made.authority.issue("127.0.0.1")
    return Signers(made.authority, {**made.files, "renewed": renewed, "host": host})


@asynccontextmanager
async def relay() -> AsyncIterator[tuple[str, list[int]]]:
    """A URL that is known before the gateway runs, which its messages are signed for, and where to
    put the gateway's port."""
    ports: list[int] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while octets := await reader.read(65536):
                writer.write(octets)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, out = await asyncio.open_connection("127.0.0.1", ports[-1])
        await asyncio.gather(pump(reader, out), pump(back, writer))

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/soap", ports
    finally:
        server.close()


@asynccontextmanager
async def demanding(folder: Path, signers: Signers, binding: str) -> AsyncIterator[Demanding]:
    settings = {**settings_for(folder, signers), "wsrm_binding": binding}
    async with consumers() as some, relay() as (url, ports):
        identities = folder / "identities.toml"
        identities.write_text(identities.read_text() + MAY_SUBSCRIBE)
        table = {"signers": signers.authority.certificate, "addresses": [url]}
        settings["ws_security"] = table
        if binding == "tls":
            certificate, key = signers.files["host"]
            ca = signers.authority.certificate
            settings |= {"tls_certificate": certificate, "tls_key": key, "tls_client_ca": ca}
        async with running(folder / "data", **settings) as run:
            ports.append(run.port)
            consumer = some.add()
            if binding == "tls":
                url = f"https://127.0.0.1:{run.port}/soap"
            found = Demanding(run, url, signers, consumer)
            yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def signed(
    tmp_path_factory: pytest.TempPathFactory, signers: Signers
) -> AsyncIterator[Demanding]:
    async with demanding(tmp_path_factory.mktemp("signed"), signers, "signature") as found:
        await found.run.subscribe(SPEAKER, SPEAKER.wsn_subscribe(found.consumer.url))
        yield found


def event(number: int) -> bytes:
    return b'<e:event xmlns:e="urn:example">%d</e:event>' % number


@dataclass
class Told:
    """What a program is told."""

    given_up: list[str] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def on_error(self, of: GivenUp) -> None:
        self.given_up.append(of.reason)


def client_of(
    at: Demanding, store: str, told: Told, *, tls: str = "", **options: object
) -> ReliableClient:
    client = ReliableClient(
        store, policy=QUICK, tls=at.tls(tls), on_notice=told.notices.append, **options  # type: ignore[arg-type]
    )  # fmt: skip
    client.callbacks(on_error=told.on_error)
    return client


@at_the_gateway
@pytest.mark.parametrize(("rm", "soap"), [(Rm.V1_0, Soap.V1_1), (Rm.V1_1, Soap.V1_2)])
async def test_signed(signed: Demanding, rm: Rm, soap: Soap) -> None:
    """To the end of the sequence, in which nobody else may send."""
    told, key = Told(), signed.signers.key("mole")
    before, sequences = len(signed.consumer.received), signed.run.gateway.sequences
    assert sequences is not None
    known = {one.id for one in await sequences.listed()}
    async with client_of(signed, "memory:", told, rm=rm, soap=soap, bound_to=key) as client:
        for number in (1, 2, 3):
            await client.send_async(signed.url, event(number), action=ACTION)
        await until(lambda: client.waiting() == 0)
        await until(lambda: len(signed.consumer.received) == before + 3)
        assert await signed.arrived(3) == [1, 2, 3]
        [state] = [one for one in await sequences.listed() if one.id not in known]
        assert state.sequence.token is not None and state.sequence.ended_at is None
        assert client.terminate() == 1

        async def ended() -> bool:
            states = {one.id: one for one in await sequences.listed()}
            return states[state.id].sequence.ended_at is not None

        await until(ended)
    assert not told.given_up and not told.notices


@at_the_gateway
async def test_without_it_the_program_is_told(signed: Demanding) -> None:
    told = Told()
    async with client_of(signed, "memory:", told) as client:
        await client.send_async(signed.url, event(1), action=ACTION)
        await until(lambda: bool(told.given_up))
        assert client.waiting() == 0
    assert "Sequences must be bound here" in told.given_up[0]


async def last_is(signed: Demanding, number: int) -> bool:
    """What is acknowledged may be delivered later."""
    return await signed.arrived(1) == [number]


@at_the_gateway
async def test_another_certificate_takes_nothing_over(signed: Demanding, tmp_path: Path) -> None:
    """What a program with another certificate finds in the store stays there until the first is
    back: nobody knows whether it arrived, so that it goes in no other sequence."""
    store, told = f"sqlite:///{tmp_path / 'client.db'}", Told()
    async with client_of(signed, store, told, bound_to=signed.signers.key("mole")) as client:
        await client.send_async(signed.url, event(1), action=ACTION)
        await until(lambda: client.waiting() == 0)
        client._workers.stop()  # What is sent now is stored, and stays.
        await client.send_async(signed.url, event(2), action=ACTION)
    await until(lambda: last_is(signed, 1))
    before = len(signed.consumer.received)
    other, told = signed.signers.key("renewed"), Told()
    async with client_of(signed, store, told, bound_to=other) as client:
        await until(lambda: bool(told.notices))
        assert client.waiting() == 1
    assert told.notices[0].kind is NoticeKind.REFUSED
    assert "bound to another certificate" in told.notices[0].text
    assert len(signed.consumer.received) == before and not told.given_up
    async with client_of(signed, store, told, bound_to=signed.signers.key("mole")) as client:
        await until(lambda: client.waiting() == 0)
    await until(lambda: last_is(signed, 2))


@at_the_gateway
async def test_the_publisher(signed: Demanding) -> None:
    """Which ``dragoman publish`` uses."""
    key = signed.signers.key("ship")
    async with SequencePublisher(signed.url, Version.WSN_1_3, bound_to=key) as publisher:
        await publisher.publish(event(7))
        await publisher.finish()
    await until(lambda: last_is(signed, 7))
    async with SequencePublisher(signed.url, Version.WSN_1_3) as publisher:
        with pytest.raises(GatewayError, match="must be bound here"):
            await publisher.publish(event(8))


async def test_tls(tmp_path: Path, signers: Signers) -> None:
    async with demanding(tmp_path, signers, "tls") as at:
        accepted = at.run.gateway.publishing
        told = Told()
        async with client_of(at, "memory:", told, tls="mole", bound_to="tls") as client:
            for number in (1, 2, 3):
                await client.send_async(at.url, event(number), action=ACTION)
            await until(lambda: client.waiting() == 0)
        assert accepted.accepted == 3 and not told.given_up
        async with SequencePublisher(at.url, tls=at.tls("mole"), bound_to="tls") as publisher:
            await publisher.publish(event(4))
        assert accepted.accepted == 4
        told = Told()
        async with client_of(at, "memory:", told, tls="mole") as client:  # It does not say so.
            await client.send_async(at.url, event(1), action=ACTION)
            await until(lambda: bool(told.given_up))
        assert "Sequences must be bound here" in told.given_up[0]
        with pytest.raises(GatewayError, match="cannot reach"):  # It shows none.
            async with SequencePublisher(
                at.url, tls=at.tls(), bound_to="tls", patience=1
            ) as publisher:
                await publisher.publish(event(5))
        assert accepted.accepted == 4


def test_what_cannot_be_bound_is_refused_before_it_is_stored(signers: Signers) -> None:
    with pytest.raises(ValueError, match="binds nothing to TLS"):
        ReliableClient("memory:", rm=Rm.V1_0, bound_to="tls")
    with pytest.raises(ValueError, match="neither a key nor 'tls'"):
        ReliableClient("memory:", bound_to="TLS")  # type: ignore[arg-type]
    client = ReliableClient("memory:", bound_to="tls", replies=Replies.FETCHED)
    with pytest.raises(ValueError, match="is not https"):
        client.send("http://gateway.example/soap", event(1), action=ACTION)
    bound: BoundTo = signers.key("mole")
    client = ReliableClient("memory:", bound_to=bound)
    again = signers.signed("mole", envelope())
    with pytest.raises(ValueError, match="has a Security header"):
        client.send("http://gateway.example/soap", envelope=again)
    assert client.waiting() == 0
