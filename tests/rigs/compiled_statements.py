"""Has all engines of SQLite in a process share the statements that SQLAlchemy has compiled.

A gateway runs some eighty as it starts, and each gateway has engines of its own: to compile them took
a third of the processor time of a start. What is compiled is the same for all.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache

_MOST = 5000


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Meanwhile engines that are made share them; what was made stays so."""
    compiled: LRUCache[Any, Any] = LRUCache(_MOST)
    make = Engine.__init__

    def share(engine: Engine, *values: Any, **named: Any) -> None:
        make(engine, *values, **named)
        if type(engine.dialect) is _Dialect:
            engine._compiled_cache = compiled

    # The dialect is a part of the key.
    with (
        mock.patch.object(_Dialect, "__hash__", lambda one: hash(type(one))),
        mock.patch.object(_Dialect, "__eq__", lambda one, other: type(one) is type(other)),
        mock.patch.object(Engine, "__init__", share),
    ):
        yield


_Dialect = SQLiteDialect_pysqlite
