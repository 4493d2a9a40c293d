"""Passwords: kept as Argon2id, verified in threads, and not to be guessed.

RFC 9106, "Argon2 Memory-Hard Function": 19 MiB and 2 passes, 25 ms of a core. What a stranger makes
us compute is bounded: after ten failures of a user, or of a network address, in a minute, nothing
is computed until the next one may be. Keys and tokens are not bound by that: nobody finds one by
trying, and others may be behind the same address.
"""

import asyncio
import re
import secrets
import time
from collections.abc import Callable

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from filters import Reason
from gateway.security.quotas import QuotaExceeded
from gateway.token_bucket import TokenBucket

FAILURES, FAILURES_AT_ONCE = 10 / 60, 10.0
"""Failures a second that a user, and an address, may have on average, and at once."""
AT_ONCE = 2
"""Passwords that are verified at the same time: each takes 19 MiB and a core."""
_PASSES, _KIBIBYTES = 2, 19 * 1024
_FORM = re.compile(
    r"\$argon2id\$v=19\$m=([0-9]{1,9}),t=([0-9]{1,9}),p=[0-9]{1,2}\$[A-Za-z0-9+/]{11,64}\$[A-Za-z0-9+/]{16,128}"
)
MAX_LENGTH = 1024
"""Bytes of a password."""


def hash_password(password: str) -> str:
    """Return the hash of *password* as the file of identities has it, with a salt of its own."""
    kdf = Argon2id(
        salt=secrets.token_bytes(16),
        length=32,
        iterations=_PASSES,
        lanes=1,
        memory_cost=_KIBIBYTES,
    )
    return kdf.derive_phc_encoded(password.encode())


def is_hash(text: str) -> bool:
    """Return True if *text* is a hash that `Passwords` can verify, at a bounded cost."""
    form = _FORM.fullmatch(text)
    return form is not None and int(form[1]) <= 256 * 1024 and int(form[2]) <= 16


class Failures:
    """Counts failed proofs of each user and of each network address.

    Args:
        rate, at_once: Those a second, and at once, that each may have.
    """

    def __init__(self, rate: float = FAILURES, at_once: float = FAILURES_AT_ONCE) -> None:
        self._bucket = TokenBucket(rate, at_once)

    def check(self, *who: str) -> None:
        """See that another proof may be looked at.

        Raises:
            QuotaExceeded: One of *who* has failed too often.
        """
        now = time.monotonic()
        wait = max(self._bucket.wait_of(one, now, number=1.0) for one in who)
        if wait:
            raise QuotaExceeded(Reason.RATE, "Too many failed logins.", retry_after=wait)

    def count(self, *who: str) -> None:
        """Count a failure of each of *who*."""
        now = time.monotonic()
        for one in who:
            self._bucket.take(one, now)


class Passwords:
    """Verifies passwords."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._decoy = hash_password(secrets.token_urlsafe())
        """Verified where there is no such user, so that the answer takes as long."""

    async def verify(
        self, password: str, hashed: str | None, check: Callable[[], None] = lambda: None
    ) -> bool:
        """Return True if *password* is the one of *hashed*; without a hash False, as late.

        Args:
            check: Raises where it is not to be looked at any more. It is asked when it is the
                password's turn: of a thousand at once those behind ten failures cost nothing.
        """
        octets = password.encode()
        known = hashed is not None and len(octets) <= MAX_LENGTH
        check()
        async with self._turns:
            check()
            right = await asyncio.to_thread(_verify, octets[:MAX_LENGTH], hashed or self._decoy)
        return right and known


def _verify(password: bytes, hashed: str) -> bool:
    try:
        Argon2id.verify_phc_encoded(password, hashed)
    except InvalidKey:
        return False
    return True
