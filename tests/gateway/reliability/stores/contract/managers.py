"""What each method of the three managers does."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.reliability.records import InvokerBuffer, InvokerMessage, OutgoingMessage
from gateway.reliability.storage import MAX_KEPT_RANGES, MAX_KEY, StorageManager, Taken
from mediation.reliable_messaging import Ranges
from mediation.reliable_messaging.machines import InvokerState
from tests.gateway.reliability.stores.contract.samples import (
    FULL_INCOMING,
    FULL_OUTGOING,
    ODD_TEXTS,
    incoming,
    message,
    outgoing,
)


class ManagerContract:
    """The tests of the managers, each in one transaction and by itself."""

    store: StorageManager

    def make_store(self, data: Path) -> StorageManager:
        raise NotImplementedError

    # ------------------------------------------------------------------------- incoming sequences

    def test_an_incoming_sequence_is_added_changed_and_removed(self) -> None:
        with self.store.transaction() as tx:
            assert tx.incoming.find("urn:1") is None
            tx.incoming.put(incoming("urn:1"))
            assert tx.incoming.find("urn:1") == incoming("urn:1")
        with self.store.transaction() as tx:
            assert tx.incoming.find("urn:1") == incoming("urn:1")
            tx.incoming.put(incoming("urn:1", received=Ranges.of([(1, 1)])))
        with self.store.transaction() as tx:
            tx.incoming.put(incoming("urn:1", received=Ranges.of([(1, 2)])))
        with self.store.transaction() as tx:
            found = tx.incoming.find("urn:1")
            assert found is not None and found.received == Ranges.of([(1, 2)])
            tx.incoming.remove("urn:1")
            assert tx.incoming.find("urn:1") is None
        with self.store.transaction() as tx:
            assert tx.incoming.find("urn:1") is None
            tx.incoming.remove("urn:1")

    def test_an_incoming_sequence_is_removed_and_added_at_once(self) -> None:
        with self.store.transaction() as tx:
            tx.incoming.put(incoming("urn:1", closed=True))
        with self.store.transaction() as tx:
            tx.incoming.remove("urn:1")
            tx.incoming.put(incoming("urn:1"))
        with self.store.transaction() as tx:
            assert tx.incoming.find("urn:1") == incoming("urn:1")

    def test_every_field_of_an_incoming_sequence_is_kept(self) -> None:
        with self.store.transaction() as tx:
            tx.incoming.put(FULL_INCOMING)
        with self.store.transaction() as tx:
            assert tx.incoming.find(FULL_INCOMING.identifier) == FULL_INCOMING

    def test_a_sequence_is_found_by_the_request_that_created_it(self) -> None:
        with self.store.transaction() as tx:
            tx.incoming.put(incoming("urn:1", create_id="urn:c", owner="alice"))
            tx.incoming.put(incoming("urn:2", create_id="urn:c"))
        for create_id, owner, identifier in (
            ("urn:c", "alice", "urn:1"),
            ("urn:c", None, "urn:2"),
            ("urn:c", "bob", None),
            ("urn:d", "alice", None),
        ):
            with self.store.transaction() as tx:
                found = tx.incoming.find_created(create_id, owner)
                assert (found and found.identifier) == identifier

    def test_the_request_that_created_it_goes_with_it(self) -> None:
        with self.store.transaction() as tx:
            assert tx.incoming.find_created("urn:c", None) is None
            tx.incoming.put(incoming("urn:1", create_id="urn:c"))
            assert tx.incoming.find_created("urn:c", None) is not None
        with self.store.transaction() as tx:
            tx.incoming.remove("urn:1")
        with self.store.transaction() as tx:
            assert tx.incoming.find_created("urn:c", None) is None

    def test_sequences_are_counted_until_they_end(self) -> None:
        with self.store.transaction() as tx:
            assert tx.incoming.count() == 0
            tx.incoming.put(incoming("urn:1", owner="alice"))
            tx.incoming.put(incoming("urn:2", owner="alice"))
            tx.incoming.put(incoming("urn:3", owner="bob"))
            tx.incoming.put(incoming("urn:4"))
            assert (tx.incoming.count(), tx.incoming.count("alice")) == (4, 2)
        with self.store.transaction() as tx:
            tx.incoming.put(incoming("urn:1", owner="alice", ended_at=0.0))
            tx.incoming.remove("urn:3")
            assert (tx.incoming.count(), tx.incoming.count("alice")) == (2, 1)
            assert tx.incoming.count("bob") == 0
        with self.store.transaction() as tx:
            assert (tx.incoming.count(), tx.incoming.count("alice")) == (2, 1)
            assert (tx.incoming.count("bob"), tx.incoming.count("")) == (0, 0)

    def test_sequences_of_nobody_are_counted_by_peer(self) -> None:
        with self.store.transaction() as tx:
            for name, peer in (("urn:1", "192.0.2.1"), ("urn:2", "192.0.2.1"), ("urn:3", "::1")):
                tx.incoming.put(incoming(name, peer=peer))
            tx.incoming.put(incoming("urn:4", owner="alice"))
            assert tx.incoming.count(peer="192.0.2.1") == 2
        with self.store.transaction() as tx:
            tx.incoming.put(incoming("urn:1", peer="192.0.2.1", ended_at=0.0))
            tx.incoming.remove("urn:3")
            counts = [tx.incoming.count(peer=peer) for peer in ("192.0.2.1", "::1", "alice", "")]
            assert counts == [1, 0, 0, 0]
        with self.store.transaction() as tx:
            assert (tx.incoming.count(peer="192.0.2.1"), tx.incoming.count()) == (1, 2)

    # ---------------------------------------------------------------------------- invoker buffers

    def test_a_buffer_is_added_changed_and_removed(self) -> None:
        full = InvokerBuffer(
            "urn:1", InvokerState.WAITING_ENDED, 2**63 - 2, 2**63 - 1, 2, 9, due_at=0.5,
            service="orders", owner="alice", held=True, skips=True,
        )  # fmt: skip
        with self.store.transaction() as tx:
            assert tx.invoker.find("urn:1") is None
            tx.invoker.put(InvokerBuffer("urn:1"))
            assert tx.invoker.find("urn:1") == InvokerBuffer("urn:1")
            tx.invoker.put(full)
        with self.store.transaction() as tx:
            assert tx.invoker.find("urn:1") == full
            tx.invoker.remove("urn:1")
        with self.store.transaction() as tx:
            assert tx.invoker.find("urn:1") is None

    def test_messages_come_by_number_with_gaps_left_out(self) -> None:
        with self.store.transaction() as tx:
            tx.invoker.put(InvokerBuffer("urn:1"))
            for number in (5, 2, 9, 1):
                assert tx.invoker.add_message("urn:1", _waiting(number))
            tx.invoker.add_message("urn:2", _waiting(3))
        with self.store.transaction() as tx:
            tx.invoker.add_message("urn:1", _waiting(4))
            assert _numbers(tx.invoker.messages("urn:1", 1, 10)) == [1, 2, 4, 5, 9]
            assert _numbers(tx.invoker.messages("urn:1", 2, 3)) == [2, 4, 5]
            assert _numbers(tx.invoker.messages("urn:1", 10, 3)) == []
            assert tx.invoker.messages("urn:1", 9, 1) == [_waiting(9)]
            tx.invoker.remove_message("urn:1", 2)
            tx.invoker.remove_message("urn:1", 3)
            assert _numbers(tx.invoker.messages("urn:1", 1, 2)) == [1, 4]
        with self.store.transaction() as tx:
            assert _numbers(tx.invoker.messages("urn:1", 1, 10)) == [1, 4, 5, 9]

    def test_a_number_that_waits_is_not_added_again(self) -> None:
        first = _waiting(1)
        with self.store.transaction() as tx:
            assert tx.invoker.add_message("urn:1", first)
            assert not tx.invoker.add_message("urn:1", replace(first, envelope=b"other"))
        with self.store.transaction() as tx:
            assert not tx.invoker.add_message("urn:1", replace(first, envelope=b"other"))
            assert tx.invoker.messages("urn:1", 1, 2) == [first]
            tx.invoker.remove_message("urn:1", 1)
            assert tx.invoker.add_message("urn:1", replace(first, envelope=b"other"))
        with self.store.transaction() as tx:
            assert tx.invoker.messages("urn:1", 1, 2) == [replace(first, envelope=b"other")]

    def test_a_buffer_takes_its_messages_with_it(self) -> None:
        with self.store.transaction() as tx:
            tx.invoker.put(InvokerBuffer("urn:1"))
            tx.invoker.add_message("urn:1", _waiting(1))
            tx.invoker.add_message("urn:2", _waiting(1))
        with self.store.transaction() as tx:
            tx.invoker.add_message("urn:1", _waiting(2))
            tx.invoker.remove("urn:1")
            assert tx.invoker.messages("urn:1", 1, 9) == []
        with self.store.transaction() as tx:
            assert tx.invoker.messages("urn:1", 1, 9) == []
            assert tx.invoker.messages("urn:2", 1, 9) == [_waiting(1)]

    @pytest.mark.parametrize("envelope", [b"", b"\x00\xff'\"", b"x" * 1_000_000])
    def test_an_envelope_is_kept_as_it_came(self, envelope: bytes) -> None:
        given = InvokerMessage(2**63 - 1, envelope, 'application/soap+xml; action="urn:ä"')
        with self.store.transaction() as tx:
            tx.invoker.add_message("urn:1", given)
            tx.outgoing.put_message("key", message(2**63 - 1, envelope=envelope))
        with self.store.transaction() as tx:
            assert tx.invoker.messages("urn:1", 1, 1) == [given]
            found = tx.outgoing.message("key", 2**63 - 1)
            assert found is not None and found.envelope == envelope

    # ------------------------------------------------------------------------- outgoing sequences

    def test_an_outgoing_sequence_is_added_changed_and_removed(self) -> None:
        with self.store.transaction() as tx:
            assert tx.outgoing.find("key") is None
            tx.outgoing.put(outgoing("key"))
        with self.store.transaction() as tx:
            assert tx.outgoing.find("key") == outgoing("key")
            tx.outgoing.put(outgoing("key", next_number=2))
            assert tx.outgoing.find("key") == outgoing("key", next_number=2)
        with self.store.transaction() as tx:
            tx.outgoing.remove("key")
        with self.store.transaction() as tx:
            assert tx.outgoing.find("key") is None

    def test_every_field_of_an_outgoing_sequence_is_kept(self) -> None:
        with self.store.transaction() as tx:
            tx.outgoing.put(FULL_OUTGOING)
        with self.store.transaction() as tx:
            assert tx.outgoing.find("full") == FULL_OUTGOING

    def test_an_outgoing_sequence_is_found_by_each_of_its_names(self) -> None:
        one = outgoing("key", identifier="urn:i", offered="urn:o", create_id="urn:c")
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("another"))
            tx.outgoing.put(one)
            assert tx.outgoing.find_identified("urn:i") == one
        for name in ("urn:i", "urn:o", "urn:c", "key", ""):
            with self.store.transaction() as tx:
                assert tx.outgoing.find_identified(name) == (one if name == "urn:i" else None)
            with self.store.transaction() as tx:
                assert tx.outgoing.find_creating(name) == (one if name == "urn:c" else None)

    def test_a_name_that_was_given_up_finds_nothing(self) -> None:
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("key", identifier="urn:1", create_id="urn:c"))
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("key", identifier="urn:2"))
            assert tx.outgoing.find_identified("urn:1") is None
            assert tx.outgoing.find_identified("urn:2") is not None
        with self.store.transaction() as tx:
            assert tx.outgoing.find_identified("urn:1") is None
            assert tx.outgoing.find_creating("urn:c") is None
            tx.outgoing.remove("key")
            assert tx.outgoing.find_identified("urn:2") is None
        with self.store.transaction() as tx:
            assert tx.outgoing.find_identified("urn:2") is None

    @pytest.mark.parametrize("name", ["identifier", "offered", "create_id"])
    def test_two_sequences_do_not_have_the_same_name(self, name: str) -> None:
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("a", **{name: "urn:1"}))
        with self.store.transaction() as tx:
            with pytest.raises(Taken):
                tx.outgoing.put(outgoing("b", **{name: "urn:1"}))
            tx.outgoing.put(outgoing("b", **{name: "urn:2"}))  # The transaction goes on.
        with self.store.transaction() as tx:
            tx.outgoing.remove("a")
            tx.outgoing.put(outgoing("b", **{name: "urn:1"}))
        with self.store.transaction() as tx:
            assert tx.outgoing.find("b") == outgoing("b", **{name: "urn:1"})

    def test_a_message_is_added_changed_and_found(self) -> None:
        reply = message(
            2, message_id="urn:r", relates_to="urn:q", wants_reply=True, next_at=5.5, answer_by=9.25
        )
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("key"))
            tx.outgoing.put_message("key", message(1))
            tx.outgoing.put_message("key", reply)
            tx.outgoing.put_message("other", message(1, message_id="urn:r", relates_to="urn:q"))
        with self.store.transaction() as tx:
            assert tx.outgoing.message("key", 1) == message(1)
            assert tx.outgoing.message("key", 3) is None
            assert tx.outgoing.message_identified("key", "urn:r") == reply
            assert tx.outgoing.message_relating("key", "urn:q") == reply
            assert tx.outgoing.message_identified("key", "urn:q") is None
            assert tx.outgoing.message_relating("key", "urn:r") is None
            tx.outgoing.put_message("key", replace(reply, tries=3, message_id="urn:s"))
            assert tx.outgoing.message_identified("key", "urn:r") is None
        with self.store.transaction() as tx:
            assert tx.outgoing.message("key", 2) == replace(reply, tries=3, message_id="urn:s")
            assert tx.outgoing.message_identified("key", "urn:r") is None
            assert tx.outgoing.message_identified("key", "urn:s") is not None

    @pytest.mark.parametrize(
        "change",
        [
            {"tries": 3},
            {"next_at": 4.5},
            {"tries": 3, "next_at": None, "answer_by": 9.0},
            {"wants_reply": True},
            {"message_id": "urn:other", "tries": 1},
            {"relates_to": "urn:request"},
            {"action": "urn:other"},
            {"envelope": b"<other/>"},
        ],
    )
    def test_whatever_changes_of_a_message_that_was_read(self, change: dict[str, Any]) -> None:
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("key"))
            tx.outgoing.put_message("key", message(1, next_at=1.0))
            tx.outgoing.put_message("key", message(2, next_at=1.0))
        with self.store.transaction() as tx:
            [first, _] = tx.outgoing.messages("key", 9)
            tx.outgoing.put_message("key", replace(first, **change))
        with self.store.transaction() as tx:
            assert tx.outgoing.messages("key", 9) == [
                replace(first, **change),
                message(2, next_at=1.0),
            ]

    def test_of_several_messages_with_one_id_the_first_is_found(self) -> None:
        with self.store.transaction() as tx:
            for number in (3, 2, 5):
                tx.outgoing.put_message("key", message(number, message_id="i", relates_to="r"))
            tx.outgoing.put_message("key", message(1))
        with self.store.transaction() as tx:
            found = tx.outgoing.message_identified("key", "i")
            assert found is not None and found.number == 2
            found = tx.outgoing.message_relating("key", "r")
            assert found is not None and found.number == 2

    def test_messages_that_are_due(self) -> None:
        with self.store.transaction() as tx:
            for number, next_at in ((4, 9.0), (3, 10.0), (2, None), (1, 10.5)):
                tx.outgoing.put_message("key", message(number, next_at=next_at))
        with self.store.transaction() as tx:
            assert _numbers(tx.outgoing.messages("key", 9)) == [1, 2, 3, 4]
            assert _numbers(tx.outgoing.messages("key", 9, due=10.0)) == [2, 3, 4]
            assert _numbers(tx.outgoing.messages("key", 2, due=10.0)) == [2, 3]
            assert _numbers(tx.outgoing.messages("key", 9, due=0.0)) == [2]
            assert _numbers(tx.outgoing.messages("key", 0)) == []

    def test_acknowledged_messages_go(self) -> None:
        with self.store.transaction() as tx:
            for number in range(1, 10):
                tx.outgoing.put_message("key", message(number))
            tx.outgoing.put_message("other", message(1))
        with self.store.transaction() as tx:
            assert tx.outgoing.acknowledge("key", Ranges()) == 9
            tx.outgoing.put_message("key", message(10))
            assert tx.outgoing.acknowledge("key", Ranges.of([(1, 3), (5, 5), (10, 99)])) == 5
        with self.store.transaction() as tx:
            assert _numbers(tx.outgoing.messages("key", 99)) == [4, 6, 7, 8, 9]
            assert tx.outgoing.acknowledge("key", Ranges.of([(1, 2**63 - 1)])) == 0
            assert tx.outgoing.acknowledge("unknown", Ranges.of([(1, 2)])) == 0
        with self.store.transaction() as tx:
            assert tx.outgoing.message("other", 1) is not None

    def test_what_waits_for_a_reply_stays_until_it_is_there(self) -> None:
        with self.store.transaction() as tx:
            tx.outgoing.put_message("key", message(1, wants_reply=True))
            tx.outgoing.put_message("key", message(2))
            tx.outgoing.put_message("key", message(3, wants_reply=True))
        with self.store.transaction() as tx:
            assert tx.outgoing.acknowledge("key", Ranges.of([(1, 2)])) == 2
            assert tx.outgoing.acknowledge("key", Ranges.of([(1, 1)]), replied=True) == 1
            assert tx.outgoing.acknowledge("key", Ranges.of([(1, 3)])) == 1
        with self.store.transaction() as tx:
            assert _numbers(tx.outgoing.messages("key", 9)) == [3]

    def test_an_outgoing_sequence_takes_its_messages_with_it(self) -> None:
        with self.store.transaction() as tx:
            tx.outgoing.put(outgoing("key"))
            for number in range(1, 4):
                tx.outgoing.put_message("key", message(number))
        with self.store.transaction() as tx:
            tx.outgoing.remove("key")
            assert tx.outgoing.message("key", 1) is None
        with self.store.transaction() as tx:
            assert tx.outgoing.messages("key", 9) == []
            tx.outgoing.put(outgoing("key"))
        with self.store.transaction() as tx:
            assert tx.outgoing.messages("key", 9) == []

    # ------------------------------------------------------------------------------- what is odd

    @pytest.mark.parametrize("text", ODD_TEXTS, ids=[str(n) for n in range(len(ODD_TEXTS))])
    def test_any_text_is_a_key(self, text: str) -> None:
        with self.store.transaction() as tx:
            for key in sorted({*ODD_TEXTS} - {text}):
                tx.incoming.put(incoming(key))
        one = incoming(text, create_id=text, owner=text, service=text)
        other = outgoing(text, identifier=text, offered=text, create_id=text, callback=text)
        sent = message(1, message_id=text, relates_to=text, action=text)
        with self.store.transaction() as tx:
            assert tx.incoming.find_created(text, text) is None
            tx.incoming.put(one)
            tx.invoker.put(InvokerBuffer(text))
            tx.outgoing.put(other)
            tx.outgoing.put_message(text, sent)
        with self.store.transaction() as tx:
            assert tx.incoming.find_created(text, text) == one
            assert tx.incoming.count(text) == 1
            assert tx.invoker.find(text) == InvokerBuffer(text)
            assert tx.outgoing.find_identified(text) == other
            assert tx.outgoing.find_creating(text) == other
            assert tx.outgoing.message_identified(text, text) == sent
            assert tx.outgoing.message_relating(text, text) == sent

    @pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * (MAX_KEY + 1)], ids=ascii)
    def test_a_text_that_no_database_keeps_is_never_found(self, text: str) -> None:
        with self.store.transaction() as tx:
            assert tx.incoming.find_created(text, text) is None
            assert tx.incoming.find(text) is None
            assert tx.incoming.take(text) is None
            assert tx.invoker.find(text) is None
            assert tx.outgoing.find(text) is None
            assert tx.outgoing.find_identified(text) is None
            assert tx.outgoing.find_creating(text) is None
            assert tx.outgoing.message_identified("key", text) is None
            assert tx.outgoing.message_relating("key", text) is None
            with pytest.raises(ValueError, match="key of a sequence"):
                tx.incoming.put(incoming(text))
            with pytest.raises(ValueError, match="key of a sequence"):
                tx.invoker.put(InvokerBuffer(text))
            with pytest.raises(ValueError, match="key of a sequence"):
                tx.outgoing.put(outgoing(text))
            with pytest.raises(ValueError, match="key of a sequence"):
                tx.outgoing.put(outgoing("key", identifier=text))

    def test_ranges_are_bounded(self) -> None:
        most = Ranges(tuple((n, n) for n in range(1, 2 * MAX_KEPT_RANGES, 2)))
        more = most.add(2 * MAX_KEPT_RANGES + 1)
        with self.store.transaction() as tx:
            tx.incoming.put(incoming("urn:1", received=most))
            with pytest.raises(ValueError, match="ranges"):
                tx.incoming.put(incoming("urn:1", received=more))
            tx.outgoing.put(outgoing("key", acknowledged=most))
            with pytest.raises(ValueError, match="ranges"):
                tx.outgoing.put(outgoing("key", acknowledged=more))
        with self.store.transaction() as tx:
            assert tx.incoming.find("urn:1") == incoming("urn:1", received=most)


def _waiting(number: int) -> InvokerMessage:
    return InvokerMessage(number, b"<m>%d</m>" % number, "text/xml")


def _numbers(messages: Sequence[InvokerMessage | OutgoingMessage]) -> list[int]:
    return [one.number for one in messages]
