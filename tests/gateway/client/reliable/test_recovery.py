"""What people hear of transactions of two phases that cannot be ended."""

import logging
from pathlib import Path

import pytest

from gateway.client.reliable import LastResource, TwoPhaseStore
from gateway.client.reliable.recovery import OLD, recover
from gateway.reliability.party import COMPLAINED_EVERY
from gateway.reliability.storage import StorageUnavailable
from gateway.reliability.stores.memory import MemoryStore
from gateway.reliability.stores.participants import Prepared
from gateway.token_bucket import TokenBucket


class Standing(LastResource):
    """A participant that tells what is prepared, and ends nothing while it is *away*."""

    prepares = True

    def __init__(self) -> None:
        super().__init__("stock", lambda: None)
        self.left: list[Prepared] = []
        self.away = True

    def recover(self) -> list[Prepared]:
        return self.left

    def rollback(self, gtrid: str) -> None:
        if self.away:
            raise StorageUnavailable("it is locked")
        self.left = []


def test_what_is_prepared_for_long_is_told_now_and_then(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stock = Standing()
    store = TwoPhaseStore(f"sqlite:///{tmp_path / 'messages.db'}", [stock])
    complaints = TokenBucket(1 / COMPLAINED_EVERY)

    def said(now: float) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            recover(store, complaints, now)
        return caplog.messages

    try:
        assert said(0.0) == []
        stock.left = [Prepared(f"{store.node}:1", OLD + 1.0)]
        first = said(60.0)
        assert [
            "'stock'" in line or "prepared for more than 3 minutes" in line for line in first
        ] == [
            True,
            True,
        ]
        assert said(120.0) == [], "it was said just now"
        assert said(61.0 + COMPLAINED_EVERY) == first
        stock.away = False
        assert said(3 * COMPLAINED_EVERY) == []
        assert stock.left == []
    finally:
        store.close()


def test_other_stores_have_nothing_to_say(caplog: pytest.LogCaptureFixture) -> None:
    recover(MemoryStore(), TokenBucket(1.0), 0.0)
    assert caplog.messages == []
