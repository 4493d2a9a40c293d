"""Signed messages: whose they are, and what is no signature of a message."""

import base64
import copy
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from lxml import etree

from filters import Reason, Refused
from mediation import names
from mediation.discovery.signatures import chain_to_anchor, chains_to, read_anchors
from mediation.ws_security import read_trust, signing, verify_message
from mediation.ws_security.signatures import _prefixes_in
from mediation.ws_security.signing import read_signing_key, sign_envelope
from tests.rigs.certificates import Authority
from tests.rigs.envelopes import S12, WSA10
from tests.rigs.pace import growth
from tests.rigs.signers import Signers, envelope, part

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    return Signers.make(tmp_path_factory.mktemp("signers"), "mole", "ship")


def test_a_signed_message_says_whose_it_is(signers: Signers) -> None:
    octets = signers.signed("mole", envelope(headers="<wsa:To>http://h/soap</wsa:To>"))
    message = verify_message(octets, signers.trust, now=datetime.now(UTC))
    assert message is not None
    assert message.certificate == signers.trust.check(
        (message.certificate,), datetime.now(UTC)
    ).public_bytes(Encoding.DER)
    assert message.to == "http://h/soap"
    again = verify_message(octets, signers.trust, now=datetime.now(UTC))
    assert again is not None and again.fingerprint == message.fingerprint


def test_an_envelope_without_a_header_is_signed(signers: Signers) -> None:
    plain = f'<s:Envelope xmlns:s="{S12.value}"><s:Body><e/></s:Body></s:Envelope>'.encode()
    assert verify_message(plain, signers.trust, now=datetime.now(UTC)) is None
    assert (
        verify_message(signers.signed("mole", plain), signers.trust, now=datetime.now(UTC))
        is not None
    )


Change = Callable[[etree._Element], None]


def _body_elsewhere(root: etree._Element) -> None:
    """The signed Body in a block that nobody reads, and another Body."""
    body = part(root, "Body")
    other = copy.deepcopy(body)
    other.attrib.clear()
    other[0].text = "2"
    root.replace(body, other)
    etree.SubElement(part(root, "Header"), "{urn:x}Wrapper").append(body)


def _body_in_security(root: etree._Element) -> None:
    body = part(root, "Body")
    other = copy.deepcopy(body)
    other.attrib.clear()
    root.replace(body, other)
    part(root, "Security").append(body)


def _same_id_twice(root: etree._Element) -> None:
    body = part(root, "Body")
    etree.SubElement(part(root, "Security"), "{urn:x}Copy").append(copy.deepcopy(body))


def _same_id_by_another_name(root: etree._Element) -> None:
    id = part(root, "Body").get(f"{{{names.WSU}}}Id", "")
    part(root, "e").set("ID", id)


def _action_elsewhere(root: etree._Element) -> None:
    """The signed Action below another block, and another Action."""
    action = part(root, "Action")
    other = copy.deepcopy(action)
    other.attrib.clear()
    other.text = "urn:other"
    part(root, "Header").replace(action, other)
    etree.SubElement(part(root, "Header"), "{urn:x}Wrapper").append(action)


def _timestamp_elsewhere(root: etree._Element) -> None:
    stamp = part(root, "Timestamp")
    other = copy.deepcopy(stamp)
    other.attrib.clear()
    part(root, "Security").replace(stamp, other)
    part(root, "Header").append(stamp)


def _further_block(root: etree._Element) -> None:
    block = etree.SubElement(part(root, "Header"), f"{{{WSA10}}}ReplyTo")
    etree.SubElement(block, f"{{{WSA10}}}Address").text = "http://evil/"


def _set(name: str, attribute: str, value: str) -> Change:
    return lambda root: next(
        one for one in root.iter(etree.Element) if etree.QName(one).localname == name
    ).set(attribute, value)


def _text(name: str, text: str) -> Change:
    def change(root: etree._Element) -> None:
        next(
            one for one in root.iter(etree.Element) if etree.QName(one).localname == name
        ).text = text

    return change


def _child(name: str, tag: str, **attributes: str) -> Change:
    def change(root: etree._Element) -> None:
        found = next(one for one in root.iter(etree.Element) if etree.QName(one).localname == name)
        etree.SubElement(found, tag, attributes)

    return change


def _twice(name: str) -> Change:
    def change(root: etree._Element) -> None:
        found = part(root, name)
        found.addnext(copy.deepcopy(found))

    return change


def _many_references(root: etree._Element) -> None:
    first = next(root.iter(f"{{{names.DSIG}}}Reference"))
    for _ in range(30):
        first.addnext(copy.deepcopy(first))


D = f"{{{names.DSIG}}}"
XSLT, XPATH = (
    "http://www.w3.org/TR/1999/REC-xslt-19991116",
    "http://www.w3.org/TR/1999/REC-xpath-19991116",
)
INCLUSIVE = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
WRONG: dict[str, tuple[Change, Reason]] = {
    "another body": (_text("e", "2"), Reason.SIGNATURE_REFUSED),
    "another action": (_text("Action", "urn:other"), Reason.SIGNATURE_REFUSED),
    "another time": (_text("Created", "2026-01-01T00:00:00Z"), Reason.SIGNATURE_REFUSED),
    "the body elsewhere": (_body_elsewhere, Reason.SIGNATURE_REFUSED),
    "the body in Security": (_body_in_security, Reason.SIGNATURE_REFUSED),
    "an id twice": (_same_id_twice, Reason.TOKEN_INVALID),
    "an id by another name": (_same_id_by_another_name, Reason.TOKEN_INVALID),
    "the action elsewhere": (_action_elsewhere, Reason.SIGNATURE_REFUSED),
    "the time elsewhere": (_timestamp_elsewhere, Reason.SIGNATURE_REFUSED),
    "an unsigned block": (_further_block, Reason.SIGNATURE_REFUSED),
    "two signatures": (_twice("Signature"), Reason.TOKEN_INVALID),
    "two Security headers": (_twice("Security"), Reason.TOKEN_INVALID),
    "two SignedInfo": (_twice("SignedInfo"), Reason.TOKEN_INVALID),
    "two times": (_twice("Timestamp"), Reason.TOKEN_INVALID),
    "two tokens": (_twice("BinarySecurityToken"), Reason.TOKEN_INVALID),
    "no value": (_text("SignatureValue", ""), Reason.SIGNATURE_REFUSED),
    "no Base64": (_text("SignatureValue", "!"), Reason.TOKEN_INVALID),
    "another value": (_text("SignatureValue", "AAAA"), Reason.SIGNATURE_REFUSED),
    "no certificate": (_text("BinarySecurityToken", "AAAA"), Reason.CERTIFICATE_REFUSED),
    "HMAC": (
        _set("SignatureMethod", "Algorithm", f"{names.DSIG}hmac-sha1"),
        Reason.ALGORITHM_UNSUPPORTED,
    ),
    "SHA-1": (
        _set("SignatureMethod", "Algorithm", f"{names.DSIG}rsa-sha1"),
        Reason.ALGORITHM_UNSUPPORTED,
    ),
    "RSA, of a key that is none": (
        _set("SignatureMethod", "Algorithm", names.DSIG_RSA_SHA256),
        Reason.SIGNATURE_REFUSED,
    ),
    "a length of HMAC": (_child("SignatureMethod", f"{D}HMACOutputLength"), Reason.TOKEN_INVALID),
    "another digest": (
        _set("DigestMethod", "Algorithm", f"{names.DSIG}sha1"),
        Reason.SIGNATURE_REFUSED,
    ),
    "inclusive": (
        _set("CanonicalizationMethod", "Algorithm", INCLUSIVE),
        Reason.ALGORITHM_UNSUPPORTED,
    ),
    "XSLT": (_set("Transform", "Algorithm", XSLT), Reason.ALGORITHM_UNSUPPORTED),
    "XPath": (_child("Transforms", f"{D}Transform", Algorithm=XPATH), Reason.ALGORITHM_UNSUPPORTED),
    "many prefixes": (
        lambda root: _child(
            "Transform",
            f"{{{names.EXCLUSIVE_C14N}}}InclusiveNamespaces",
            PrefixList=" ".join(f"p{n}" for n in range(17)),
        )(root),
        Reason.ALGORITHM_UNSUPPORTED,
    ),
    "a file": (_set("Reference", "URI", "file:///etc/passwd"), Reason.TOKEN_INVALID),
    "an address": (_set("Reference", "URI", "http://evil/"), Reason.TOKEN_INVALID),
    "all": (_set("Reference", "URI", ""), Reason.TOKEN_INVALID),
    "a pointer": (_set("Reference", "URI", "#xpointer(/)"), Reason.TOKEN_INVALID),
    "nothing": (_set("Reference", "URI", "#none"), Reason.SIGNATURE_REFUSED),
    "many references": (_many_references, Reason.TOKEN_INVALID),
    "an object": (_child("Signature", f"{D}Object"), Reason.TOKEN_INVALID),
    "a manifest": (_child("SignedInfo", f"{D}Manifest"), Reason.TOKEN_INVALID),
    "a key's value": (
        lambda root: etree.SubElement(
            part(root, "KeyInfo"), f"{D}KeyValue"
        ).getparent().remove(part(root, "SecurityTokenReference")),  # type: ignore[union-attr]
        Reason.TOKEN_UNSUPPORTED,
    ),
    "two keys": (_child("KeyInfo", f"{D}RetrievalMethod"), Reason.TOKEN_INVALID),
    "a token elsewhere": (
        lambda root: part(root, "Header").append(part(root, "BinarySecurityToken")),
        Reason.TOKEN_INVALID,
    ),
    "a token of Kerberos": (
        _set("BinarySecurityToken", "ValueType", "urn:kerberos"),
        Reason.TOKEN_UNSUPPORTED,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "reason"), WRONG.values(), ids=WRONG.keys())
def test_what_is_refused(signers: Signers, change: Change, reason: Reason) -> None:
    root = etree.fromstring(signers.signed("mole", envelope()))
    change(root)
    with pytest.raises(Refused) as refused:
        verify_message(etree.tostring(root), signers.trust, now=datetime.now(UTC))
    assert refused.value.reason is reason, refused.value


def test_every_octet_of_the_signed_parts_counts(signers: Signers) -> None:
    """A message of which one letter is another is refused, or means the same."""
    octets = signers.signed("mole", envelope())
    good = verify_message(octets, signers.trust, now=datetime.now(UTC))
    accepted = 0
    for at in range(0, len(octets), 7):
        changed = octets[:at] + (b"B" if octets[at : at + 1] != b"B" else b"C") + octets[at + 1 :]
        try:
            found = verify_message(changed, signers.trust, now=datetime.now(UTC))
        except Refused:
            continue
        accepted += found is not None
        if found is not None:
            assert good is not None and found.fingerprint == good.fingerprint
            kept = [part(etree.fromstring(one), "e") for one in (octets, changed)]
            assert etree.tostring(kept[0]) == etree.tostring(kept[1])
    assert accepted <= 40  # Prefixes of what is not canonicalised, and names of namespaces.


def test_prefixes_of_our_own_operations(signers: Signers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic by which an operator selects subscriptions is one that was signed."""
    monkeypatch.setattr(signing, "_prefixes_in", lambda _: [])
    body = (
        f'<m:EndSubscriptions xmlns:m="{names.DRAGOMAN_MANAGEMENT}" xmlns:w="urn:w"><m:Selection>'
        "<m:Topic>w:storm</m:Topic></m:Selection></m:EndSubscriptions>"
    )
    octets = signers.signed("mole", envelope(body))
    with pytest.raises(Refused, match="the prefix w, which Topic uses, is not signed"):
        verify_message(octets, signers.trust, now=datetime.now(UTC))


@pytest.mark.parametrize(
    "text",
    [
        "<!-- nothing -->w:storm",
        "w<!-- nothing -->:storm",
        "child::w:storm",
        "self::w:*",
        "2 -w:storm",
        "(w:storm)|w:calm",
    ],
)
def test_a_prefix_is_found_wherever_it_is_read(
    signers: Signers, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Comments, which are not signed, hide none; nor do axes and operators of XPath."""
    monkeypatch.setattr(signing, "_prefixes_in", lambda _: [])
    body = (
        f'<n:Subscribe xmlns:n="{names.WSN_1_3}" xmlns:w="urn:w"><n:Filter><n:MessageContent>'
        f"{text}</n:MessageContent></n:Filter></n:Subscribe>"
    )
    octets = signers.signed("mole", envelope(body))
    with pytest.raises(Refused, match="the prefix w, which MessageContent uses, is not signed"):
        verify_message(octets, signers.trust, now=datetime.now(UTC))


@pytest.mark.parametrize("word", ["a", "é", "a.", "a:/", "-9"])
def test_prefixes_are_looked_for_in_linear_time(word: str) -> None:
    """In text with a colon, and words without one behind them."""
    assert growth(lambda size: list(_prefixes_in(f": {word * size}", {"p": "u"})), 4_000) < 3


def test_prefixes_of_content_are_signed(signers: Signers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who binds the prefix of a topic to another namespace is found out, also where the signer has
    not named it: then it has to be one that the canonical form has."""
    topic = (
        f'<n:Notify xmlns:n="{names.WSN_1_3}" xmlns:w="urn:w"><n:NotificationMessage>'
        "<n:Topic>w:storm</n:Topic></n:NotificationMessage></n:Notify>"
    )
    octets = signers.signed("mole", envelope(topic))
    assert verify_message(octets, signers.trust, now=datetime.now(UTC)) is not None
    with pytest.raises(Refused, match="Body is not what was signed"):
        verify_message(octets.replace(b'"urn:w"', b'"urn:x"'), signers.trust, now=datetime.now(UTC))
    monkeypatch.setattr(signing, "_prefixes_in", lambda _: [])
    with pytest.raises(Refused, match="the prefix w, which Topic uses, is not signed"):
        verify_message(
            signers.signed("mole", envelope(topic)), signers.trust, now=datetime.now(UTC)
        )
    written = envelope(topic.replace("<n:Topic>", '<n:Topic w:a="">'))
    assert (
        verify_message(signers.signed("mole", written), signers.trust, now=datetime.now(UTC))
        is not None
    )


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (NOW - timedelta(seconds=62), "ahead"),
        (NOW + timedelta(seconds=302), "ago"),
    ],
)
def test_the_age_of_a_message(signers: Signers, now: datetime, text: str) -> None:
    octets = signers.signed("mole", envelope(), now=NOW)
    with pytest.raises(Refused, match=text) as refused:
        verify_message(octets, signers.trust, now=now)
    assert refused.value.reason is Reason.MESSAGE_EXPIRED


def test_certificates_that_do_not_count(signers: Signers, tmp_path: Path) -> None:
    others = Signers.make(tmp_path, "mole")
    late = signers.authority.issue("late", days=-1)
    for octets in (
        others.signed("mole", envelope()),
        Signers(signers.authority, {"late": late}).signed("late", envelope()),
    ):
        with pytest.raises(Refused, match="nobody who is trusted") as refused:
            verify_message(octets, signers.trust, now=datetime.now(UTC))
        assert refused.value.reason is Reason.SIGNATURE_REFUSED


def test_a_certificate_that_is_trusted_by_itself(signers: Signers) -> None:
    """It is found by its number, its thumbprint or its key's identifier; nobody else is."""
    alone = read_trust(signers.files["mole"][0].read_bytes())
    assert (
        verify_message(signers.signed("mole", envelope()), alone, now=datetime.now(UTC)) is not None
    )
    with pytest.raises(Refused):
        verify_message(signers.signed("ship", envelope()), alone, now=datetime.now(UTC))
    certificate = signers.key("mole").certificate
    serial = (
        f'<ds:X509Data xmlns:ds="{names.DSIG}"><ds:X509IssuerSerial><ds:X509IssuerName>'
        f"{certificate.issuer.rfc4514_string()}</ds:X509IssuerName><ds:X509SerialNumber>"
        f"{certificate.serial_number}</ds:X509SerialNumber></ds:X509IssuerSerial></ds:X509Data>"
    )
    thumbprint = base64.b64encode(certificate.fingerprint(SHA1())).decode()
    identifier = (
        f'<w:KeyIdentifier xmlns:w="{names.WSSE}" ValueType="{names.WSS_THUMBPRINT}">{thumbprint}'
        "</w:KeyIdentifier>"
    )
    for named in (serial, identifier):
        octets = re.sub(
            rb"<wsse:Reference [^>]*/>",
            named.encode(),
            signers.signed("mole", envelope()),
        )
        assert verify_message(octets, alone, now=datetime.now(UTC)) is not None
        with pytest.raises(Refused) as refused:
            verify_message(octets, signers.trust, now=datetime.now(UTC))
        assert refused.value.reason is Reason.TOKEN_UNAVAILABLE


def test_authorities_of_one_name_are_not_tried_in_all_ways(signers: Signers) -> None:
    """Three of them that issue each other are 39 signatures to verify."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    chain = []
    for _ in range(4):
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(NOW - timedelta(1)).not_valid_after(NOW + timedelta(1))
        chain.append(builder.sign(key, SHA256()))
    with pytest.raises(Refused, match="two of its authorities have one name"):
        signers.trust.check(tuple(one.public_bytes(Encoding.DER) for one in chain), NOW)
    anchors = read_anchors(signers.authority.certificate.read_bytes())
    with pytest.raises(Refused, match="authorities have one name"):
        chain_to_anchor(chain[0], chain[1:], anchors, chains_to(anchors), now=NOW)


def test_a_revoked_certificate(tmp_path: Path) -> None:
    folder = str(tmp_path)
    _openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key",
             "-out", "ca.pem", "-subj", "/CN=ca")  # fmt: skip
    (tmp_path / "db").touch()
    (tmp_path / "ca.cnf").write_text(
        "[ca]\ndefault_ca=d\n[d]\ndatabase=db\nserial=serial\nnew_certs_dir=.\npolicy=p\n"
        "default_md=sha256\ndefault_days=9\ndefault_crl_days=9\nrand_serial=yes\n"
        "certificate=ca.pem\nprivate_key=ca.key\nx509_extensions=e\n[p]\ncommonName=supplied\n"
        "[e]\nbasicConstraints=CA:false\n"
    )
    _openssl(folder, "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "m.key",
             "-out", "m.csr", "-subj", "/CN=mole")  # fmt: skip
    _openssl(folder, "ca", "-batch", "-config", "ca.cnf", "-in", "m.csr", "-out", "m.pem",
             "-notext")  # fmt: skip
    signer = read_signing_key((tmp_path / "m.key").read_bytes(), (tmp_path / "m.pem").read_bytes())
    octets = sign_envelope(envelope(), signer, unique="u", now=datetime.now(UTC))
    before = read_trust((tmp_path / "ca.pem").read_bytes())
    assert verify_message(octets, before, now=datetime.now(UTC)) is not None
    _openssl(folder, "ca", "-config", "ca.cnf", "-revoke", "m.pem")
    _openssl(folder, "ca", "-config", "ca.cnf", "-gencrl", "-out", "ca.crl")
    revoked = (tmp_path / "ca.pem").read_bytes() + (tmp_path / "ca.crl").read_bytes()
    for trusted in (revoked, revoked + (tmp_path / "m.pem").read_bytes()):  # Also if it is named.
        with pytest.raises(Refused, match="revoked"):
            verify_message(octets, read_trust(trusted), now=datetime.now(UTC))
    foreign = Authority(tmp_path).certificate.read_bytes() + (tmp_path / "ca.crl").read_bytes()
    with pytest.raises(ValueError, match="by none of its authorities"):
        read_trust(foreign)


def _openssl(folder: str, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def test_what_signs_nothing(signers: Signers, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="PEM"):
        read_trust(b"")
    mole, ship = signers.files["mole"], signers.files["ship"]
    with pytest.raises(ValueError, match="not that of the certificate"):
        read_signing_key(mole[1].read_bytes(), ship[0].read_bytes())
    locked = signers.authority.issue("locked", password="secret")
    with pytest.raises(ValueError, match="without a password"):
        read_signing_key(locked[1].read_bytes(), locked[0].read_bytes())
    for octets in (b"<no/>", b"no", b"--boundary"):
        with pytest.raises(ValueError, match="envelope"):
            signers.signed("mole", octets)
