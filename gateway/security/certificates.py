"""Certificates in files: how long they are valid."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mediation.certificates import read_certificates


@dataclass(frozen=True, slots=True)
class Validity:
    """From when and until when a certificate is valid, in UTC."""

    since: datetime
    until: datetime

    def days_left(self, now: datetime) -> int:
        """Whole days until it expires; less than 0 where it has expired."""
        return (self.until - now).days


def validity_of(path: Path) -> Validity:
    """The validity of the first certificate in the file *path*, in PEM.

    Raises:
        OSError: The file cannot be read.
        ValueError: It has no certificate.
    """
    certificate = read_certificates(path.read_bytes())[0]
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)
