"""Keys, authorities and credentials for tests of topic discovery, made once a session."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from mediation.discovery import Anchors, Credentials, Role, Trust, Verifier

BEGINS = datetime(2026, 1, 1, tzinfo=UTC)
ENDS = datetime(2046, 1, 1, tzinfo=UTC)
_Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Authority:
    """An authority that certifies keys."""

    key: _Key
    certificate: x509.Certificate

    def issue(
        self,
        name: str,
        key: _Key,
        *,
        begins: datetime = BEGINS,
        ends: datetime = ENDS,
        signs: bool = True,
        enciphers: bool = True,
        usage: bool = True,
    ) -> x509.Certificate:
        """A certificate for *key*, that of an entity or a node."""
        builder = _builder(name, self.certificate.subject, key, begins, ends, self.key)
        builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
        if usage:
            builder = builder.add_extension(_usage(signs=signs, enciphers=enciphers), critical=True)
        return builder.sign(self.key, hashes.SHA256())

    def credentials(self, name: str, key: _Key) -> Credentials:
        return Credentials(key, (self.issue(name, key),))

    def below(self, name: str, key: _Key) -> "Authority":
        """An authority that this one certifies."""
        return Authority(key, _authority(name, self.certificate.subject, key, self.key))


def root(name: str, key: _Key) -> Authority:
    return Authority(key, _authority(name, _named(name), key, key))


def _authority(name: str, issuer: x509.Name, key: _Key, signer: _Key) -> x509.Certificate:
    builder = _builder(name, issuer, key, BEGINS, ENDS, signer)
    builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
    builder = builder.add_extension(_usage(authority=True), critical=True)
    return builder.sign(signer, hashes.SHA256())


def _builder(
    name: str, issuer: x509.Name, key: _Key, begins: datetime, ends: datetime, signer: _Key
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )


def _usage(*, signs: bool = True, enciphers: bool = True, authority: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signs and not authority,
        content_commitment=False,
        key_encipherment=enciphers and not authority,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@cache
def rsa_key(name: str, bits: int = 2048) -> rsa.RSAPrivateKey:
    """An RSA key of its own for each *name*."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@dataclass(frozen=True)
class Parties:
    """A node, two entities with RSA keys and one with another, and what each believes."""

    node_authority: Authority
    entity_authority: Authority
    node: Credentials
    producer: Credentials
    consumer: Credentials
    elliptic: Credentials

    @property
    def trust(self) -> Trust:
        return Trust(
            Anchors((self.node_authority.certificate,)),
            Anchors((self.entity_authority.certificate,)),
        )

    def verifier(self) -> Verifier:
        return Verifier(self.trust)

    @property
    def node_id(self) -> str:
        return self.node.identifier(Role.NODE)

    @property
    def producer_id(self) -> str:
        return self.producer.identifier(Role.ENTITY)

    @property
    def consumer_id(self) -> str:
        return self.consumer.identifier(Role.ENTITY)


@cache
def parties() -> Parties:
    nodes = root("Authority of nodes", ec_key("nodes"))
    entities = root("Authority of entities", rsa_key("entities"))
    return Parties(
        nodes,
        entities,
        nodes.credentials("node", rsa_key("node")),
        entities.credentials("producer", rsa_key("producer")),
        entities.credentials("consumer", rsa_key("consumer")),
        entities.credentials("elliptic", ec_key("elliptic")),
    )
