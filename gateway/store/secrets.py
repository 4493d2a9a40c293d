"""Secrets that all gateways share that have the store."""

from sqlalchemy import Connection, select

from gateway.store.schema import secrets

LOCK = "secrets"


def take(connection: Connection, *, name: str, fresh: bytes) -> bytes:
    """The secret *name*; *fresh* from now on, where there was none. Take the lock `LOCK`."""
    columns = secrets.c
    known = connection.execute(select(columns.value).where(columns.name == name)).scalar()
    if known is not None:
        return bytes(known)
    connection.execute(secrets.insert().values(name=name, value=fresh))
    return fresh
