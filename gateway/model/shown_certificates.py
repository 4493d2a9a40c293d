"""Certificates that proved owners: a value that the store and security share."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ShownCertificate:
    """The certificate that an owner showed last.

    Attributes:
        owner: As the store knows it: with its tenant.
        numbers: Of it and of those above it (`gateway.security.principals.Identity.certificate`).
        shown: When, in POSIX seconds.
        revoked: It was revoked since. It stays so: lists leave out what has expired.
    """

    owner: str
    numbers: str
    shown: float
    revoked: bool = False

    def withdrawn(self) -> "ShownCertificate":
        """It, now that it is revoked."""
        return replace(self, revoked=True)
