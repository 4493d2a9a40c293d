"""The contract of a store of reliable messaging: a class of tests that each store passes."""

import pytest

# pytest explains the assertions of test modules; of others only those that it was told of.
pytest.register_assert_rewrite(
    *(f"{__name__}.{name}" for name in ("store", "queries", "managers", "batches", "transactions"))
)

from tests.gateway.reliability.stores.contract.samples import (  # noqa: E402
    incoming,
    message,
    outgoing,
)
from tests.gateway.reliability.stores.contract.store import StoreContract  # noqa: E402

__all__ = ["StoreContract", "incoming", "message", "outgoing"]
