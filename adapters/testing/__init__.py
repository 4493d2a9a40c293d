"""The contract of an adapter, as tests for pytest. Ours and those of third parties pass the same.

Needs pytest and pytest-asyncio. A subclass is all that is to be written, marked with
``@pytest.mark.asyncio`` unless pytest-asyncio runs in its auto mode::

    from adapters.testing import AdapterContract

    class TestKafka(AdapterContract):
        durable = True

        def make_adapter(self, data: Path) -> Adapter:
            return KafkaAdapter(servers="localhost:9092", data=data)

Every test uses topics of a namespace of its own, so that a broker may serve many tests.
"""

import pytest

# pytest explains the assertions of test modules; of others only those that it was told of.
pytest.register_assert_rewrite(
    "adapters.testing.contract",
    "adapters.testing.dialects",
    "adapters.testing.interests",
    "adapters.testing.messages",
    "adapters.testing.order",
    "adapters.testing.outages",
    "adapters.testing.refusals",
    "adapters.testing.settlement",
    "adapters.testing.trials",
)

from adapters.drills.inbox import Inbox  # noqa: E402
from adapters.testing.contract import AdapterContract  # noqa: E402
from adapters.testing.dialects import DialectContract  # noqa: E402

__all__ = ["AdapterContract", "DialectContract", "Inbox"]
