"""zeep's ``wsse``, of python-xmlsec: the gateway takes what it signs, and it takes what we sign."""

import asyncio
import re
import runpy
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lxml import etree
from zeep.exceptions import Fault

from gateway.identities.file_editing import create_identities
from mediation.ws_security import read_signing_key, sign_envelope
from tests.conftest import ROOT
from tests.rigs.gateways import running
from tests.rigs.signers import envelope, rsa_pair

xmlsec = pytest.importorskip("xmlsec", exc_type=ImportError)
# It raises where libxml2 is another one than lxml's.
signature = pytest.importorskip("zeep.wsse.signature")


RULES = '\n[[rights]]\nwho = ["cert:CN=mole", "anonymous"]\nmay = ["subscribe"]\n'


def subscribe(url: str, certificate: Path, key: Path) -> str:
    """Run the program of docs/security.md; the address that it is answered."""
    text = (ROOT / "docs" / "security.md").read_text()
    [program] = re.findall(r"```python\n(from datetime.*?)```", text, re.DOTALL)
    for said, meant in (
        ("http://localhost:8080", url),
        ("http://localhost:9999", "http://127.0.0.1:9999"),
        ("mole.key", str(key)),
        ("mole.pem", str(certificate)),
    ):
        assert said in program
        program = program.replace(said, meant)
    file = key.with_suffix(".py")
    file.write_text(program)
    names = runpy.run_path(str(file))
    return str(names["subscribed"].SubscriptionReference.Address._value_1)


async def test_it_subscribes_by_a_signature(tmp_path: Path) -> None:
    certificate, key = rsa_pair(tmp_path, "mole")
    file = tmp_path / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + RULES)
    table = {"signers": certificate, "required": ["subscribe"]}
    async with running(
        tmp_path / "data", identities=file, ws_security=table, egress_allow=["127.0.0.1"]
    ) as run:
        assert "/subscriptions/" in await asyncio.to_thread(subscribe, run.url, certificate, key)
        stranger = rsa_pair(tmp_path, "stranger")
        with pytest.raises(Fault, match="nobody who is trusted"):
            await asyncio.to_thread(subscribe, run.url, *stranger)


def test_it_verifies_what_we_sign(tmp_path: Path) -> None:
    certificate, private = rsa_pair(tmp_path, "mole")
    signer = read_signing_key(private.read_bytes(), certificate.read_bytes())
    octets = sign_envelope(envelope(), signer, unique="u", now=datetime.now(UTC))
    key = signature._make_verify_key(certificate.read_bytes())
    signature._verify_envelope_with_key(etree.fromstring(octets), key)
    changed = etree.fromstring(octets.replace(b">1</e>", b">2</e>"))
    with pytest.raises(signature.SignatureVerificationFailed):
        signature._verify_envelope_with_key(changed, key)
