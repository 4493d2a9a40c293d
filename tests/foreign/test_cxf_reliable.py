"""Apache CXF's WS-ReliableMessaging (cxf-rt-ws-rm): its client sends to a gateway in sequences,
plain, signed and over mutual TLS, and its service is a consumer of reliable delivery."""

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from mediation.model.versions import Soap
from mediation.reliable_messaging import Rm
from tests.gateway.client.reliable.test_bound_sequences import relay
from tests.gateway.sequences.test_secure_sequences import settings_for
from tests.rigs.certificates import Authority
from tests.rigs.cxf import CxfPeer, cxf_peer, needs_cxf
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.signers import Signers, rsa_pair
from tests.rigs.waiting import until

needs_cxf("cxf-rt-ws-rm")
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

COUNT = 5
STORM = '<o:Storm xmlns:o="urn:test:weather"><o:speed>{}</o:speed></o:Storm>'


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def peer() -> AsyncIterator[CxfPeer]:
    async with cxf_peer("Reliable") as running_peer:
        yield running_peer


def key_store(folder: Path, certificate: Path, key: Path, *trusted: Path) -> Path:
    """A store of keys as Java reads them."""
    file = folder / "keys.p12"
    line: list[str | Path] = [
        "openssl", "pkcs12", "-export", "-name", "mole", "-in", certificate, "-inkey", key,
        "-passout", "pass:secret", "-out", file,
    ]  # fmt: skip
    subprocess.run(line, check=True, capture_output=True)
    for one in trusted:
        line = [
            "keytool", "-importcert", "-noprompt", "-alias", one.stem, "-file", one,
            "-keystore", file, "-storepass", "secret",
        ]  # fmt: skip
        subprocess.run(line, check=True, capture_output=True)
    return file


async def sent(peer: CxfPeer, run: Running, url: str, rm: Rm, how: str, keys: Path | str) -> None:
    """It sends, and all is acknowledged and published."""
    accepted, sequences = run.gateway.publishing.accepted, run.gateway.sequences
    assert sequences is not None
    known = {one.id for one in await sequences.listed()}
    answer = await peer.ask("send", url, rm.number, str(COUNT), how, str(keys))
    assert answer == "sent true"
    assert run.gateway.publishing.accepted == accepted + COUNT
    [state] = [one for one in await sequences.listed() if one.id not in known]
    assert (state.sequence.wire.rm, str(state.sequence.received)) == (rm, f"1-{COUNT}")


async def test_its_client(tmp_path: Path, peer: CxfPeer) -> None:
    async with running(tmp_path, wsrm="required", adapter="embedded:") as run:
        for rm in Rm:
            await sent(peer, run, f"{run.url}/soap", rm, "plain", "-")


async def test_its_client_signs(tmp_path: Path, peer: CxfPeer) -> None:
    """The messages of the sequence, and what is said of it; the answers are signed, too."""
    certificate, key = rsa_pair(tmp_path, "mole")
    signers = Signers(Authority(tmp_path), {"mole": (certificate, key)})
    own = tmp_path / "own.pem"
    own.write_bytes(b"".join(one.read_bytes() for one in signers.authority.issue("gateway")))
    async with relay() as (url, ports):
        table = {
            "signers": certificate, "addresses": [url], "required": ["/soap"], "signing_key": own,
        }  # fmt: skip
        settings = {**settings_for(tmp_path, signers), "ws_security": table}
        async with running(tmp_path / "data", **settings) as run:
            ports.append(run.port)
            keys = key_store(tmp_path, certificate, key)
            await sent(peer, run, url, Rm.V1_1, "signed", keys)


async def test_its_client_over_mutual_tls(tmp_path: Path, peer: CxfPeer) -> None:
    """It binds no sequence to what it shows: where that is demanded it is refused."""
    signers = Signers.make(tmp_path, "mole")
    certificate, key = signers.authority.issue("127.0.0.1")
    ca = signers.authority.certificate
    keys = key_store(tmp_path, *signers.files["mole"], ca)
    settings = {
        **settings_for(tmp_path, signers),
        "tls_certificate": certificate, "tls_key": key, "tls_client_ca": ca,
    }  # fmt: skip
    for binding in ("optional", "tls"):
        data = tmp_path / binding
        async with running(data, **settings, wsrm_binding=binding) as run:
            url = f"https://127.0.0.1:{run.port}/soap"
            if binding == "optional":
                for rm in Rm:
                    await sent(peer, run, url, rm, "tls", keys)
            else:
                answer = await peer.ask("send", url, "1.1", "1", "tls", str(keys))
                assert answer.startswith("failed"), answer
                assert run.gateway.publishing.accepted == 0


@pytest.mark.parametrize("rm", Rm)
async def test_its_service(tmp_path: Path, peer: CxfPeer, rm: Rm) -> None:
    """It takes nothing that comes in no sequence."""
    speaker = Speaker(Soap.V1_1)
    assertion = f'<r:RMAssertion xmlns:r="{rm.rules.policy}"/></e:Delivery>'
    body = speaker.wse_subscribe(f"{peer.url}/{rm.number}").replace("</e:Delivery>", assertion)
    async with running(tmp_path, adapter="embedded:") as run:
        await run.subscribe(speaker, body)
        for number in range(1, COUNT + 1):
            await run.publish(STORM.format(number), action="urn:test:storm")
        assert [await peer.got() for _ in range(COUNT)] == [str(n) for n in range(1, COUNT + 1)]
        [entry] = run.gateway.subscriptions.entries
        gateway = run.gateway
        await run.quiet()
        assert (await run.api("DELETE", f"/subscriptions/{entry.id}")).status == 204
        await until(lambda: not gateway.subscriptions.entries)
