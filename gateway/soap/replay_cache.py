"""Remembers nonces of tokens and of HTTP Digest, and signatures: each counts once in all gateways
of a store, a nonce of HTTP Digest as often as the count of its uses grows."""

import time
from functools import partial

from gateway.store import Store, StoreUnavailable, used_nonces
from gateway.store.used_nonces import NoncesFull

REMEMBERED = 600.0
"""Seconds for which a nonce is remembered: longer than its message could be sent again."""
LOCK = "nonces"
FULL = 10.0
"""Seconds for which nothing is taken, of one or of all, when too many nonces are remembered."""
_ALL = ""
"""In place of a user: everybody."""


class ReplayCache:
    """Remembers nonces in *store*, over restarts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._full_until: dict[str, float] = {}

    async def use(self, user: str, nonce: bytes, uses: int = 0) -> bool:
        """Remember *nonce* of *user*, which was used *uses* times; return whether it was new, or
        was used less often before.

        Raises:
            StoreUnavailable: It cannot be remembered now.
        """
        now = time.time()
        if self._full_until and self._is_full(user, now):
            raise StoreUnavailable
        use = partial(used_nonces.use, user=user, nonce=nonce, now=now, uses=uses)
        try:
            return await self._store.submit(partial(use, until=now + REMEMBERED), locks=(LOCK,))
        except NoncesFull as full:
            self._full_until[user if full.of_one else _ALL] = now + FULL
            raise StoreUnavailable from None

    def _is_full(self, user: str, now: float) -> bool:
        self._full_until = {who: until for who, until in self._full_until.items() if until > now}
        return user in self._full_until or _ALL in self._full_until
