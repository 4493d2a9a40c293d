"""What a look finds."""

from dataclasses import replace

from gateway.reliability.records import InvokerBuffer
from gateway.reliability.storage import StorageManager
from tests.gateway.reliability.stores.contract.samples import ADDRESS, ODD_TEXTS, incoming, outgoing


class QueryContract:
    """The tests of looks."""

    store: StorageManager

    def test_due_scans_give_the_longest_due_first(self) -> None:
        dues = {"a": 5.0, "b": 3.0, "c": None, "d": 7.5, "e": 3.0}
        with self.store.look() as look:
            assert look.next_due() is None
        with self.store.transaction() as tx:
            for key, due_at in dues.items():
                tx.incoming.put(incoming(key, due_at=due_at))
        with self.store.transaction() as tx:
            for key, due_at in dues.items():
                tx.invoker.put(InvokerBuffer(key, due_at=due_at))
        with self.store.transaction() as tx:
            for key, due_at in dues.items():
                tx.outgoing.put(outgoing(key, due_at=due_at))
        with self.store.look() as look:
            for due in (look.incoming_due, look.invoker_due, look.outgoing_due):
                assert due(7.0, 9) == ["b", "e", "a"]
                assert due(7.5, 9) == ["b", "e", "a", "d"]
                assert due(7.5, 2) == ["b", "e"]
                assert due(2.0, 9) == []
            all_due = getattr(look, "all_due", None)
            if all_due is not None:
                assert all_due(7.0, 9) == (["b", "e", "a"],) * 3
                assert all_due(7.5, 2) == (["b", "e"],) * 3
                assert all_due(2.0, 9) == ([], [], [])
            assert look.next_due() == 3.0
        with self.store.transaction() as tx:
            tx.incoming.remove("b")
            tx.incoming.put(incoming("e", due_at=8.0))
            tx.invoker.put(InvokerBuffer("b"))
        with self.store.look() as look:
            assert look.incoming_due(9.0, 9) == ["a", "d", "e"]
            assert look.invoker_due(9.0, 9) == ["e", "a", "d"]
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("d", due_at=0.0))
        with self.store.look() as look:
            assert look.next_due() == 0.0

    def test_sequences_are_found_by_their_address(self) -> None:
        there = replace(ADDRESS, address="http://there.example.org/%")
        with self.store.transaction() as tx:
            for key in ("a", "b"):
                tx.incoming.put(incoming(key))
            tx.incoming.put(incoming("c", acks_to=there))
            tx.incoming.put(incoming("d", acks_to=ADDRESS, ended_at=1.0))
            for key, target in (("a", ADDRESS), ("b", there), ("c", ADDRESS)):
                tx.outgoing.put(outgoing(key, target=target))
            tx.outgoing.put(outgoing("d", ended_at=1.0))
        with self.store.look() as look:
            assert look.incoming_to(ADDRESS.address, 9) == ["a", "b"]
            assert look.incoming_to(ADDRESS.address, 1) == ["a"]
            assert look.incoming_to(there.address, 9) == ["c"]
            assert look.outgoing_to(ADDRESS.address, 9) == ["a", "c"]
            assert look.outgoing_to(there.address, 9) == ["b"]
            assert look.outgoing_to("http://nobody.example.org/", 9) == []
        with self.store.transaction() as tx:
            tx.incoming.put(incoming("a", acks_to=there))
            tx.outgoing.put(outgoing("a", ended_at=2.0))
            tx.outgoing.remove("c")
        with self.store.look() as look:
            assert look.incoming_to(ADDRESS.address, 9) == ["b"]
            assert look.incoming_to(there.address, 9) == ["a", "c"]
            assert look.outgoing_to(ADDRESS.address, 9) == []

    def test_pages_go_by_key(self) -> None:
        keys = sorted(ODD_TEXTS)
        with self.store.transaction() as tx:
            for key in keys:
                tx.incoming.put(incoming(key))
            for key in keys:
                tx.outgoing.put(outgoing(key))
        with self.store.look() as look:
            pages: list[str] = []
            while page := look.incoming_page(pages[-1] if pages else "", 5):
                assert len(page) <= 5
                pages += [one.identifier for one in page]
            assert pages == keys
            assert [one.key for one in look.outgoing_page("", 99)] == keys
            assert look.outgoing_page(keys[-1], 9) == []

    def test_what_waits_is_counted(self) -> None:
        with self.store.look() as look:
            assert look.waiting() == 0
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("a", create_id="urn:a", count=3))
            tx.outgoing.put(outgoing("b", create_id="urn:b", count=2, ended_at=1.0))
            tx.outgoing.put(outgoing("c", count=4))  # Replies: no client made it.
            tx.outgoing.put(outgoing("d", create_id="urn:d", count=1))
            tx.outgoing.put(outgoing("e", create_id="urn:e"))
        with self.store.look() as look:
            assert look.waiting() == 4
