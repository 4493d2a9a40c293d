"""Nonces of UsernameTokens that were used, as operations on a connection: a token counts once, in
all gateways of a store."""

from sqlalchemy import Connection, func, select, text

from gateway.store.schema import used_nonces

_INSERT = text(
    'INSERT INTO used_nonces ("user", nonce, until) VALUES (:user, :nonce, :until) '
    "ON CONFLICT DO NOTHING"
)
MOST = 200_000
"""Nonces that are remembered; beyond, tokens are refused rather than nonces forgotten."""


EACH = 64
"""One of so many nonces, which are random, has old ones forgotten, and the others counted: counted
for each, they took 1 ms at 30,000."""


class NoncesFull(Exception):
    """No more nonces can be remembered."""


def use(connection: Connection, user: str, nonce: bytes, *, now: float, until: float) -> bool:
    """Remember *nonce* of *user* until that moment, in seconds since 1970; return whether it was
    new.

    Raises:
        NoncesFull: No more can be remembered.
    """
    if nonce[0] < 256 // EACH:
        _tidy(connection, now)
    values = {"user": user, "nonce": nonce.hex(), "until": until}
    return connection.execute(_INSERT, values).rowcount == 1


def _tidy(connection: Connection, now: float) -> None:
    """Forget nonces that have expired by *now*.

    Raises:
        NoncesFull: There are too many others.
    """
    connection.execute(used_nonces.delete().where(used_nonces.c.until < now))
    if connection.execute(select(func.count()).select_from(used_nonces)).scalar_one() >= MOST:
        raise NoncesFull
