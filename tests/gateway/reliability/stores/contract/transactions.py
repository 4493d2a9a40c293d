"""What a transaction promises: all or nothing, alone, in the lock order, safe from a crash."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

from gateway.reliability.records import InvokerBuffer, InvokerMessage, OutgoingSequence
from gateway.reliability.storage import (
    Conflict,
    Ended,
    OutOfOrder,
    StorageManager,
    Transaction,
    in_key_order,
    run,
)
from mediation.reliable_messaging import Ranges
from tests.gateway.reliability.stores.contract.samples import incoming, message, outgoing

T = TypeVar("T")
PATIENCE = 30.0
"""Seconds after which a test is given up that waits for a thread."""
TOO_SOON = 0.1
"""Seconds for which a thread may do nothing that should wait: time enough to do it wrong."""
LARGE = 10_000


class Undone(Exception):
    """Ends a transaction that is to be rolled back."""


class TransactionContract:
    """The tests of transactions."""

    durable = True
    """False if a store is empty whenever it is made."""

    one_writer = False
    """True if no second transaction begins before the first has ended."""

    store: StorageManager

    def make_store(self, data: Path) -> StorageManager:
        """Make a store. With the same *data* it is the same one again."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------ all or nothing

    def test_a_transaction_that_raises_changes_nothing(self) -> None:
        with self.store.transaction() as tx:
            _fill(tx)
        before = _seen(self.store)
        with pytest.raises(Undone), self.store.transaction() as tx:
            tx.incoming.put(incoming("urn:1", closed=True))
            tx.incoming.put(incoming("urn:2"))
            tx.invoker.add_message("urn:1", InvokerMessage(9, b"<m/>"))
            tx.invoker.remove_message("urn:1", 1)
            tx.invoker.put(InvokerBuffer("urn:2", due_at=1.0))
            tx.outgoing.put(outgoing("key", identifier="urn:other", next_number=99))
            tx.outgoing.put_message("key", message(7))
            tx.outgoing.acknowledge("key", Ranges.of([(1, 3)]))
            tx.outgoing.put(outgoing("new", identifier="urn:new"))
            raise Undone
        assert _seen(self.store) == before
        with pytest.raises(Undone), self.store.transaction() as tx:
            tx.incoming.remove("urn:1")
            tx.invoker.remove("urn:1")
            tx.outgoing.remove("key")
            raise Undone
        assert _seen(self.store) == before

    def test_a_thread_that_is_ended_changes_nothing(self) -> None:
        """An exception that is no error, such as KeyboardInterrupt."""

        class Interrupted(BaseException):
            pass

        with pytest.raises(Interrupted), self.store.transaction() as tx:
            tx.outgoing.put(outgoing("key"))
            raise Interrupted
        with self.store.transaction() as tx:
            assert tx.outgoing.find("key") is None

    def test_a_number_that_was_rolled_back_is_given_again(self) -> None:
        for number, fails in enumerate([False, True, True, False, True, False]):
            if fails:
                with pytest.raises(Undone), self.store.transaction() as tx:
                    _send(tx, f"urn:{number}")
                    raise Undone
            else:
                with self.store.transaction() as tx:
                    _send(tx, f"urn:{number}")
        with self.store.transaction() as tx:
            found = tx.outgoing.messages("key", 99)
            assert [one.number for one in found] == [1, 2, 3]
            assert [one.message_id for one in found] == ["urn:0", "urn:3", "urn:5"]

    def test_a_transaction_is_of_no_use_after_its_end(self) -> None:
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("key"))
        uses: list[Callable[[], object]] = [
            lambda: tx.incoming.find("urn:1"),
            lambda: tx.incoming.find_created("urn:1", None),
            lambda: tx.incoming.count(),
            lambda: tx.incoming.put(incoming("urn:1")),
            lambda: tx.invoker.messages("urn:1", 1, 1),
            lambda: tx.invoker.add_message("urn:1", InvokerMessage(1, b"")),
            lambda: tx.outgoing.find("key"),
            lambda: tx.outgoing.find_identified("urn:1"),
            lambda: tx.outgoing.put_message("key", message(1)),
        ]
        for use in uses:
            with pytest.raises(Ended):
                use()

    # --------------------------------------------------------------------------------- the order

    @pytest.mark.parametrize(
        "back",
        [
            lambda tx: tx.incoming.find("urn:2"),
            lambda tx: tx.incoming.take("urn:2"),
            lambda tx: tx.incoming.put(incoming("urn:2")),
            lambda tx: tx.incoming.remove("urn:2"),
            lambda tx: tx.incoming.find_created("urn:c", None),
            lambda tx: tx.invoker.find("urn:2"),
            lambda tx: tx.invoker.put(InvokerBuffer("urn:2")),
            lambda tx: tx.invoker.add_message("urn:2", InvokerMessage(1, b"")),
            lambda tx: tx.invoker.messages("urn:2", 1, 1),
            lambda tx: tx.outgoing.find("a"),
            lambda tx: tx.outgoing.find_identified("urn:a"),
            lambda tx: tx.outgoing.put(outgoing("a")),
            lambda tx: tx.outgoing.message("a", 1),
            lambda tx: tx.outgoing.acknowledge("a", Ranges()),
        ],
    )
    def test_nobody_goes_back_in_the_lock_order(self, back: Callable[[Transaction], Any]) -> None:
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("a", identifier="urn:a"))
        with pytest.raises(OutOfOrder), self.store.transaction() as tx:
            tx.outgoing.find("b")
            back(tx)

    def test_what_is_locked_is_looked_at_again(self) -> None:
        with self.store.transaction() as tx:
            tx.incoming.find_created("urn:c", None)
            tx.incoming.put(incoming("urn:1", create_id="urn:c"))
            tx.invoker.put(InvokerBuffer("urn:1"))
            tx.outgoing.put(outgoing("a", identifier="urn:a"))
            tx.outgoing.put(outgoing("b"))
            assert tx.outgoing.find("a") is not None
            assert tx.outgoing.find_identified("urn:a") is not None
            assert tx.invoker.find("urn:1") is not None
            assert tx.incoming.find("urn:1") is not None
            assert tx.incoming.find_created("urn:c", None) is not None

    def test_objects_of_one_kind_go_by_key(self) -> None:
        keys = in_key_order(["b", "a", "é", "B", "a"])
        with self.store.transaction() as tx:
            for key in keys:
                tx.outgoing.find(key)
        with pytest.raises(OutOfOrder), self.store.transaction() as tx:
            for key in reversed(keys):
                tx.outgoing.find(key)

    # -------------------------------------------------------------------------------------- alone

    def test_a_second_transaction_waits_for_the_first(self) -> None:
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("key"))
        with self._meanwhile() as threads:
            with self.store.transaction() as tx:
                _send(tx, "urn:first")
                second = threads(lambda: self._in_transaction(lambda tx: _send(tx, "urn:second")))
                assert not second.ends()
            second()
        with self.store.transaction() as tx:
            found = tx.outgoing.messages("key", 9)
            assert [one.message_id for one in found] == ["urn:first", "urn:second"]

    def test_nobody_sees_what_is_not_committed(self) -> None:
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("key", due_at=1.0))
        with self._meanwhile() as threads:
            with pytest.raises(Undone), self.store.transaction() as tx:
                tx.outgoing.put(outgoing("key", due_at=None))
                tx.outgoing.put(outgoing("new", due_at=0.0))
                with self.store.look() as look:
                    assert look.outgoing_due(9.0, 9) in (["key"], [])
                    assert [one.key for one in look.outgoing_page("", 9)] == ["key"]
                find = threads(lambda: self._in_transaction(lambda tx: tx.outgoing.find("key")))
                assert not find.ends()
                raise Undone
            assert find() == outgoing("key", due_at=1.0)

    def test_two_do_not_add_the_same(self) -> None:
        """An object that is not there yet is locked all the same."""

        def add(tx: Transaction) -> bool:
            if tx.outgoing.find("key") is not None:
                return False
            tx.outgoing.put(outgoing("key"))
            return True

        with self._meanwhile() as threads:
            with self.store.transaction() as tx:
                assert add(tx)
                other = threads(lambda: self._in_transaction(add))
                assert not other.ends()
            assert other() is False

    def test_a_request_that_comes_twice_makes_one_sequence(self) -> None:
        def create(tx: Transaction, identifier: str) -> str:
            found = tx.incoming.find_created("urn:c", "alice")
            if found is not None:
                return found.identifier
            tx.incoming.put(incoming(identifier, create_id="urn:c", owner="alice"))
            return identifier

        with self._meanwhile() as threads:
            with self.store.transaction() as tx:
                assert create(tx, "urn:b") == "urn:b"
                other = threads(lambda: self._in_transaction(lambda tx: create(tx, "urn:a")))
                assert not other.ends()
            assert other() == "urn:b"

    def test_others_go_on_with_other_sequences(self) -> None:
        if self.one_writer:
            pytest.skip("the store has one writer at a time")
        with self._meanwhile() as threads, self.store.transaction() as tx:
            _send(tx, "urn:1", "a")
            other = threads(lambda: self._in_transaction(lambda tx: _send(tx, "urn:2", "b")))
            assert other() == 1

    def test_what_another_has_is_not_taken(self) -> None:
        if self.one_writer:
            pytest.skip("the store has one writer at a time")
        with self.store.transaction() as tx:
            tx.incoming.put(incoming("urn:1"))
            tx.invoker.put(InvokerBuffer("urn:1"))
            tx.outgoing.put(outgoing("key"))

        def take(tx: Transaction) -> list[bool]:
            return [
                tx.incoming.take("urn:1") is not None,
                tx.invoker.take("urn:1") is not None,
                tx.outgoing.take("key") is not None,
                tx.outgoing.take("unknown") is not None,
            ]

        with self._meanwhile() as threads:
            with self.store.transaction() as tx:
                tx.incoming.find("urn:1")
                tx.outgoing.find("key")
                assert threads(lambda: self._in_transaction(take))() == [False, True, False, False]
            assert threads(lambda: self._in_transaction(take))() == [True, True, True, False]

    def test_many_at_once_lose_nothing(self) -> None:
        each, several = 10, 4

        def send(worker: int) -> None:
            for number in range(each):
                run(self.store, partial(_send, message_id=f"urn:{worker}:{number}"))

        with ThreadPoolExecutor(several) as pool:
            list(pool.map(send, range(several)))
        with self.store.transaction() as tx:
            found = tx.outgoing.messages("key", each * several + 1)
        assert [one.number for one in found] == list(range(1, each * several + 1))
        for worker in range(several):
            own = [one.message_id for one in found if one.message_id.startswith(f"urn:{worker}:")]
            assert own == [f"urn:{worker}:{number}" for number in range(each)]

    def test_run_goes_on_after_conflicts(self) -> None:
        calls: list[Transaction] = []
        pauses: list[float] = []

        def work(tx: Transaction) -> int:
            calls.append(tx)
            tx.outgoing.put(outgoing(f"key{len(calls)}"))
            if len(calls) < 3:
                raise Conflict
            return len(calls)

        assert run(self.store, work, pause=pauses.append) == 3
        assert len(pauses) == 2
        with self.store.look() as look:
            assert [one.key for one in look.outgoing_page("", 9)] == ["key3"]
        calls.clear()
        with pytest.raises(Conflict):
            run(self.store, work, attempts=2, pause=pauses.append)

    # ------------------------------------------------------------------------------ after a crash

    def test_what_was_committed_is_there_again(self, data: Path) -> None:
        if not self.durable:
            pytest.skip("the store keeps nothing")
        with self.store.transaction() as tx:
            _fill(tx)
        before = _seen(self.store)
        open_one = self.store.transaction()
        tx = open_one.__enter__()
        tx.incoming.put(incoming("urn:9"))
        tx.outgoing.remove("key")
        open_one.__exit__(Undone, Undone(), None)
        with _closed(self.make_store(data)) as again:
            again.recover()
            assert _seen(again) == before

    def test_two_managers_of_one_store_see_the_same(self, data: Path) -> None:
        if not self.durable:
            pytest.skip("the store keeps nothing")
        with _closed(self.make_store(data)) as other:
            with self.store.transaction() as tx:
                _fill(tx)
            assert _seen(other) == _seen(self.store)
            with other.transaction() as tx:
                tx.incoming.remove("urn:1")
                tx.invoker.remove("urn:1")
                tx.outgoing.remove("key")
            assert _seen(self.store) == _seen(other)

    # ------------------------------------------------------------------------------ large ones

    def test_a_large_sequence(self) -> None:
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("key", next_number=LARGE + 1))
            for number in range(1, LARGE + 1):
                tx.outgoing.put_message("key", message(number))
        with self.store.transaction() as tx:
            assert len(tx.outgoing.messages("key", 2 * LARGE)) == LARGE
            found = tx.outgoing.message_identified("key", f"urn:id:{LARGE}")
            assert found is not None and found.number == LARGE
            # Each acknowledgement is as fast as its ranges are few.
            for upper in range(1, 200):
                left = tx.outgoing.acknowledge("key", Ranges.of([(1, upper)]))
                assert left == LARGE - upper
            assert tx.outgoing.acknowledge("key", Ranges.of([(1, LARGE - 1)])) == 1
        with self.store.transaction() as tx:
            assert [one.number for one in tx.outgoing.messages("key", 9)] == [LARGE]
            assert tx.outgoing.acknowledge("key", Ranges.of([(1, 2**63 - 1)])) == 0

    def test_many_ranges(self) -> None:
        every_other = Ranges(tuple((number, number) for number in range(1, 2049, 2)))
        with self.store.transaction() as tx:
            for number in range(1, 2049):
                tx.outgoing.put_message("key", message(number))
        with self.store.transaction() as tx:
            assert tx.outgoing.acknowledge("key", every_other) == 1024
            assert [one.number for one in tx.outgoing.messages("key", 3)] == [2, 4, 6]

    def test_a_full_buffer(self) -> None:
        numbers = [*range(2, LARGE + 1, 2), *range(1, LARGE, 2)]
        with self.store.transaction() as tx:
            for number in numbers:
                assert tx.invoker.add_message("urn:1", InvokerMessage(number, b"<m/>"))
        with self.store.transaction() as tx:
            first = tx.invoker.messages("urn:1", LARGE // 2, 3)
            assert [one.number for one in first] == [LARGE // 2 + n for n in range(3)]
            tx.invoker.remove("urn:1")
        with self.store.transaction() as tx:
            assert tx.invoker.messages("urn:1", 1, 9) == []

    # -------------------------------------------------------------------- what tests are made of

    def _in_transaction(self, work: Callable[[Transaction], T]) -> T:
        return run(self.store, work)

    @contextmanager
    def _meanwhile(self) -> "Iterator[_Threads]":
        """Start functions on threads."""
        with ThreadPoolExecutor(4) as pool:
            yield _Threads(pool)


class _Threads:
    """Starts functions on threads; what is given back waits for the result of one."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def __call__(self, work: Callable[[], T]) -> "_Running[T]":
        began = threading.Event()

        def begin() -> T:
            began.set()
            return work()

        running = _Running(self._pool.submit(begin))
        assert began.wait(PATIENCE)
        return running


class _Running(Generic[T]):
    def __init__(self, future: "Future[T]") -> None:
        self._future = future

    def __call__(self) -> T:
        return self._future.result(PATIENCE)

    def ends(self) -> bool:
        """Whether it comes to its end while it should wait."""
        wait([self._future], TOO_SOON)
        return self._future.done()


@contextmanager
def _closed(store: StorageManager) -> Iterator[StorageManager]:
    try:
        yield store
    finally:
        store.close()


def _send(tx: Transaction, message_id: str, key: str = "key") -> int:
    """Give a message the next number of its sequence, as a source does."""
    sequence = tx.outgoing.find(key) or outgoing(key)
    number = sequence.next_number
    tx.outgoing.put_message(key, message(number, message_id=message_id))
    tx.outgoing.put(replace(sequence, next_number=number + 1, count=sequence.count + 1))
    return number


def _fill(tx: Transaction) -> None:
    tx.incoming.put(incoming("urn:1", create_id="urn:c", received=Ranges.of([(1, 2)]), due_at=1.0))
    tx.invoker.put(InvokerBuffer("urn:1", count=2, due_at=2.0))
    tx.invoker.add_message("urn:1", InvokerMessage(1, b"<a/>"))
    tx.invoker.add_message("urn:1", InvokerMessage(2, b"<b/>"))
    tx.outgoing.put(outgoing("key", identifier="urn:i", next_number=4, count=3, due_at=3.0))
    for number in range(1, 4):
        tx.outgoing.put_message("key", message(number))


def _seen(store: StorageManager) -> list[object]:
    """What `_fill` made, by every way there is to it."""
    seen: list[object] = []
    with store.look() as look:
        seen += [look.incoming_due(9.0, 9), look.invoker_due(9.0, 9), look.outgoing_due(9.0, 9)]
        seen += [look.next_due(), look.incoming_page("", 9), look.outgoing_page("", 9)]
    with store.transaction() as tx:
        found = tx.incoming.find_created("urn:c", None)
        seen += [found, tx.incoming.find("urn:1"), tx.incoming.count(), tx.invoker.find("urn:1")]
        seen += [tx.invoker.messages("urn:1", 1, 99)]
        identified: OutgoingSequence | None = tx.outgoing.find_identified("urn:i")
        seen += [identified, tx.outgoing.find("key"), tx.outgoing.messages("key", 99)]
    return seen
