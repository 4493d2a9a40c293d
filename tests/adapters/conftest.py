import uuid

import pytest


@pytest.fixture
def name() -> str:
    """Of this test's queues, and the root of its destinations."""
    return f"test-{uuid.uuid4().hex[:12]}"
