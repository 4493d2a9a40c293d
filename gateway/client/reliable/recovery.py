"""Recover transactions of two phases, every minute, and tell people of those that stay prepared:
such a transaction keeps its locks until it is ended."""

import logging
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from gateway.reliability.storage import StorageManager
from gateway.token_bucket import TokenBucket

log = logging.getLogger("dragoman.reliable")

OLD = 180.0
"""Seconds after which people hear of a transaction that is prepared: recovery looks every minute,
and leaves what is younger than a minute to the process that prepared it."""


@runtime_checkable
class TwoPhases(Protocol):
    """A store whose transactions have participants."""

    unreachable: tuple[str, ...]
    """The participants that the last recovery did not reach."""

    def oldest_prepared(self) -> float:
        """The age in seconds of the oldest transaction that is prepared; 0: there is none."""


def recover(storage: StorageManager, complaints: TokenBucket, now: float) -> None:
    """End what a crash left, and warn of what cannot be ended, the same now and then.

    Args:
        complaints: Bounds how often people are told the same.

    Raises:
        StorageUnavailable: The log of decisions cannot be read.
    """
    storage.recover()
    for words in _left(storage):
        if complaints.allows(f"two phases: {words}", now):
            log.warning("%s", words)


def _left(storage: StorageManager) -> Iterator[str]:
    """Name the failures of recovery, in words that stay the same."""
    if not isinstance(storage, TwoPhases):
        return
    for name in storage.unreachable:
        yield f"the participant {name!r} cannot be reached: what is prepared there keeps its locks"
    if storage.oldest_prepared() > OLD:
        minutes = f"{OLD / 60:.0f}"
        yield f"a transaction is prepared for more than {minutes} minutes, and keeps its locks"
