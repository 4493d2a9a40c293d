"""Messages that are encrypted for the gateway, and what is answered to those that cannot be
decrypted: the same to all."""

import base64
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.x509 import load_pem_x509_certificate

from gateway.identities.file_editing import create_identities
from mediation import names
from mediation.ws_security import encrypt_envelope, read_recipient
from tests.mediation.ws_security.test_encryption import sealed_parts
from tests.rigs.envelopes import S12, WSE, Answer, Speaker, fresh_id
from tests.rigs.gateways import Running, running
from tests.rigs.signers import Signers, envelope, rsa_pair
from tests.rigs.waiting import until

RULES = '\n[[rights]]\nwho = ["everybody"]\nmay = ["publish"]\n'
EVENT = '<e xmlns="urn:e">secret</e>'
Pair = tuple[Path, Path]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return rsa_pair(tmp_path_factory.mktemp("key"), "gateway")


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    return Signers.make(tmp_path_factory.mktemp("signers"), "mole")


def make_file(folder: Path) -> Path:
    file = folder / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + RULES)
    return file


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(
    tmp_path_factory: pytest.TempPathFactory, signers: Signers, pair: Pair
) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("gateway")
    table = {"signers": signers.authority.certificate, "key": pair[1], "cbc": True}
    data = folder / "data"
    async with running(
        data, identities=make_file(folder), ws_security=table, console_messages=100
    ) as found:
        yield found


at_the_gateway = pytest.mark.asyncio(loop_scope="module")


async def send(run: Running, octets: bytes) -> Answer:
    return await run.post(octets, type=S12.media_type)


def encrypted(pair: Pair, octets: bytes) -> bytes:
    return encrypt_envelope(octets, read_recipient(pair[0].read_bytes()), unique="x")


def with_cbc(pair: Pair, octets: bytes, plain: bytes, *, padding: int | None = None) -> bytes:
    """*octets* with *plain* as the content of the Body, encrypted as old peers do, with the last
    octet of *padding*."""
    public = load_pem_x509_certificate(pair[0].read_bytes()).public_key()
    assert isinstance(public, rsa.RSAPublicKey)
    secret, vector = os.urandom(16), os.urandom(16)
    length = 16 - len(plain) % 16
    padded = plain + bytes(length - 1) + bytes([length if padding is None else padding])
    encryptor = Cipher(algorithms.AES(secret), modes.CBC(vector)).encryptor()
    cipher = vector + encryptor.update(padded) + encryptor.finalize()
    wrapped = public.encrypt(secret, OAEP(MGF1(SHA1()), SHA1(), None))
    key = (
        f'<x:EncryptedKey xmlns:x="{names.XENC}"><x:EncryptionMethod'
        f' Algorithm="{names.XENC_RSA_OAEP_MGF1P}"/><x:CipherData><x:CipherValue>'
        f"{base64.b64encode(wrapped).decode()}</x:CipherValue></x:CipherData></x:EncryptedKey>"
    )
    data = (
        f'<x:EncryptedData xmlns:x="{names.XENC}"><x:EncryptionMethod'
        f' Algorithm="{names.XENC}aes128-cbc"/><x:CipherData><x:CipherValue>'
        f"{base64.b64encode(cipher).decode()}</x:CipherValue></x:CipherData></x:EncryptedData>"
    )
    security = re.search(rb"<wsse:Security[^>]*>", octets)
    if security is None:
        block = f'<o:Security xmlns:o="{names.WSSE}">{key}</o:Security>'.encode()
        octets = octets.replace(b"<s:Header>", b"<s:Header>" + block)
    else:
        octets = octets.replace(security[0], security[0] + key.encode())
    body = re.search(rb"(<s:Body[^>]*>)(.*)</s:Body>", octets, re.DOTALL)
    assert body is not None
    return octets.replace(body[0], body[1] + data.encode() + b"</s:Body>")


@at_the_gateway
async def test_an_encrypted_event(run: Running, pair: Pair, signers: Signers) -> None:
    for octets in (
        envelope(EVENT),
        signers.signed("mole", envelope(EVENT)),
        envelope(EVENT.replace("secret", "x" * 100_000)),
    ):
        assert (await send(run, encrypted(pair, octets))).status == 202
    wrong = encrypted(pair, signers.signed("mole", envelope(EVENT)).replace(b"secret", b"other"))
    answer = await send(run, wrong)
    assert b"FailedCheck" in answer.body and b"Body is not what was signed" in answer.body


@at_the_gateway
async def test_what_cannot_be_decrypted(run: Running, pair: Pair, tmp_path: Path) -> None:
    other = rsa_pair(tmp_path, "other")
    answer = await send(run, encrypted(other, envelope(EVENT)))
    assert answer.status >= 400 and b"FailedCheck" in answer.body
    assert b"The message cannot be decrypted." in answer.body
    weak = encrypted(pair, envelope(EVENT)).replace(b"rsa-oaep-mgf1p", b"rsa-1_5")
    assert b"UnsupportedAlgorithm" in (await send(run, weak)).body


@at_the_gateway
async def test_encrypted_header_blocks(run: Running, pair: Pair, signers: Signers) -> None:
    """Are read as if they had come in the clear: the message id, and which action it is."""
    subscribe = Speaker().wse_subscribe("http://127.0.0.1:9999/")
    message_id = fresh_id()
    for action, said in ((f"{WSE}/Subscribe", b"to subscribe here"), ("urn:e", b"Action")):
        octets = Speaker().envelope(subscribe, action=action, message_id=message_id)
        for one in (octets, signers.signed("mole", octets)):
            sealed = sealed_parts(pair, one, "MessageID", "Action", "Body")
            assert message_id.encode() not in sealed and action.encode() not in sealed
            answer = await send(run, sealed)
            assert said in answer.body, answer.body
            assert answer.message.wsa("RelatesTo") == message_id
    # A signature that is encrypted counts, too.
    sealed = sealed_parts(pair, signers.signed("mole", envelope(EVENT)), "Body", "Signature")
    assert (await send(run, sealed)).status == 202
    wrong = signers.signed("mole", envelope(EVENT)).replace(b"secret", b"other")
    answer = await send(run, sealed_parts(pair, wrong, "Signature", "MessageID"))
    assert b"Body is not what was signed" in answer.body


@at_the_gateway
async def test_cbc_in_a_header_tells_nothing(run: Running, pair: Pair, signers: Signers) -> None:
    good = signers.signed("mole", envelope(EVENT))
    assert (await send(run, sealed_parts(pair, good, "Action", cbc=["Action"]))).status == 202
    answers = []
    for plain in (b"<a>", b"<a/>", b"", b"</s:Header>", b"<wsa:Action>urn:e</wsa:Action>"):
        for octets in (envelope(EVENT), signers.signed("mole", envelope(EVENT))):
            sealed = sealed_parts(pair, octets, "Action", cbc=["Action"], plain={"Action": plain})
            answers.append(await send(run, sealed))
    seen = {re.sub(rb"urn:uuid:[0-9a-f-]+", b"", one.body) for one in answers}
    assert len(seen) == 1 and b"The message cannot be decrypted." in seen.pop()


@at_the_gateway
async def test_cbc_tells_nothing(run: Running, pair: Pair, signers: Signers) -> None:
    """Whether the padding is right, the content is XML, an event, of a known specification, or
    signed wrongly, cannot be told from the answer."""
    signed = signers.signed("mole", envelope(EVENT))
    assert (await send(run, with_cbc(pair, signed, EVENT.encode()))).status == 202
    again = signers.signed("mole", envelope(EVENT))
    answers = [
        await send(run, octets)
        for octets in (
            with_cbc(pair, again, EVENT.encode(), padding=0),
            with_cbc(pair, again, EVENT.encode(), padding=17),
            with_cbc(pair, again, b"<a>"),
            with_cbc(pair, again, b"<a/>"),
            with_cbc(pair, again, b"<a xmlns='http://docs.oasis-open.org/wsn/b-2'/>"),
            with_cbc(pair, again, b""),
            with_cbc(pair, envelope(EVENT), EVENT.encode()),
            with_cbc(pair, envelope(EVENT), b"</s:Body>"),
        )
    ]
    seen = {re.sub(rb"urn:uuid:[0-9a-f-]+", b"", one.body) for one in answers}
    assert len(seen) == 1 and b"The message cannot be decrypted." in seen.pop()
    assert len({one.status for one in answers}) == 1


async def test_the_key_is_read_again(tmp_path: Path, pair: Pair) -> None:
    """Without the setting, CBC is not taken. A key takes the place of another."""
    other, chosen = rsa_pair(tmp_path, "other"), tmp_path / "chosen.key"
    shutil.copy(pair[1], chosen)
    table = {"key": chosen, "encrypted": ["publish"]}
    async with running(tmp_path / "data", identities=make_file(tmp_path), ws_security=table) as run:
        answer = await send(run, envelope(EVENT))
        assert b"InvalidSecurity" in answer.body and b"must be encrypted" in answer.body
        answer = await send(run, sealed_parts(pair, envelope(EVENT), "MessageID"))
        assert b"must be encrypted" in answer.body, "a header block is not the Body"
        assert (await send(run, encrypted(pair, envelope(EVENT)))).status == 202
        answer = await send(run, with_cbc(pair, envelope(EVENT), EVENT.encode()))
        assert b"UnsupportedAlgorithm" in answer.body
        shutil.copy(other[1], chosen)
        await until(lambda: any(one["event"] == "ws-security.read" for one in run.logs))
        assert (await send(run, encrypted(other, envelope(EVENT)))).status == 202
