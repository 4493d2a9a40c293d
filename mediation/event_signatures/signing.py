"""Sign events, as their publisher."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from filters import Topic
from mediation.discovery.credentials import Credentials, read_credentials
from mediation.discovery.identifiers import Role, identifier_of
from mediation.event_signatures.algorithms import ALGORITHMS, RSA, registry
from mediation.event_signatures.content import (
    TYPE,
    XML,
    canonical_content,
    content_of,
    digest_of,
    prefixes_in,
)


@dataclass(frozen=True, slots=True)
class EventSigner:
    """Signs events with the key of *credentials*.

    Args:
        certificates: The signature has the signer's certificate, and its intermediates. Without, it
            names the key alone, and is a third as long; who checks it has the certificate.
    """

    credentials: Credentials
    certificates: bool = True

    def sign(
        self,
        payload: bytes,
        *,
        id: str,
        topic: Topic | None,
        time: datetime,
        attachments: Sequence[bytes] = (),
    ) -> str:
        """Return the signature of an event: some 1.5 KB with a certificate of an elliptic curve.

        Args:
            payload: One XML element, or the element that holds data that is not XML.
            time: Aware.
            attachments: Their contents, in their order.

        Raises:
            Refused: *payload* cannot be read, or declares too many prefixes.
        """
        content = content_of(payload)
        header = self._header(id, topic, time)
        prefixes = None
        if content.is_xml:
            prefixes = prefixes_in(content.octets)
            header |= {"cty": XML, "ns": prefixes}
        elif content.media_type is not None:
            header["cty"] = content.media_type
        if attachments:
            header["attachments"] = [digest_of(one) for one in attachments]
        canonical = canonical_content(content.octets, prefixes)
        return jws.detach_content(
            jws.serialize_compact(header, canonical, _key_of(self.credentials), registry=registry())
        )

    def _header(self, id: str, topic: Topic | None, time: datetime) -> dict[str, Any]:
        key = self.credentials.key
        header: dict[str, Any] = {
            "alg": RSA if isinstance(key, rsa.RSAPrivateKey) else ALGORITHMS[key.curve.name],
            "typ": TYPE,
            "id": id,
            "time": time.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        }
        if topic is not None:
            header["topic"] = str(topic)
        if self.certificates:
            header["x5c"] = [
                b64encode(one.public_bytes(Encoding.DER)).decode()
                for one in self.credentials.certificates
            ]
        else:
            header["kid"] = identifier_of(self.credentials.certificate, Role.ENTITY)
        return header


def _key_of(credentials: Credentials) -> ECKey | RSAKey:
    key = credentials.key
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return ECKey(key, key)
    return RSAKey(key, key)


def read_signer(
    key: bytes, certificates: bytes, password: bytes | None = None, *, embed: bool = True
) -> EventSigner:
    """Read the credentials of a signer, in PEM: RSA of 2048 bits or more, or P-256, P-384, P-521.

    Args:
        certificates: Its own, then intermediates.
        embed: As `EventSigner.certificates`.

    Raises:
        ValueError: They are none, the password is wrong or missing, or the key does not serve.
    """
    return EventSigner(read_credentials(key, certificates, password), embed)
