"""Apache CXF's WSS4J (cxf-rt-ws-security): a client that signs and encrypts, and takes no answer and
no fault that is not signed, and encrypted for it; with encrypted header blocks, too."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway.identities.file_editing import create_identities
from mediation.model.versions import Soap
from tests.foreign.test_cxf_reliable import key_store
from tests.rigs.certificates import Authority
from tests.rigs.cxf import CxfPeer, cxf_peer, needs_cxf
from tests.rigs.envelopes import S11, WSE, Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.signers import rsa_pair

needs_cxf("cxf-rt-ws-security")
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]

RULES = '\n[[rights]]\nwho = ["cert:CN=mole", "anonymous"]\nmay = ["everything"]\n'
CONSUMER = "http://127.0.0.1:9/"
ACTION = f"{WSE}/Subscribe"
SIGNED, SEALED = "Timestamp,Signature", "Timestamp,Signature,Encryption"


@dataclass
class Asking:
    """The client, and a gateway that has it sign."""

    peer: CxfPeer
    run: Running
    keys: Path

    async def ask(
        self, soap: Soap, sent: str, taken: str, what: str = "body", consumer: str = CONSUMER
    ) -> str:
        body = Speaker(soap).wse_subscribe(consumer)
        number = "1.1" if soap is S11 else "1.2"
        url = f"{self.run.url}/soap"
        return await self.peer.ask(
            "ask", url, number, sent, taken, what, str(self.keys), ACTION, body
        )


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def peer() -> AsyncIterator[CxfPeer]:
    async with cxf_peer("Secured") as running_peer:
        yield running_peer


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("demanded", ["", "sign_answers", "encrypt_answers"])
async def test_its_client(tmp_path: Path, peer: CxfPeer, demanded: str, soap: Soap) -> None:
    """It believes what is answered as it demands it, and nothing else."""
    certificate, key = rsa_pair(tmp_path, "mole")
    own, signing = rsa_pair(tmp_path, "gateway"), Authority(tmp_path).issue("signing")
    keys = key_store(tmp_path, certificate, key, own[0], signing[0])
    both, file = tmp_path / "own.pem", tmp_path / "identities.toml"
    both.write_bytes(signing[1].read_bytes() + signing[0].read_bytes())
    create_identities(file)
    file.write_text(file.read_text() + RULES)
    table: dict[str, Any] = {"signers": certificate, "key": own[1], "signing_key": both}
    if demanded:
        table[demanded] = ["subscribe"]
    async with running(
        tmp_path / "data", identities=file, ws_security=table, egress_allow=["127.0.0.1"]
    ) as run:
        asking = Asking(peer, run, keys)
        for taken, level in ((SIGNED, 1), (SEALED, 2)):
            good = ["", "sign_answers", "encrypt_answers"].index(demanded) == level
            answer = await asking.ask(soap, SEALED, taken)
            assert answer.startswith("answer") is good, answer
            assert ("SubscribeResponse" in answer) is good
            fault = await asking.ask(soap, SEALED, taken, consumer="nowhere")
            # A fault without a Security header it believes as it is.
            assert ("not an address" in fault) is (good or not demanded), fault
        if demanded == "encrypt_answers":
            for what in ("headers", "all"):
                answer = await asking.ask(soap, SEALED, SEALED, what)
                assert answer.startswith("answer") and "SubscribeResponse" in answer, answer
