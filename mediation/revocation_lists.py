"""Lists of certificates that their authorities have revoked (RFC 5280, section 5), beside the
certificates of these authorities in a file of PEM.

Of an authority that has no list in the file every certificate counts. Of one that has, those count
that no list names, until the next list is due (``nextUpdate``): then none of them does, because
whoever was revoked since would go on unseen.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from mediation.certificate_chains import has_issued
from mediation.certificates import UNREADABLE_CERTIFICATE, read_certificate, read_certificates
from mediation.public_keys import subject_public_key_info

MOST_REMEMBERED = 4096
"""Certificates of which it is remembered who is above them; then all are forgotten."""
_BEGIN = b"-----BEGIN X509 CRL-----"


class CertificateRevoked(ValueError):
    """A certificate does not count, by a list of its authority; the text says why."""


class ListOutOfDate(CertificateRevoked):
    """The list of its authority may not name it, but is out of date: *list*."""

    def __init__(self, found: "RevocationList") -> None:
        super().__init__("the list of what its authority has revoked is out of date")
        self.list = found


@dataclass(frozen=True, slots=True)
class RevocationList:
    """A list whose signature was checked.

    Attributes:
        authority: The certificate of who signed it.
        numbers: The serial numbers of the certificates that are revoked.
        begins: When it was made.
        ends: When the next one is due; None: nobody says so.
    """

    authority: x509.Certificate
    numbers: frozenset[int]
    begins: datetime
    ends: datetime | None

    @property
    def issuer(self) -> str:
        """The name of the authority (RFC 4514)."""
        return self.authority.subject.rfc4514_string()

    def is_due(self, now: datetime) -> bool:
        """Return True if another should be there."""
        return self.ends is not None and self.ends < now

    def check(self, certificate: x509.Certificate, now: datetime) -> None:
        """Check a *certificate* that says that this authority issued it.

        Raises:
            CertificateRevoked: It does not count.
        """
        named, due = certificate.serial_number in self.numbers, self.is_due(now)
        # Another authority may have the same name, and numbers of its own.
        if (named or due) and has_issued(self.authority, certificate):
            if named:
                raise CertificateRevoked("the certificate is revoked")
            raise ListOutOfDate(self)


class Revocations:
    """What the lists of a file say of certificates.

    Args:
        certificates: Of the authorities, by which the *lists* must be.

    Attributes:
        lists: Those that count: of each authority, and each part of its certificates, the newest.

    Raises:
        ValueError: A list is by none of them, cannot be read, or is one of changes to another, or
            of what others have issued.
    """

    def __init__(
        self,
        certificates: Sequence[x509.Certificate] = (),
        lists: Sequence[x509.CertificateRevocationList] = (),
    ) -> None:
        newest: dict[tuple[bytes, bytes], RevocationList] = {}
        for one in lists:
            authority, part = _signer_of(one, certificates), _part_of(one)
            key = subject_public_key_info(authority.public_key()), part
            read = RevocationList(
                authority,
                frozenset(entry.serial_number for entry in one),
                one.last_update_utc,
                one.next_update_utc,
            )
            if key not in newest or newest[key].begins < read.begins:
                newest[key] = read
        self.lists = tuple(newest.values())
        self._of: dict[x509.Name, list[RevocationList]] = {}
        self._numbers: dict[str, list[frozenset[int]]] = {}
        for read in self.lists:
            self._of.setdefault(read.authority.subject, []).append(read)
            self._numbers.setdefault(_hash_of(read.authority.subject), []).append(read.numbers)
        self._above: dict[x509.Name, list[x509.Certificate]] = {}
        for certificate in certificates:
            self._above.setdefault(certificate.subject, []).append(certificate)
        self._known: dict[tuple[bytes, ...], tuple[x509.Certificate, ...]] = {}
        self._known_numbers: dict[bytes, frozenset[str]] = {}

    def __bool__(self) -> bool:
        return bool(self.lists)

    def check(self, chain: Sequence[x509.Certificate], now: datetime) -> None:
        """Check the certificates of a *chain*.

        Raises:
            CertificateRevoked: One of them does not count *now*.
            `UNREADABLE_CERTIFICATE`: One cannot be read.
        """
        for one in chain:
            for read in self._of.get(one.issuer, ()):
                read.check(one, now)

    def check_shown(self, shown: Sequence[bytes], now: datetime) -> None:
        """Check the certificate (DER) that is the first of those *shown*, and those of the
        authorities above it, as far as these are known: from the file, or among the others.

        Raises:
            CertificateRevoked: One of them does not count *now*.
            ValueError: It cannot be read.
        """
        if not self.lists:
            return
        self.check(self._chain_of(shown), now)

    def numbers_of(self, certificate: bytes) -> frozenset[str]:
        """The numbers, as `is_named` takes them, of a *certificate* (DER) and of those above it.

        Raises:
            ValueError: It cannot be read.
        """
        known = self._known_numbers.get(certificate)
        if known is None:
            chain = self._chain_of([certificate])
            try:
                known = frozenset(f"{_hash_of(one.issuer)}:{one.serial_number:x}" for one in chain)
            except UNREADABLE_CERTIFICATE as error:
                raise ValueError(str(error)) from error
            if len(self._known_numbers) >= MOST_REMEMBERED:
                self._known_numbers.clear()
            self._known_numbers[certificate] = known
        return known

    def is_named(self, number: str) -> bool:
        """Return True if a list has a certificate's *number*: of its issuer's name, and its own."""
        issuer, _, own = number.partition(":")
        return any(int(own, 16) in numbers for numbers in self._numbers.get(issuer, ()))

    def next_due(self, now: datetime) -> datetime | None:
        """When the first of the lists is due that are not yet at *now*; None: none will be."""
        ends = [one.ends for one in self.lists if one.ends is not None and one.ends >= now]
        return min(ends, default=None)

    def _chain_of(self, shown: Sequence[bytes]) -> tuple[x509.Certificate, ...]:
        key = tuple(shown)
        known = self._known.get(key)
        if known is not None:
            return known
        try:
            leaf, *others = map(read_certificate, shown)
            chain = [leaf]
            for one in chain:  # It grows meanwhile, to all that are above.
                above = [*self._above.get(one.issuer, ())]
                above += [other for other in others if other.subject == one.issuer]
                chain += [other for other in above if other not in chain and has_issued(other, one)]
        except UNREADABLE_CERTIFICATE as error:
            raise ValueError(str(error)) from error
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[key] = found = tuple(chain)
        return found  # Another thread may have forgotten all meanwhile.


NO_REVOCATIONS = Revocations()


def read_revocations(
    pem: bytes, certificates: Sequence[x509.Certificate] | None = None
) -> Revocations:
    """Read the lists in PEM, which may be none: then certificates that cannot be read are nobody's.

    Args:
        certificates: Of the authorities; None: those in *pem*.

    Raises:
        ValueError: One cannot be read, or as `Revocations`.
    """
    lists = list(_lists_in(pem))
    if not lists and certificates is not None:
        return NO_REVOCATIONS
    try:
        return Revocations(read_certificates(pem) if certificates is None else certificates, lists)
    except UNREADABLE_CERTIFICATE as error:
        if not lists:  # Others may read them, such as OpenSSL.
            return NO_REVOCATIONS
        raise ValueError(str(error)) from error


def _hash_of(name: x509.Name) -> str:
    return hashlib.sha256(name.rfc4514_string().encode()).hexdigest()[:32]


def _lists_in(pem: bytes) -> Iterator[x509.CertificateRevocationList]:
    for part in pem.split(_BEGIN)[1:]:
        try:
            yield x509.load_pem_x509_crl(_BEGIN + part)  # What follows its end is not read.
        except UNREADABLE_CERTIFICATE as error:
            raise ValueError(f"a list of revoked certificates cannot be read: {error}") from error


def _signer_of(
    one: x509.CertificateRevocationList, certificates: Sequence[x509.Certificate]
) -> x509.Certificate:
    """Who signed a list: one that nobody signed who is trusted would be an operator's error.

    Raises:
        ValueError: None of *certificates* did.
    """
    for certificate in certificates:
        if certificate.subject != one.issuer:
            continue
        try:
            key = certificate.public_key()
            if one.is_signature_valid(key):  # type: ignore[arg-type]  # Of any kind.
                return certificate
        except (TypeError, InvalidSignature, UnsupportedAlgorithm):
            continue
    raise ValueError("a list of revoked certificates is by none of its authorities")


def _part_of(one: x509.CertificateRevocationList) -> bytes:
    """Which certificates of its authority a list is about, as that says it; empty: all.

    Raises:
        ValueError: It is about others, changes another list, or says what is not known here.
    """
    part = b""
    for extension in one.extensions:
        value = extension.value
        if isinstance(value, x509.DeltaCRLIndicator):
            raise ValueError("a list of revoked certificates has the changes to another one alone")
        if isinstance(value, x509.IssuingDistributionPoint):
            if value.indirect_crl:
                raise ValueError("a list of revoked certificates is about those of others, too")
            part = value.public_bytes()
        elif extension.critical:
            what = extension.oid.dotted_string
            raise ValueError(f"a list of revoked certificates says what is not known: {what}")
    return part
