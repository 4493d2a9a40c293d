"""Passwords: kept as Argon2id, verified in threads, and not to be guessed.

RFC 9106, "Argon2 Memory-Hard Function": 19 MiB and 2 passes, 25 ms of a core. What a stranger makes
us compute is bounded: after ten failures of a user, or of a network address, in a minute, nothing
is computed until the next one may be. A password that was verified is known by a fast hash for five
minutes, however its credentials are spelt: whoever has one has it computed once. A user has one
place in the line, whatever it sends at once, so that it stops no other. Keys and tokens are not
bound by that: nobody finds one by trying, and others may be behind the same address.
"""

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Container
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

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
MOST_SIDES = 16
"""Network addresses from which a verified password came that are remembered with it."""


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


@dataclass(frozen=True, slots=True)
class VerifiedPassword:
    """A password that was verified.

    Attributes:
        digest: Its hash, by a key that is in memory alone.
        until: Seconds since 1970.
        sides: Network addresses from which it came.
    """

    digest: bytes
    until: float
    sides: set[str] = field(default_factory=set)

    def note_side(self, side: str) -> None:
        """Remember that it came from *side*."""
        if len(self.sides) < MOST_SIDES:
            self.sides.add(side)


class VerifiedPasswords:
    """The passwords that were verified lately: one of each user, so that nobody's takes the place
    of another's."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[str, VerifiedPassword] = {}

    def keep_of(self, users: Container[str]) -> None:
        """Forget those of all but *users*. One that was changed since is not found any more."""
        self._known = {user: known for user, known in self._known.items() if user in users}

    def find(self, user: str, password: str, hashed: str | None) -> VerifiedPassword | None:
        """Return what is known of *password*, of which the file has the hash *hashed*; None where
        it is another than the one that was verified, or that is too long ago."""
        known = self._known.get(user)
        if known is None or hashed is None or known.until <= time.time():
            return None
        digest = self._digest(password, hashed)
        return known if hmac.compare_digest(known.digest, digest) else None

    def came_from(self, user: str, side: str) -> bool:
        """Return True if the password of *user* that was verified lately came from *side*."""
        known = self._known.get(user)
        return known is not None and known.until > time.time() and side in known.sides

    def remember(self, user: str, password: str, hashed: str, until: float) -> VerifiedPassword:
        """Remember *password* of *user*, which has the hash *hashed*, *until* then."""
        self._known[user] = made = VerifiedPassword(self._digest(password, hashed), until)
        return made

    def note(self, user: str, kept: str, until: float, side: str) -> None:
        """Note that a password of *user*, of which *kept* is kept, was proved from *side* without
        being said; as long as it is the same, *sides* before that count, too."""
        known = self.find(user, "", kept)
        sides = known.sides if known is not None else set()
        made = self.remember(user, "", kept, until)
        made.sides.update(sides)
        made.note_side(side)

    def _digest(self, password: str, hashed: str) -> bytes:
        octets = password.encode()
        # What is too long proves nothing, and need not be hashed.
        text = b"" if len(octets) > MAX_LENGTH else hashed.encode() + b"\0" + octets
        return hashlib.blake2b(text, key=self._key, digest_size=32).digest()


class Passwords:
    """Verifies passwords."""

    def __init__(self) -> None:
        self._users: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """The turn of each user, while somebody waits for it."""
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._decoy = hash_password(secrets.token_urlsafe())
        """Verified where there is no such user, so that the answer takes as long."""

    @asynccontextmanager
    async def turn_of(self, user: str) -> AsyncIterator[None]:
        """Wait until no other password of *user*, or of who is said to be one, is verified."""
        turn = self._users.get(user)
        if turn is None:
            self._users[user] = turn = asyncio.Lock()
        async with turn:
            yield

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
