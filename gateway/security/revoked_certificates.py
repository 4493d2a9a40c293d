"""What the lists of revoked certificates in a file say of those that are shown."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import structlog

from mediation.revocation_lists import (
    NO_REVOCATIONS,
    ListOutOfDate,
    RevocationList,
    read_revocations,
)

_log = structlog.get_logger("dragoman.security")


class RevokedCertificates:
    """Checks certificates by the lists in *file*, as it was read last.

    Attributes:
        revocations: What is in it.
        read_at: When something else was read than before, in POSIX seconds; 0: nothing was.
        changed: Called then, in whatever thread.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._pem: bytes | None = None
        self._told: set[RevocationList] = set()
        self.revocations = NO_REVOCATIONS
        self.read_at = 0.0
        self.changed: Callable[[], None] = lambda: None

    def read(self, pem: bytes) -> Callable[[], None]:
        """Read *pem*, and return what has it count from then on.

        Raises:
            ValueError: A list in it cannot be used.
        """
        found = self.revocations if pem == self._pem else read_revocations(pem)

        def use() -> None:
            if pem != self._pem:
                self._pem, self.revocations, self.read_at = pem, found, time.time()
                self.changed()

        return use

    def check(self, shown: Sequence[bytes]) -> None:
        """Check the certificate (DER) that is the first of those *shown*; those of authorities
        above it may follow. That none of an authority counts, because its list is out of date, is
        logged once.

        Raises:
            ValueError: It is revoked, its authority's list is out of date, or it cannot be read.
        """
        try:
            self.revocations.check_shown(shown, datetime.now(UTC))
        except ListOutOfDate as refused:
            if refused.list not in self._told:
                self._told = {*self._told & set(self.revocations.lists), refused.list}
                _log.error(
                    "certificates.list-out-of-date",
                    file=str(self._file),
                    authority=refused.list.issuer,
                    due=str(refused.list.ends),
                )
            raise
