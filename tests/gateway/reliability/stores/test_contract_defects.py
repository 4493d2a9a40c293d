"""The contract kit as a stranger uses it: it lets a sound store pass, and finds each defect."""

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow  # A process of pytest is started.

SECONDS = 300.0
SUITE = """
from contextlib import contextmanager
from dataclasses import replace

from gateway.reliability.stores import memory
from gateway.reliability.stores.memory import MemoryOutgoing, MemoryStore, MemoryTransaction
from tests.gateway.reliability.stores.contract import StoreContract


class Contract(StoreContract):
    __test__ = False
    durable = False
    store_class = MemoryStore

    def make_store(self, data):
        return self.store_class(lock_wait=0.5)


class TestSound(Contract):
    __test__ = True


class KeepsWhatRaised(MemoryStore):
    @contextmanager
    def transaction(self):
        transaction = MemoryTransaction(self)
        try:
            yield transaction
        finally:
            transaction._commit()
            transaction._end()


class TestKeepsWhatRaised(Contract):
    __test__ = True
    store_class = KeepsWhatRaised


class LocksNothing(MemoryStore):
    def _lock_all(self, places, holder, wait):
        return list(places)


class TestLocksNothing(Contract):
    __test__ = True
    store_class = LocksNothing


class Changed(MemoryStore):
    def change(self, transaction):
        pass

    @contextmanager
    def transaction(self):
        with super().transaction() as transaction:
            self.change(transaction)
            yield transaction


class AnyOrder(Changed):
    def change(self, transaction):
        transaction._order.check = lambda place: None


class TestAnyOrder(Contract):
    __test__ = True
    store_class = AnyOrder


class AcknowledgesAll(Changed):
    def change(self, transaction):
        outgoing = transaction.outgoing
        real = outgoing.acknowledge
        outgoing.acknowledge = lambda key, ranges, *, replied=False: real(key, ranges, replied=True)


class TestAcknowledgesAll(Contract):
    __test__ = True
    store_class = AcknowledgesAll


class LeavesMessages(Changed):
    def change(self, transaction):
        outgoing = transaction.outgoing
        outgoing.remove = lambda key: outgoing._draft(key, None)


class TestLeavesMessages(Contract):
    __test__ = True
    store_class = LeavesMessages


class Overwrites(Changed):
    def change(self, transaction):
        def add(identifier, message):
            transaction.invoker._messages_of(identifier).put(message)
            return True

        transaction.invoker.add_message = add


class TestOverwrites(Contract):
    __test__ = True
    store_class = Overwrites


class Forgets(Changed):
    def change(self, transaction):
        put = transaction.outgoing.put
        transaction.outgoing.put = lambda one: put(replace(one, window=None))


class TestForgets(Contract):
    __test__ = True
    store_class = Forgets


class SaysAllIsDue(Changed):
    def change(self, transaction):
        real = transaction.outgoing.messages
        transaction.outgoing.messages = lambda key, limit, due=None: real(key, limit)


class TestSaysAllIsDue(Contract):
    __test__ = True
    store_class = SaysAllIsDue
"""


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """By the class of a store, the tests that failed."""
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_suite.py").write_text(SUITE)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=no", "-rfE",
         "test_suite.py"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    found: dict[str, set[str]] = {}
    line = re.compile(r"^(?:FAILED|ERROR) test_suite\.py::Test(\w+)::(\w+)", re.MULTILINE)
    for store, test in line.findall(done.stdout):
        found.setdefault(store, set()).add(test)
    assert re.search(r"\d+ passed", done.stdout), done.stdout[-2000:] + done.stderr[-2000:]
    return found


def test_a_sound_one_passes(failures: dict[str, set[str]]) -> None:
    assert "Sound" not in failures


@pytest.mark.parametrize(
    ("store", "test"),
    [
        ("KeepsWhatRaised", "test_a_transaction_that_raises_changes_nothing"),
        ("KeepsWhatRaised", "test_a_number_that_was_rolled_back_is_given_again"),
        ("LocksNothing", "test_a_second_transaction_waits_for_the_first"),
        ("LocksNothing", "test_two_do_not_add_the_same"),
        ("LocksNothing", "test_a_request_that_comes_twice_makes_one_sequence"),
        ("AnyOrder", "test_nobody_goes_back_in_the_lock_order"),
        ("AnyOrder", "test_objects_of_one_kind_go_by_key"),
        ("AcknowledgesAll", "test_what_waits_for_a_reply_stays_until_it_is_there"),
        ("LeavesMessages", "test_an_outgoing_sequence_takes_its_messages_with_it"),
        ("Overwrites", "test_a_number_that_waits_is_not_added_again"),
        ("Forgets", "test_every_field_of_an_outgoing_sequence_is_kept"),
        ("SaysAllIsDue", "test_messages_that_are_due"),
    ],
)
def test_a_defect_is_found(failures: dict[str, set[str]], store: str, test: str) -> None:
    assert test in failures.get(store, set())
