"""Whom a certificate proves, by the file of identities: a user, or whom an authority certified."""

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import structlog

from gateway.security.certificate_authorities import (
    CertificateAuthority,
    certified_by,
    read_authority,
    roots_in,
)
from gateway.security.identities import Identities
from gateway.security.principals import CERTIFIED, USER, Identity
from gateway.security.revoked_certificates import RevokedCertificates
from mediation.certificates import UNREADABLE_CERTIFICATE, read_certificate
from mediation.revocation_lists import NO_REVOCATIONS

REMEMBERED = 300.0
"""Seconds for which it is not looked at again who issued a certificate."""
_MOST_REMEMBERED = 4096
_log = structlog.get_logger("dragoman.security")


class CertificateProofs:
    """Tells whom certificates prove, by *identities*, whose files are in *folder*. What a list of
    revoked certificates in one of these files has proves nobody, whatever rules say of its subject.

    Args:
        clients: What is revoked by the authorities of clients of TLS; None: there are none.
        former: What told it before: its lists hold on where their file cannot be used now.
    """

    def __init__(
        self,
        identities: Identities,
        folder: Path,
        clients: RevokedCertificates | None = None,
        former: "CertificateProofs | None" = None,
    ) -> None:
        self._identities = identities
        known = {} if former is None else former._of_files
        self._of_files: Mapping[Path, RevokedCertificates] = {
            path: known.get(path) or RevokedCertificates(path)
            for path in (folder / row.file for row in identities.authorities)
        }
        self._authorities = tuple(_load(identities, folder, self._of_files))
        self._lists = (*self._of_files.values(), *(() if clients is None else (clients,)))
        self._issued: dict[bytes, tuple[float, tuple[CertificateAuthority, ...]]] = {}
        """Who issued a certificate, and until when that holds."""

    def identity(self, certificate: bytes) -> Identity | None:
        """Return whom a *certificate* (DER) proves, which was verified; None where it has no
        subject that can be read, has expired, or is revoked: TLS looks at it once for as long as a
        connection is open."""
        subject = subject_of(certificate)
        if subject is None or _valid_until(certificate) <= time.time():
            return None
        if not self.counts(certificate):
            return None
        numbers = self._numbers_of(certificate)
        issuers = self._issuers_of(certificate)
        names = frozenset(one.name for one in issuers)
        users = self._identities.user_of_subject
        for issuer in (*sorted(names), None):
            if (name := users.get((subject, issuer))) is not None:
                user = self._identities.user_of_name[name]
                return Identity(
                    f"user:{name}",
                    frozenset(user.roles),
                    tenant=user.tenant,
                    authorities=names,
                    certificate=numbers,
                )
        found = Identity(f"cert:{subject}", certificate=numbers)
        if not issuers:
            return found
        keys = ",".join(sorted({one.key_id for one in issuers}))
        return replace(found, owner=f"{CERTIFIED}{keys}:{subject}", authorities=names)

    def authorities_of(self, owner: str, tenant: str = "") -> frozenset[str]:
        """Return the names of the authorities that have certified *owner* in *tenant*: by the keys
        that it is known by, or as the file says of a user's certificates. Who is called like that
        user in another tenant, by an identity provider of that, has none of these."""
        if not owner.startswith(CERTIFIED):
            name = owner.removeprefix(USER)
            user = self._identities.user_of_name.get(name)
            if user is None or user.tenant != tenant:
                return frozenset()
            return self._identities.authorities_of_user.get(name, frozenset())
        keys = owner.split(":", 2)[1].split(",")
        return frozenset(one.name for one in self._authorities if one.key_id in keys)

    def counts(self, certificate: bytes) -> bool:
        """Return False where a *certificate* (DER) is revoked, or may be, or cannot be read."""
        try:
            for one in self._lists:
                one.check([certificate])
        except ValueError:
            return False
        return True

    def is_revoked(self, numbers: str) -> bool:
        """Return True if a list has one of the *numbers* of `Identity.certificate`."""
        return any(
            one.revocations.is_named(each) for each in numbers.split() for one in self._lists
        )

    def _numbers_of(self, certificate: bytes) -> str:
        """Its numbers, and those of what is above it; empty where no list can name it."""
        try:
            found = [one.revocations.numbers_of(certificate) for one in self._lists]
            found = found or [NO_REVOCATIONS.numbers_of(certificate)]
        except ValueError:
            return ""
        return " ".join(sorted(frozenset().union(*found)))

    def _issuers_of(self, certificate: bytes) -> tuple[CertificateAuthority, ...]:
        if not self._authorities:
            return ()
        digest, now = hashlib.sha256(certificate).digest(), time.time()
        until, found = self._issued.get(digest, (0.0, ()))
        if until <= now:
            found = certified_by(certificate, self._authorities)
            if len(self._issued) >= _MOST_REMEMBERED:
                self._issued.clear()
            self._issued[digest] = now + REMEMBERED, found
        return found


def trusted_by_name(
    identities: Identities, folder: Path, believed: Iterable[Path]
) -> tuple[list[str], int]:
    """Return the rows of *identities*, whose files are in *folder*, that trust a subject whoever
    has certified it, and how many authorities could: each can write somebody else's name into a
    certificate. No rows where that is one alone.

    Args:
        believed: PEM, whose authorities certify clients of TLS or signers.
    """
    files = [*(folder / row.file for row in identities.authorities), *believed]
    authorities = len(roots_in(files))
    return (list(identities.rows_of_subjects()) if authorities > 1 else []), authorities


def _load(
    identities: Identities, folder: Path, lists: Mapping[Path, RevokedCertificates]
) -> list[CertificateAuthority]:
    """Read the files of authorities, and the *lists* in them. One that cannot be read certifies
    nobody, and what it has revoked stays so."""
    found = []
    for row in identities.authorities:
        path = folder / row.file
        try:
            pem = path.read_bytes()
            use = lists[path].read(pem)
            found.append(read_authority(row.name, pem))
            use()
        except (OSError, ValueError) as error:
            _log.error("identity.authority-unusable", name=row.name, why=str(error)[:300])
    return found


@lru_cache(maxsize=1024)
def _valid_until(certificate: bytes) -> float:
    """Seconds since 1970."""
    return read_certificate(certificate).not_valid_after_utc.timestamp()


@lru_cache(maxsize=1024)
def subject_of(certificate: bytes) -> str | None:
    """The subject of a *certificate* (DER) in the form of RFC 4514; None where it has none, or
    cannot be read."""
    try:
        return read_certificate(certificate).subject.rfc4514_string() or None
    except UNREADABLE_CERTIFICATE:
        return None
