"""The contract of a store of reliable messaging, as tests for pytest. Ours and those of third
parties pass the same.

Needs pytest. A subclass is all that is to be written::

    from gateway.reliability.testing import StoreContract

    class TestMyStore(StoreContract):
        def make_store(self, data: Path) -> StorageManager:
            return MyStore(data / "sequences")
"""

import pytest

# pytest explains the assertions of test modules; of others only those that it was told of.
pytest.register_assert_rewrite(
    "gateway.reliability.testing.contract",
    "gateway.reliability.testing.looks",
    "gateway.reliability.testing.managers",
    "gateway.reliability.testing.many",
    "gateway.reliability.testing.transactions",
)

from gateway.reliability.testing.contract import StoreContract  # noqa: E402
from gateway.reliability.testing.samples import incoming, message, outgoing  # noqa: E402

__all__ = ["StoreContract", "incoming", "message", "outgoing"]
