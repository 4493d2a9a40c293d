"""The key and the certificates of an entity or a node."""

from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    load_pem_private_key,
)

from mediation.certificates import extension_of, read_certificates
from mediation.discovery.identifiers import Role, identifier_of
from mediation.public_keys import USABLE_KEYS, is_usable_key, subject_public_key_info


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key and its certificate, followed by intermediates up to an authority.

    Raises:
        ValueError: There is no certificate, the key is another's, or one that does not serve.
    """

    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    certificates: tuple[x509.Certificate, ...]

    def __post_init__(self) -> None:
        if not self.certificates:
            raise ValueError("the certificate is missing")
        certified = self.certificates[0].public_key()
        mine = self.key.public_key()
        if subject_public_key_info(mine) != subject_public_key_info(certified):
            raise ValueError("the key is not that of the certificate")
        if not is_usable_key(mine):
            raise ValueError(f"the key is not {USABLE_KEYS}")

    @property
    def certificate(self) -> x509.Certificate:
        return self.certificates[0]

    def identifier(self, role: Role) -> str:
        """The identifier that the key gives."""
        return identifier_of(self.certificate, role)


def read_credentials(key: bytes, certificates: bytes, password: bytes | None = None) -> Credentials:
    """Read credentials in PEM.

    Raises:
        ValueError: They are none, the password is wrong or missing, or as `Credentials`.
    """
    try:
        private = load_pem_private_key(key, password)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"the key cannot be read: {error}") from error
    if not isinstance(private, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise ValueError("the key is neither RSA nor on an elliptic curve")
    return Credentials(private, tuple(read_certificates(certificates)))


def usage_of(certificate: x509.Certificate) -> x509.KeyUsage | None:
    """Return the key usage of *certificate*; None if it has none, or one that cannot be read."""
    try:
        return extension_of(certificate, x509.KeyUsage)
    except ValueError:
        return None
