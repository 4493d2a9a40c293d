"""Whoever shows certificates chooses their keys: none is computed with that is out of bounds."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from filters import Refused
from mediation.discovery.signatures import chain_to_anchor, chains_to, read_anchors
from mediation.public_keys import is_usable_key
from mediation.ws_security import Trust

NOW = datetime.now(UTC)
CA_KEY, LEAF_KEY = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


def rsa_key(bits: int, exponent: int = 65537) -> rsa.RSAPublicKey:
    return rsa.RSAPublicNumbers(exponent, (1 << bits) - 159).public_key()


KEYS = {
    "RSA of 1024 bits": (rsa_key(1024), False),
    "RSA of 2048 bits": (rsa_key(2048), True),
    "RSA of 8192 bits": (rsa_key(8192), True),
    "RSA of 8193 bits": (rsa_key(8193), False),
    "RSA of 16384 bits": (rsa_key(16384), False),
    "RSA of 100,000 bits": (rsa_key(100_000), False),
    "an exponent of 64 bits": (rsa_key(4096, (1 << 64) - 59), False),
    "an exponent of 3000 bits": (rsa_key(3072, (1 << 3000) - 1), False),
    "P-256": (ec.generate_private_key(ec.SECP256R1()).public_key(), True),
    "P-521": (ec.generate_private_key(ec.SECP521R1()).public_key(), True),
    "P-192": (ec.generate_private_key(ec.SECP192R1()).public_key(), False),
    "a curve of Bitcoin": (ec.generate_private_key(ec.SECP256K1()).public_key(), False),
    "Ed25519": (ed25519.Ed25519PrivateKey.generate().public_key(), False),
}


def certificate(
    subject: str,
    issuer: str,
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey,
    signed_by: ec.EllipticCurvePrivateKey,
    *,
    authority: bool,
) -> x509.Certificate:
    usage = dict.fromkeys(
        (
            "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
            "crl_sign", "encipher_only", "decipher_only",
        ),
        False,
    )  # fmt: skip
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=not authority, key_cert_sign=authority, **usage),
            critical=True,
        )
    )
    return builder.sign(signed_by, SHA256())


ROOT = certificate("root", "root", CA_KEY.public_key(), CA_KEY, authority=True)


def by_ws_security(shown: list[x509.Certificate]) -> None:
    Trust([ROOT]).check(tuple(one.public_bytes(Encoding.DER) for one in shown), NOW)


def by_discovery(shown: list[x509.Certificate]) -> None:
    anchors = read_anchors(ROOT.public_bytes(Encoding.PEM))
    leaf, *others = shown
    chain_to_anchor(leaf, others, anchors, chains_to(anchors), now=NOW)


@pytest.mark.parametrize(("key", "usable"), KEYS.values(), ids=KEYS.keys())
@pytest.mark.parametrize("check", [by_ws_security, by_discovery])
def test_a_chain_has_no_key_out_of_bounds(
    check: Callable[[list[x509.Certificate]], None],
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey,
    usable: bool,
) -> None:
    """Of the authority between, and of the signer; what is refused says so of the key, and not of
    the chain, which would have been computed with it."""
    assert is_usable_key(key) is usable
    between = certificate("between", "root", key, CA_KEY, authority=True)
    leaf = certificate("leaf", "between", LEAF_KEY.public_key(), LEAF_KEY, authority=False)
    own = certificate("own", "root", key, CA_KEY, authority=False)
    for shown in ([leaf, between], [own]):
        try:
            check(shown)
        except (Refused, ValueError) as refused:
            said_of_key = "2048 to 8192" in str(refused)
            assert said_of_key is not usable
        else:
            assert usable and shown == [own]
