"""Answers about sequences that must be signed, through somebody in between who acknowledges what
never arrived: it is sent again until it has."""

import asyncio
import base64
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from lxml import etree

from gateway.client import GatewayError
from gateway.client.reliable import Policy, ReliableClient, Rm, Soap
from gateway.client.sequences import SequencePublisher
from gateway.reliability.records import Wire
from gateway.security.audit_chain import read_records
from mediation.model.messages import EndpointReference
from mediation.model.versions import Version
from mediation.reliable_messaging import Acknowledgement, Ranges, read_message
from mediation.reliable_messaging.blocks import acknowledgement_block
from mediation.reliable_messaging.writing import write_acknowledgement
from mediation.ws_security import Trust, read_trust
from tests.gateway.sequences.test_secure_sequences import settings_for
from tests.rigs.gateways import Running, running
from tests.rigs.ports import free_ports
from tests.rigs.programs import run
from tests.rigs.reliable_publishers import ACTION
from tests.rigs.signers import Signers
from tests.rigs.waiting import until

QUICK = Policy(interval=0.1, ceiling=0.2, tries=500)
at_the_gateway = pytest.mark.asyncio(loop_scope="module")
Forge = Callable[[bytes], bytes]
"""Makes the answer to a message in a sequence, which goes no further."""


@dataclass
class Between:
    """Somebody between publishers and the gateway, at *url*."""

    url: str
    run: Running
    data: Path
    signers: Signers
    forge: Forge | None = None
    """None: messages go on to the gateway, and its answers come back."""
    forged: int = 0
    answers: list[bytes] = field(default_factory=list)
    """Those of the gateway."""

    async def answer(self, request: web.Request) -> web.Response:
        body, kind = await request.read(), request.headers["Content-Type"]
        if self.forge is not None and read_message(body).sequence is not None:
            self.forged += 1
            return web.Response(body=self.forge(body), headers={"Content-Type": kind})
        own = f"http://127.0.0.1:{self.run.port}/soap"
        async with (
            aiohttp.ClientSession() as session,
            session.post(own, data=body, headers={"Content-Type": kind}) as answer,
        ):
            octets = await answer.read()
            self.answers.append(octets)
            headers = {"Content-Type": answer.headers.get("Content-Type", kind)}
            return web.Response(status=answer.status, body=octets, headers=headers)

    @property
    def trust(self) -> Trust:
        """The certificate of the gateway, and no other of its authority."""
        return read_trust(self.signers.files["gateway"][0].read_bytes())

    @property
    def accepted(self) -> int:
        return self.run.gateway.publishing.accepted


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    return Signers.make(tmp_path_factory.mktemp("signers"), "mole", "ship", "gateway")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    tmp_path_factory: pytest.TempPathFactory, signers: Signers
) -> AsyncIterator[Between]:
    folder = tmp_path_factory.mktemp("gateway")
    async with between(folder, signers) as found:
        yield found


@asynccontextmanager
async def between(folder: Path, signers: Signers) -> AsyncIterator[Between]:
    certificate, key = signers.files["gateway"]
    own = folder / "own.pem"
    own.write_bytes(key.read_bytes() + certificate.read_bytes())
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/soap"
    settings = settings_for(folder, signers)
    settings["ws_security"] = {
        "signers": signers.authority.certificate, "signing_key": own, "addresses": [url],
    }  # fmt: skip
    async with running(folder / "data", **settings) as run:
        found = Between(url, run, folder / "data", signers)
        app = web.Application()
        app.router.add_post("/soap", found.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            yield found
        finally:
            await runner.cleanup()


@pytest.fixture
def at(gateway: Between) -> Between:
    gateway.forge, gateway.forged = None, 0
    gateway.answers.clear()
    return gateway


def event(number: int) -> bytes:
    return b'<e:event xmlns:e="urn:example">%d</e:event>' % number


def acknowledgement(message: bytes) -> bytes:
    """An answer that says that *message* arrived, and all before it."""
    said = read_message(message)
    assert said.sequence is not None and said.rm is not None
    header = said.sequence
    wsa = said.wsa or said.rm.rules.wsa[0]
    told = Acknowledgement(header.identifier, Ranges(((1, header.number),)))
    block = acknowledgement_block(said.rm, told)
    spoken = Wire(said.rm, wsa, said.soap)
    return write_acknowledgement(spoken, EndpointReference(wsa.anonymous, wsa), block)[1]


def forgeries(at: Between) -> dict[str, Forge]:
    """What somebody could answer who has a certificate of the gateway's authority."""

    def header_in(message: bytes) -> bytes:
        """A genuine answer, with another acknowledgement put into its Header."""
        forged, genuine = (
            etree.fromstring(acknowledgement(message)),
            etree.fromstring(at.answers[0]),
        )
        genuine[0].extend(forged.iterfind(".//{*}SequenceAcknowledgement"))
        return etree.tostring(genuine)

    return {
        "unsigned": acknowledgement,
        "another's": lambda message: at.signers.signed("ship", acknowledgement(message)),
        "its own": lambda message: at.signers.signed("mole", acknowledgement(message)),
        "put into a signed one": header_in,
        "an earlier answer": lambda _: at.answers[0],
    }


@at_the_gateway
@pytest.mark.parametrize(("rm", "soap"), [(Rm.V1_0, Soap.V1_1), (Rm.V1_1, Soap.V1_2)])
@pytest.mark.parametrize("what", ["unsigned", "another's", "its own"])
async def test_what_was_not_acknowledged_by_the_gateway_is_sent_again(
    at: Between, what: str, rm: Rm, soap: Soap
) -> None:
    before, key = at.accepted, at.signers.key("mole")
    at.forge = forgeries(at)[what]
    options = {"policy": QUICK, "rm": rm, "soap": soap, "bound_to": key}
    async with ReliableClient("memory:", trust=at.trust, **options) as client:  # type: ignore[arg-type]
        await client.send_async(at.url, event(1), action=ACTION)
        await until(lambda: at.forged >= 3)
        assert client.waiting() == 1 and at.accepted == before
        at.forge = None
        await until(lambda: client.waiting() == 0)
        assert at.accepted == before + 1


@at_the_gateway
async def test_who_trusts_everybody_believes_it(at: Between) -> None:
    """So the forgeries are what they are taken for."""
    before, key = at.accepted, at.signers.key("mole")
    at.forge = acknowledgement
    async with ReliableClient("memory:", policy=QUICK, bound_to=key) as client:
        await client.send_async(at.url, event(1), action=ACTION)
        await until(lambda: client.waiting() == 0)
    assert (at.forged, at.accepted) == (1, before)


@at_the_gateway
@pytest.mark.parametrize(
    "what", ["unsigned", "another's", "put into a signed one", "an earlier answer"]
)
async def test_the_publisher_is_told(at: Between, what: str) -> None:
    before, key = at.accepted, at.signers.key("mole")
    at.forge = forgeries(at)[what]
    publisher = SequencePublisher(
        at.url, Version.WSN_1_3, bound_to=key, trust=at.trust, patience=1.5
    )
    async with publisher:
        with pytest.raises(GatewayError) as raised:
            await publisher.publish(event(2))
        assert at.forged and at.accepted == before
        if what != "an earlier answer":
            assert "the answer is not believed" in str(raised.value)
        at.forge = None
    async with SequencePublisher(at.url, bound_to=key, trust=at.trust) as publisher:
        await publisher.publish(event(3))
        await publisher.finish()
    assert at.accepted == before + 1


@at_the_gateway
async def test_what_comes_to_an_address_of_its_own_is_signed_too(at: Between) -> None:
    """Acknowledgements that the gateway posts by itself, which are receipts, and are kept."""
    (port,) = free_ports(1)
    replies, key = f"http://127.0.0.1:{port}/back", at.signers.key("mole")
    before = at.accepted
    async with ReliableClient(
        "memory:", policy=QUICK, bound_to=key, trust=at.trust, replies=replies
    ) as client:
        forged: list[int] = []
        sent: list[bytes] = []

        def lose(message: bytes) -> bytes:
            sent.append(message)
            return b""

        async def post(message: bytes) -> None:
            async with (
                aiohttp.ClientSession() as session,
                session.post(
                    replies, data=message, headers={"Content-Type": "application/soap+xml"}
                ) as answer,
            ):
                forged.append(answer.status)

        at.forge = lose
        await client.send_async(at.url, event(4), action=ACTION)
        await until(lambda: bool(sent))
        await post(acknowledgement(sent[0]))
        await post(at.signers.signed("ship", acknowledgement(sent[0])))
        assert forged == [403, 403] and client.waiting() == 1
        at.forge = None
        await until(lambda: client.waiting() == 0)
        assert at.accepted == before + 1
    records = read_records(at.data / "audit.jsonl")
    posted = [one for one in records if "receipt" in one and one["from"] == ""]
    assert {(one["who"], one["did"]) for one in posted} == {("cert:CN=mole", "gave a receipt")}
    assert all(read_message(base64.b64decode(one["receipt"])).acknowledgements for one in posted)


def test_answers_are_signed_where_messages_are(signers: Signers) -> None:
    for bound_to in (None, "tls"):
        with pytest.raises(ValueError, match="bound_to must be a key"):
            ReliableClient("memory:", bound_to=bound_to, trust=signers.trust)


@at_the_gateway
async def test_the_command(at: Between, tmp_path: Path) -> None:
    """``dragoman publish --reliable --bound-to --trust``, as a process."""
    certificate, key = at.signers.files["mole"]
    (tmp_path / "mole.pem").write_bytes(key.read_bytes() + certificate.read_bytes())
    trusted = at.signers.files["gateway"][0]
    before = at.accepted

    async def publish(*options: str) -> subprocess.CompletedProcess[str]:
        words = ("publish", "--reliable", "--gateway", at.url, "--bound-to", "mole.pem", *options)
        return await asyncio.to_thread(run, *words, "-", cwd=tmp_path, stdin=event(5))

    done = await publish("--trust", str(trusted))
    assert done.returncode == 0, done.stderr
    assert at.accepted == before + 1
    other = at.signers.files["ship"][0]
    refused = await publish("--trust", str(other), "--patience", "5")
    assert refused.returncode == 1
    assert "the answer is not believed" in refused.stderr and "Traceback" not in refused.stderr
