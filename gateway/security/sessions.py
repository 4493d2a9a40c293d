"""Sessions of people who logged in to the console: in memory, for thirty minutes without a request.

A session ends with what proved it, too: a key that is removed or expired, a password that is
another one now, an identity provider that is named no more. One that an identity provider proved
ends after eight hours: what it has withdrawn since is not known here.
"""

import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256

from gateway.security.api_key_hashes import PREFIX, hash_api_key
from gateway.security.authentication import Authentication
from gateway.security.identities import Issuer
from gateway.security.openid_login import OpenIdLogin
from gateway.security.principals import Identity, owner_in
from gateway.security.shares import who_makes_room

LONGEST = 8 * 3600.0
"""Seconds after which who logged in at an identity provider logs in there again."""
IDLE = 1800.0
"""Seconds without a request after which a session is over."""
MOST = 1000
"""Sessions. The one unused for longest makes room, of whoever has the most."""
MOST_OF_ONE = 50
"""Sessions of one user, who makes room alone: more browsers than one person has, and few enough
that twenty users, who mean harm, have to come together before they count for others."""


@dataclass(slots=True)
class _Session:
    identity: Identity
    proof: str
    """The hash of the key, or of the password."""
    used: float
    issuer: Issuer | None = None
    """That proved it."""
    opened: float = field(default_factory=time.monotonic)


class Sessions:
    """Opens and finds sessions.

    Attributes:
        openid: Logs people in at identity providers.
    """

    def __init__(self, authentication: Authentication, openid: OpenIdLogin) -> None:
        self._authentication = authentication
        self.openid = openid
        self._open: dict[bytes, _Session] = {}
        """By the hash of their tokens: what is in memory opens nothing."""

    async def log_in(self, user: str, secret: str, address: str) -> str:
        """Open a session of *user*, who says a password, or of whose key *secret* is; return its
        token.

        Raises:
            NotIdentified: *secret* proves nothing.
            QuotaExceeded: There were too many wrong passwords.
        """
        if secret.startswith(PREFIX):
            identity, proof = self._authentication.of_key(secret), hash_api_key(secret)
        else:
            # Taken before it is verified: the file may have another password after that.
            proof = self._authentication.password_of(user) or ""
            identity = await self._authentication.of_password(user, secret, address)
        return self._put(_Session(identity, proof, time.monotonic()))

    def open(self, identity: Identity, issuer: Issuer) -> str:
        """Open a session of *identity*, which *issuer* proved; return its token."""
        return self._put(_Session(identity, "", time.monotonic(), issuer))

    def _put(self, session: _Session) -> str:
        makes_room = self._candidates(session)
        if makes_room:
            del self._open[min(makes_room, key=lambda key: self._open[key].used)]
        token = secrets.token_urlsafe(32)
        self._open[_hashed(token)] = session
        return token

    def _candidates(self, session: _Session) -> list[bytes]:
        """The sessions of which one ends for *session*; none where there is room."""
        owner, tenant = _owner_of(session), session.identity.tenant
        own = [key for key, one in self._open.items() if _owner_of(one) == owner]
        if len(own) >= MOST_OF_ONE:
            return own
        if len(self._open) < MOST:
            return []
        over = [key for key, one in self._open.items() if time.monotonic() - one.used > IDLE]
        if over:
            return over
        numbers = Counter(map(_owner_of, self._open.values()))
        numbers[owner] += 1
        most = who_makes_room(numbers, owner)
        if most != owner:
            return [key for key, one in self._open.items() if _owner_of(one) == most]
        # Nobody has more. Whoever has none is not kept out: somebody of its tenant is.
        of_tenant = [key for key, one in self._open.items() if one.identity.tenant == tenant]
        return own or of_tenant or list(self._open)

    def find(self, token: str) -> Identity | None:
        """Return whose session has *token*, with the roles and rights that the file of identities
        gives now, and note that it is used; None where there is none."""
        session = self._open.get(key := _hashed(token))
        if session is None:
            return None
        if not self._counts(session):
            del self._open[key]
            return None
        session.used = time.monotonic()
        return self._authentication.identity_now(session.identity, session.proof)

    def is_open(self, token: str) -> bool:
        """Return True if a session has *token*; that it was looked at is no use of it."""
        session = self._open.get(_hashed(token))
        return session is not None and self._counts(session)

    def _counts(self, session: _Session) -> bool:
        identity, now = session.identity, time.monotonic()
        if now - session.used > IDLE:
            return False
        if session.issuer is not None:
            there = session.issuer in self._authentication.identities.issuers
            return there and now - session.opened <= LONGEST
        return self._authentication.still_proves(identity.owner, session.proof, identity.tenant)

    def log_out(self, token: str) -> Issuer | None:
        """End the session with *token*; return the issuer that proved it."""
        session = self._open.pop(_hashed(token), None)
        return session.issuer if session is not None else None


def _owner_of(session: _Session) -> str:
    return owner_in(session.identity.tenant, session.identity.owner)


def _hashed(token: str) -> bytes:
    return sha256(token.encode()).digest()
