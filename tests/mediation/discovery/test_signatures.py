"""Signatures: whose they are, what they cover, what is none; beside signxml and xmlsec1."""

import base64
import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from lxml import etree
from signxml.algorithms import DigestAlgorithm, SignatureMethod
from signxml.exceptions import SignXMLException
from signxml.signer import XMLSigner
from signxml.verifier import SignatureConfiguration, XMLVerifier

from filters import Refused
from mediation.discovery import (
    MAX_MESSAGE,
    Anchors,
    Credentials,
    Crowded,
    Descriptors,
    Role,
    Signable,
    SignatureRefused,
    SignedTopicAdvertisement,
    Signer,
    TopicAdvertisement,
    TopicCreationResponse,
    TopicDiscoveryResponse,
    TopicWithdrawal,
    Trust,
    Verifier,
    authority_of,
    fingerprint_of,
    read,
    read_advertisement,
    read_anchors,
    read_as,
    read_authorities,
    read_credentials,
    write,
)
from mediation.discovery.signing import sign
from tests.rigs import discovery
from tests.rigs.discovery import NOW, TOPIC_ID
from tests.rigs.discovery_keys import BEGINS, ENDS, Parties, ec_key, parties, root, rsa_key

DSIG = "http://www.w3.org/2000/09/xmldsig#"
EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#"
XMLSEC = shutil.which("xmlsec1")
wants_xmlsec = pytest.mark.skipif(XMLSEC is None, reason="xmlsec1 is not installed")


@pytest.fixture(scope="module")
def people() -> Parties:
    return parties()


def withdrawal(people: Parties) -> TopicWithdrawal:
    return TopicWithdrawal(discovery.head(people.producer_id), TOPIC_ID)


def advertisement(people: Parties) -> TopicAdvertisement:
    creator = replace(discovery.CREATOR, entity_id=people.producer_id)
    return replace(discovery.ADVERTISEMENT, node=people.node_id, creator=creator)


def published(people: Parties) -> bytes:
    inside = sign(advertisement(people), people.node)
    return sign(SignedTopicAdvertisement(NOW, TOPIC_ID, inside), people.producer)


def verify(people: Parties, octets: bytes, role: Role = Role.ENTITY) -> Signer:
    return people.verifier().verify(read(octets), role, now=NOW)


def test_who_signed_is_told(people: Parties) -> None:
    value = withdrawal(people)
    octets = sign(value, people.producer)
    received = read(octets)
    assert received.value == value
    assert received.signed == write(value)
    signer = people.verifier().verify(received, Role.ENTITY, now=NOW)
    by = frozenset({authority_of(people.entity_authority.certificate)})
    assert signer == Signer(people.producer_id, Role.ENTITY, people.producer.certificate, by)


def test_a_key_on_an_elliptic_curve_signs(people: Parties) -> None:
    octets = sign(withdrawal(people), people.elliptic)
    assert verify(people, octets).identifier == people.elliptic.identifier(Role.ENTITY)


@pytest.mark.parametrize(
    "value",
    [value for value in discovery.ELEMENTS if not hasattr(value, "possession")],
    ids=lambda value: type(value).__name__,
)
def test_everything_is_signed(people: Parties, value: Signable) -> None:
    octets = sign(value, people.producer)
    assert read(octets).value == value
    assert verify(people, octets).identifier == people.producer_id


def test_both_signatures_of_an_advertisement_count(people: Parties) -> None:
    verifier = people.verifier()
    outer = read_as(SignedTopicAdvertisement, published(people))
    inner = read_advertisement(outer.value.advertisement)
    assert verifier.verify(outer, Role.ENTITY, now=NOW).identifier == people.producer_id
    assert verifier.verify(inner, Role.NODE, now=NOW).identifier == people.node_id
    assert inner.value == advertisement(people)


def test_it_counts_wherever_it_is_carried(people: Parties) -> None:
    """In a creation response, in the creator's signature, in an answer to a query: the same."""
    inside = sign(advertisement(people), people.node)
    made = sign(TopicCreationResponse(discovery.head(people.node_id), inside), people.node)
    carried = read_as(TopicCreationResponse, made).value.advertisement
    assert verify(people, carried, Role.NODE).identifier == people.node_id
    signed = sign(SignedTopicAdvertisement(NOW, TOPIC_ID, carried), people.producer)
    found = sign(TopicDiscoveryResponse(discovery.head(people.node_id), (signed,)), people.node)
    [again] = read_as(TopicDiscoveryResponse, found).value.advertisements
    assert verify(people, again).identifier == people.producer_id
    last = read_as(SignedTopicAdvertisement, again).value.advertisement
    assert verify(people, last, Role.NODE).identifier == people.node_id


def test_a_message_without_a_signature_is_refused(people: Parties) -> None:
    with pytest.raises(SignatureRefused):
        verify(people, write(withdrawal(people)))


# Section "Signatures", of what can be done to a message.


def test_a_wrapped_message_is_refused(people: Parties) -> None:
    """The signed element stands below a forged root, whose child the signature is: signxml says
    yes to it, of another element than the root."""
    forged = etree.fromstring(write(replace(withdrawal(people), topic_id=discovery.MESSAGE_ID)))
    forged.set("ID", "m-forged")
    real = etree.fromstring(sign(withdrawal(people), people.producer))
    signature = real[-1]
    real.remove(signature)
    forged.append(real)
    forged.append(signature)
    octets = etree.tostring(forged)
    with pytest.raises(Refused):
        verify(people, octets)
    # Nor where the schema has room for the signed element.
    creation = TopicCreationResponse(discovery.head(), write(advertisement(people)))
    carrier = etree.fromstring(write(creation))
    inside = etree.fromstring(sign(advertisement(people), people.node))
    signature = inside[-1]
    inside.remove(signature)
    carrier[1] = inside
    carrier.append(signature)
    with pytest.raises(SignatureRefused, match="another element"):
        verify(people, etree.tostring(carrier), Role.NODE)


def test_a_wrapped_message_is_what_signxml_lets_pass(people: Parties, tmp_path: Path) -> None:
    carrier = etree.fromstring(
        write(TopicCreationResponse(discovery.head(), write(advertisement(people))))
    )
    inside = etree.fromstring(sign(advertisement(people), people.node))
    signature = inside[-1]
    inside.remove(signature)
    carrier[1] = inside
    carrier.append(signature)
    octets = etree.tostring(carrier)
    passed = signxml_element(people, octets, Role.NODE, tmp_path)
    assert passed is not None
    assert passed.tag != etree.fromstring(octets).tag


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"xmldsig-more#rsa-sha256", b"xmldsig-more#hmac-sha256"),
        (b"2001/04/xmldsig-more#rsa-sha256", b"2000/09/xmldsig#rsa-sha1"),
        (b"2001/04/xmldsig-more#rsa-sha256", b"2007/05/xmldsig-more#sha256-rsa-MGF1"),
        (b"2001/04/xmlenc#sha256", b"2000/09/xmldsig#sha1"),
        (b"2001/10/xml-exc-c14n#", b"2001/10/xml-exc-c14n#WithComments"),
        (b'<ds:CanonicalizationMethod Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#">',
         b'<ds:CanonicalizationMethod Algorithm="http://www.w3.org/2006/12/xml-c14n11">'),
        (b"xmldsig#enveloped-signature", b"xmldsig#base64"),
        (b"</ds:Transforms>",
         b'<ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116"></ds:Transform></ds:Transforms>'),
        (b'URI="#', b'URI="'),
        (b'URI="#', b'URI="x'),
        (re.compile(b' URI="[^"]*"'), b""),
        (re.compile(b' URI="[^"]*"'), b' URI=""'),
        (re.compile(b' URI="[^"]*"'), b' URI="#xpointer(/)"'),
        (re.compile(b' URI="[^"]*"'), b' URI="http://harbour.example.net/"'),
        (re.compile(b"<ds:Reference.*</ds:Reference>", re.S), rb"\g<0>\g<0>"),
        (re.compile(b"<ds:Reference.*</ds:Reference>", re.S), b""),
        (re.compile(b"<ds:KeyInfo>.*</ds:KeyInfo>", re.S), b""),
        (re.compile(b"<ds:KeyInfo>.*</ds:KeyInfo>", re.S), b"<ds:KeyInfo><ds:KeyName>me</ds:KeyName></ds:KeyInfo>"),
        (b"<ds:X509Data>", b"<ds:KeyName>me</ds:KeyName><ds:X509Data>"),
        (b"<ds:X509Data>", b"<ds:X509Data><ds:X509SubjectName>CN=me</ds:X509SubjectName>"),
        (b"</ds:Signature>", b"<ds:Object></ds:Object></ds:Signature>"),
        (b"<ds:SignatureValue>", b"<ds:SignatureValue>!"),
        (b"<ds:SignatureValue>", b"<ds:SignatureValue>AAAA"),
        (re.compile(b"<ds:SignatureValue>.*</ds:SignatureValue>", re.S), b"<ds:SignatureValue></ds:SignatureValue>"),
        (b"<ds:X509Certificate>", b"<ds:X509Certificate>AAAA"),
        (b"<ds:DigestValue>", b"<ds:DigestValue>AAAA"),
        (re.compile(b"(<ds:X509Certificate>.*</ds:X509Certificate>)", re.S), rb"\1" * 9),
    ],
)  # fmt: skip
def test_another_shape_of_signature_is_refused(
    people: Parties, before: bytes | re.Pattern[bytes], after: bytes
) -> None:
    octets = sign(withdrawal(people), people.producer)
    plain = before if isinstance(before, re.Pattern) else re.compile(re.escape(before))
    with_it = re.sub(plain, after, octets, count=1)
    assert with_it != octets
    with pytest.raises(SignatureRefused):
        verify(people, with_it)


@pytest.mark.parametrize(
    ("method", "digest", "canonical"),
    [
        (SignatureMethod.RSA_SHA512, DigestAlgorithm.SHA256, EXCLUSIVE),
        (SignatureMethod.SHA256_RSA_MGF1, DigestAlgorithm.SHA256, EXCLUSIVE),
        (SignatureMethod.RSA_SHA256, DigestAlgorithm.SHA512, EXCLUSIVE),
        (SignatureMethod.RSA_SHA256, DigestAlgorithm.SHA256, EXCLUSIVE + "WithComments"),
        (SignatureMethod.RSA_SHA256, DigestAlgorithm.SHA256, "http://www.w3.org/2006/12/xml-c14n11"),
    ],
)  # fmt: skip
def test_a_right_signature_of_another_kind_is_refused(
    people: Parties, method: SignatureMethod, digest: DigestAlgorithm, canonical: str
) -> None:
    value = withdrawal(people)
    signer = XMLSigner(
        signature_algorithm=method, digest_algorithm=digest, c14n_algorithm=canonical
    )
    signed = signer.sign(
        etree.fromstring(write(value)),
        key=people.producer.key,
        cert=list(people.producer.certificates),
        reference_uri=f"m-{value.head.message_id}",
    )
    with pytest.raises(SignatureRefused, match="shape"):
        verify(people, etree.tostring(signed))


def test_a_weak_key_is_refused_whoever_lists_it(people: Parties) -> None:
    weak = rsa.generate_private_key(65537, 1024)
    certificate = people.entity_authority.issue("weak", weak)
    value = withdrawal(people)
    signer = XMLSigner(c14n_algorithm=EXCLUSIVE)
    octets = etree.tostring(
        signer.sign(
            etree.fromstring(write(value)),
            key=weak,
            cert=[certificate],
            reference_uri=f"m-{value.head.message_id}",
        )
    )
    with pytest.raises(SignatureRefused):
        verify(people, octets)
    listed = Trust(entities=Anchors(fingerprints=frozenset({fingerprint_of(certificate)})))
    with pytest.raises(SignatureRefused, match="a key is not RSA"):
        Verifier(listed).verify(read(octets), Role.ENTITY, now=NOW)


def test_a_file_names_authorities_and_holders_of_certificates(people: Parties) -> None:
    authority, alone = people.entity_authority.certificate, people.node.certificate
    several = b"".join(one.public_bytes(Encoding.PEM) for one in (authority, alone))
    assert read_anchors(several) == Anchors((authority,), frozenset({fingerprint_of(alone)}))
    with pytest.raises(ValueError, match="PEM"):
        read_anchors(b"nothing")


def test_an_id_that_stands_twice_is_refused(people: Parties) -> None:
    octets = sign(advertisement(people), people.node)
    name = read(octets).id.encode()
    for attribute in (b"ID", b"Id", b"id", b"xml:id"):
        twice = octets.replace(b"<metres>", b'<metres %b="%b">' % (attribute, name))
        with pytest.raises(Refused):
            verify(people, twice, Role.NODE)


def test_a_change_within_breaks_both(people: Parties) -> None:
    octets = published(people).replace(b"north mole", b"south mole")
    outer = read_as(SignedTopicAdvertisement, octets)
    inner = read_advertisement(outer.value.advertisement)
    for received, role in ((outer, Role.ENTITY), (inner, Role.NODE)):
        with pytest.raises(SignatureRefused, match="not what was signed"):
            people.verifier().verify(received, role, now=NOW)


@pytest.mark.filterwarnings("ignore:Parsed a serial number which wasn't positive")
def test_each_changed_byte_is_refused(people: Parties) -> None:
    """Wherever it is: in the message, in the signature, in the certificate."""
    octets = sign(withdrawal(people), people.elliptic)
    expected = verify(people, octets)
    verifier = people.verifier()
    for place in range(0, len(octets), 3):
        changed = bytearray(octets)
        changed[place] ^= 1
        try:
            received = read(bytes(changed))
            signer = verifier.verify(received, Role.ENTITY, now=NOW)
        except Refused:
            continue
        # Of base64's last digit some bits mean nothing.
        assert received.value == withdrawal(people)
        assert signer == expected


def test_white_space_is_signed(people: Parties) -> None:
    octets = sign(withdrawal(people), people.producer)
    with pytest.raises(SignatureRefused):
        verify(people, octets.replace(b"<tdn:TopicId>", b"\n<tdn:TopicId>"))


def test_a_comment_is_not_signed_and_says_nothing(people: Parties) -> None:
    octets = sign(withdrawal(people), people.producer)
    commented = octets.replace(b"<tdn:From>e-", b"<tdn:From>e<!--x-->-")
    assert verify(people, commented).identifier == people.producer_id
    assert read_as(TopicWithdrawal, commented).value == withdrawal(people)


def test_another_signature_beside_it_is_refused(people: Parties) -> None:
    octets = sign(withdrawal(people), people.producer)
    signature = octets[octets.index(b"<ds:Signature") : octets.index(b"</tdn:TopicWithdrawal>")]
    with pytest.raises(SignatureRefused, match="several"):
        verify(people, octets.replace(signature, signature * 2))
    first = octets.replace(signature, b"").replace(b"<tdn:TopicId>", signature + b"<tdn:TopicId>")
    with pytest.raises(SignatureRefused, match="last"):
        verify(people, first)


# Certificates.


def test_another_authority_is_refused(people: Parties) -> None:
    other = root("Authority of others", ec_key("others")).credentials("p", rsa_key("producer"))
    octets = sign(withdrawal(people), other)
    with pytest.raises(SignatureRefused, match="no anchor"):
        verify(people, octets)


def test_an_entity_is_no_node(people: Parties) -> None:
    octets = sign(withdrawal(people), people.producer)
    with pytest.raises(SignatureRefused, match="no anchor"):
        verify(people, octets, Role.NODE)
    assert verify(people, octets).identifier == people.producer_id


def test_a_certificate_of_another_use_is_refused(people: Parties) -> None:
    key = rsa_key("producer")
    issue = people.entity_authority.issue
    for certificate in (issue("p", key, usage=False), issue("p", key, signs=False)):
        octets = sign(withdrawal(people), Credentials(key, (certificate,)))
        with pytest.raises(SignatureRefused):
            verify(people, octets)
        with pytest.raises(SignatureRefused):
            listed = Anchors(fingerprints=frozenset({fingerprint_of(certificate)}))
            Verifier(Trust(entities=listed)).verify(read(octets), Role.ENTITY, now=NOW)


def test_an_authority_signs_no_message(people: Parties) -> None:
    own = Credentials(people.entity_authority.key, (people.entity_authority.certificate,))
    with pytest.raises(SignatureRefused):
        verify(people, sign(withdrawal(people), own))


def test_the_time_is_an_argument(people: Parties) -> None:
    key = rsa_key("producer")
    begins, ends = NOW - timedelta(days=1), NOW + timedelta(days=1)
    short = people.entity_authority.issue("p", key, begins=begins, ends=ends)
    received = read(sign(withdrawal(people), Credentials(key, (short,))))
    # Twice: the second time from memory.
    verifier = people.verifier()
    for _ in range(2):
        assert verifier.verify(received, Role.ENTITY, now=NOW).certificate == short
        for wrong in (begins - timedelta(seconds=1), ends + timedelta(seconds=1)):
            with pytest.raises(SignatureRefused, match="not valid"):
                verifier.verify(received, Role.ENTITY, now=wrong)
    listed = Anchors(fingerprints=frozenset({fingerprint_of(short)}))
    small = Verifier(Trust(entities=listed))
    assert small.verify(received, Role.ENTITY, now=NOW).certificate == short
    with pytest.raises(SignatureRefused, match="not valid"):
        small.verify(received, Role.ENTITY, now=ends + timedelta(seconds=1))


def test_an_intermediate_travels_along(people: Parties) -> None:
    key = ec_key("branch")
    branch = people.entity_authority.below("Branch", key)
    mine = rsa_key("producer")
    certificate = branch.issue("p", mine)
    alone = sign(withdrawal(people), Credentials(mine, (certificate,)))
    with pytest.raises(SignatureRefused):
        verify(people, alone)
    both = sign(withdrawal(people), Credentials(mine, (certificate, branch.certificate)))
    assert verify(people, both).identifier == people.producer_id


def test_a_certificate_alone_is_certified_by_all_anchors_above_it(people: Parties) -> None:
    """As it is shown to TLS, which hands on no intermediates: those that the file has are known."""
    top = people.entity_authority
    branch = top.below("Branch", ec_key("branch"))
    office = branch.below("Office", ec_key("office"))
    other = root("Another", ec_key("another")).certificate
    leaf = office.issue("p", rsa_key("producer")).public_bytes(Encoding.DER)
    all_three = [one.certificate for one in (office, branch, top)]

    def certified_by(*anchors: x509.Certificate, refused: str = "") -> frozenset[str]:
        trust = Trust(entities=Anchors(anchors), refused=frozenset({refused}))
        return Verifier(trust).authorities_of(leaf, now=NOW)

    names = frozenset(map(authority_of, all_three))
    assert certified_by(*all_three, other) == certified_by(other, *reversed(all_three)) == names
    assert certified_by(*all_three[:2]) == frozenset(map(authority_of, all_three[:2]))
    assert certified_by(all_three[0], all_three[2]) == {authority_of(all_three[0])}
    assert certified_by(all_three[1], all_three[2]) == frozenset(), "the one below is not known"
    assert certified_by(*all_three, refused=authority_of(top.certificate)) == set()


def test_a_fingerprint_stands_for_an_authority(people: Parties) -> None:
    octets = sign(withdrawal(people), people.producer)
    word = fingerprint_of(people.producer.certificate).upper()
    colons = ":".join(word[place : place + 2] for place in range(0, 64, 2))
    small = Verifier(Trust(entities=Anchors(fingerprints=frozenset({colons}))))
    assert small.verify(read(octets), Role.ENTITY, now=NOW).identifier == people.producer_id
    for role, signer in ((Role.NODE, people.producer), (Role.ENTITY, people.consumer)):
        with pytest.raises(SignatureRefused, match="no anchor"):
            small.verify(read(sign(withdrawal(people), signer)), role, now=NOW)
    with pytest.raises(ValueError, match="not a SHA-256"):
        Anchors(fingerprints=frozenset({"ab"}))


def test_a_refused_identifier_is_refused(people: Parties) -> None:
    octets = sign(withdrawal(people), people.producer)
    trust = replace(people.trust, refused=frozenset({people.producer_id}))
    verifier = Verifier(trust)
    for _ in range(2):
        with pytest.raises(SignatureRefused, match="refused here"):
            verifier.verify(read(octets), Role.ENTITY, now=NOW)


def test_who_is_certified_by_a_refused_authority_is_refused(people: Parties) -> None:
    """At any place of the chain: its branch, or the anchor above it; no other branch is."""
    anchor = people.entity_authority
    branch, other = (anchor.below(name, ec_key(name)) for name in ("branch of moles", "of ships"))
    for refused, taken in ((branch, False), (anchor, False), (other, True)):
        name = authority_of(refused.certificate)
        verifier = Verifier(replace(people.trust, refused=frozenset({name})))
        key = ec_key("certified below")
        leaf = branch.issue("below", key)
        octets = sign(withdrawal(people), Credentials(key, (leaf, branch.certificate)))
        if taken:
            verifier.verify(read(octets), Role.ENTITY, now=NOW)
            continue
        with pytest.raises(SignatureRefused, match="refused here"):
            verifier.verify(read(octets), Role.ENTITY, now=NOW)


def test_anchors_do_not_overlap(people: Parties) -> None:
    nodes, entities = people.node_authority.certificate, people.entity_authority.certificate
    again = root("Another name", people.node_authority.key).certificate
    below = people.node_authority.below("Branch", ec_key("branch")).certificate
    for other in (nodes, again, below):
        for one, two in (((nodes,), (entities, other)), ((entities, other), (nodes,))):
            with pytest.raises(ValueError, match="authority"):
                Trust(Anchors(one), Anchors(two))
    listed = Anchors(fingerprints=frozenset({"ab" * 32}))
    with pytest.raises(ValueError, match="certificate"):
        Trust(listed, listed)


def test_anchors_do_not_overlap_through_authorities_between_them(people: Parties) -> None:
    """Who is certified by an authority for entities signs for none of nodes, though that of nodes
    has certified it through another, and the reverse."""
    between = people.node_authority.below("Between", ec_key("between"))
    below = between.below("Below", ec_key("below"))
    mine = rsa_key("producer")
    leaf = below.issue("p", mine)
    signed = sign(
        withdrawal(people), Credentials(mine, (leaf, below.certificate, between.certificate))
    )
    high, low = Anchors((people.node_authority.certificate,)), Anchors((below.certificate,))
    again = Anchors((root("Another name", below.key).certificate,))
    alone = Anchors(fingerprints=frozenset({fingerprint_of(leaf)}))
    for lower in (low, again, alone):
        for trust, role in (
            (Trust(nodes=high, entities=lower), Role.NODE),
            (Trust(nodes=lower, entities=high), Role.ENTITY),
        ):
            with pytest.raises(SignatureRefused, match="the other role"):
                Verifier(trust).verify(read(signed), role, now=NOW)
    believed = Verifier(Trust(nodes=high, entities=low)).verify(read(signed), Role.ENTITY, now=NOW)
    assert believed.identifier == people.producer_id


def test_what_is_remembered_is_bounded(people: Parties) -> None:
    verifier = Verifier(people.trust, most=2)
    signers = (people.producer, people.consumer, people.elliptic)
    for _ in range(2):
        for signer in signers:
            received = read(sign(withdrawal(people), signer))
            assert verifier.verify(received, Role.ENTITY, now=NOW).certificate == signer.certificate
            assert len(verifier._known) <= 2


def test_what_leads_to_no_anchor_is_not_remembered(people: Parties) -> None:
    verifier = people.verifier()
    other = root("Authority of others", ec_key("others")).credentials("p", rsa_key("producer"))
    with pytest.raises(SignatureRefused):
        verifier.verify(read(sign(withdrawal(people), other)), Role.ENTITY, now=NOW)
    assert len(verifier._known) == 0


# Credentials.


def pem(credentials: Credentials, password: bytes = b"") -> tuple[bytes, bytes]:
    lock = BestAvailableEncryption(password) if password else NoEncryption()
    return (
        credentials.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock),
        b"".join(one.public_bytes(Encoding.PEM) for one in credentials.certificates),
    )


def test_credentials_are_read(people: Parties) -> None:
    for one in (people.producer, people.elliptic):
        again = read_credentials(*pem(one))
        assert again.certificates == one.certificates
        assert again.identifier(Role.ENTITY) == one.identifier(Role.ENTITY)
    key, certificates = pem(people.elliptic, b"secret")
    assert read_credentials(key, certificates, b"secret").certificate == people.elliptic.certificate
    for wrong in (None, b"other"):
        with pytest.raises(ValueError, match=r"."):
            read_credentials(key, certificates, wrong)


def test_credentials_that_do_not_serve_are_refused(people: Parties) -> None:
    with pytest.raises(ValueError, match="not that of"):
        Credentials(people.producer.key, people.consumer.certificates)
    with pytest.raises(ValueError, match="certificate is missing"):
        Credentials(people.producer.key, ())
    edwards = ed25519.Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    with pytest.raises(ValueError, match="elliptic"):
        read_credentials(edwards, pem(people.producer)[1])
    small = rsa.generate_private_key(65537, 1024)
    with pytest.raises(ValueError, match="2048"):
        Credentials(small, (people.entity_authority.issue("small", small),))


def test_a_large_message_is_not_signed(people: Parties) -> None:
    large = tuple(f"<{number}>" for number in range(3000))
    value = replace(advertisement(people), descriptors=Descriptors(texts=large))
    assert len(write(value)) > MAX_MESSAGE
    with pytest.raises(Crowded):
        sign(value, people.node)


def test_identifiers_come_of_keys(people: Parties) -> None:
    """``openssl pkey -pubout -outform DER | sha256sum | head -c 32``."""
    key = people.producer.key.public_key()
    octets = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert people.producer_id == "e-" + hashlib.sha256(octets).hexdigest()[:32]
    renewed = people.entity_authority.issue("another name", people.producer.key)
    assert Credentials(people.producer.key, (renewed,)).identifier(Role.ENTITY) == (
        people.producer_id
    )


def test_signing_says_what_it_needs(people: Parties, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "signxml", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="signxml"):
        sign(withdrawal(people), people.producer)


# Others who know XML Signature.


def signxml_element(
    people: Parties, octets: bytes, role: Role, folder: Path
) -> etree._Element | None:
    """The element that signxml takes for signed; None where it refuses."""
    authority = people.node_authority if role is Role.NODE else people.entity_authority
    anchors = folder / "anchors.pem"
    anchors.write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    strict = SignatureConfiguration(
        location="./",
        require_x509=True,
        expect_references=1,
        signature_methods=frozenset({SignatureMethod.RSA_SHA256, SignatureMethod.ECDSA_SHA256}),
        digest_algorithms=frozenset({DigestAlgorithm.SHA256}),
        verification_time=NOW,
    )
    try:
        result = XMLVerifier().verify(
            octets, ca_pem_file=str(anchors), id_attribute="ID", expect_config=strict
        )
    except (SignXMLException, etree.LxmlError, ValueError):
        return None
    assert not isinstance(result, list)
    return result.signed_xml


def signxml_agrees(people: Parties, octets: bytes, role: Role, folder: Path) -> bool:
    """Whether signxml takes *octets*, and for what we take them."""
    passed = signxml_element(people, octets, role, folder)
    whole = etree.fromstring(octets)
    return passed is not None and passed.tag == whole.tag and passed.get("ID") == whole.get("ID")


@pytest.mark.slow
def test_what_we_take_signxml_takes(people: Parties, tmp_path: Path) -> None:
    """Over changes of every element, attribute and text of a message: we take no more than it."""
    taken = refused = 0
    verifier = people.verifier()
    for octets, role in (
        (sign(withdrawal(people), people.producer), Role.ENTITY),
        (sign(withdrawal(people), people.elliptic), Role.ENTITY),
        (published(people), Role.ENTITY),
    ):
        size = len(list(etree.fromstring(octets).iter()))
        for place in range(size):
            for change in (
                "none",
                "gone",
                "twice",
                "moved",
                "text",
                "attribute",
                "comment",
                "tail",
            ):
                changed = mutated(octets, place, change)
                try:
                    verifier.verify(read(changed), role, now=NOW)
                except Refused:
                    refused += 1
                    continue
                taken += 1
                assert signxml_agrees(people, changed, role, tmp_path), (change, changed)
    assert taken > 50
    assert refused > 200


def mutated(octets: bytes, place: int, change: str) -> bytes:
    whole = etree.fromstring(octets)
    element = list(whole.iter())[place]
    parent = element.getparent()
    match change:
        case "gone" if parent is not None:
            parent.remove(element)
        case "twice" if parent is not None:
            parent.append(etree.fromstring(etree.tostring(element)))
        case "moved" if parent is not None:
            whole.insert(0, element)
        case "text":
            element.text = (element.text or "") + "A"
        case "attribute":
            for name in element.attrib:
                element.set(name, element.get(name, "") + "A")
        case "comment":
            element.insert(0, etree.Comment("A"))
        case "tail":
            element.tail = " "
    return etree.tostring(whole, with_tail=False)


def xmlsec(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    assert XMLSEC is not None
    return subprocess.run([XMLSEC, *arguments], capture_output=True, timeout=30, check=False)


@wants_xmlsec
@pytest.mark.parametrize("kind", ["producer", "elliptic"])
def test_xmlsec1_checks_our_signatures(people: Parties, kind: str, tmp_path: Path) -> None:
    credentials: Credentials = getattr(people, kind)
    anchor = tmp_path / "anchor.pem"
    anchor.write_bytes(people.entity_authority.certificate.public_bytes(Encoding.PEM))
    inside = sign(advertisement(people), people.node)
    for value in (
        withdrawal(people),
        SignedTopicAdvertisement(NOW, TOPIC_ID, inside),
        discovery.DELEGATION,
    ):
        message = tmp_path / "message.xml"
        octets = sign(value, credentials)
        message.write_bytes(octets)
        options = (
            "--verify",
            "--enabled-key-data",
            "x509",
            "--trusted-pem",
            anchor,
            "--verification-gmt-time",
            f"{NOW:%Y-%m-%d %H:%M:%S}",
            "--id-attr:ID",
            f"urn:dragoman:tdn:1:{type(value).__name__}",
            "--node-xpath",
            "/*/*[local-name()='Signature']",
            message,
        )
        done = xmlsec(*options)
        assert done.returncode == 0, done.stderr
        message.write_bytes(octets.replace(b"urn:uuid:5d0f", b"urn:uuid:5d0e"))
        assert xmlsec(*options).returncode != 0


@wants_xmlsec
@pytest.mark.parametrize("kind", ["producer", "elliptic"])
def test_we_check_those_of_xmlsec1(people: Parties, kind: str, tmp_path: Path) -> None:
    credentials: Credentials = getattr(people, kind)
    value = withdrawal(people)
    method = "rsa" if kind == "producer" else "ecdsa"
    template = (
        f'<ds:Signature xmlns:ds="{DSIG}"><ds:SignedInfo>'
        '<ds:CanonicalizationMethod Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/>'
        f'<ds:SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#{method}-sha256"/>'
        f'<ds:Reference URI="#m-{value.head.message_id}"><ds:Transforms>'
        f'<ds:Transform Algorithm="{DSIG}enveloped-signature"/>'
        '<ds:Transform Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/></ds:Transforms>'
        '<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"/><ds:DigestValue/>'
        "</ds:Reference></ds:SignedInfo><ds:SignatureValue/>"
        "<ds:KeyInfo><ds:X509Data><ds:X509Certificate/></ds:X509Data></ds:KeyInfo></ds:Signature>"
    )
    whole = etree.fromstring(write(value))
    whole.append(etree.fromstring(template))
    message, key, certificate, signed = (
        tmp_path / name for name in ("message.xml", "key.pem", "certificate.pem", "signed.xml")
    )
    message.write_bytes(etree.tostring(whole))
    octets, chain = pem(credentials)
    key.write_bytes(octets)
    certificate.write_bytes(chain)
    done = xmlsec(
        "--sign",
        "--privkey-pem",
        f"{key},{certificate}",
        "--id-attr:ID",
        "urn:dragoman:tdn:1:TopicWithdrawal",
        "--output",
        signed,
        message,
    )
    assert done.returncode == 0, done.stderr
    received = read_as(TopicWithdrawal, signed.read_bytes())
    assert received.value == value
    signer = people.verifier().verify(received, Role.ENTITY, now=NOW)
    assert signer.identifier == credentials.identifier(Role.ENTITY)


# The published examples.

SIGNERS = {
    "01": Role.ENTITY, "02": Role.NODE, "03": Role.ENTITY, "04": Role.NODE, "05": Role.ENTITY,
    "06": Role.ENTITY, "07": Role.NODE, "08": Role.NODE, "09": Role.ENTITY, "10": Role.ENTITY,
    "11": Role.ENTITY,
}  # fmt: skip


def test_the_published_examples_are_signed(shared: Path) -> None:
    folder = shared / "specs/schemas/tdn/examples"
    nodes, entities = (
        Anchors(read_authorities((folder / f"{name}-ca.crt.pem").read_bytes()))
        for name in ("node", "entity")
    )
    trust = Trust(nodes, entities)
    verifier = Verifier(trust)
    names = {
        x509.load_pem_x509_certificate(path.read_bytes()): path.name.partition(".")[0]
        for path in folder.glob("*.crt.pem")
    }
    seen = set()
    for number, role in SIGNERS.items():
        [path] = folder.glob(f"{number}-*.xml")
        received = read(path.read_bytes())
        now = BEGINS + (ENDS - BEGINS) / 2
        signer = verifier.verify(received, role, now=now)
        head = getattr(received.value, "head", None)
        if head is not None:
            assert head.sender == signer.identifier
        seen.add((names[signer.certificate], signer.identifier))
        with pytest.raises(SignatureRefused):
            other = Role.NODE if role is Role.ENTITY else Role.ENTITY
            verifier.verify(received, other, now=now)
    assert {name for name, _ in seen} == {"producer", "consumer", "node"}
    assert len(seen) == 3


def test_lines_of_base64_may_be_broken(people: Parties) -> None:
    octets = sign(withdrawal(people), people.elliptic)
    found = re.search(rb"<ds:SignatureValue>(.*)</ds:SignatureValue>", octets)
    assert found is not None
    broken = octets.replace(found[1], b"\n  ".join([found[1][:40], found[1][40:]]))
    signature = read(broken).signature
    assert signature is not None
    assert signature.value == base64.b64decode(found[1])
    assert verify(people, broken).identifier == people.elliptic.identifier(Role.ENTITY)
