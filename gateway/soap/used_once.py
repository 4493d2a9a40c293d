"""What counts once in all gateways of a store: nonces of tokens, and signatures."""

import time
from functools import partial

from gateway.store import Store, StoreUnavailable, used_nonces
from gateway.store.used_nonces import NoncesFull

REMEMBERED = 600.0
"""Seconds for which a nonce is remembered: longer than its message could be sent again."""
LOCK = "nonces"
FULL = 10.0
"""Seconds for which nothing is taken when too many nonces are remembered."""


class UsedOnce:
    """Remembers nonces in *store*, over restarts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._full_until = 0.0

    async def use(self, user: str, nonce: bytes) -> bool:
        """Remember *nonce* of *user*; return whether it was new.

        Raises:
            StoreUnavailable: It cannot be remembered now.
        """
        now = time.time()
        if now < self._full_until:
            raise StoreUnavailable
        use = partial(used_nonces.use, user=user, nonce=nonce, now=now)
        try:
            return await self._store.submit(partial(use, until=now + REMEMBERED), locks=(LOCK,))
        except NoncesFull:
            self._full_until = now + FULL
            raise StoreUnavailable from None
