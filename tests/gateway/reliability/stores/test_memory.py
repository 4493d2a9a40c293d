"""The store in memory: the contract, and what a simulator asks of it."""

from pathlib import Path

import pytest

from gateway.reliability.records import InvokerBuffer, InvokerMessage
from gateway.reliability.storage import Conflict, OutOfOrder, StorageUnavailable, Taken
from gateway.reliability.stores.memory import MemoryStore
from tests.gateway.reliability.stores.contract import StoreContract, incoming, message, outgoing


class TestContract(StoreContract):
    durable = False

    def make_store(self, data: Path) -> MemoryStore:
        return MemoryStore()


class Crash(BaseException):
    """The process ends."""


def test_survivors_are_what_was_committed() -> None:
    store = MemoryStore()
    with store.transaction() as tx:
        tx.outgoing.put(outgoing("key", identifier="urn:i"))
        tx.outgoing.put_message("key", message(1))
    with store.transaction() as tx:
        tx.outgoing.put_message("key", message(2))
        survivors = store.surviving()
    with survivors.transaction() as tx:
        assert tx.outgoing.find_identified("urn:i") == outgoing("key", identifier="urn:i")
        assert tx.outgoing.messages("key", 9) == [message(1)]
        tx.outgoing.put_message("key", message(3))
    with store.transaction() as tx:
        assert tx.outgoing.messages("key", 9) == [message(1), message(2)]


@pytest.mark.parametrize(("step", "survives"), [("begin", 0), ("commit", 0), ("committed", 1)])
def test_a_crash_at_each_step(step: str, survives: int) -> None:
    def crash(now: str) -> None:
        if now == step:
            raise Crash

    store = MemoryStore(step=crash)
    with pytest.raises(Crash), store.transaction() as tx:
        tx.incoming.put(incoming("urn:1"))
    with store.look() as look:
        assert len(look.incoming_page("", 9)) == survives
    assert store.commits == survives


def test_several_of_which_another_one_has_one() -> None:
    store = MemoryStore(lock_wait=0.01)
    with store.transaction() as tx:
        for key in "abc":
            tx.outgoing.put(outgoing(key))
    with store.transaction() as tx:
        tx.outgoing.find("b")
        with store.transaction() as other:
            assert other.outgoing.take_all(["a", "b", "c"]) == ["a", "c"]  # type: ignore[attr-defined]
        with (
            pytest.raises(StorageUnavailable, match=r"'b' for 0\.01 s"),
            store.transaction() as other,
        ):
            other.outgoing.find_all(["a", "b", "c"])  # type: ignore[attr-defined]
        with store.transaction() as other:  # Neither kept the others.
            assert other.outgoing.find_all(["a", "c"]) == ["a", "c"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["take_all", "find_all"])
def test_several_that_are_not_in_order(way: str) -> None:
    """Who locks them the other way round would wait for this one, and this one for it."""
    store = MemoryStore()
    with store.transaction() as tx:
        for key in "ab":
            tx.outgoing.put(outgoing(key))
    with pytest.raises(OutOfOrder, match="'a' after outgoing 'b'"), store.transaction() as tx:
        getattr(tx.outgoing, way)(["b", "a"])


def test_nobody_waits_for_ever() -> None:
    store = MemoryStore(lock_wait=0.01)
    with store.transaction() as tx:
        tx.outgoing.find("key")
        with pytest.raises(StorageUnavailable, match=r"0\.01 s"), store.transaction() as other:
            other.outgoing.find("key")
    with store.transaction() as tx:
        tx.outgoing.find("key")


def test_a_name_that_two_take_at_once() -> None:
    store = MemoryStore()
    with pytest.raises(Conflict), store.transaction() as late:
        late.outgoing.put(outgoing("a", identifier="urn:1"))
        with store.transaction() as early:
            early.outgoing.put(outgoing("b", identifier="urn:1"))
    with pytest.raises(Taken), store.transaction() as tx:
        tx.outgoing.put(outgoing("a", identifier="urn:1"))


def test_it_is_empty_when_all_is_removed() -> None:
    store = MemoryStore()
    assert store.is_empty()
    with store.transaction() as tx:
        tx.incoming.put(incoming("urn:1", create_id="urn:c", owner="alice", due_at=1.0))
        tx.invoker.put(InvokerBuffer("urn:1", due_at=1.0))
        tx.invoker.add_message("urn:1", InvokerMessage(1, b""))
        tx.outgoing.put(outgoing("key", identifier="urn:i", offered="urn:o", due_at=1.0))
        tx.outgoing.put_message("key", message(1))
    assert not store.is_empty()
    with store.transaction() as tx:
        tx.incoming.remove("urn:1")
        tx.invoker.remove("urn:1")
        tx.outgoing.remove("key")
    assert store.is_empty()
    assert store._committed == MemoryStore()._committed, "nothing is left, not even in an index"
    assert not store._holders


def test_it_takes_part_in_no_distributed_transaction() -> None:
    with MemoryStore().transaction() as tx:
        assert tx.connection is None
        with pytest.raises(TypeError, match="no distributed transaction"):
            tx.enlist("orders")
