"""The contract of a store, as tests for pytest."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.reliability.storage import StorageManager
from tests.gateway.reliability.stores.contract.batches import BatchContract
from tests.gateway.reliability.stores.contract.managers import ManagerContract
from tests.gateway.reliability.stores.contract.queries import QueryContract
from tests.gateway.reliability.stores.contract.transactions import TransactionContract


class StoreContract(ManagerContract, QueryContract, BatchContract, TransactionContract):
    """The tests of any store. Override `make_store`, and say what the store is like by `durable`
    and `one_writer`."""

    def make_store(self, data: Path) -> StorageManager:
        """Make a store. With the same *data* it is the same one again."""
        raise NotImplementedError

    @pytest.fixture
    def data(self, tmp_path: Path) -> Path:
        """Give what says which store it is: a folder of the test's own."""
        return tmp_path

    @pytest.fixture(autouse=True)
    def _store(self, data: Path) -> Iterator[None]:
        self.store = self.make_store(data)
        yield
        self.store.close()
