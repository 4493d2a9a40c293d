"""Receipts that the gateway gives, and keeps in its audit log before."""

import asyncio
import base64
import contextlib
import errno
import hashlib
import json
import shutil
import subprocess
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from typer.testing import CliRunner

from gateway.cli.audit import audit as audit_commands
from gateway.exchange import Reply
from gateway.identities.file_editing import create_identities
from gateway.security import audit
from gateway.security.audit import ReceiptNotKept
from gateway.security.audit_chain import read_records, verify
from gateway.security.certificate_proofs import subject_of
from gateway.soap.receipts import Receipts
from gateway.soap.service import SoapService
from mediation.model.versions import Soap
from mediation.names import WSSE, WSU
from mediation.receipts import Receipt, verify_receipt
from mediation.reliable_messaging import (
    CreateSequenceResponse,
    ReliableMessage,
    Rm,
    read_message,
)
from mediation.ws_security import verify_message
from tests.gateway.sequences.test_secure_sequences import MY_TOKEN, REFERENCE, Signing
from tests.rigs.consumers import consumers
from tests.rigs.envelopes import WSA10, Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.reliable_publishers import SERVICE
from tests.rigs.signers import Signers

SPEAKER = Speaker()
RULES = """
[[rights]]
who = ["cert:CN=mole", "cert:CN=ship", "anonymous"]
may = ["publish", "subscribe"]
"""
at_the_gateway = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    return Signers.make(tmp_path_factory.mktemp("signers"), "mole", "ship", "gateway")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateway") / "data"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(data: Path, signers: Signers) -> AsyncIterator[Running]:
    file = data.parent / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + RULES)
    certificate, key = signers.files["gateway"]
    own = data.parent / "own.pem"
    own.write_bytes(key.read_bytes() + certificate.read_bytes())
    table = {
        "signers": signers.authority.certificate,
        "signing_key": own,
        "addresses": [SERVICE],
    }
    async with running(data, identities=file, ws_security=table, wsrm="offered") as found:
        yield found


def kept(data: Path) -> list[bytes]:
    """The receipts in the audit log, which is whole."""
    path = data / "audit.jsonl"
    verify(path)
    return [base64.b64decode(one["receipt"]) for one in read_records(path) if "receipt" in one]


def checked(receipt: bytes, data: Path, signers: Signers, sent: bytes) -> Receipt:
    """What a receipt says, which is the last that was kept, and is of what was *sent*."""
    assert kept(data)[-1] == receipt
    found = verify_receipt(receipt, signers.trust)
    assert found.signer == "CN=gateway"
    found.check_message(sent)
    return found


@at_the_gateway
@pytest.mark.parametrize("signed", [False, True])
async def test_of_a_publication(run: Running, data: Path, signers: Signers, signed: bool) -> None:
    message_id = fresh_id()
    octets = SPEAKER.envelope("<event/>", message_id=message_id)
    octets = signers.signed("mole", octets) if signed else octets
    answer = await run.post(octets, type=SPEAKER.type, prefer="respond-async, receipt")
    assert answer.status == 200, answer.body
    assert checked(answer.body, data, signers, octets).messages == (message_id,)
    [record] = [one for one in read_records(data / "audit.jsonl") if one.get("what") == message_id]
    who = "cert:CN=mole" if signed else "anonymous:127.0.0.1"
    assert (record["who"], record["did"]) == (who, "gave a receipt")


@at_the_gateway
async def test_of_events_in_json(run: Running, data: Path, signers: Signers) -> None:
    events = [
        {"specversion": "1.0", "id": one, "source": "/s", "type": "t", "data": {}} for one in "ab"
    ]
    body = json.dumps(events).encode()
    answer = await run.request(
        "POST", "/events", body, content_type="application/cloudevents-batch+json", prefer="Receipt"
    )
    assert answer.status == 202
    assert answer.headers["preference-applied"] == "receipt"
    receipt = answer.headers["dragoman-receipt"].encode()
    assert checked(receipt, data, signers, body).messages == ("a", "b")


@at_the_gateway
async def test_nobody_who_does_not_ask_gets_one(run: Running, data: Path) -> None:
    before = len(kept(data))
    octets = SPEAKER.envelope("<event/>", message_id=fresh_id())
    assert (await run.post(octets, type=SPEAKER.type)).status == 202
    answer = await run.post(octets, type=SPEAKER.type, prefer="return=minimal")
    assert (answer.status, answer.body) == (202, b"")
    body = SPEAKER.wse_subscribe("http://127.0.0.1:9/")  # There are none of what is no event.
    answer = await run.post(
        SPEAKER.envelope(body, message_id=fresh_id()), type=SPEAKER.type, prefer="receipt"
    )
    assert b"Signature" not in answer.body
    refused = await run.post(b"<no/>", type=SPEAKER.type, prefer="receipt")
    assert refused.status >= 400 and b"Signature" not in refused.body
    assert len(kept(data)) == before


@at_the_gateway
async def test_acknowledgements_of_a_bound_sequence(
    run: Running, data: Path, signers: Signers
) -> None:
    """Every answer is signed; those that acknowledge are kept; what waits is not acknowledged."""
    publisher = Signing(run, signers=signers)
    answer = await publisher.post(publisher.asking(MY_TOKEN, "UsesSequenceSTR"))
    now = datetime.now(UTC)
    assert verify_message(answer.body, signers.trust, now=now) is not None
    said = read_message(answer.body)
    assert isinstance(said.body, CreateSequenceResponse)
    publisher.identifier = said.body.identifier
    before = kept(data)
    early = await publisher.post(publisher.message(2, "<e/>"))
    assert (await publisher.post(publisher.message(1, "<e/>"))).status == 200
    sent, last = publisher.again, kept(data)[-1]
    found = checked(last, data, signers, sent)
    assert found.acknowledged == {publisher.identifier: "1-2"}
    assert len(kept(data)) - len(before) <= 2
    if early.body:
        assert not verify_receipt(early.body, signers.trust).digest
    ended = await publisher.post(publisher.message(1, "<e/>"))  # The acknowledgement was lost.
    checked(ended.body, data, signers, publisher.again)


def signed_fault(octets: bytes, signers: Signers) -> ReliableMessage:
    """A fault, which the gateway signed just now."""
    found = verify_message(octets, signers.trust, now=datetime.now(UTC))
    assert found is not None, octets
    assert subject_of(found.certificate) == "CN=gateway"
    said = read_message(octets)
    assert said.fault is not None, octets
    return said


@at_the_gateway
@pytest.mark.parametrize(("rm", "soap"), [(Rm.V1_0, Soap.V1_1), (Rm.V1_1, Soap.V1_2)])
async def test_faults_to_signed_messages_of_sequences_are_signed(
    run: Running, data: Path, signers: Signers, rm: Rm, soap: Soap
) -> None:
    """Whatever they are about, so that nobody between ends a sequence; none is a receipt."""
    publisher = Signing(run, rm, soap, signers=signers)
    before, identifier = len(kept(data)), await publisher.bind()
    other = REFERENCE.format('<wsse:Reference URI="#other"/>')
    lost = replace(publisher, identifier=f"{identifier}-lost")
    tries = {
        "refused": (publisher, publisher.asking(other)),
        "unknown": (lost, lost.message(1, "<e/>")),
        "unknown, of its end": (lost, lost.terminate_message()),
        "another's": (publisher.as_("ship"), publisher.message(1, "<e/>")),
    }
    for what, (who, octets) in tries.items():
        answer = await who.post(octets)
        said = signed_fault(answer.body, signers)
        assert answer.status in (400, 500), what
        assert said.headers.relates_to == read_message(octets).headers.message_id, what
        assert not said.acknowledgements, what
    assert len(kept(data)) == before
    # Who signs nothing is told what it was told before.
    for what, (who, octets) in tries.items():
        answer = await who.as_("").post(octets)
        assert answer.status in (400, 500) and b"Signature>" not in answer.body, what


@at_the_gateway
async def test_a_fault_that_acknowledges_is_a_receipt(
    run: Running, data: Path, signers: Signers
) -> None:
    """Of an event that is refused for good, which has had its turn."""
    publisher = Signing(run, signers=signers)
    await publisher.bind()
    wrong = '<wsnt:Notify xmlns:wsnt="http://docs.oasis-open.org/wsn/b-2"/>'
    answer = await publisher.post(publisher.message(1, wrong))
    said = signed_fault(answer.body, signers)
    assert [str(one.ranges) for one in said.acknowledgements] == ["1"]
    assert kept(data)[-1] == answer.body
    found = verify_receipt(answer.body, signers.trust)
    assert not found.digest and found.acknowledged == {publisher.identifier: "1"}


@at_the_gateway
async def test_a_fault_that_is_sent_elsewhere_is_signed(run: Running, signers: Signers) -> None:
    async with consumers() as some:
        mine = some.add()
        publisher = Signing(run, acks_to=mine.url, signers=signers)
        await publisher.bind()
        said = await publisher.terminate()
        assert said is not None
        answer = await publisher.post(publisher.message(1, "<e/>"))
        assert (answer.status, answer.body) == (202, b"")
        await run.until(lambda: any(b"Fault" in one.body for one in mine.received))
        [fault] = [one.body for one in mine.received if b"Fault" in one.body]
        assert signed_fault(fault, signers).fault is not None


@at_the_gateway
async def test_what_cannot_be_kept_is_not_given(
    run: Running, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = len(kept(data))
    octets = SPEAKER.envelope("<event/>", message_id=fresh_id())
    with monkeypatch.context() as patch:
        patch.setattr(audit, "KEPT_WITHIN", 0.3)
        patch.setattr(audit, "_append", full)
        answer = await run.post(octets, type=SPEAKER.type, prefer="receipt")
        assert answer.status == 503, answer.body
        assert b"A receipt cannot be kept now" in answer.body, "nobody is told of our files"
    answer = await run.post(octets, type=SPEAKER.type, prefer="receipt")
    assert answer.status == 200, answer.body
    assert kept(data)[before:] == [answer.body]  # The first was never given, and never written.


@pytest.mark.parametrize("error", [ReceiptNotKept(), asyncio.CancelledError()])
async def test_what_an_answer_would_have_handed_out_is_given_back(error: BaseException) -> None:
    """Messages of a mailbox, where it cannot be kept what the answer acknowledges besides."""
    handed: list[bool] = []

    async def hand_over(whole: bool) -> None:
        handed.append(whole)

    class Unkept(Receipts):
        async def sign(self, *_: object) -> Reply:
            raise error

    reply = Reply(status=200, soap=Soap.V1_2, body=b"<a/>", handed_over=hand_over)
    receipts: Any = Unkept.__new__(Unkept)
    nothing: Any = None
    with pytest.raises(type(error)):
        await SoapService._with_receipt(receipts, b"<a/>", nothing, nothing, reply)
    assert handed == [False]


@at_the_gateway
async def test_what_is_kept_too_late_is_taken_back(
    run: Running, data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The disk has it at last, when the sender was told that there is no receipt."""
    going, append = threading.Event(), audit._append

    def slow(path: Path, octets: bytes) -> None:
        going.wait(60)
        append(path, octets)

    log = data / "audit.jsonl"
    octets = SPEAKER.envelope("<event/>", message_id=fresh_id())
    answer = await run.post(octets, type=SPEAKER.type, prefer="receipt")
    assert answer.status == 200, answer.body  # All that was noted before is written.
    message_id = fresh_id()
    octets = SPEAKER.envelope("<event/>", message_id=message_id)
    with monkeypatch.context() as patch:
        patch.setattr(audit, "KEPT_WITHIN", 1.0)
        patch.setattr(audit, "_append", slow)
        answer = await run.post(octets, type=SPEAKER.type, prefer="receipt")
        assert answer.status == 503, answer.body
        going.set()
        answer = await run.post(octets, type=SPEAKER.type, prefer="receipt")
    assert answer.status == 200, answer.body
    verify(log)
    late, back, given = [one for one in read_records(log) if one.get("what") == message_id]
    assert [one["did"] for one in (late, back, given)] == [
        "gave a receipt", "took back: gave a receipt", "gave a receipt",
    ]  # fmt: skip
    assert back["late"] == hashlib.sha256(base64.b64decode(late["receipt"])).hexdigest()
    assert base64.b64decode(given["receipt"]) == answer.body
    for number, code in ((late["number"], 1), (given["number"], 0)):
        line = ["receipt", str(number), "--file", str(log)]
        assert CliRunner().invoke(audit_commands, line).exit_code == code


async def test_whoever_gives_up_waiting_is_given_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever that is: the log has the receipts that were given, or takes back the others."""
    log = audit.AuditLog(tmp_path / "audit.jsonl")
    log.open()
    given, random = set(), Random(7)
    append = audit._append

    def slow(path: Path, octets: bytes) -> None:
        time.sleep(random.random() / 100)
        if random.random() < 0.3:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(path, octets)

    monkeypatch.setattr(audit, "_append", slow)
    monkeypatch.setattr(audit, "EVERY", 0.001)
    monkeypatch.setattr(audit, "KEPT_WITHIN", 0.01)

    async def keep(number: int) -> None:
        await asyncio.sleep(random.random() / 5)
        receipt = str(number).encode()
        with contextlib.suppress(ReceiptNotKept, TimeoutError):
            async with asyncio.timeout(random.random() / 50):
                await log.keep("who", "here", "gave a receipt", "", receipt)
                given.add(receipt)

    running_log = asyncio.create_task(log.run())
    await asyncio.gather(*map(keep, range(200)))
    running_log.cancel()
    await asyncio.gather(running_log, return_exceptions=True)
    monkeypatch.setattr(audit, "_append", append)
    log.write()
    verify(log.path)
    records = list(read_records(log.path))
    late = {one["late"] for one in records if "late" in one}
    receipts = [base64.b64decode(one["receipt"]) for one in records if "receipt" in one]
    assert {one for one in receipts if hashlib.sha256(one).hexdigest() not in late} == given
    assert given and late and len(receipts) == len(set(receipts))


@at_the_gateway
async def test_commands(run: Running, data: Path, signers: Signers, tmp_path: Path) -> None:
    octets = SPEAKER.envelope("<event/>", message_id=fresh_id())
    assert (await run.post(octets, type=SPEAKER.type, prefer="receipt")).status == 200
    log = data / "audit.jsonl"
    number = [one["number"] for one in read_records(log) if "receipt" in one][-1]
    receipt, sent = tmp_path / "receipt.xml", tmp_path / "sent.xml"
    sent.write_bytes(octets)
    shown = CliRunner().invoke(audit_commands, ["receipt", str(number), "--file", str(log)])
    assert shown.exit_code == 0
    receipt.write_bytes(shown.stdout_bytes)
    line = [
        "check-receipt", str(receipt), "--signers", str(signers.authority.certificate),
        "--message", str(sent),
    ]  # fmt: skip
    found = CliRunner().invoke(audit_commands, line)
    assert found.exit_code == 0 and "signed by CN=gateway" in found.stdout, found
    sent.write_bytes(octets + b" ")
    assert CliRunner().invoke(audit_commands, line).exit_code != 0
    none = CliRunner().invoke(audit_commands, ["receipt", "1", "--file", str(log)])
    assert none.exit_code != 0


@at_the_gateway
@pytest.mark.skipif(shutil.which("xmlsec1") is None, reason="xmlsec1 is not installed")
async def test_xmlsec1_verifies_one(run: Running, signers: Signers, tmp_path: Path) -> None:
    octets = SPEAKER.envelope("<event/>", message_id=fresh_id())
    answer = await run.post(octets, type=SPEAKER.type, prefer="receipt")
    soap = SPEAKER.soap.value
    wsa = read_message(answer.body).wsa
    named = [
        f"{soap}:Body", f"{WSU}:Timestamp", f"{WSSE}:BinarySecurityToken",
        f"{wsa.value if wsa else WSA10}:Action", f"{wsa.value if wsa else WSA10}:RelatesTo",
        "http://docs.oasis-open.org/ebxml-bp/ebbp-signals-2.0:NonRepudiationInformation",
    ]  # fmt: skip
    ids = [part for one in named for part in ("--id-attr:Id", one)]
    file, pem = tmp_path / "receipt.xml", signers.files["gateway"][0]
    for written, good in ((answer.body, True), (answer.body.replace(b"sha256", b"sha512"), False)):
        file.write_bytes(written)
        line = ["xmlsec1", "--verify", *ids, "--pubkey-cert-pem", str(pem), str(file)]
        found = await asyncio.to_thread(subprocess.run, line, capture_output=True, check=False)
        assert (found.returncode == 0) is good, found.stderr
