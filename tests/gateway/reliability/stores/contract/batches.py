"""What a store may do for many sequences at a time, and parts of a transaction: each test is
skipped where a store has no such thing."""

from typing import Any

import pytest

from gateway.reliability.records import InvokerBuffer, InvokerMessage
from gateway.reliability.storage import Conflict, OutOfOrder, StorageManager, Transaction
from mediation.reliable_messaging import Ranges
from tests.gateway.reliability.stores.contract.samples import incoming, message, outgoing

KEYS = ("a", "b", "c")
FAR = 1e12


class Undone(Exception):
    """What a test raises to have a part rolled back."""


class BatchContract:
    """The tests of what a store may have besides: see `gateway.reliability.storage`."""

    store: StorageManager

    @pytest.mark.parametrize("name", ["take_all", "find_all"])
    def test_several_are_locked_at_once(self, name: str) -> None:
        self._fill()
        with self.store.transaction() as tx:
            for manager in (tx.incoming, tx.invoker, tx.outgoing):
                lock = _of(manager, name)
                assert lock(["a", "b", "nobody"]) == ["a", "b"]
                assert lock(["a", "b", "c"]) == ["a", "b", "c"]
                assert lock([]) == []
            assert tx.outgoing.find("b") is not None
        with self.store.transaction() as tx:
            _of(tx.outgoing, name)(["b", "c"])
            with pytest.raises(OutOfOrder):
                _of(tx.outgoing, name)(["a", "c"])

    def test_new_messages_of_a_buffer(self) -> None:
        with self.store.transaction() as tx:
            tx.invoker.put(InvokerBuffer("a"))
            add = _of(tx.invoker, "add_new_message")
            for number in (2, 1, 4):
                add("a", _waiting(number))
            assert tx.invoker.messages("a", 1, 9) == [_waiting(1), _waiting(2), _waiting(4)]
        with self.store.transaction() as tx:
            assert tx.invoker.messages("a", 1, 9) == [_waiting(1), _waiting(2), _waiting(4)]
        with pytest.raises(Conflict), self.store.transaction() as tx:
            _of(tx.invoker, "add_new_message")("a", _waiting(2))

    def test_what_is_delivered_next_is_read_ahead(self) -> None:
        long = InvokerMessage(2, b"x" * 1_000_000)
        with self.store.transaction() as tx:
            for key in KEYS:
                tx.invoker.put(InvokerBuffer(key, count=40, delivered=1 if key == "b" else 0))
                for number in range(1, 41):
                    if (key, number) != ("b", 1):
                        tx.invoker.add_message(key, _waiting(number))
            tx.invoker.remove_message("c", 2)
            tx.invoker.add_message("c", long)
        with self.store.transaction() as tx:
            read = _of(tx.invoker, "read_ahead")
            for key in KEYS:
                tx.invoker.find(key)
            tx.invoker.remove_message("a", 1)
            read(KEYS)
            assert tx.invoker.messages("a", 1, 1) == [_waiting(2)]
            assert tx.invoker.messages("b", 2, 1) == [_waiting(2)]
            for number in range(1, 41):
                wanted = long if number == 2 else _waiting(number)
                assert tx.invoker.messages("c", number, 1) == [wanted]
                tx.invoker.remove_message("c", number)
            assert tx.invoker.messages("c", 1, 9) == []
            assert len(tx.invoker.messages("b", 1, 99)) == 39

    def test_what_is_due_is_read_for_several(self) -> None:
        self._fill()
        with self.store.transaction() as tx:
            for number in range(1, 6):
                tx.outgoing.put_message("a", message(number, next_at=float(number)))
            tx.outgoing.put_message("b", message(2, next_at=9.0))
        with self.store.transaction() as tx:
            read, next_due = _of(tx.outgoing, "read_due"), _of(tx.outgoing, "next_due")
            for key in KEYS:
                tx.outgoing.find(key)
            read({"a": (4, 2), "b": (9, 9), "c": (9, 9)}, 2.5)
            assert [next_due(key, 9, 2.5) for key in ("b", "c")] == [9.0, None]
            assert next_due("a", 4, 2.5) == 3.0
            assert next_due("a", 2, 2.5) is None
            assert [each.number for each in tx.outgoing.messages("a", 2, due=2.5)] == [1, 2]
            assert [each.number for each in tx.outgoing.messages("a", 9, due=3.5)] == [1, 2, 3]
            assert [each.number for each in tx.outgoing.messages("b", 9, due=2.5)] == [1, 3]
            assert [each.number for each in tx.outgoing.messages("c", 1, due=2.5)] == [1]
            # What is changed after that is seen.
            tx.outgoing.put_message("c", message(1, tries=1, next_at=7.0))
            assert next_due("c", 9, 2.5) == 7.0
            assert [each.number for each in tx.outgoing.messages("c", 9, due=2.5)] == [2, 3]
            _of(tx.outgoing, "remove_acknowledged")("b", Ranges.of([(3, 3)]))
            assert [each.number for each in tx.outgoing.messages("b", 9, due=2.5)] == [1]

    def test_acknowledged_messages_of_several_go(self) -> None:
        self._fill()
        with self.store.transaction() as tx:
            tx.outgoing.put_message("a", message(2, wants_reply=True))
        with self.store.transaction() as tx:
            remove = _of(tx.outgoing, "remove_all")
            for key in KEYS:
                tx.outgoing.find(key)
            tx.outgoing.put_message("b", message(4))
            gone = {"a": Ranges.of([(1, 3)]), "b": Ranges.of([(1, 1), (3, 9)])}
            assert remove(gone) == {"a": 2, "b": 3}
            assert remove({"a": Ranges.of([(1, 3)]), "c": Ranges.of([(7, 9)])}) == {"a": 0, "c": 0}
            assert remove({}) == {}
            one = _of(tx.outgoing, "remove_acknowledged")
            assert one("c", Ranges.of([(2, 9)])) == 2
        with self.store.transaction() as tx:
            left = {key: [each.number for each in tx.outgoing.messages(key, 9)] for key in KEYS}
            assert left == {"a": [2], "b": [2], "c": [1]}

    def test_many_kinds_of_changes_in_one_transaction(self) -> None:
        """A store may write them together: each change is of other rows, or the last one counts."""
        self._fill()
        with self.store.transaction() as tx:
            for key in KEYS:
                tx.incoming.put(incoming(key, closed=key == "a", last_number=7))
            for key in KEYS:
                tx.invoker.put(
                    InvokerBuffer(key, count=len(key), due_at=None if key == "b" else FAR)
                )
                tx.invoker.remove_message(key, 1)
                tx.invoker.add_message(key, _waiting(9))
            for key in KEYS:
                tx.outgoing.put(outgoing(key, count=5, failure="'\\\"{}," if key == "b" else None))
                for each in tx.outgoing.messages(key, 2):
                    tx.outgoing.put_message(key, message(each.number, tries=1, next_at=0.1))
                tx.outgoing.put_message(key, message(1, envelope=b"\0\\{}%", tries=3))
                tx.outgoing.put_message(key, message(8, relates_to='"\\x00{NULL}'))
        with self.store.transaction() as tx:
            for key in KEYS:
                assert tx.incoming.find(key) == incoming(key, closed=key == "a", last_number=7)
            for key in KEYS:
                due_at = None if key == "b" else FAR
                assert tx.invoker.find(key) == InvokerBuffer(key, count=1, due_at=due_at)
                assert [each.number for each in tx.invoker.messages(key, 1, 9)] == [2, 3, 9]
            for key in KEYS:
                found = tx.outgoing.find(key)
                assert found is not None and found.count == 5
                assert found.failure == ("'\\\"{}," if key == "b" else None)
                assert tx.outgoing.messages(key, 9) == [
                    message(1, envelope=b"\0\\{}%", tries=3),
                    message(2, tries=1, next_at=0.1),
                    message(3),
                    message(8, relates_to='"\\x00{NULL}'),
                ]

    # ---------------------------------------------------------------------- parts of a transaction

    def test_a_part_that_raises_is_undone(self) -> None:
        self._fill()
        with self.store.transaction() as tx:
            savepoint = self._savepoint_of(tx)
            with savepoint():
                _deliver(tx, "b", 1)
            with pytest.raises(Undone), savepoint():
                _deliver(tx, "b", 2)
                _deliver(tx, "c", 2)
                _answer(tx, "c", 2)
                raise Undone
            kept = tx.invoker.find("b"), tx.invoker.messages("b", 1, 9)
            with savepoint():
                _deliver(tx, "c", 3)
                _answer(tx, "c", 3)
            with pytest.raises(Undone), savepoint():
                tx.invoker.remove("c")
                tx.outgoing.remove("c")
                raise Undone
            assert (tx.invoker.find("b"), tx.invoker.messages("b", 1, 9)) == kept
        for key, (count, waiting, sent) in {
            "a": (0, [1, 2, 3], [1, 2, 3]),
            "b": (1, [2, 3], [1, 2, 3]),
            "c": (3, [2, 3], [1, 2, 3, 23]),
        }.items():
            assert _seen(self.store, key) == (count, waiting, sent)

    def test_what_a_part_locked_is_free_after_it_was_undone(self) -> None:
        """Another transaction may have it, and this one look at what comes before it."""
        self._fill()
        with self.store.transaction() as tx:
            savepoint = self._savepoint_of(tx)
            with pytest.raises(Undone), savepoint():
                tx.outgoing.find("b")
                tx.outgoing.put(outgoing("b", count=9))
                raise Undone
            assert tx.outgoing.find("a") is not None
            assert tx.outgoing.find("b") == outgoing("b")

    def test_a_transaction_is_rolled_back_with_its_parts(self) -> None:
        self._fill()
        with pytest.raises(Undone), self.store.transaction() as tx:
            with self._savepoint_of(tx)():
                _deliver(tx, "b", 1)
                _answer(tx, "b", 1)
            raise Undone
        assert _seen(self.store, "b") == (0, [1, 2, 3], [1, 2, 3])

    def _savepoint_of(self, tx: Transaction) -> Any:
        if not getattr(self.store, "has_savepoints", False):
            pytest.skip("the store has no savepoints")
        return _of(tx, "savepoint")

    def _fill(self) -> None:
        with self.store.transaction() as tx:
            for key in KEYS:
                tx.incoming.put(incoming(key))
            for key in KEYS:
                tx.invoker.put(InvokerBuffer(key))
                for number in range(1, 4):
                    tx.invoker.add_message(key, _waiting(number))
            for key in KEYS:
                tx.outgoing.put(outgoing(key))
                for number in range(1, 4):
                    tx.outgoing.put_message(key, message(number))


def _of(one: Any, name: str) -> Any:
    """What a manager may have."""
    found = getattr(one, name, None)
    if found is None:
        pytest.skip(f"the store has no {name}")
    return found


def _deliver(tx: Transaction, key: str, number: int) -> None:
    """Take the first message of a buffer."""
    assert tx.invoker.find(key) is not None
    [first] = tx.invoker.messages(key, 1, 1)
    tx.invoker.remove_message(key, first.number)
    tx.invoker.put(InvokerBuffer(key, count=number))


def _answer(tx: Transaction, key: str, number: int) -> None:
    """Store a reply."""
    tx.outgoing.put(outgoing(key, count=number))
    tx.outgoing.put_message(key, message(20 + number))


def _seen(store: StorageManager, key: str) -> tuple[int, list[int], list[int]]:
    with store.transaction() as tx:
        buffer = tx.invoker.find(key)
        waiting = [each.number for each in tx.invoker.messages(key, 1, 99)]
        sent = [each.number for each in tx.outgoing.messages(key, 99)]
        assert buffer is not None
        return buffer.count, waiting, sent


def _waiting(number: int) -> InvokerMessage:
    return InvokerMessage(number, b"<w>%d</w>" % number)
