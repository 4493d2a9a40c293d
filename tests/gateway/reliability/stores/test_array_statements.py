"""Arrays of PostgreSQL, as texts."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.reliability.stores.array_statements import array_of
from tests.rigs.postgresql import fresh_database, needs_postgresql

TEXTS = st.text(
    st.characters(exclude_characters="\0", codec="utf-8"), max_size=8
) | st.sampled_from(["", "NULL", '"', '","', "\\", '\\"', "{}", "a,b", "\\x00", " ", "%s {at}"])
KINDS = {
    "text": TEXTS,
    "bytea": st.binary(max_size=8),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float8": st.floats(allow_nan=False),
    "boolean": st.booleans(),
}


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection[Any]]:
    needs_postgresql()
    with fresh_database() as url, psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("kind", KINDS)
def test_an_array_is_read_as_it_was(connection: psycopg.Connection[Any], kind: str) -> None:
    query = f"SELECT %s::{kind}[]".encode()

    @settings(max_examples=60, deadline=None)
    @given(st.lists(KINDS[kind]), st.booleans())
    def holds(values: list[Any], with_null: bool) -> None:
        values = [*values, *([None] if with_null else [])]
        row = connection.execute(query, (array_of(None, values),)).fetchone()
        assert row == (values,)

    holds()
