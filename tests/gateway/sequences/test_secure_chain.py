"""Two gateways: the sequence from one to the other is bound to the certificate of the first, whose
acknowledgements the second signs."""

import base64
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.egress import Consumer
from gateway.identities.file_editing import create_identities
from gateway.security.audit_chain import read_records
from mediation.receipts import verify_receipt
from mediation.reliable_messaging import Rm
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import Running, running
from tests.rigs.reliable_consumers import policy
from tests.rigs.signers import Signers
from tests.rigs.waiting import until

RULES = """
[[rights]]
who = ["cert:CN=mole"]
may = ["publish"]

[[rights]]
who = ["anonymous"]
may = ["subscribe", "manage", "operate"]
"""
FIRST_RULES = RULES.replace('"manage"', '"manage", "publish"')


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    made = Signers.make(tmp_path_factory.mktemp("signers"), "mole", "second")
    renewed = made.authority.issue("mole", file="renewed")
    return Signers(made.authority, {**made.files, "renewed": renewed})


def second(folder: Path, signers: Signers) -> dict[str, Any]:
    """Settings of the gateway that takes sequences."""
    folder.mkdir()
    identities, own = folder / "identities.toml", folder / "own.pem"
    create_identities(identities)
    identities.write_text(identities.read_text() + RULES)
    certificate, key = signers.files["second"]
    own.write_bytes(key.read_bytes() + certificate.read_bytes())
    table = {"signers": signers.authority.certificate, "signing_key": own}
    return {"identities": identities, "ws_security": table, "wsrm": "offered"}


def first(folder: Path, signers: Signers) -> dict[str, Any]:
    """Settings of the gateway that delivers in sequences; its credential is in *folder*."""
    folder.mkdir()
    for to, file in zip(("own.pem", "own.key"), signers.files["mole"], strict=True):
        shutil.copy(file, folder / to)
    identities = folder / "identities.toml"
    create_identities(identities)
    identities.write_text(identities.read_text() + FIRST_RULES)
    row = {
        "address": "127.0.0.1",
        "secure_sequences": True,
        "credential": {
            "kind": "x509",
            "certificate": str(folder / "own.pem"),
            "secret_file": str(folder / "own.key"),
        },
        "signed_replies": {
            "signers": str(signers.authority.certificate),
            "subject": "CN=second",
        },
    }
    return {"identities": identities, "consumers": [row], "retry_delays": ",".join(["0.2"] * 30)}


async def bindings(run: Running) -> list[bytes | None]:
    """What each sequence at a gateway is bound to."""
    sequences = run.gateway.sequences
    assert sequences is not None
    return [one.sequence.token for one in await sequences.listed()]


@pytest.mark.parametrize("rm", list(Rm))
async def test_a_sequence_between_gateways(tmp_path: Path, signers: Signers, rm: Rm) -> None:
    """A renewed certificate begins another one: nothing is lost, and comes in order."""
    settings = first(tmp_path / "first", signers)
    async with (
        consumers() as some,
        running(
            tmp_path / "second" / "data",
            adapter="embedded:",
            **second(tmp_path / "second", signers),
        ) as there,
        running(tmp_path / "first" / "data", adapter="embedded:", **settings) as here,
    ):
        sink = some.add()
        await there.subscribe(Speaker(), Speaker().wse_subscribe(sink.url))
        body = Speaker().wse_subscribe(f"{there.url}/soap")
        body = body.replace("</e:Delivery>", f"{policy(rm)}</e:Delivery>")
        await here.subscribe(Speaker(), body)
        for number in (1, 2):
            await here.publish(f'<t:event xmlns:t="urn:t"><n>{number}</n></t:event>')
        assert await sink.have(2) == ["1", "2"]
        [bound] = await bindings(there)
        assert bound is not None and bound.startswith(b"x509:")
        for to, file in zip(
            ("own.key", "own.pem"), reversed(signers.files["renewed"]), strict=True
        ):
            shutil.copy(file, tmp_path / "first" / to)
        await until(lambda: any(one["event"] == "credential.read" for one in here.logs))
        await here.publish('<t:event xmlns:t="urn:t"><n>3</n></t:event>')
        await sink.have(3)
        assert sink.numbers == ["1", "2", "3"]
        assert len(set(await bindings(there)) - {None}) == 2
        await here.quiet()
        await there.quiet()
    log = tmp_path / "first" / "data" / "audit.jsonl"
    kept = [base64.b64decode(one["receipt"]) for one in read_records(log) if "receipt" in one]
    told = [verify_receipt(one, signers.trust) for one in kept if b"AcknowledgementRange" in one]
    assert told and all(one.signer == "CN=second" and one.acknowledged for one in told)


def test_what_signs_them() -> None:
    with pytest.raises(ValidationError, match="needs a credential of the kind x509"):
        Consumer.model_validate({"address": "a.example.org", "secure_sequences": True})
