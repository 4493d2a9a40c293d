"""Verify the signature of a message: who signed it, and that all that is acted upon is signed.

    wsse:Security
      wsu:Timestamp                     signed
      wsse:BinarySecurityToken          the certificate, or ds:KeyInfo names one
      ds:Signature
        ds:SignedInfo                   exclusive canonicalisation
          ds:Reference URI="#id"        one each, transformed by nothing else
        ds:SignatureValue
        ds:KeyInfo

A signature says which elements it covers, and not where they stand: an attacker can move the signed
Body into a header block that nobody reads, and write another Body. So what is covered is taken by
the nodes, in the same octets that the message is read from, and must be the Body, the Timestamp and
every header block for us.

Exclusive canonical form leaves out prefixes that only content uses, such as those of topics and of
XPath, unless the signer names them (InclusiveNamespaces). Whoever is in between could bind them to
another namespace; so where our specifications read such a prefix, it must be signed, too.
"""

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from filters import DocumentLimits, Reason
from filters.documents import DEFAULT_LIMITS
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.expiry import parse_date_time
from mediation.model.versions import Wsa
from mediation.soap.envelopes import elements, local_name, namespace_of, text_of, whole_text
from mediation.ws_security.algorithms import USUAL, Algorithms, is_signature
from mediation.ws_security.errors import failed, invalid, unsupported_algorithm
from mediation.ws_security.header import (
    SIGNATURE,
    SecuredEnvelope,
    algorithm,
    canonical,
    elements_by_id,
    octets_in,
    only,
    read_canonicalization,
    read_secured,
    reference_id,
)
from mediation.ws_security.key_info import TOKEN_REFERENCE, certificates_of, refers_to
from mediation.ws_security.trust import Trust

MAX_REFERENCES = 24
"""Body, Timestamp and token, seven headers of WS-Addressing, and those of the application."""
OLDEST, NEWEST = timedelta(seconds=300), timedelta(seconds=60)
"""How old a message may be, and how far ahead its sender's clock."""

_OF_NAMES = r"[^\x00-,/:-@\[-^`{-\x7f]"
"""Letters of ASCII and ``_``, and what XML and XPath let stand before or within a name: digits,
``.``, ``-``, and all that is not ASCII."""
_BEFORE_COLON = re.compile(rf"(?<!{_OF_NAMES})({_OF_NAMES}++):(?!/)")
"""What may end in a prefix, in the text of an element; each run of characters is looked at once."""
_BEFORE_NAMES = frozenset("-.0123456789")
"""What of it may stand before a name: XPath has operators and numbers."""
_READ_BY_PREFIXES = frozenset(
    {
        names.WSE_2004_01, names.WSE_2004_08, names.WSE_2011_03, names.WSN_1_3, names.WSN_1_3_SLASH,
        names.WSN_BR_1_3, names.WSTOP_1_3, names.WSN_2004_06, names.WSN_BR_2004_06, names.WSN_IBM,
        names.WSN_BR_IBM, names.WSRF_RP, names.WSRF_RP_2004_06, names.WSRF_RP_IBM, names.WSMAN,
        names.WSE_FILTER_COMBINED, names.WSE_NOTIFICATION, names.SYNAPSE_TOPIC, names.GRID_EVENTS,
        names.TDN, names.DRAGOMAN_MANAGEMENT,
    }
)  # fmt: skip
"""Namespaces of elements in whose text prefixes are read."""
_D = f"{{{names.DSIG}}}"
_REFERENCE = f"{_D}Reference"
_TIMESTAMP = f"{{{names.WSU}}}Timestamp"
_CREATED, _EXPIRES = f"{{{names.WSU}}}Created", f"{{{names.WSU}}}Expires"
_TO = frozenset(f"{{{wsa.value}}}To" for wsa in Wsa)


@dataclass(frozen=True, slots=True)
class SignedMessage:
    """A message whose signature holds.

    Attributes:
        certificate: The signer's (DER).
        fingerprint: 32 octets, the same whenever the same message is sent again.
        to: The address that it was signed for; None where it says none.
        names_signer: What its Body asks for has a SecurityTokenReference, and that refers to the
            signer's certificate.
    """

    certificate: bytes
    fingerprint: bytes
    to: str | None = None
    names_signer: bool = False


@dataclass(frozen=True, slots=True)
class _Reference:
    id: str
    prefixes: tuple[str, ...]
    digest_method: str
    digest: bytes


def verify_message(
    octets: bytes,
    trust: Trust,
    *,
    now: datetime,
    limits: DocumentLimits = DEFAULT_LIMITS,
    algorithms: Algorithms = USUAL,
    learnt: set[str] | None = None,
) -> SignedMessage | None:
    """Verify the signature in the Security header of an envelope; None where it has none.

    Args:
        trust: Whose signatures count.

    Raises:
        MediationError: ``TOKEN_INVALID``, ``TOKEN_UNSUPPORTED``, ``TOKEN_UNAVAILABLE``,
            ``CERTIFICATE_REFUSED``, ``SIGNATURE_REFUSED``, ``ALGORITHM_UNSUPPORTED``,
            ``MESSAGE_EXPIRED``.
        Refused: It is no envelope.
    """
    secured = read_secured(octets, limits, learnt)
    if secured is None:
        return None
    found = [one for one in elements(secured.security) if one.tag == SIGNATURE]
    if not found:
        return None
    if len(found) > 1:
        raise invalid("there are several signatures")
    return _verify(found[0], secured, trust, now, algorithms)


def verify_when_made(
    octets: bytes, trust: Trust
) -> tuple[SignedMessage, datetime, Sequence[etree._Element]] | None:
    """Verify an envelope as at the time that its Timestamp says, which is signed; None where it has
    no signature. That time, and the header blocks for us: there is none that is not signed.

    Raises:
        As `verify_message`.
    """
    secured = read_secured(octets, DEFAULT_LIMITS)
    if secured is None:
        return None
    found = [one for one in elements(secured.security) if one.tag == SIGNATURE]
    if len(found) != 1:
        return None
    created = _times_in(secured)[0]
    signed = _verify(found[0], secured, trust, created, USUAL)
    return signed, created, secured.envelope.headers


def _verify(
    signature: etree._Element,
    secured: SecuredEnvelope,
    trust: Trust,
    now: datetime,
    algorithms: Algorithms,
) -> SignedMessage:
    """What is cheap goes first: nothing is digested for whom nobody trusts."""
    signed_info, value, info = only(
        signature, f"{_D}SignedInfo", f"{_D}SignatureValue", f"{_D}KeyInfo"
    )
    prefixes, method, references = _read_signed_info(signed_info, algorithms)
    certificate = trust.check(certificates_of(info, secured, trust), now)
    signed = canonical(signed_info, prefixes)
    if not is_signature(certificate.public_key(), method, signed, octets_in(value)):
        raise failed("it is wrong")
    covered = list(_covered(references, secured, algorithms))
    _check_coverage(covered, secured)
    _check_age(secured, now)
    return SignedMessage(
        certificate.public_bytes(Encoding.DER),
        hashlib.sha256(signed).digest(),
        next((text_of(one) for one in secured.envelope.headers if one.tag in _TO), None),
        _names(certificate, secured),
    )


def _names(certificate: x509.Certificate, secured: SecuredEnvelope) -> bool:
    """Return whether what is asked for is to be bound to *certificate*, as CreateSequence says it
    (WS-ReliableMessaging 1.1, section 6.1)."""
    content = secured.envelope.body
    found = content[0].find(TOKEN_REFERENCE) if content else None
    return found is not None and refers_to(found, certificate, secured)


def _read_signed_info(
    signed_info: etree._Element, algorithms: Algorithms
) -> tuple[tuple[str, ...], str, list[_Reference]]:
    """The prefixes of its canonicalisation, the way to sign, and what it refers to."""
    parts = elements(signed_info)
    tags = [one.tag for one in parts]
    references = len(parts) - 2
    if tags != [f"{_D}CanonicalizationMethod", f"{_D}SignatureMethod", *[_REFERENCE] * references]:
        raise invalid("SignedInfo has other content than it may have")
    if not 1 <= references <= MAX_REFERENCES:
        raise invalid(f"there is no reference, or there are more than {MAX_REFERENCES}")
    canonicalization, method, *others = parts
    prefixes = read_canonicalization(canonicalization)
    only(method)  # No length of HMAC, no parameters.
    algorithms.check_method(algorithm(method))
    return prefixes, algorithm(method), [_read_reference(one) for one in others]


def _read_reference(reference: etree._Element) -> _Reference:
    transforms, method, value = only(
        reference, f"{_D}Transforms", f"{_D}DigestMethod", f"{_D}DigestValue"
    )
    found = elements(transforms)
    if len(found) != 1 or found[0].tag != f"{_D}Transform":
        raise unsupported_algorithm("other transforms than one exclusive canonicalisation")
    only(method)
    return _Reference(
        reference_id(reference.get("URI")),
        read_canonicalization(found[0]),
        algorithm(method),
        octets_in(value),
    )


def _covered(
    references: list[_Reference], secured: SecuredEnvelope, algorithms: Algorithms
) -> Iterator[etree._Element]:
    """The elements that are signed: the Body, header blocks, children of the Security header.

    Raises:
        MediationError: A reference is to another element, or not to what was signed.
    """
    found = elements_by_id(secured.root, {one.id for one in references})
    places = (secured.root, secured.security.getparent(), secured.security)
    for reference in references:
        element = found[reference.id]
        if not any(element.getparent() is place for place in places):
            raise failed("it covers an element that is neither the Body nor in the Header")
        digest = algorithms.digest(reference.digest_method, canonical(element, reference.prefixes))
        if not hmac.compare_digest(digest, reference.digest):
            raise failed(f"{local_name(element)} is not what was signed")
        _check_prefixes(element, reference.prefixes)
        yield element


def _check_prefixes(covered: etree._Element, named: tuple[str, ...]) -> None:
    """Refuse content that means something by a prefix that is not signed."""
    for element in covered.iter(etree.Element):
        if namespace_of(element) not in _READ_BY_PREFIXES:
            continue
        text = whole_text(element)  # Comments are not signed, and must hide nothing.
        if ":" not in text:
            continue
        in_scope = element.nsmap
        for prefix in _prefixes_in(text, in_scope):
            if not (prefix in named or _is_written(prefix, in_scope[prefix], element, covered)):
                raise failed(
                    f"the prefix {prefix}, which {local_name(element)} uses, is not signed: name "
                    "it in InclusiveNamespaces"
                )


def _prefixes_in(text: str, in_scope: Mapping[str | None, str]) -> Iterator[str]:
    """Those of the prefixes *in_scope* that *text* may use."""
    for written in set(_BEFORE_COLON.findall(text)):
        for prefix in in_scope:
            if prefix is None or not written.endswith(prefix):
                continue
            if written == prefix or written[-len(prefix) - 1] in _BEFORE_NAMES:
                yield prefix


def _is_written(prefix: str, uri: str, element: etree._Element, covered: etree._Element) -> bool:
    """Return True if the canonical form declares *prefix* as *element* has it: where an element
    from *covered* down to it, or an attribute of one, has that prefix."""
    for one in (element, *element.iterancestors()):
        if one.nsmap.get(prefix) == uri and (
            one.prefix == prefix
            or any(
                f"{{{uri}}}" in str(key)
                for key in one.keys()  # noqa: SIM118 - of an element
            )
        ):
            return True
        if one is covered:
            break
    return False


def _check_coverage(covered: list[etree._Element], secured: SecuredEnvelope) -> None:
    """Refuse a message of which something is not signed that is acted upon."""
    blocks = [one for one in secured.envelope.headers if one is not secured.security]
    for element in (secured.body, _timestamp_in(secured), *blocks):
        if not any(element is one for one in covered):
            raise failed(f"{local_name(element)} is not signed")


def _timestamp_in(secured: SecuredEnvelope) -> etree._Element:
    found = [one for one in elements(secured.security) if one.tag == _TIMESTAMP]
    if len(found) != 1:
        raise invalid("there is no Timestamp, or several")
    return found[0]


def _times_in(secured: SecuredEnvelope) -> list[datetime]:
    """When the message was made, and when it expires, if it says so."""
    parts = elements(_timestamp_in(secured))
    if not parts or [one.tag for one in parts] not in ([_CREATED], [_CREATED, _EXPIRES]):
        raise invalid("the Timestamp does not say when the message was made")
    try:
        return [parse_date_time(text_of(one)) for one in parts]
    except ValueError:
        raise invalid("the Timestamp has no dateTime") from None


def _check_age(secured: SecuredEnvelope, now: datetime) -> None:
    created, *expires = _times_in(secured)
    if not -NEWEST <= now - created <= OLDEST:
        apart = (now - created).total_seconds()
        raise _expired(
            f"was made {abs(apart):.0f} s {'ago' if apart > 0 else 'ahead of our clock'}"
        )
    if expires and expires[0] <= now:
        raise _expired("has expired")


def _expired(why: str) -> MediationError:
    return MediationError(Reason.MESSAGE_EXPIRED, f"The message {why}.")
