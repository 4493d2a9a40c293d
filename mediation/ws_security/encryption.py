"""Encrypt the content of a Body for one receiver, and decrypt what was encrypted for us.

    wsse:Security
      xenc:EncryptedKey                 a fresh key, encrypted by RSA-OAEP for a certificate
        xenc:ReferenceList
      xenc:EncryptedData                a Signature or a token, where a peer encrypts that, too
    wsse11:EncryptedHeader
      xenc:EncryptedData                a header block, where a peer encrypts some
    s:Body
      xenc:EncryptedData                the content, encrypted by AES with that key

XML Encryption 1.1 (https://www.w3.org/TR/xmlenc-core1/). Who can try many messages learns from the
answers whether the padding of AES-CBC was right, and from that the content (section 6.1.1): so
all that fails is one error, CBC is taken only where it is wanted, and then in messages whose
signature is verified before anything else is said of them. RSA with PKCS #1 1.5, which tells as
much of the key, is not taken at all.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, SHA384, SHA512, HashAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from lxml import etree

from filters import DocumentLimits, Reason
from filters.documents import DEFAULT_LIMITS, parse_own
from mediation import names
from mediation.certificates import extension_of, read_certificates
from mediation.model.errors import MediationError
from mediation.public_keys import is_usable_key
from mediation.soap.envelopes import elements, soap_of, xml_text
from mediation.ws_security.errors import unsupported_algorithm
from mediation.ws_security.header import (
    ENCRYPTED_KEY,
    SECURITY,
    SecuredEnvelope,
    algorithm,
    octets_in,
    read_secured,
)
from mediation.xml_security import write_cipher_data

_E, _E11, _D = f"{{{names.XENC}}}", f"{{{names.XENC_1_1}}}", f"{{{names.DSIG}}}"
ENCRYPTED_DATA = f"{_E}EncryptedData"
_ENCRYPTED_HEADER = f"{{{names.WSSE_1_1}}}EncryptedHeader"
_IV, _NONCE, _TAG = 16, 12, 16
MAX_PARTS, MAX_KEYS = 24, 4
"""Encrypted parts of a message (the Body, header blocks, what is in Security), and keys of them,
each of which takes a private key 1 ms."""

_GCM: Mapping[str, int] = {f"{names.XENC_1_1}aes{8 * size}-gcm": size for size in (16, 24, 32)}
_CBC: Mapping[str, int] = {f"{names.XENC}aes{8 * size}-cbc": size for size in (16, 24, 32)}
"""Bytes of the keys of ciphers."""
_DIGESTS: Mapping[str, HashAlgorithm] = {
    f"{names.DSIG}sha1": SHA1(),  # OAEP needs no digest without collisions.
    names.XENC_SHA256: SHA256(),
    f"{names.DSIG_MORE}sha384": SHA384(),
    f"{names.XENC}sha512": SHA512(),
}
_MASKS: Mapping[str, HashAlgorithm] = {
    f"{names.XENC_1_1}mgf1sha1": SHA1(),
    names.XENC_MGF1_SHA256: SHA256(),
    f"{names.XENC_1_1}mgf1sha384": SHA384(),
    f"{names.XENC_1_1}mgf1sha512": SHA512(),
}


DecryptionKeys: TypeAlias = tuple[rsa.RSAPrivateKey, ...]
"""Ours: one, or two while one replaces the other."""


@dataclass(frozen=True, slots=True)
class Decrypted:
    """A message after it was decrypted.

    Attributes:
        authenticated: Nobody can have changed what was encrypted. False of AES-CBC: there only a
            signature says that.
        body: The content of the Body was encrypted; False where header blocks alone were.
    """

    octets: bytes
    authenticated: bool
    body: bool = True


def decryption_failed() -> MediationError:
    """The one error for all that can be wrong with what is encrypted."""
    return MediationError(Reason.SIGNATURE_REFUSED, "The message cannot be decrypted.")


def read_decryption_keys(pem: bytes) -> DecryptionKeys:
    """Read private keys in PEM: one, or another one behind it while one replaces the other.

    Raises:
        ValueError: There is none, or one that is not RSA of 2048 bits and more.
    """
    begin = b"-----BEGIN "
    found = []
    for part in pem.split(begin)[1:]:
        try:
            key = load_pem_private_key(begin + part, None)
        except (TypeError, ValueError, UnsupportedAlgorithm) as error:
            raise ValueError("a key cannot be read: write it in PEM, without a password") from error
        if not isinstance(key, rsa.RSAPrivateKey) or not is_usable_key(key.public_key()):
            raise ValueError("a key is not RSA of 2048 bits and more")
        found.append(key)
    if not 1 <= len(found) <= 2:
        raise ValueError(f"it has {len(found)} keys: write one, or two")
    return tuple(found)


def read_recipient(pem: bytes) -> x509.Certificate:
    """Read the certificate, in PEM, of whom messages are encrypted for.

    Raises:
        ValueError: There is none, its key is not RSA of 2048 bits and more, or it is certified for
            other uses.
    """
    return check_recipient(read_certificates(pem)[0])


def check_recipient(certificate: x509.Certificate) -> x509.Certificate:
    """Return *certificate*, for which messages can be encrypted.

    Raises:
        ValueError: As `read_recipient`.
    """
    key = certificate.public_key()
    if not isinstance(key, rsa.RSAPublicKey) or not is_usable_key(key):
        raise ValueError("its key is not RSA of 2048 bits and more")
    usage = extension_of(certificate, x509.KeyUsage)
    if usage is not None and not usage.key_encipherment:
        raise ValueError("it is not for the encipherment of keys")
    return certificate


def decrypt_message(
    octets: bytes,
    keys: DecryptionKeys,
    *,
    cbc: bool = False,
    limits: DocumentLimits = DEFAULT_LIMITS,
    learnt: set[str] | None = None,
) -> Decrypted | None:
    """Decrypt the content of the Body, header blocks, and what is in the Security header, wherever
    it is encrypted; None where nothing is.

    Args:
        cbc: AES-CBC is taken, too.

    Raises:
        MediationError: ``ALGORITHM_UNSUPPORTED``; ``SIGNATURE_REFUSED``, whatever else is wrong.
        Refused: It is no envelope.
    """
    secured = read_secured(octets, limits, learnt)
    if secured is None:
        return None
    content = elements(secured.body)
    parts = [(one, one) for one in content if one.tag == ENCRYPTED_DATA]
    if parts and len(content) > 1:
        raise decryption_failed()
    in_body = bool(parts)
    for block in secured.envelope.headers:
        if block.tag == _ENCRYPTED_HEADER:
            parts.append((block, _only_data(block)))
    parts += [(one, one) for one in elements(secured.security) if one.tag == ENCRYPTED_DATA]
    if not parts:
        return None
    if len(parts) > MAX_PARTS:
        raise decryption_failed()
    return _decrypt(parts, secured, keys, cbc=cbc, in_body=in_body)


def _only_data(block: etree._Element) -> etree._Element:
    """The EncryptedData that an EncryptedHeader has, and nothing beside it."""
    found = elements(block)
    if len(found) != 1 or found[0].tag != ENCRYPTED_DATA:
        raise decryption_failed()
    return found[0]


def _decrypt(
    parts: list[tuple[etree._Element, etree._Element]],
    secured: SecuredEnvelope,
    keys: DecryptionKeys,
    *,
    cbc: bool,
    in_body: bool,
) -> Decrypted:
    """*parts*: what gives place to what was encrypted, and the EncryptedData in it."""
    secrets: dict[etree._Element, bytes | None] = {}
    opened, authenticated = [], True
    for place, data in parts:
        cipher = algorithm(_method(data))
        size = _GCM.get(cipher) or (_CBC.get(cipher) if cbc else None)
        if size is None:
            raise unsupported_algorithm(cipher[:200])
        wrapped = _key_of(data, secured)
        if wrapped not in secrets:
            if len(secrets) == MAX_KEYS:
                raise decryption_failed()
            secrets[wrapped] = _unwrap(_value(wrapped), _padding(_method(wrapped)), keys)
        secret = secrets[wrapped]
        fits = secret is not None and len(secret) == size
        # All is tried that can be, so that the time tells no more than the error.
        key = secret if secret is not None and fits else bytes(size)
        plain = _open(_value(data), key, authenticated=cipher in _GCM)
        opened.append((place, plain if fits else None, key))
        authenticated = authenticated and cipher in _GCM
    if any(plain is None for _, plain, _ in opened):
        raise decryption_failed()
    for wrapped in secrets:
        if wrapped.getparent() is secured.security:
            secured.security.remove(wrapped)
    if not elements(secured.security):
        _remove(secured.security)
    found = [(place, plain, key) for place, plain, key in opened if plain is not None]
    return Decrypted(_put(found, secured), authenticated, in_body)


def _put(opened: list[tuple[etree._Element, bytes, bytes]], secured: SecuredEnvelope) -> bytes:
    """The envelope with what was encrypted in its places, where the same prefixes are in scope. It
    is as foreign as before, and is read as a whole by whoever gets it."""
    marks: list[tuple[bytes, bytes]] = []
    for place, plain, secret in opened:
        # Nobody can have written it elsewhere.
        mark = hashlib.sha256(secret + len(marks).to_bytes(2) + plain).hexdigest()
        comment = etree.Comment(mark)
        comment.tail = place.tail
        parent = place.getparent()
        if parent is None:
            raise decryption_failed()
        parent.replace(place, comment)
        marks.append((f"<!--{mark}-->".encode(), plain))
    written = etree.tostring(secured.root, encoding="UTF-8")
    for comment_octets, plain in marks:
        written = written.replace(comment_octets, plain, 1)
    return written


def _remove(element: etree._Element) -> None:
    parent = element.getparent()
    if parent is not None:
        parent.remove(element)


def _method(element: etree._Element) -> etree._Element:
    found = element.find(f"{_E}EncryptionMethod")
    if found is None:
        raise decryption_failed()
    return found


def _key_of(data: etree._Element, secured: SecuredEnvelope) -> etree._Element:
    """The only EncryptedKey, in the header or beside the data."""
    info = data.find(f"{_D}KeyInfo")
    places = [secured.security] if info is None else [secured.security, info]
    found = [one for place in places for one in elements(place) if one.tag == ENCRYPTED_KEY]
    if len(found) != 1:
        raise decryption_failed()
    return found[0]


def _padding(method: etree._Element) -> OAEP:
    uri = algorithm(method)
    if uri not in (names.XENC_RSA_OAEP_MGF1P, names.XENC_RSA_OAEP):
        raise unsupported_algorithm(uri[:200])
    parts = {one.tag: one for one in elements(method)}
    digest = _named(parts.pop(f"{_D}DigestMethod", None), _DIGESTS)
    mask: HashAlgorithm = SHA1()
    if uri == names.XENC_RSA_OAEP:
        mask = _named(parts.pop(f"{_E11}MGF", None), _MASKS)
    if parts:
        raise unsupported_algorithm("RSA-OAEP with other parameters")
    return OAEP(MGF1(mask), digest, None)


def _named(method: etree._Element | None, known: Mapping[str, HashAlgorithm]) -> HashAlgorithm:
    if method is None:
        return SHA1()
    found = known.get(algorithm(method))
    if found is None:
        raise unsupported_algorithm(algorithm(method)[:200])
    return found


def _value(element: etree._Element) -> bytes:
    found = element.find(f"{_E}CipherData/{_E}CipherValue")
    if found is None:
        raise decryption_failed()
    try:
        return octets_in(found)
    except MediationError:
        raise decryption_failed() from None


def _unwrap(wrapped: bytes, padding: OAEP, keys: DecryptionKeys) -> bytes | None:
    for key in keys:
        with suppress(ValueError):
            return key.decrypt(wrapped, padding)
    return None


def _open(cipher: bytes, secret: bytes, *, authenticated: bool) -> bytes | None:
    if authenticated:
        with suppress(InvalidTag, ValueError):
            return AESGCM(secret).decrypt(cipher[:_NONCE], cipher[_NONCE:], None)
        return None
    if len(cipher) < 2 * _IV or len(cipher) % _IV:
        return None
    decryptor = Cipher(algorithms.AES(secret), modes.CBC(cipher[:_IV])).decryptor()
    padded = decryptor.update(cipher[_IV:]) + decryptor.finalize()
    return padded[: -padded[-1]] if 1 <= padded[-1] <= _IV else None


# Encrypting.


def encrypt_envelope(envelope: bytes, recipient: x509.Certificate, *, unique: str) -> bytes:
    """Encrypt the content of the Body of *envelope*, which is our own, with AES-256-GCM.

    Args:
        recipient: As `read_recipient` gives it.
        unique: Letters and digits that no element's id begins with.

    Raises:
        ValueError: It is no envelope.
    """
    try:
        root = parse_own(envelope)
        soap = soap_of(root).value
        body = elements(root)[-1]
    except (etree.XMLSyntaxError, IndexError, MediationError) as error:
        raise ValueError("it is no envelope") from error
    header = root.find(f"{{{soap}}}Header")
    if header is None:
        header = etree.Element(f"{{{soap}}}Header")
        root.insert(0, header)
    security = header.find(SECURITY)
    if security is None:
        security = parse_own(f'<wsse:Security xmlns:wsse="{names.WSSE}"/>'.encode())
        header.insert(0, security)
    secret, nonce = AESGCM.generate_key(256), AESGCM.generate_key(128)[:_NONCE]
    cipher = nonce + AESGCM(secret).encrypt(nonce, _content(body), None)
    del body[:]  # `remove` takes nine times as long for four times as many elements.
    body.text = None
    body.append(parse_own(_data(cipher, unique)))
    security.insert(0, parse_own(_key(secret, recipient, unique)))
    return etree.tostring(root, encoding="UTF-8")


def _content(body: etree._Element) -> bytes:
    """The content of *body*, every namespace declared on each element that is in scope there."""
    written = [etree.tostring(child, encoding="UTF-8") for child in body]
    return b"".join([xml_text(body.text or "").encode(), *written])


def _data(cipher: bytes, unique: str) -> bytes:
    return (
        f'<xenc:EncryptedData xmlns:xenc="{names.XENC}" Id="{unique}-d"'
        f' Type="{names.XENC_CONTENT}">'
        f'<xenc:EncryptionMethod Algorithm="{names.XENC_AES256_GCM}"/>'
        f'<ds:KeyInfo xmlns:ds="{names.DSIG}"><wsse:SecurityTokenReference'
        f' xmlns:wsse="{names.WSSE}"><wsse:Reference URI="#{unique}-k"/>'
        "</wsse:SecurityTokenReference></ds:KeyInfo>"
        f"{write_cipher_data(cipher)}</xenc:EncryptedData>"
    ).encode()


def _key(secret: bytes, recipient: x509.Certificate, unique: str) -> bytes:
    public = recipient.public_key()
    if not isinstance(public, rsa.RSAPublicKey):
        raise ValueError("nothing can be encrypted for this certificate")
    wrapped = public.encrypt(secret, OAEP(MGF1(SHA1()), SHA1(), None))
    return (
        f'<xenc:EncryptedKey xmlns:xenc="{names.XENC}" xmlns:ds="{names.DSIG}" Id="{unique}-k">'
        f'<xenc:EncryptionMethod Algorithm="{names.XENC_RSA_OAEP_MGF1P}">'
        f'<ds:DigestMethod Algorithm="{names.DSIG}sha1"/></xenc:EncryptionMethod>'
        f'<ds:KeyInfo><wsse:SecurityTokenReference xmlns:wsse="{names.WSSE}"><ds:X509Data>'
        "<ds:X509IssuerSerial>"
        f"<ds:X509IssuerName>{xml_text(recipient.issuer.rfc4514_string())}</ds:X509IssuerName>"
        f"<ds:X509SerialNumber>{recipient.serial_number}</ds:X509SerialNumber>"
        "</ds:X509IssuerSerial></ds:X509Data></wsse:SecurityTokenReference></ds:KeyInfo>"
        f"{write_cipher_data(wrapped)}<xenc:ReferenceList>"
        f'<xenc:DataReference URI="#{unique}-d"/></xenc:ReferenceList></xenc:EncryptedKey>'
    ).encode()
