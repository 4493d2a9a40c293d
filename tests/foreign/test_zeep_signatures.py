"""zeep's ``wsse``, of python-xmlsec: the gateway takes what it signs, and it takes what we sign."""

import asyncio
import re
import runpy
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from zeep.exceptions import Fault, SignatureVerificationFailed

from gateway.identities.file_editing import create_identities
from mediation.ws_security import read_signing_key, sign_envelope
from tests.conftest import ROOT
from tests.rigs.certificates import Authority
from tests.rigs.envelopes import Speaker, fresh_id
from tests.rigs.gateways import running
from tests.rigs.signers import envelope, rsa_pair

xmlsec = pytest.importorskip("xmlsec", exc_type=ImportError)
# It raises where libxml2 is another one than lxml's.
signature = pytest.importorskip("zeep.wsse.signature")


RULES = '\n[[rights]]\nwho = ["cert:CN=mole", "anonymous"]\nmay = ["subscribe"]\n'


def subscribe(url: str, certificate: Path, key: Path, gateway: Path) -> dict[str, Any]:
    """Run the program of docs/security.md, which believes who has the certificate *gateway*; what
    it has then."""
    text = (ROOT / "docs" / "security.md").read_text()
    [program] = re.findall(r"```python\n(from datetime.*?)```", text, re.DOTALL)
    for said, meant in (
        ("http://localhost:8080", url),
        ("http://localhost:9999", "http://127.0.0.1:9999"),
        ("mole.key", str(key)),
        ("mole.pem", str(certificate)),
        ("gateway.pem", str(gateway)),
    ):
        assert said in program
        program = program.replace(said, meant)
    file = key.with_suffix(".py")
    file.write_text(program)
    return runpy.run_path(str(file))


async def test_it_subscribes_by_a_signature(tmp_path: Path) -> None:
    """And believes what is answered, faults too, where the gateway has signed that, and nobody has
    changed it."""
    certificate, key = rsa_pair(tmp_path, "mole")
    gateway = Authority(tmp_path).issue("gateway")
    file, own = tmp_path / "identities.toml", tmp_path / "own.pem"
    create_identities(file)
    file.write_text(file.read_text() + RULES)
    own.write_bytes(gateway[1].read_bytes() + gateway[0].read_bytes())
    table = {
        "signers": certificate, "required": ["subscribe"], "sign_answers": ["subscribe"],
        "signing_key": own,
    }  # fmt: skip
    async with running(
        tmp_path / "data", identities=file, ws_security=table, egress_allow=["127.0.0.1"]
    ) as run:
        found = await asyncio.to_thread(subscribe, run.url, certificate, key, gateway[0])
        address = found["subscribed"].SubscriptionReference.Address._value_1
        assert "/subscriptions/" in address
        stranger = rsa_pair(tmp_path, "stranger")
        with pytest.raises(Fault, match="nobody who is trusted"):
            await asyncio.to_thread(subscribe, run.url, *stranger, gateway[0])
        with pytest.raises(SignatureVerificationFailed):
            await asyncio.to_thread(subscribe, run.url, certificate, key, stranger[0])
        asking = Speaker()
        body = asking.wsn_subscribe("http://127.0.0.1:9999/")
        mole = read_signing_key(key.read_bytes(), certificate.read_bytes())
        octets = asking.envelope(body, message_id=fresh_id())
        signed = sign_envelope(octets, mole, unique="u", now=datetime.now(UTC))
        answer = (await run.post(signed, type=asking.type)).body
    signing = found["signing"]
    signing.verify(etree.fromstring(answer))
    for what, changed in tampered(answer):
        with pytest.raises((SignatureVerificationFailed, IndexError)):
            signing.verify(changed)
            pytest.fail(what)


def tampered(answer: bytes) -> Iterator[tuple[str, etree._Element]]:
    """What somebody in between may make of *answer*."""
    blocks = [one for one in etree.fromstring(answer)[0] if "Security" not in str(one.tag)]
    names = [etree.QName(one).localname for one in blocks]
    assert {"Action", "MessageID", "RelatesTo", "To"} <= set(names)
    for name in (*names, "Created", "Expires", "Address", "DigestValue"):
        root = etree.fromstring(answer)
        found = next(root.iter(f"{{*}}{name}"))
        found.text = f"A{found.text}"
        yield f"{name} is changed", root
    for name in (*names, "Timestamp", "Signature", "Security"):
        root = etree.fromstring(answer)
        found = next(root.iter(f"{{*}}{name}"))
        found.getparent().remove(found)  # type: ignore[union-attr]  # It has one.
        yield f"{name} is left out", root
    for keeps_id in (True, False):
        root = etree.fromstring(answer)
        other = deepcopy(root[1])
        next(other.iter("{*}Address")).text = "http://elsewhere/"
        if not keeps_id:
            other.attrib.clear()
        wrapper = etree.SubElement(root[0], "{urn:x}wrapper")
        wrapper.append(root[1])
        root.append(other)
        yield f"the Body is another one, {keeps_id}", root


def test_it_verifies_what_we_sign(tmp_path: Path) -> None:
    certificate, private = rsa_pair(tmp_path, "mole")
    signer = read_signing_key(private.read_bytes(), certificate.read_bytes())
    octets = sign_envelope(envelope(), signer, unique="u", now=datetime.now(UTC))
    key = signature._make_verify_key(certificate.read_bytes())
    signature._verify_envelope_with_key(etree.fromstring(octets), key)
    changed = etree.fromstring(octets.replace(b">1</e>", b">2</e>"))
    with pytest.raises(signature.SignatureVerificationFailed):
        signature._verify_envelope_with_key(changed, key)
