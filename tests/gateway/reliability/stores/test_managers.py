"""What databases do for many messages in few statements, and what they need not do."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from gateway.reliability.records import InvokerBuffer, InvokerMessage
from gateway.reliability.storage import Conflict, Transaction
from gateway.reliability.stores.database import DatabaseStore, DatabaseTransaction
from mediation.reliable_messaging import Ranges
from tests.gateway.reliability.stores.contract import message, outgoing
from tests.rigs.stores import on_each_store, statements_of

pytestmark = on_each_store
NOW = 1_000.0


@pytest.fixture
def store(store_url: str) -> Iterator[DatabaseStore]:
    store = DatabaseStore(store_url)
    yield store
    store.close()


def filled(store: DatabaseStore, count: int = 3) -> None:
    with store.transaction() as tx:
        tx.invoker.put(InvokerBuffer("urn:1"))
        for number in range(1, count + 1):
            tx.invoker.add_message("urn:1", InvokerMessage(number, b"<a/>"))
        tx.outgoing.put(outgoing("key", count=count))
        for number in range(1, count + 1):
            tx.outgoing.put_message("key", message(number))


def more(manager: Any) -> Any:
    """The manager of a database, which can do more than each store has to."""
    return manager


def numbers(tx: Transaction) -> list[int]:
    return [each.number for each in tx.outgoing.messages("key", 64)]


def waiting(tx: Transaction) -> list[int]:
    return [each.number for each in tx.invoker.messages("urn:1", 1, 64)]


def test_of_a_message_that_is_tried_only_that_is_written(
    store: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store)
    ran = statements_of(monkeypatch)
    with store.transaction() as tx:
        for each in tx.outgoing.messages("key", 64):
            tx.outgoing.put_message("key", replace(each, tries=each.tries + 1, next_at=NOW))
    [written] = [each for each in ran if each.startswith("UPDATE")]
    assert "tries" in written
    assert "envelope" not in written
    with store.transaction() as tx:
        found = tx.outgoing.messages("key", 9)
    assert [(each.number, each.tries, each.next_at) for each in found] == [
        (number, message(number).tries + 1, NOW) for number in (1, 2, 3)
    ]


def test_what_else_changed_of_a_message_is_written(store: DatabaseStore) -> None:
    filled(store)
    with store.transaction() as tx:
        [first, *_] = tx.outgoing.messages("key", 1)
        tx.outgoing.put_message("key", replace(first, wants_reply=not first.wants_reply))
        tx.outgoing.put_message("key", replace(first, envelope=b"<other/>", tries=9))
    with store.transaction() as tx:
        assert tx.outgoing.message("key", 1) == replace(first, envelope=b"<other/>", tries=9)


def test_a_message_that_was_removed_is_added_again(store: DatabaseStore) -> None:
    filled(store)
    with store.transaction() as tx:
        [first, *_] = tx.outgoing.messages("key", 64)
        tx.outgoing.acknowledge("key", Ranges.parse("1-3"))
        tx.outgoing.put_message("key", replace(first, tries=5))
    with store.transaction() as tx:
        assert tx.outgoing.message("key", 1) == replace(first, tries=5)


def test_how_many_were_removed(store: DatabaseStore) -> None:
    filled(store, 5)
    with store.transaction() as tx:
        [first, *_] = tx.outgoing.messages("key", 1)
        tx.outgoing.put_message("key", replace(first, wants_reply=True))
        assert more(tx.outgoing).remove_acknowledged("key", Ranges.parse("1-2,4,9")) == 2
        assert numbers(tx) == [1, 3, 5]
        assert more(tx.outgoing).remove_acknowledged("key", Ranges.parse("1-2,4")) == 0
        assert tx.outgoing.acknowledge("key", Ranges.parse("3")) == 2


def test_what_waits_for_a_reply_stays(store: DatabaseStore) -> None:
    filled(store)
    with store.transaction() as tx:
        [first, *_] = tx.outgoing.messages("key", 1)
        tx.outgoing.put_message("key", replace(first, wants_reply=True))
        assert tx.outgoing.acknowledge("key", Ranges.parse("1-2")) == 2
        assert tx.outgoing.acknowledge("key", Ranges.parse("1"), replied=True) == 1


def test_when_messages_are_due(store: DatabaseStore) -> None:
    filled(store)
    with store.transaction() as tx:
        assert more(tx.outgoing).next_due("key", 9, NOW) is None
        for number, at in ((1, NOW + 5), (2, NOW + 3), (3, NOW)):
            tx.outgoing.put_message("key", replace(message(number), next_at=at))
        assert more(tx.outgoing).next_due("key", 9, NOW) == NOW + 3
        assert more(tx.outgoing).next_due("key", 1, NOW) == NOW + 5
        assert more(tx.outgoing).next_due("key", 9, NOW + 3) == NOW + 5


def test_several_are_locked_at_once(store: DatabaseStore) -> None:
    with store.transaction() as tx:
        for key in ("a", "c"):
            tx.outgoing.put(outgoing(key))
    with store.transaction() as tx:
        assert more(tx.outgoing).find_all(["a", "b", "c"]) == ["a", "c"]
        assert tx.outgoing.find("a") == outgoing("a")
        assert more(tx.outgoing).find_all(["a", "c"]) == ["a", "c"]


def test_new_messages_are_added_together(
    store: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store, 1)
    ran = statements_of(monkeypatch)
    with store.transaction() as tx:
        for number in (2, 3, 4):
            more(tx.invoker).add_new_message("urn:1", InvokerMessage(number, b"<a/>"))
    assert len([each for each in ran if each.startswith("INSERT")]) == 1
    with store.transaction() as tx:
        more(tx.invoker).add_new_message("urn:1", InvokerMessage(5, b"<a/>"))
        tx.invoker.remove_message("urn:1", 1)
        assert waiting(tx) == [2, 3, 4, 5]
        assert not tx.invoker.add_message("urn:1", InvokerMessage(5, b"<other/>"))
        tx.invoker.remove_message("urn:1", 5)
        more(tx.invoker).add_new_message("urn:1", InvokerMessage(5, b"<b/>"))
        assert tx.invoker.messages("urn:1", 5, 1) == [InvokerMessage(5, b"<b/>")]


def test_a_message_that_is_not_new(store: DatabaseStore) -> None:
    filled(store)
    with pytest.raises(Conflict), store.transaction() as tx:
        more(tx.invoker).add_new_message("urn:1", InvokerMessage(2, b"<other/>"))
    with store.transaction() as tx:
        assert tx.invoker.messages("urn:1", 2, 1) == [InvokerMessage(2, b"<a/>")]


def test_one_after_the_other_is_read_ahead(
    store: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store, 40)
    ran = statements_of(monkeypatch)
    with store.transaction() as tx:
        for number in range(1, 41):
            assert tx.invoker.messages("urn:1", number, 1) == [InvokerMessage(number, b"<a/>")]
            tx.invoker.remove_message("urn:1", number)
        assert tx.invoker.messages("urn:1", 41, 1) == []
    assert len([each for each in ran if "ORDER BY" in each]) < 10
    with store.transaction() as tx:
        assert waiting(tx) == []


def test_what_is_read_ahead_is_what_is_there(store: DatabaseStore) -> None:
    filled(store, 9)
    with store.transaction() as tx:
        for number in (1, 2):
            assert tx.invoker.messages("urn:1", number, 1)[0].number == number
        tx.invoker.remove_message("urn:1", 3)
        assert tx.invoker.messages("urn:1", 3, 1)[0].number == 4
        tx.invoker.remove_message("urn:1", 4)
        more(tx.invoker).add_new_message("urn:1", InvokerMessage(4, b"<b/>"))
        assert tx.invoker.messages("urn:1", 4, 1) == [InvokerMessage(4, b"<b/>")]
        tx.invoker.remove("urn:1")
        assert tx.invoker.messages("urn:1", 5, 1) == []


class Counting:
    """How many savepoints a database is told of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        begin = DatabaseTransaction._begin_nested

        def counted(transaction: DatabaseTransaction) -> Any:
            self.begun += 1
            return begin(transaction)

        monkeypatch.setattr(DatabaseTransaction, "_begin_nested", counted)


def test_no_savepoint_where_nothing_would_be_undone(
    store: DatabaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store)
    savepoints = Counting(monkeypatch)
    with store.transaction() as tx:
        for number in (1, 2):
            with tx.savepoint():
                assert tx.invoker.messages("urn:1", number, 1)
                tx.invoker.remove_message("urn:1", number)
                tx.invoker.put(InvokerBuffer("urn:1", delivered=number))
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            assert tx.invoker.messages("urn:1", 3, 1)
            tx.invoker.remove_message("urn:1", 3)
            tx.invoker.put(InvokerBuffer("urn:1", delivered=3))
            raise ZeroDivisionError
        assert tx.invoker.find("urn:1") == InvokerBuffer("urn:1", delivered=2)
        assert tx.invoker.messages("urn:1", 3, 1)
    assert savepoints.begun == 0
    with store.transaction() as tx:
        assert (tx.invoker.find("urn:1"), waiting(tx)) == (
            InvokerBuffer("urn:1", delivered=2),
            [3],
        )


@pytest.mark.parametrize("way", ["connection", "session"])
def test_a_savepoint_for_who_uses_the_connection(
    store: DatabaseStore, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with store.transaction() as tx:
        tx.connection.execute(text("CREATE TABLE things (number INTEGER)"))
    filled(store)
    savepoints = Counting(monkeypatch)
    with store.transaction() as tx:
        for number in (1, 2, 3):
            try:
                with tx.savepoint():
                    assert tx.invoker.messages("urn:1", number, 1)
                    tx.invoker.remove_message("urn:1", number)
                    used = tx.connection if way == "connection" else tx.session()
                    used.execute(text("INSERT INTO things VALUES (:number)"), {"number": number})
                    1 // (number - 2)
            except ZeroDivisionError:
                pass
    assert savepoints.begun == 3
    with store.transaction() as tx:
        things = tx.connection.execute(text("SELECT number FROM things ORDER BY number"))
        assert (list(things.scalars()), waiting(tx)) == ([1, 3], [2])


def test_what_was_written_in_a_savepoint_is_undone(store: DatabaseStore) -> None:
    filled(store)
    with store.transaction() as tx:
        tx.outgoing.put(outgoing("key", count=7))
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            tx.outgoing.put(outgoing("key", count=8))
            tx.outgoing.put(outgoing("other"))
            tx.outgoing.remove("key")
            assert tx.outgoing.find("key") is None
            raise ZeroDivisionError
        assert tx.outgoing.find("key") == outgoing("key", count=7)
        assert numbers(tx) == [1, 2, 3]
    with store.transaction() as tx:
        assert tx.outgoing.find("key") == outgoing("key", count=7)
        assert tx.outgoing.find("other") is None
