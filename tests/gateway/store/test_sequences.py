"""The tables of sequences in the store are those that reliable messaging itself makes."""

from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, inspect

from gateway.reliability.stores.tables import metadata
from gateway.store.migrations import upgrade

TABLES = ["incoming", "invoker", "invoker_messages", "outgoing", "outgoing_messages"]


@pytest.fixture
def migrated(tmp_path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{tmp_path / 'migrated.db'}")
    upgrade(engine)
    return engine


@pytest.fixture
def made(tmp_path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{tmp_path / 'made.db'}")
    metadata.create_all(engine)
    return engine


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
