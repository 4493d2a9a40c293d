"""Ends a run in which a test hangs, and says where every thread stands.

pytest's own ``faulthandler_timeout`` starts a thread for each test and waits for its end: 9 ms a
test where a dozen processes compete for two cores, for 17,500 tests. Here one thread serves all
tests that begin within `RENEWED` seconds. It is faulthandler's, which needs no lock of Python's: a
loop in the compiled engine is told, too.
"""

import faulthandler
import os
import time
from collections.abc import Generator

import pytest

LIMIT = 300.0
"""Seconds that a test may take at least; campaigns (``release``) may take hours."""
RENEWED = 30.0
"""Seconds that a test may take in addition, at most."""


class HangWatch:
    """A plug-in of pytest."""

    def __init__(self, limit: float = LIMIT, renewed: float = RENEWED) -> None:
        self._limit = limit
        self._renewed = renewed
        self._file = os.dup(2)  # What a test writes is captured, and lost with the process.
        self._renew_at: float | None = None

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        if item.get_closest_marker("release"):
            self.stop()
        elif self._renew_at is None or time.monotonic() >= self._renew_at:
            faulthandler.dump_traceback_later(
                self._limit + self._renewed, file=self._file, exit=True
            )
            self._renew_at = time.monotonic() + self._renewed
        try:
            return (yield)
        finally:
            if nextitem is None:  # A worker that has no more tests may wait for others.
                self.stop()

    @pytest.hookimpl(tryfirst=True)
    def pytest_exception_interact(self) -> None:
        self._renew_at = None  # pytest ends the watch: who fails may be looked at for long.

    def pytest_unconfigure(self) -> None:
        self.stop()
        os.close(self._file)

    def stop(self) -> None:
        """Watch nothing until the next test."""
        if self._renew_at is not None:
            faulthandler.cancel_dump_traceback_later()
            self._renew_at = None
