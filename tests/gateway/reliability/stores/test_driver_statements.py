"""Statements that run straight on the driver, beside the same by SQLAlchemy."""

from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError

from gateway.reliability.records import OutgoingMessage
from gateway.reliability.stores.database import DatabaseStore
from gateway.reliability.stores.driver_statements import run
from gateway.reliability.stores.statements import ADD, SENDING
from tests.gateway.reliability.stores.contract import message, outgoing
from tests.rigs.stores import on_each_store


@on_each_store
def test_values_are_as_of_sqlalchemy(store_url: str) -> None:
    store = DatabaseStore(store_url)
    with store.transaction() as tx:
        tx.outgoing.put(outgoing("key"))
        for number in (1, 2, 3):
            tx.outgoing.put_message("key", message(number))
    values = {"own_sequence": "key", "most": 2}
    with store.transaction() as tx:
        expected = [tuple(row) for row in tx.connection.execute(SENDING, values)]
        assert run(tx.connection, SENDING, values) == expected
        assert [OutgoingMessage(*row) for row in expected] == [message(1), message(2)]
    store.close()


@on_each_store
def test_an_error_is_as_of_sqlalchemy(store_url: str) -> None:
    store = DatabaseStore(store_url)
    values = {"sequence": None, "number": 1, "envelope": b"<a/>", "content_type": ""}
    with pytest.raises(IntegrityError), store.transaction() as tx:
        sqlite = tx.connection.dialect.name == "sqlite"
        run(tx.connection, ADD[sqlite], values)
    with store.transaction() as tx:
        assert tx.outgoing.find("key") is None
    store.close()


def test_after_a_rollback_of_the_application_nothing_is_done(tmp_path: Path) -> None:
    store = DatabaseStore(f"sqlite:///{tmp_path / 'reliable.db'}")
    with pytest.raises(Exception, match="transaction"), store.transaction() as tx:
        tx.connection.rollback()
        tx.outgoing.find("key")
    with store.transaction() as tx, pytest.raises(OperationalError):
        tx.connection.execute(text("SELECT nothing"))
    store.close()
