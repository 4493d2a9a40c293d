"""Sequences that are bound to a certificate, of a signature (UsesSequenceSTR) or of TLS
(UsesSequenceSSL): who else sends in them, asks about them or ends them, is refused."""

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from gateway.identities.file_editing import create_identities
from gateway.security.tls import client_context
from gateway.settings.settings import Settings
from mediation.model.versions import Soap
from mediation.names import POLICY_1_5, WSS_THUMBPRINT, WSS_X509, WSSE, WSU
from mediation.reliable_messaging import (
    CreateSequence,
    CreateSequenceResponse,
    FaultName,
    ReliableMessage,
    Rm,
    TerminateSequenceResponse,
)
from mediation.soap.answers import PeerFault
from mediation.ws_security import SigningKey, sign_envelope
from mediation.ws_security.key_info import thumbprint_of
from tests.rigs.certificates import Authority
from tests.rigs.envelopes import Answer
from tests.rigs.gateways import Running, http_request, read_http, running
from tests.rigs.processes import gateway_process
from tests.rigs.reliable_publishers import SERVICE, ReliablePublisher, fault_of, upto
from tests.rigs.signers import Signers

RULES = """
[[rights]]
who = ["cert:CN=mole", "cert:CN=ship", "anonymous"]
may = ["publish"]
"""
REFERENCE = f'<wsse:SecurityTokenReference xmlns:wsse="{WSSE}">{{}}</wsse:SecurityTokenReference>'
MY_TOKEN = REFERENCE.format(f'<wsse:Reference URI="#u-x" ValueType="{WSS_X509}X509v3"/>')

at_the_gateway = pytest.mark.asyncio(loop_scope="module")


def identifier_of(kind: str, value: bytes) -> str:
    text = base64.b64encode(value).decode()
    return f'<wsse:KeyIdentifier ValueType="{kind}">{text}</wsse:KeyIdentifier>'


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    """Two with names, and another certificate of the first."""
    made = Signers.make(tmp_path_factory.mktemp("signers"), "mole", "ship")
    renewed = made.authority.issue("mole", file="renewed")
    return Signers(made.authority, {**made.files, "renewed": renewed})


def settings_for(folder: Path, signers: Signers) -> dict[str, object]:
    file = folder / "identities.toml"
    create_identities(file)
    file.write_text(file.read_text() + RULES)
    table = {"signers": signers.authority.certificate, "addresses": [SERVICE]}
    return {"identities": file, "ws_security": table, "wsrm": "offered", "adapter": "embedded:"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(tmp_path_factory: pytest.TempPathFactory, signers: Signers) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("gateway")
    async with running(folder / "data", **settings_for(folder, signers)) as found:
        yield found


@dataclass
class Signing(ReliablePublisher):
    """A publisher whose messages are signed, by one with a name; empty: by nobody."""

    signers: Signers | None = None
    signer: str = "mole"
    change: Callable[[bytes], bytes] = bytes
    """Changes what is signed already."""
    again: bytes = b""
    """The message that was sent last."""

    async def post(self, octets: bytes, path: str = "") -> Answer:
        if self.signer and self.signers is not None:
            key: SigningKey = self.signers.key(self.signer)
            octets = sign_envelope(octets, key, unique="u", now=datetime.now(UTC))
        self.again = self.change(octets)
        return await super().post(self.again, path)

    def asking(self, token: str = MY_TOKEN, *uses: str, message_id: str = "") -> bytes:
        """CreateSequence for a sequence that is bound to *token*, with the headers *uses*."""
        asked = CreateSequence(self.here, token=token.encode() if token else None)
        octets = self.create_message(asked=asked, message_id=message_id)
        blocks = "".join(
            f'<wsrm:{use} xmlns:wsrm="{self.rm.namespace}" xmlns:m="{self.soap.value}" '
            'm:mustUnderstand="1"/>'
            for use in uses
        )
        return octets.replace(b"</s:Header>", blocks.encode() + b"</s:Header>", 1)

    async def bind(self, token: str = MY_TOKEN) -> str:
        uses = ("UsesSequenceSTR",) if self.rm is Rm.V1_1 else ()
        said = await self.exchange(self.asking(token, *uses))
        assert said is not None and isinstance(said.body, CreateSequenceResponse), said
        self.identifier = said.body.identifier
        return self.identifier

    def as_(self, signer: str, change: Callable[[bytes], bytes] = bytes) -> "Signing":
        return replace(self, signer=signer, change=change)


def is_refused_by_security(said: ReliableMessage | None, code: str) -> bool:
    return (
        said is not None
        and isinstance(said.fault, PeerFault)
        and (code in said.fault.reason or code in repr(said.fault))
    )


VERSIONS = [
    pytest.param(Rm.V1_0, Soap.V1_1, id="1.0"),
    pytest.param(Rm.V1_1, Soap.V1_2, id="1.1"),
    pytest.param(Rm.V1_1, Soap.V1_1, id="1.1 in SOAP 1.1"),
]
FIRST_OF_DIGEST = re.compile(rb"(?<=DigestValue>)[^<]")


def another_digest(first: re.Match[bytes]) -> bytes:
    return b"B" if first[0] == b"A" else b"A"


OTHERS = {
    "nobody": ("", bytes, "FailedAuthentication"),
    "another": ("ship", bytes, "FailedAuthentication"),
    "its next certificate": ("renewed", bytes, "FailedAuthentication"),
    "altered": ("mole", lambda octets: FIRST_OF_DIGEST.sub(another_digest, octets, 1), "FailedCheck"),
}  # fmt: skip


@at_the_gateway
@pytest.mark.parametrize(("rm", "soap"), VERSIONS)
async def test_all_that_is_sent_in_it_is_by_its_token(
    run: Running, signers: Signers, rm: Rm, soap: Soap
) -> None:
    publisher = Signing(run, rm, soap, signers=signers)
    await publisher.bind()
    await publisher.send(1)
    assert publisher.acknowledged == upto(1)
    accepted = run.gateway.publishing.accepted
    for who, (signer, change, code) in OTHERS.items():
        thief = publisher.as_(signer, change)
        tries = {
            "event": thief.send(2),
            "last": thief.send(2, last=True),
            "question": thief.ask(),
            "end": thief.terminate(),
        }
        if rm is Rm.V1_1:
            tries["close"] = thief.close(1)
        for what, trial in tries.items():
            answer = await trial
            assert is_refused_by_security(answer, code), (who, what, answer)
            assert answer is not None and not answer.acknowledgements, (who, what)
    assert run.gateway.publishing.accepted == accepted
    await publisher.send(2)
    said = await publisher.ask()
    assert said is not None and publisher.acknowledged == upto(2)
    said = await publisher.terminate(2 if rm is Rm.V1_1 else None)
    if rm is Rm.V1_1:
        assert said is not None and isinstance(said.body, TerminateSequenceResponse)
    assert fault_of(await publisher.as_("mole").send(3)).name in (
        FaultName.UNKNOWN_SEQUENCE,
        FaultName.SEQUENCE_CLOSED,
    )


def by_value(certificate: x509.Certificate) -> str:
    return identifier_of(f"{WSS_X509}X509v3", certificate.public_bytes(Encoding.DER))


def by_thumbprint(certificate: x509.Certificate) -> str:
    return identifier_of(WSS_THUMBPRINT, thumbprint_of(certificate))


def by_serial(certificate: x509.Certificate) -> str:
    return (
        '<ds:X509Data xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:X509IssuerSerial>'
        f"<ds:X509IssuerName>{certificate.issuer.rfc4514_string()}</ds:X509IssuerName>"
        f"<ds:X509SerialNumber>{certificate.serial_number}</ds:X509SerialNumber>"
        "</ds:X509IssuerSerial></ds:X509Data>"
    )


@at_the_gateway
@pytest.mark.parametrize("write", [by_value, by_thumbprint, by_serial])
async def test_ways_to_refer_to_the_token(
    run: Running, signers: Signers, write: Callable[[x509.Certificate], str]
) -> None:
    publisher = Signing(run, signers=signers)
    await publisher.bind(REFERENCE.format(write(signers.key("mole").certificate)))
    assert is_refused_by_security(await publisher.as_("").send(1), "FailedAuthentication")
    await publisher.send(1)
    assert publisher.acknowledged == upto(1)
    other = REFERENCE.format(write(signers.key("ship").certificate))
    refused = fault_of(await publisher.exchange(publisher.asking(other, "UsesSequenceSTR")))
    assert refused.name is FaultName.CREATE_SEQUENCE_REFUSED


STRANGE = '<x:Token xmlns:x="urn:x"/>'
USERNAME = '<wsse:Reference URI="#user" ValueType="urn:UsernameToken"/>'
REFUSED = [
    pytest.param("mole", "", ("UsesSequenceSTR",), id="without a reference"),
    pytest.param("", MY_TOKEN, ("UsesSequenceSTR",), id="unsigned"),
    pytest.param("", MY_TOKEN, (), id="unsigned, without the header"),
    pytest.param("mole", REFERENCE.format(STRANGE), ("UsesSequenceSTR",), id="another token"),
    pytest.param("mole", REFERENCE.format(USERNAME), ("UsesSequenceSTR",), id="a user's token"),
    pytest.param("mole", "", ("UsesSequenceSSL",), id="TLS over plain HTTP"),
    pytest.param("mole", MY_TOKEN, ("UsesSequenceSTR", "UsesSequenceSSL"), id="both, one proved"),
]


@at_the_gateway
@pytest.mark.parametrize(("signer", "token", "uses"), REFUSED)
async def test_what_it_cannot_be_bound_to(
    run: Running, signers: Signers, signer: str, token: str, uses: tuple[str, ...]
) -> None:
    publisher = Signing(run, signers=signers, signer=signer)
    said = await publisher.exchange(publisher.asking(token, *uses))
    refused = fault_of(said)
    assert refused.name is FaultName.CREATE_SEQUENCE_REFUSED
    assert refused.reason.startswith("A sequence is bound to") or "goes with" in refused.reason


@at_the_gateway
async def test_a_request_comes_again(run: Running, signers: Signers) -> None:
    """The octets of CreateSequence again give the same sequence, which its answer was lost of."""
    publisher = Signing(run, signers=signers)
    first = await publisher.bind()
    again = await ReliablePublisher.post(publisher, publisher.again)
    said = publisher.read(again.body)
    assert said is not None and isinstance(said.body, CreateSequenceResponse), again.body
    assert said.body.identifier == first


@at_the_gateway
async def test_its_message_id_makes_none_for_others(run: Running, signers: Signers) -> None:
    """Of one owner, too: the sequence is not told to who does not have its certificate."""
    publisher = Signing(run, signers=signers)
    await publisher.exchange(publisher.asking(message_id="urn:example:once"))
    thief = publisher.as_("renewed")
    said = await thief.exchange(thief.asking(message_id="urn:example:once"))
    assert fault_of(said).name is FaultName.CREATE_SEQUENCE_REFUSED


@at_the_gateway
async def test_a_question_beside_another_message(run: Running, signers: Signers) -> None:
    """AckRequested for a bound sequence, on a message of another one, tells nothing."""
    publisher = Signing(run, signers=signers)
    bound = await publisher.bind()
    thief = Signing(run, signers=signers, signer="")
    await thief.create()
    octets = thief.message(1, "<e/>", asks=True).replace(
        thief.identifier.encode(), bound.encode(), 2
    )
    own = octets.replace(bound.encode(), thief.identifier.encode(), 1)
    said = await thief.exchange(own)
    assert said is not None
    assert all(each.identifier != bound for each in said.acknowledgements)


@at_the_gateway
async def test_a_name_s_sequence_is_not_its_network_s(run: Running, signers: Signers) -> None:
    """All are trusted here, by their network: who has no name uses no named one's sequence."""
    publisher = Signing(run, signers=signers)
    await publisher.create()
    await publisher.send(1)
    for thief in (publisher.as_(""), publisher.as_("ship")):
        for answer in (await thief.send(2), await thief.ask(), await thief.terminate()):
            assert fault_of(answer).name is FaultName.UNKNOWN_SEQUENCE
    await publisher.as_("renewed").send(2)  # Of the same name, and it is bound to nothing.
    assert publisher.acknowledged == upto(1)
    await publisher.send(3)
    assert publisher.acknowledged == upto(3)


@at_the_gateway
async def test_who_has_a_name_may_use_what_its_network_made(run: Running, signers: Signers) -> None:
    publisher = Signing(run, signers=signers, signer="")
    await publisher.create()
    await publisher.send(1)
    await publisher.as_("mole").send(2)
    await publisher.send(3)
    assert publisher.acknowledged == upto(3)


@at_the_gateway
async def test_operators_end_it(run: Running, signers: Signers) -> None:
    publisher = Signing(run, signers=signers)
    identifier = await publisher.bind()
    sequences = run.gateway.sequences
    assert sequences is not None
    [state] = [one for one in await sequences.listed() if one.sequence.identifier == identifier]
    await sequences.terminate(state)
    assert fault_of(await publisher.send(1)).name is FaultName.SEQUENCE_CLOSED


@dataclass
class Secured(Signing):
    """A publisher over TLS, with the certificate of a client, or without."""

    authority: Authority | None = None
    signer: str = ""
    certificate: str = "mole"

    async def post(self, octets: bytes, path: str = "") -> Answer:
        assert self.authority is not None and self.signers is not None
        files = self.signers.files.get(self.certificate, (None, None))
        tls = client_context(ca=self.authority.certificate, certificate=files[0], key=files[1])
        port = self.run.port
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls, server_hostname="gateway.example"
        )
        try:
            headers = {"content_type": f"{self.soap.media_type}; charset=utf-8"}
            writer.write(http_request(port, "POST", "/soap", octets, headers))
            first, fields, body = await asyncio.wait_for(read_http(reader), 30)
        finally:
            writer.close()
        return Answer(int(first.split(" ")[1]), fields, body)


async def test_a_sequence_of_a_tls_client(tmp_path: Path, signers: Signers) -> None:
    """Each message comes on a connection of its own: the certificate is what they share."""
    certificate, key = signers.authority.issue("gateway.example")
    settings = {
        **settings_for(tmp_path, signers),
        "tls_certificate": certificate,
        "tls_key": key,
        "tls_client_ca": signers.authority.certificate,
    }
    async with running(tmp_path / "data", **settings) as run:
        publisher = Secured(run, signers=signers, authority=signers.authority)
        said = await publisher.exchange(publisher.asking("", "UsesSequenceSSL"))
        assert said is not None and isinstance(said.body, CreateSequenceResponse), said
        publisher.identifier = said.body.identifier
        await publisher.send(1)
        for name in ("renewed", "ship"):
            thief = replace(publisher, certificate=name)
            for answer in (await thief.send(2), await thief.ask(), await thief.close(1)):
                assert is_refused_by_security(answer, "FailedAuthentication"), (name, answer)
        await publisher.send(2)
        assert publisher.acknowledged == upto(2)


def alternatives(wsdl: bytes) -> list[list[str]]:
    """The local names in each alternative of the policy of sequences."""
    root = etree.fromstring(wsdl)
    [policy] = [one for one in root.iter("{*}Policy") if one.get(f"{{{WSU}}}Id") == "Sequences"]
    found = []
    for one in policy.iterfind("{*}ExactlyOne/{*}All"):
        names = [etree.QName(each).localname for each in one.iter() if each is not one]
        found.append([name for name in names if name not in ("Policy", "MCSupported")])
    return found


ASSURED = ["DeliveryAssurance", "ExactlyOnce", "InOrder"]
OVER_TLS = [
    "TransportBinding", "TransportToken", "HttpsToken", "RequireClientCertificate",
    "AlgorithmSuite", "Basic256Sha256",
]  # fmt: skip
OF_1_1 = {
    "signature": [["RMAssertion", "SequenceSTR", *ASSURED]],
    "tls": [["RMAssertion", "SequenceTransportSecurity", *ASSURED, *OVER_TLS]],
    "optional": [["RMAssertion", *ASSURED], ["RMAssertion"]],
}


@pytest.mark.parametrize("wsrm", ["offered", "required"])
@pytest.mark.parametrize("needs", OF_1_1)
async def test_what_a_sequence_must_be_bound_to(
    tmp_path: Path, signers: Signers, needs: str, wsrm: str
) -> None:
    settings = {**settings_for(tmp_path, signers), "wsrm_binding": needs, "wsrm": wsrm}
    if needs == "tls":
        proxies = {"trusted_proxies": ("10.0.0.1",), "client_certificate_header": "x-cert"}
        settings = {**settings, **proxies}
    async with running(tmp_path / "data", **settings) as run:
        for rm in Rm:
            publisher = Signing(run, rm, signers=signers)
            said = await publisher.exchange(publisher.asking(""))
            if needs == "optional":
                assert said is not None and isinstance(said.body, CreateSequenceResponse), said
            else:
                refused = fault_of(said)
                assert refused.name is FaultName.CREATE_SEQUENCE_REFUSED
                assert refused.reason.startswith("Sequences must be bound here")
            if needs == "signature":
                await publisher.bind()
                await publisher.send(1)
                assert publisher.acknowledged == upto(1)
        wsdl = (await run.request("GET", "/soap?wsdl")).body
        apart: list[list[str]] = [[]] if needs == "tls" and wsrm == "offered" else []
        assert alternatives(wsdl) == [*OF_1_1[needs], *apart]
        optional = wsrm == "offered" and needs != "tls"
        for one in etree.fromstring(wsdl).iter("{*}RMAssertion"):
            assert (one.get(f"{{{POLICY_1_5}}}Optional") == "true") is optional


@pytest.mark.parametrize(("binding", "needs"), [("signature", "signers"), ("tls", "tls_client_ca")])
def test_a_binding_that_nobody_can_prove_is_refused(binding: str, needs: str) -> None:
    with pytest.raises(ValueError, match=f"wsrm_binding: {binding} needs {needs}"):
        Settings.model_validate({"wsrm_binding": binding})


@pytest.mark.nightly
async def test_it_stays_bound_after_a_kill(tmp_path: Path, signers: Signers) -> None:
    settings = settings_for(tmp_path, signers)
    environment = {
        "DRAGOMAN_WSRM": "offered",
        "DRAGOMAN_IDENTITIES": str(settings["identities"]),
        "DRAGOMAN_WS_SECURITY": json.dumps(
            {"signers": str(signers.authority.certificate), "addresses": [SERVICE]}
        ),
    }
    async with gateway_process(tmp_path / "data", environment) as process:
        publisher = Signing(process, signers=signers)  # type: ignore[arg-type]  # It has `request`.
        await publisher.bind()
        await publisher.send(1)
        await process.kill()
        await process.start()
        refused = await publisher.as_("renewed").send(2)
        assert is_refused_by_security(refused, "FailedAuthentication")
        await publisher.send(2)
        assert publisher.acknowledged == upto(2)
