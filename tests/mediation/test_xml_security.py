"""Signatures as XML Signature writes them, by keys of each kind."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from mediation.xml_security import ecdsa_der, sign_octets

CURVES = pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])


@CURVES
def test_two_numbers_one_behind_the_other(curve: ec.EllipticCurve) -> None:
    key = ec.generate_private_key(curve)
    value = sign_octets(key, b"octets")
    assert len(value) == 2 * ((curve.key_size + 7) // 8)
    key.public_key().verify(ecdsa_der(key.public_key(), value), b"octets", ec.ECDSA(SHA256()))


@CURVES
@pytest.mark.parametrize("change", [b"", b"\0"])
def test_numbers_of_another_length(curve: ec.EllipticCurve, change: bytes) -> None:
    key = ec.generate_private_key(curve)
    value = sign_octets(key, b"octets")
    with pytest.raises(ValueError, match="length of the key"):
        ecdsa_der(key.public_key(), value + change if change else value[:-1])
