"""xmlsec1 (Debian's, of OpenSSL): it verifies what we sign, and we what it signs; it decrypts what we
encrypt, and we what it encrypts."""

import asyncio
import base64
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from filters import Refused
from gateway.identities.file_editing import create_identities
from mediation import names
from mediation.ws_security import (
    Algorithms,
    decrypt_message,
    encrypt_envelope,
    read_decryption_keys,
    read_recipient,
    read_signing_key,
    sign_envelope,
    verify_message,
)
from tests.gateway.mailboxes.test_pull_points import PullPoint
from tests.rigs.certificates import Authority
from tests.rigs.envelopes import S12, WSA10, WSNT, canonical, notification_message, notify
from tests.rigs.gateways import running
from tests.rigs.signers import Signers, envelope, part, rsa_pair

pytestmark = pytest.mark.skipif(shutil.which("xmlsec1") is None, reason="xmlsec1 is not installed")

IDS = [
    f"{{{S12.value}}}Body", f"{{{WSA10}}}MessageID", f"{{{WSA10}}}Action",
    f"{{{names.WSU}}}Timestamp", f"{{{names.WSSE}}}BinarySecurityToken",
    f"{{{WSA10}}}RelatesTo", f"{{{WSA10}}}To",
]  # fmt: skip
RULES = '\n[[rights]]\nwho = ["everybody"]\nmay = ["publish", "subscribe", "manage"]\n'


@pytest.fixture
def signers(tmp_path: Path) -> Signers:
    return Signers.make(tmp_path, "mole")


def xmlsec1(command: str, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    ids = []
    for name in IDS:
        namespace, _, local = name[1:].partition("}")
        ids += ["--id-attr:Id", f"{namespace}:{local}"]
    line = ["xmlsec1", command, *ids, *map(str, arguments)]
    return subprocess.run(line, capture_output=True, check=False, timeout=60)


def test_it_verifies_what_we_sign(tmp_path: Path, signers: Signers) -> None:
    octets = signers.signed("mole", envelope('<e xmlns="urn:e" xmlns:w="urn:w">w:x</e>'))
    file = tmp_path / "message.xml"
    for written, good in ((octets, True), (octets.replace(b"w:x", b"w:y"), False)):
        file.write_bytes(written)
        pem = signers.files["mole"][0]
        found = xmlsec1("--verify", "--pubkey-cert-pem", pem, file)
        assert (found.returncode == 0) is good, found.stderr


def template(signers: Signers, method: str, digest: str) -> bytes:
    """An envelope for xmlsec1 to sign."""
    token = base64.b64encode(signers.key("mole").certificate.public_bytes(Encoding.DER)).decode()
    now = datetime.now(UTC)
    stamps = [f"{one:%Y-%m-%dT%H:%M:%S.%fZ}" for one in (now, now + timedelta(minutes=1))]
    root = etree.fromstring(envelope())
    covered = [one for one in root.iter(etree.Element) if one.tag in IDS]
    for number, one in enumerate(covered):
        one.set(f"{{{names.WSU}}}Id", f"id-{number}")
    references = "".join(
        f'<Reference URI="#{id}"><Transforms><Transform Algorithm="{names.EXCLUSIVE_C14N}"/>'
        f'</Transforms><DigestMethod Algorithm="{digest}"/><DigestValue/></Reference>'
        for id in ("TS", *(f"id-{number}" for number in range(len(covered))))
    )
    security = (
        f'<o:Security xmlns:o="{names.WSSE}" xmlns:u="{names.WSU}"><u:Timestamp u:Id="TS">'
        f"<u:Created>{stamps[0]}</u:Created><u:Expires>{stamps[1]}</u:Expires></u:Timestamp>"
        f'<o:BinarySecurityToken u:Id="X" ValueType="{names.WSS_X509}X509v3">{token}'
        f'</o:BinarySecurityToken><Signature xmlns="{names.DSIG}"><SignedInfo>'
        f'<CanonicalizationMethod Algorithm="{names.EXCLUSIVE_C14N}"/>'
        f'<SignatureMethod Algorithm="{method}"/>{references}</SignedInfo><SignatureValue/>'
        '<KeyInfo><o:SecurityTokenReference><o:Reference URI="#X"/></o:SecurityTokenReference>'
        "</KeyInfo></Signature></o:Security>"
    )
    root[0].append(etree.fromstring(security))
    return etree.tostring(root)


@pytest.mark.parametrize("hashed", ["sha256", "sha384", "sha512"])
def test_we_verify_what_it_signs(tmp_path: Path, signers: Signers, hashed: str) -> None:
    digest = f"{names.DSIG_MORE if hashed == 'sha384' else names.XENC}{hashed}"
    method = f"{names.DSIG_MORE}ecdsa-{hashed}"
    octets = signed(tmp_path, signers, method, digest)
    found = verify_message(octets, signers.trust, now=datetime.now(UTC))
    assert found is not None
    with pytest.raises(Refused, match="Body is not what was signed"):
        changed = octets.replace(b">1</e>", b">2</e>")
        verify_message(changed, signers.trust, now=datetime.now(UTC))


def test_sha_1_only_where_it_is_allowed(tmp_path: Path, signers: Signers) -> None:
    method = f"{names.DSIG_MORE}ecdsa-sha256"
    octets = signed(tmp_path, signers, method, f"{names.DSIG}sha1")
    with pytest.raises(Refused, match="algorithm"):
        verify_message(octets, signers.trust, now=datetime.now(UTC))
    old = Algorithms(sha1=True)
    assert verify_message(octets, signers.trust, now=datetime.now(UTC), algorithms=old)


def signed(folder: Path, signers: Signers, method: str, digest: str) -> bytes:
    written, out = folder / "template.xml", folder / "signed.xml"
    written.write_bytes(template(signers, method, digest))
    found = xmlsec1("--sign", "--privkey-pem", signers.files["mole"][1], "--output", out, written)
    assert found.returncode == 0, found.stderr
    return out.read_bytes()


def test_it_decrypts_what_we_encrypt(tmp_path: Path) -> None:
    certificate, key = rsa_pair(tmp_path, "consumer")
    file = tmp_path / "message.xml"
    recipient = read_recipient(certificate.read_bytes())
    file.write_bytes(encrypt_envelope(envelope(), recipient, unique="x"))
    # It looks for the key below the data, or is told it.
    root = etree.fromstring(file.read_bytes())
    part(root, "EncryptedData").find(f"{{{names.DSIG}}}KeyInfo").append(  # type: ignore[union-attr]
        part(root, "EncryptedKey")
    )
    file.write_bytes(etree.tostring(root))
    found = subprocess.run(
        ["xmlsec1", "--decrypt", "--privkey-pem", key, file],
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    bodies = [part(etree.fromstring(one), "Body") for one in (envelope(), found.stdout)]
    assert canonical(bodies[0]) == canonical(bodies[1])


async def test_it_decrypts_and_verifies_an_answer(tmp_path: Path) -> None:
    """Of a gateway, with an event that was pulled; and sees what was changed in it."""
    certificate, key = rsa_pair(tmp_path, "mole")
    gateway = Authority(tmp_path).issue("gateway")
    own, file = tmp_path / "own.pem", tmp_path / "identities.toml"
    own.write_bytes(gateway[1].read_bytes() + gateway[0].read_bytes())
    create_identities(file)
    file.write_text(file.read_text() + RULES)
    table = {"signers": certificate, "signing_key": own, "encrypt_answers": ["manage"]}
    mole = read_signing_key(key.read_bytes(), certificate.read_bytes())
    async with running(tmp_path / "data", identities=file, ws_security=table) as run:
        point = await PullPoint.create(run)
        event = notify(notification_message('<e xmlns="urn:e" xmlns:w="urn:w">w:secret</e>'))
        assert (await run.post(envelope(event), point.path)).status == 202
        asking = envelope(f'<n:GetMessages xmlns:n="{WSNT}"/>')
        asking = sign_envelope(asking, mole, unique="u", now=datetime.now(UTC))
        answer = (await run.post(asking, point.path)).body
    assert b"secret" not in answer
    root, message = etree.fromstring(answer), tmp_path / "answer.xml"
    info = part(root, "EncryptedData").find(f"{{{names.DSIG}}}KeyInfo")
    assert info is not None
    info.append(part(root, "EncryptedKey"))  # It looks for the key below the data.
    message.write_bytes(etree.tostring(root))
    opened = await asyncio.to_thread(xmlsec1, "--decrypt", "--privkey-pem", key, message)
    assert opened.returncode == 0, opened.stderr
    assert b"w:secret" in opened.stdout
    relates_to = part(etree.fromstring(opened.stdout), "RelatesTo").text or ""
    for change in (b"", b"w:secret", relates_to.encode(), b"/addressing/anonymous", b"Response<"):
        assert change in opened.stdout
        message.write_bytes(opened.stdout.replace(change, b"x", 1) if change else opened.stdout)
        pem = gateway[0]
        found = await asyncio.to_thread(xmlsec1, "--verify", "--pubkey-cert-pem", pem, message)
        assert (found.returncode == 0) is (not change), (change, found.stderr)


@pytest.mark.parametrize(
    ("cipher", "session"),
    [
        (f"{names.XENC_1_1}aes128-gcm", "aes-128"),
        (f"{names.XENC_1_1}aes256-gcm", "aes-256"),
        (f"{names.XENC}aes256-cbc", "aes-256"),
    ],
)
def test_we_decrypt_what_it_encrypts(tmp_path: Path, cipher: str, session: str) -> None:
    certificate, key = rsa_pair(tmp_path, "gateway")
    template, message, out = (tmp_path / name for name in ("t.xml", "m.xml", "out.xml"))
    template.write_text(
        f'<EncryptedData xmlns="{names.XENC}" Type="{names.XENC_CONTENT}"><EncryptionMethod'
        f' Algorithm="{cipher}"/><KeyInfo xmlns="{names.DSIG}"><EncryptedKey xmlns="{names.XENC}">'
        f'<EncryptionMethod Algorithm="{names.XENC_RSA_OAEP_MGF1P}"/><CipherData><CipherValue/>'
        "</CipherData></EncryptedKey></KeyInfo><CipherData><CipherValue/></CipherData>"
        "</EncryptedData>"
    )
    security = f'<o:Security xmlns:o="{names.WSSE}"/>'
    message.write_bytes(envelope(headers=security))
    found = subprocess.run(
        ["xmlsec1", "--encrypt", "--pubkey-cert-pem", certificate, "--session-key", session,
         "--xml-data", message, "--node-name", f"{S12.value}:Body", "--output", out, template],
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    keys = read_decryption_keys(key.read_bytes())
    decrypted = decrypt_message(out.read_bytes(), keys, cbc=True)
    assert decrypted is not None and decrypted.authenticated is cipher.endswith("gcm")
    bodies = [part(etree.fromstring(one), "Body") for one in (envelope(), decrypted.octets)]
    assert canonical(bodies[0]) == canonical(bodies[1])
