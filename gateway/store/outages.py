"""Errors of the database: which are an outage, and which may pass."""

import sqlite3

from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    NotSupportedError,
    ProgrammingError,
    TimeoutError,
)

from filters import Reason, Refused

_LIMIT = "54"
"""The class of PostgreSQL's program_limit_exceeded."""
_CONFLICTS = frozenset({"40001", "40P01", "55P03", "23503", "23505"})
"""serialization_failure, deadlock_detected, lock_not_available; and what a row that another
replica just made or removed leads to: foreign_key_violation, unique_violation."""


class StoreUnavailable(Refused):
    """The store cannot take it now; nothing was changed."""

    def __init__(self, text: str = "The store cannot take it now.") -> None:
        super().__init__(Reason.UNAVAILABLE, text)


def is_outage(error: Exception) -> bool:
    """Return whether the database failed, rather than refused a statement."""
    if isinstance(error, IntegrityError | DataError | ProgrammingError | NotSupportedError):
        return False
    if str(getattr(getattr(error, "orig", None), "sqlstate", None)).startswith(_LIMIT):
        return False  # An index row that is too long, say.
    return isinstance(error, DBAPIError | TimeoutError | sqlite3.Error)


def is_passing(error: Exception) -> bool:
    """Return whether the operation may succeed the next time: a connection broke, or two
    transactions were in each other's way."""
    if not isinstance(error, DBAPIError):
        return False
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _CONFLICTS


def is_locked_out(error: Exception) -> bool:
    """Return whether not even a transaction can begin."""
    return (
        isinstance(error, DBAPIError)
        and is_outage(error)
        and (error.statement is None or error.statement == "BEGIN IMMEDIATE")
    ) or isinstance(error, TimeoutError)
