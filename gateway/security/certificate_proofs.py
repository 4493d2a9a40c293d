"""Whom a certificate proves, by the file of identities: a user, or whom an authority certified."""

import hashlib
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import structlog

from gateway.security.certificate_authorities import (
    CertificateAuthority,
    certified_by,
    load_authority,
    roots_in,
)
from gateway.security.identities import Identities
from gateway.security.principals import CERTIFIED, USER, Identity
from mediation.certificates import UNREADABLE_CERTIFICATE, read_certificate

REMEMBERED = 300.0
"""Seconds for which it is not looked at again who issued a certificate."""
_MOST_REMEMBERED = 4096
_log = structlog.get_logger("dragoman.security")


class CertificateProofs:
    """Tells whom certificates prove, by *identities*, whose files are in *folder*."""

    def __init__(self, identities: Identities, folder: Path) -> None:
        self._identities = identities
        self._authorities = tuple(_load(identities, folder))
        self._issued: dict[bytes, tuple[float, tuple[CertificateAuthority, ...]]] = {}
        """Who issued a certificate, and until when that holds."""

    def identity(self, certificate: bytes) -> Identity | None:
        """Return whom a *certificate* (DER) proves, which was verified; None where it has no
        subject that can be read, or has expired: TLS looks at it once for as long as a connection
        is open."""
        subject = subject_of(certificate)
        if subject is None or _valid_until(certificate) <= time.time():
            return None
        issuers = self._issuers_of(certificate)
        names = frozenset(one.name for one in issuers)
        users = self._identities.user_of_subject
        for issuer in (*sorted(names), None):
            if (name := users.get((subject, issuer))) is not None:
                user = self._identities.user_of_name[name]
                return Identity(
                    f"user:{name}", frozenset(user.roles), tenant=user.tenant, authorities=names
                )
        found = Identity(f"cert:{subject}")
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


def _load(identities: Identities, folder: Path) -> list[CertificateAuthority]:
    """Read the files of authorities. One that cannot be read certifies nobody."""
    found = []
    for row in identities.authorities:
        try:
            found.append(load_authority(row.name, folder / row.file))
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
