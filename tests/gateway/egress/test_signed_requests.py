"""Requests to consumers that are signed (WS-Security, X.509), and what cannot be signed."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.delivery.verdicts import Verdict
from gateway.delivery.verdicts import failed as judged
from gateway.egress import Consumer, ConsumerOptions, FailureKind, Request, SendFailed
from gateway.egress.credential_kinds import SecretUnusable
from gateway.parsing import Parsing
from mediation.model.messages import Attachment, Packaging
from mediation.model.versions import Soap
from mediation.ws_security import decrypt_message, read_decryption_keys, verify_message
from tests.gateway.egress.test_request_authentication import accepts, exchanging, owned
from tests.rigs.envelopes import Message
from tests.rigs.scripted_peers import message
from tests.rigs.signers import Signers, envelope, rsa_pair
from tests.rigs.waiting import until


@pytest.fixture
def signers(tmp_path: Path) -> Signers:
    return Signers.make(tmp_path, "gateway", "other")


def row(signers: Signers, **further: Any) -> dict[str, Any]:
    certificate, key = signers.files["gateway"]
    return {"kind": "x509", "certificate": certificate, "secret_file": key, **further}


def body_of(request: bytes) -> bytes:
    return request.partition(b"\r\n\r\n")[2]


async def test_a_signed_request(tmp_path: Path, signers: Signers) -> None:
    """Each has a signature of its own; what is sent for no subscription has none."""
    async with exchanging(tmp_path, row(signers), accepts) as (consumer, transport, seen):
        transport._parsing = Parsing()
        await transport.send(owned(consumer.url()))
        await transport.send(owned(consumer.url()))
        plain = message(consumer.url(), owned(consumer.url()).body)
        plain.soap = Soap.V1_2
        await transport.send(plain)
        transport._parsing.close()
    now = datetime.now(UTC)
    first, second = [verify_message(body_of(one), signers.trust, now=now) for one in seen[:2]]
    assert first is not None and second is not None
    assert first.to == "urn:x" and first.fingerprint != second.fingerprint
    assert [one.tag for one in Message(body_of(seen[0])).body] == ["a"]
    assert b"Signature" not in seen[2]


async def test_what_cannot_be_signed(tmp_path: Path, signers: Signers) -> None:
    def asked(url: str) -> list[tuple[Request, str]]:
        utf_16 = owned(url).body.decode().encode("utf-16")
        attachments = (Attachment("a", "text/plain", b"x"),)
        attached = owned(url, attachments=attachments, packaging=Packaging.MIME)
        return [
            (owned(url, b"{}", soap=None), "is for SOAP"),
            (owned(url, utf_16), "does not fit"),
            (owned(url, envelope('<e xmlns="relative"/>')), "no canonical form"),
            (attached, "does not fit"),
        ]

    async with exchanging(tmp_path, row(signers), accepts) as (consumer, transport, seen):
        for request, text in asked(consumer.url()):
            with pytest.raises(SendFailed, match=text) as failed:
                await transport.send(request)
            of_the_row = text == "is for SOAP"  # Others are of the message, and stay so.
            kind = FailureKind.CREDENTIAL if of_the_row else FailureKind.UNSIGNABLE
            assert failed.value.kind is kind
            verdict = Verdict.RETRY if of_the_row else Verdict.REJECTED
            assert judged(failed.value).verdict is verdict
    assert not seen


async def test_a_signature_that_is_refused(tmp_path: Path, signers: Signers) -> None:
    answer = b"HTTP/1.1 500 x\r\nContent-Length: 16\r\n\r\nwsse:FailedCheck"
    credential = row(signers, name="bank")
    async with exchanging(tmp_path, credential, lambda _: answer) as (consumer, transport, _):
        with pytest.raises(SendFailed, match="credential bank") as failed:
            await transport.send(owned(consumer.url()))
    assert failed.value.kind is FailureKind.CREDENTIAL


async def test_key_and_certificate_are_read_again(tmp_path: Path, signers: Signers) -> None:
    """While one of the two has changed, and the other not, the former ones sign."""
    certificate, key = signers.files["gateway"]
    async with exchanging(tmp_path, row(signers), accepts) as (consumer, transport, seen):
        with capture_logs() as logs:
            watching = asyncio.create_task(transport._dialer.options.watch(every=0.01))
            for file, new, said in (
                (key, signers.files["other"][1], "credential.file-unusable"),
                (certificate, signers.files["other"][0], "credential.read"),
            ):
                file.write_bytes(new.read_bytes())
                await until(lambda: said in [one["event"] for one in logs])  # noqa: B023
                await transport.send(owned(consumer.url()))
            watching.cancel()
    assert "BEGIN" not in str(logs)
    now = datetime.now(UTC)
    found = [verify_message(body_of(one), signers.trust, now=now) for one in seen]
    assert found[0] is not None and found[1] is not None
    assert found[0].certificate != found[1].certificate


def test_rows_that_are_unusable(tmp_path: Path, signers: Signers) -> None:
    for changed, text in (
        ({"certificate": tmp_path / "none.pem"}, r"certificate: .*none\.pem cannot be read"),
        ({"certificate": signers.files["other"][0]}, "the key is not that of the certificate"),
        ({"secret_file": signers.files["gateway"][0]}, "the key cannot be read"),
    ):
        credential = row(signers, **changed)
        with pytest.raises(SecretUnusable, match=text):
            ConsumerOptions([Consumer(address="a.example", credential=credential)])


async def test_a_request_that_is_encrypted_for_its_consumer(
    tmp_path: Path, signers: Signers
) -> None:
    certificate, key = rsa_pair(tmp_path, "consumer")
    credential = row(signers, encrypt_for=certificate)
    async with exchanging(tmp_path, credential, accepts) as (consumer, transport, seen):
        await transport.send(owned(consumer.url()))
    body = body_of(seen[0])
    assert b"<a/>" not in body
    found = decrypt_message(body, read_decryption_keys(key.read_bytes()))
    assert found is not None and found.authenticated
    assert verify_message(found.octets, signers.trust, now=datetime.now(UTC)) is not None
    assert [one.tag for one in Message(found.octets).body] == ["a"]
    weak = row(signers, encrypt_for=signers.files["other"][0])
    with pytest.raises(SecretUnusable, match=r"encrypt_for: .*not RSA"):
        ConsumerOptions([Consumer(address="a.example", credential=weak)])
