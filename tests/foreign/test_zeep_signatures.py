"""zeep's ``wsse``, of python-xmlsec: the gateway takes what it signs, and it takes what we sign."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from zeep import Client
from zeep.exceptions import Fault
from zeep.wsse import utils

from gateway.security.identities_editing import create_identities
from mediation.names import WSU
from mediation.ws_security import read_signing_key, sign_envelope
from tests.rigs.envelopes import WSA10
from tests.rigs.gateways import running
from tests.rigs.signers import envelope, rsa_pair

xmlsec = pytest.importorskip("xmlsec", exc_type=ImportError)
# It raises where libxml2 is another one than lxml's.
signature = pytest.importorskip("zeep.wsse.signature")

header_of: Any = utils.get_security_header
client_of: Any = Client
"""zeep is not typed."""
RULES = '\n[[rights]]\nwho = ["cert:CN=mole", "anonymous"]\nmay = ["subscribe"]\n'


def signing(certificate: Path, key: Path) -> Any:
    """What signs as zeep does: the Body and a Timestamp. So the headers of WS-Addressing, which it
    leaves unsigned, go; it verifies no answer, for none is signed."""

    class Signing(signature.BinarySignature):  # type: ignore[misc, name-defined]
        def apply(self, message: etree._Element, headers: Any) -> Any:
            security = header_of(message)
            for block in security.getparent():
                if str(block.tag).startswith(f"{{{WSA10}}}"):
                    security.getparent().remove(block)
            stamp = etree.SubElement(security, f"{{{WSU}}}Timestamp")
            now = datetime.now(UTC)
            for name, at in (("Created", now), ("Expires", now + timedelta(minutes=1))):
                etree.SubElement(stamp, f"{{{WSU}}}{name}").text = f"{at:%Y-%m-%dT%H:%M:%SZ}"
            return super().apply(message, headers)

        def verify(self, message: etree._Element) -> etree._Element:
            return message

    return Signing(
        str(key),
        str(certificate),
        signature_method=xmlsec.Transform.RSA_SHA256,
        digest_method=xmlsec.Transform.SHA256,
    )


async def test_it_subscribes_by_a_signature(tmp_path: Path) -> None:
    certificate, key = rsa_pair(tmp_path, "mole")
    file = tmp_path / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + RULES)
    table = {"signers": certificate, "required": ["subscribe"]}
    async with running(
        tmp_path / "data", identities=file, ws_security=table, egress_allow=["127.0.0.1"]
    ) as run:

        def subscribe(wsse: Any) -> Any:
            client = client_of(f"{run.url}/soap?wsdl=wsn", wsse=wsse)
            service = client.bind("WSNotification", "NotificationProducerSoap12")
            return service.Subscribe(ConsumerReference={"Address": "http://127.0.0.1:9999/"})

        subscribed = await asyncio.to_thread(subscribe, signing(certificate, key))
        assert "/subscriptions/" in str(subscribed.SubscriptionReference.Address._value_1)
        stranger = rsa_pair(tmp_path, "stranger")
        for wsse, text in ((None, "must be signed"), (signing(*stranger), "nobody who is trusted")):
            with pytest.raises(Fault, match=text):
                await asyncio.to_thread(subscribe, wsse)


def test_it_verifies_what_we_sign(tmp_path: Path) -> None:
    certificate, private = rsa_pair(tmp_path, "mole")
    signer = read_signing_key(private.read_bytes(), certificate.read_bytes())
    octets = sign_envelope(envelope(), signer, unique="u", now=datetime.now(UTC))
    key = signature._make_verify_key(certificate.read_bytes())
    signature._verify_envelope_with_key(etree.fromstring(octets), key)
    changed = etree.fromstring(octets.replace(b">1</e>", b">2</e>"))
    with pytest.raises(signature.SignatureVerificationFailed):
        signature._verify_envelope_with_key(changed, key)
