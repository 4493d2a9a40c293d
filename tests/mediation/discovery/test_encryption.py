"""Encrypted messages and advertisements."""

import base64
import re
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP, PKCS1v15
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.x509 import load_pem_x509_certificate
from lxml import etree

from mediation.discovery import (
    MAX_ENCRYPTED,
    Creator,
    DecryptionFailed,
    EncryptedAdvertisement,
    Role,
    TopicDiscoveryResponse,
    can_receive,
    decrypt,
    encrypt,
    encrypt_advertisement,
    hand_on,
    is_encrypted,
    read_advertisement,
    read_as,
    read_credentials,
    write,
)
from mediation.discovery.signing import sign
from tests.rigs import discovery
from tests.rigs.discovery import NOW
from tests.rigs.discovery_keys import Parties, parties, rsa_key
from tests.rigs.pace import growth

XENC = "{http://www.w3.org/2001/04/xmlenc#}"
MESSAGE = write(discovery.SIGNED)


@pytest.fixture(scope="module")
def people() -> Parties:
    return parties()


def encrypted(people: Parties, octets: bytes = MESSAGE) -> bytes:
    return encrypt(octets, people.consumer_id, people.consumer.certificate)


def test_its_receiver_reads_it(people: Parties) -> None:
    octets = encrypted(people)
    assert is_encrypted(octets)
    assert not is_encrypted(MESSAGE)
    assert decrypt(octets, people.consumer_id, people.consumer) == MESSAGE
    assert people.producer_id.encode() not in octets


def test_no_two_are_alike(people: Parties) -> None:
    one, two = encrypted(people), encrypted(people)
    values = [re.findall(rb"<xenc:CipherValue>([^<]*)<", octets) for octets in (one, two)]
    assert values[0][0] != values[1][0]
    assert values[0][1] != values[1][1]


def test_it_is_xml_encryption(people: Parties) -> None:
    """Taken apart with nothing of ours."""
    root = etree.fromstring(encrypted(people))
    wrapped, data = (
        base64.b64decode(element.text or "") for element in root.iter(f"{XENC}CipherValue")
    )
    key = people.consumer.key
    secret = key.decrypt(wrapped, OAEP(MGF1(SHA256()), SHA256(), None))  # type: ignore[union-attr]
    assert AESGCM(secret).decrypt(data[:12], data[12:], None) == MESSAGE
    assert root.get("Type") == "http://www.w3.org/2001/04/xmlenc#Element"
    assert [element.get("Algorithm") for element in root.iter(f"{XENC}EncryptionMethod")] == [
        "http://www.w3.org/2009/xmlenc11#aes256-gcm",
        "http://www.w3.org/2009/xmlenc11#rsa-oaep",
    ]


def test_anybody_else_is_told_nothing(people: Parties) -> None:
    octets = encrypted(people)
    for recipient, credentials in (
        (people.producer_id, people.producer),
        (people.consumer_id, people.producer),
        (people.producer_id, people.consumer),
        (people.elliptic.identifier(Role.ENTITY), people.elliptic),
        (people.consumer_id, people.elliptic),
    ):
        with pytest.raises(DecryptionFailed):
            decrypt(octets, recipient, credentials)


def another_value(octets: bytes, which: int, value: bytes) -> bytes:
    found = re.findall(rb"<xenc:CipherValue>([^<]*)<", octets)[which]
    return octets.replace(found, base64.b64encode(value))


def values(octets: bytes) -> list[bytes]:
    return [base64.b64decode(word) for word in re.findall(rb"<xenc:CipherValue>([^<]*)<", octets)]


def flipped(octets: bytes) -> bytes:
    """*octets* with another last byte."""
    return octets[:-1] + bytes([octets[-1] ^ 1])


def test_all_failures_are_alike(people: Parties) -> None:
    octets = encrypted(people)
    public = people.consumer.certificate.public_key()
    secret = bytes(32)
    nonce = bytes(12)
    wrong = {
        "no XML": b"<",
        "a document type": b"<!DOCTYPE a>" + octets,
        "another element": MESSAGE,
        "no key": another_value(octets, 0, b""),
        "another key": another_value(octets, 0, values(encrypted(people))[0]),
        "a changed key": another_value(octets, 0, flipped(values(octets)[0])),
        "PKCS #1 v1.5": another_value(octets, 0, public.encrypt(secret, PKCS1v15())),  # type: ignore[union-attr]
        "OAEP with SHA-1": another_value(
            octets, 0, public.encrypt(secret, OAEP(MGF1(SHA1()), SHA1(), None))  # type: ignore[union-attr]
        ),
        "a short key": another_value(
            octets, 0, public.encrypt(secret[:16], OAEP(MGF1(SHA256()), SHA256(), None))  # type: ignore[union-attr]
        ),
        "a known key": another_value(octets, 1, nonce + AESGCM(secret).encrypt(nonce, MESSAGE, None)),
        "a changed text": another_value(octets, 1, values(octets)[1][:-20] + bytes(20)),
        "a changed tag": another_value(octets, 1, flipped(values(octets)[1])),
        "no nonce": another_value(octets, 1, bytes(3)),
        "another root": octets.replace(b"xenc:EncryptedData", b"xenc:EncryptedWhat"),
        "another key element": octets.replace(b"xenc:EncryptedKey", b"xenc:EncryptedWhat"),
        "no text": another_value(octets, 1, bytes(27)),
        "CBC": octets.replace(b"2009/xmlenc11#aes256-gcm", b"2001/04/xmlenc#aes256-cbc"),
        "RSA 1.5": octets.replace(b"2009/xmlenc11#rsa-oaep", b"2001/04/xmlenc#rsa-1_5"),
        "another digest": octets.replace(b"xmlenc#sha256", b"xmlenc#sha512"),
        "another mask": octets.replace(b"mgf1sha256", b"mgf1sha1"),
        "a label": octets.replace(b"<xenc11:MGF", b"<xenc:OAEPparams>AA==</xenc:OAEPparams><xenc11:MGF"),
        "two receivers": octets.replace(b"<ds:KeyName>e-", b"<ds:KeyName>f-"),
        "a reference": octets.replace(b"<xenc:CipherValue>", b'<xenc:CipherReference URI="#a">', 1),
        "no base64": octets.replace(b"<xenc:CipherValue>", b"<xenc:CipherValue>!", 1),
        "content": octets.replace(b"xmlenc#Element", b"xmlenc#Content"),
        "too large": octets.replace(b"<xenc:CipherValue>", b"<xenc:CipherValue>" + b" " * MAX_ENCRYPTED, 1),
    }  # fmt: skip
    told = set()
    for name, changed in wrong.items():
        assert changed != octets, name
        with pytest.raises(DecryptionFailed) as caught:
            decrypt(changed, people.consumer_id, people.consumer)
        told.add((str(caught.value), caught.value.value, caught.value.fault, caught.value.reason))
        assert caught.value.__cause__ is None
    assert len(told) == 1


def test_who_can_receive(people: Parties) -> None:
    issue = people.entity_authority.issue
    key = rsa_key("consumer")
    assert can_receive(people.consumer.certificate)
    for certificate in (
        people.elliptic.certificate,
        issue("no encipherment", key, enciphers=False),
        issue("no usage", key, usage=False),
    ):
        assert not can_receive(certificate)
        with pytest.raises(ValueError, match="nothing can be encrypted"):
            encrypt(MESSAGE, people.consumer_id, certificate)


def advertisement(people: Parties) -> tuple[EncryptedAdvertisement, bytes]:
    creator = Creator(people.producer_id, "North mole", "Harbour Office")
    value = replace(discovery.ADVERTISEMENT, node=people.node_id, creator=creator)
    signed = sign(value, people.node)
    return encrypt_advertisement(value, signed, people.producer.certificate), signed


def test_an_advertisement_is_its_creators(people: Parties) -> None:
    hidden, signed = advertisement(people)
    assert hidden.creator == Creator(people.producer_id)
    octets = sign(hidden, people.node)
    assert b"North mole" not in octets
    assert b"Gauge" not in octets
    received = read_advertisement(octets)
    assert received.value == hidden
    assert people.verifier().verify(received, Role.NODE, now=NOW).identifier == people.node_id
    assert decrypt(hidden.data, people.producer_id, people.producer) == signed
    with pytest.raises(DecryptionFailed):
        decrypt(hidden.data, people.consumer_id, people.consumer)


def test_its_creator_lets_others_read_it(people: Parties) -> None:
    hidden, signed = advertisement(people)
    key = hand_on(
        hidden.data,
        people.producer_id,
        people.producer,
        people.consumer_id,
        people.consumer.certificate,
    )
    assert decrypt(hidden.data, people.consumer_id, people.consumer, key) == signed
    for recipient, credentials, what in (
        (people.producer_id, people.producer, key),
        (people.consumer_id, people.consumer, b"<a/>"),
        (people.consumer_id, people.consumer, key.replace(b"xenc:EncryptedKey", b"xenc:Other")),
        (people.consumer_id, people.consumer, key.replace(b"OAEP", b"").replace(b"-oaep", b"")),
    ):
        with pytest.raises(DecryptionFailed):
            decrypt(hidden.data, recipient, credentials, what)
    with pytest.raises(DecryptionFailed):
        hand_on(
            hidden.data,
            people.consumer_id,
            people.consumer,
            people.consumer_id,
            people.consumer.certificate,
        )


def test_the_published_example_is_decrypted(shared: Path) -> None:
    folder = shared / "specs/schemas/tdn/examples"
    octets = (folder / "12-encrypted-discovery-response.xml").read_bytes()
    key, certificate = ((folder / f"consumer.{kind}.pem").read_bytes() for kind in ("key", "crt"))
    credentials = read_credentials(key, certificate)
    name = credentials.identifier(Role.ENTITY)
    plain = decrypt(octets, name, credentials)
    assert plain == (folder / "07-topic-discovery-response.xml").read_bytes().strip()
    assert read_as(TopicDiscoveryResponse, plain).value.head.to == name
    again = encrypt(plain, name, load_pem_x509_certificate(certificate))
    assert decrypt(again, name, credentials) == plain


@pytest.mark.parametrize("before", [b" ", b"<?xml ?>", b"<?xml ?> ", b"\n<"])
def test_what_stands_before_it_is_looked_at_once(before: bytes) -> None:
    """Before anybody knows how large a message may be."""
    assert growth(lambda size: is_encrypted(before * size), 4_000, times=4) < 2.5
