"""What is remembered of publishers' ids, against a plain list of them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.deduplication import SCHEMA, TRIGGERS, Change, RepeatLimits, Repeats, hash_id
from mediation.model.messages import Notification

SMALL = RepeatLimits(seconds=100, ids=20, total=200, generations=50)


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(open_database()) as connection:
        yield connection


def open_database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute("CREATE TEMP VIEW change (what, a, b, c) AS SELECT '', 0, 0, 0")
    for what, statements in TRIGGERS.items():
        connection.execute(
            f"CREATE TEMP TRIGGER do_{what} INSTEAD OF INSERT ON change"
            f" WHEN new.what = '{what}' BEGIN {statements} END"
        )
    return connection


def write(connection: sqlite3.Connection, changes: list[Change]) -> None:
    connection.executemany("INSERT INTO change VALUES (?, ?, ?, ?)", changes)


def test_hashes_depend_on_both() -> None:
    hashes = {hash_id(source, id) for source in ("", "a", "ab") for id in ("", "b", "bc", "abc")}
    assert len(hashes) == 12
    assert all(0 <= hash < 2**64 for hash in hashes)


def test_ids_are_known_for_their_time(connection: sqlite3.Connection) -> None:
    repeats = Repeats(SMALL)
    write(connection, repeats.add({"a": [1]}, 1000.0))
    write(connection, repeats.add({"b": [2]}, 1099.0))
    assert repeats.know("a", 1)
    assert not repeats.know("b", 1)
    write(connection, repeats.add({"b": [3]}, 1200.0))
    assert not repeats.know("a", 1)
    assert repeats.know("b", 2)
    assert connection.execute("SELECT count(*) FROM used WHERE generation = 1").fetchone() == (0,)


def test_a_clock_that_is_set_back_harms_nobody(connection: sqlite3.Connection) -> None:
    repeats = Repeats(SMALL)
    write(connection, repeats.add({"a": [1]}, 5000.0))
    write(connection, repeats.add({"a": [2]}, 1000.0))
    write(connection, repeats.add({"a": [3]}, 1001.0))
    assert repeats.know("a", 2)
    assert repeats.know("a", 3)


def test_a_publisher_keeps_its_newest_ids_whatever_others_do(
    connection: sqlite3.Connection,
) -> None:
    repeats = Repeats(SMALL)
    write(connection, repeats.add({"quiet": [7]}, 0.0))
    for id in range(100, 180):
        write(connection, repeats.add({"loud": [id]}, 1.0))
    assert repeats.know("quiet", 7)
    assert all(repeats.know("loud", id) for id in range(160, 180))
    assert not repeats.know("loud", 100)
    (rows,) = connection.execute("SELECT count(*) FROM used").fetchone()
    assert rows <= 1 + SMALL.ids * 2


def test_all_publishers_together_are_bounded(connection: sqlite3.Connection) -> None:
    repeats = Repeats(SMALL)
    for n in range(500):
        write(connection, repeats.add({f"source {n}": [n], f"other {n}": [n]}, 1.0))
    (sources,) = connection.execute("SELECT count(*) FROM generation").fetchone()
    assert sources <= SMALL.generations + 2
    assert repeats.know("source 499", 499)


steps = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.lists(st.integers(0, 2**64 - 1), max_size=6), st.booleans()
    ),
    max_size=30,
)


@given(steps)
def test_what_was_written_is_read_again(steps: list[tuple[str, list[int], bool]]) -> None:
    """Loading at any point changes no verdict."""
    with closing(open_database()) as connection:
        repeats = Repeats(SMALL)
        seen: list[tuple[str, int]] = []
        for n, (source, ids, reload) in enumerate(steps):
            fresh = sorted({id for id in ids if not repeats.know(source, id)})
            if fresh:
                write(connection, repeats.add({source: fresh}, float(n)))
                seen += [(source, id) for id in fresh]
            if reload:
                before = [repeats.know(*pair) for pair in seen]
                repeats.load(connection)
                assert [repeats.know(*pair) for pair in seen] == before
        for source in "ab":
            own = [id for other, id in seen if other == source][-SMALL.ids :]
            assert all(repeats.know(source, id) for id in own)


def test_what_publishers_repeat_at_the_same_time() -> None:
    """Both asked before either was confirmed: it is remembered once, and the first of a batch goes
    out."""
    repeats = Repeats(SMALL)
    first, second, again = (
        Notification(id=id, source="urn:p", payload=payload, time=datetime.now(UTC))
        for id, payload in (("1", b"<a/>"), ("2", b"<b/>"), ("1", b"<c/>"))
    )
    one = repeats.unknown([first, second, again])
    other = repeats.unknown([again])
    assert (list(one.values()), list(other.values())) == ([first, second], [again])
    repeats.remember(one.keys(), 0.0)
    repeats.remember(other.keys(), 0.0)
    assert repeats.unknown([first, second, again]) == {}
    assert repeats._total == 2
