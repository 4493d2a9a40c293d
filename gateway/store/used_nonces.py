"""Nonces of UsernameTokens and of HTTP Digest, and fingerprints of signed messages, that were used,
as operations on a connection: each counts once in all gateways of a store, a nonce of HTTP Digest
as often as the count of its uses grows."""

import random

from sqlalchemy import Connection, func, select, text

from gateway.store.schema import used_nonces

_INSERT = text(
    'INSERT INTO used_nonces ("user", nonce, until, uses) VALUES (:user, :nonce, :until, :uses) '
    'ON CONFLICT ("user", nonce) DO UPDATE SET uses = excluded.uses '
    "WHERE used_nonces.uses < excluded.uses"
)
MOST = 1_000_000
"""Nonces that are remembered; beyond, tokens are refused rather than nonces forgotten."""
MOST_OF_ONE = 200_000
"""Of one user or signer, who alone is refused beyond."""
EACH = 256
"""One of so many has old ones forgotten, and the others counted: counted for each, they took 1 ms
at 30,000. Chance says which one; whoever chose the nonces would choose it otherwise."""


class NoncesFull(Exception):
    """No more nonces can be remembered.

    Attributes:
        of_one: Those of the user, not those of all.
    """

    def __init__(self, *, of_one: bool) -> None:
        super().__init__()
        self.of_one = of_one


def use(
    connection: Connection, user: str, nonce: bytes, *, now: float, until: float, uses: int = 0
) -> bool:
    """Remember *nonce* of *user*, which was used *uses* times, until that moment, in seconds since
    1970 (of its first use); return whether it was new, or was used less often before.

    Raises:
        NoncesFull: No more can be remembered.
    """
    if random.randrange(EACH) == 0:
        _tidy(connection, user, now)
    values = {"user": user, "nonce": nonce.hex(), "until": until, "uses": uses}
    return connection.execute(_INSERT, values).rowcount == 1


def _tidy(connection: Connection, user: str, now: float) -> None:
    """Forget nonces that have expired by *now*.

    Raises:
        NoncesFull: There are too many others, of *user* or of all.
    """
    connection.execute(used_nonces.delete().where(used_nonces.c.until < now))
    number = select(func.count()).select_from(used_nonces)
    if connection.execute(number.where(used_nonces.c.user == user)).scalar_one() >= MOST_OF_ONE:
        raise NoncesFull(of_one=True)
    if connection.execute(number).scalar_one() >= MOST:
        raise NoncesFull(of_one=False)
