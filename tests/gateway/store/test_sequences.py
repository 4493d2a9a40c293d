"""The tables of sequences in the store are those that reliable messaging itself makes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, event, inspect

from gateway.reliability.stores.tables import metadata
from gateway.sequences.listing import find, page
from gateway.store.migrations import upgrade

TABLES = ["incoming", "invoker", "invoker_messages", "outgoing", "outgoing_messages"]


@contextmanager
def database(path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{path}")
    try:
        yield engine
    finally:
        engine.dispose()


@pytest.fixture
def migrated(tmp_path: Path) -> Iterator[Engine]:
    with database(tmp_path / "migrated.db") as engine:
        upgrade(engine)
        yield engine


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Engine]:
    with database(tmp_path / "made.db") as engine:
        metadata.create_all(engine)
        yield engine


def described(engine: Engine, table: str) -> object:
    seen, name = inspect(engine), f"dragoman_rm_{table}"
    return (
        [(each["name"], str(each["type"]), each["nullable"]) for each in seen.get_columns(name)],
        seen.get_pk_constraint(name),
        sorted(each["name"] or "" for each in seen.get_unique_constraints(name)),
        sorted((each["name"] or "", str(each["column_names"])) for each in seen.get_indexes(name)),
    )


@pytest.mark.parametrize("table", TABLES)
def test_a_table(table: str, migrated: Engine, made: Engine) -> None:
    assert described(migrated, table) == described(made, table)


@pytest.mark.parametrize("which", ["a page", "one"])
def test_no_list_reads_all_sequences(migrated: Engine, which: str) -> None:
    asked: list[tuple[str, object]] = []

    @event.listens_for(migrated, "before_cursor_execute")
    def _note(_c: object, _k: object, statement: str, parameters: object, *_: object) -> None:
        asked.append((statement, parameters))

    with migrated.connect() as connection:
        assert (page(connection, "", 10) if which == "a page" else find(connection, "a")) in (
            [],
            None,
        )
        [(statement, parameters)] = asked
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()  # type: ignore[arg-type]
    steps = [str(row[-1]) for row in plan]
    assert "sequences_by_id" in steps[0], steps
    assert not [step for step in steps if "SCAN" in step or "TEMP" in step], steps
