"""Filters that exceed their budget: counted, told in the log, and in the end cancelled."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

import structlog

from gateway.delivery import Entry
from gateway.observing.samples import Sample, counter

OFFENCES, WITHIN = 3, 600.0
"""Messages within so many seconds on which a filter exceeds its budget: then its subscription
ends."""
REASON = "The filter takes too long to evaluate, again and again."

_log = structlog.get_logger("dragoman.filters")


class FilterBudgets:
    """Counts offences, by subscription; a restart forgives them.

    Args:
        cancel: Told of each subscription that has gone too far, once, and why.
    """

    def __init__(self, cancel: Callable[[Entry, str], None]) -> None:
        self._cancel = cancel
        self._offences: OrderedDict[str, deque[float]] = OrderedDict()
        """When, by the id of a subscription; the one with the oldest last one first."""
        self.over_budget = 0
        """Pairs of message and subscription without a verdict."""

    def metrics(self) -> Iterator[Sample]:
        """Deliveries without a verdict."""
        yield counter(
            "filter_over_budget",
            "Deliveries whose filter had no verdict within its budget.",
            self.over_budget,
        )

    def exceeded(self, entry: Entry, message: str, *, now: float) -> None:
        """The filter of *entry* exceeded its budget on a message, by its id.

        Args:
            now: Seconds of any clock that does not go back.
        """
        self.over_budget += 1
        while self._offences and next(iter(self._offences.values()))[-1] < now - WITHIN:
            self._offences.popitem(last=False)
        offences = self._offences.setdefault(entry.id, deque(maxlen=OFFENCES))
        offences.append(now)
        self._offences.move_to_end(entry.id)
        serious = len(offences) == OFFENCES and now - offences[0] <= WITHIN
        subscription = entry.subscription
        _log.warning(
            "filter.over-budget",
            subscription=entry.id,
            owner=subscription.owner,
            message=message[:200],
            filter=[expression.text[:200] for expression in subscription.filter.contents],
            cancelled=serious,
        )
        if serious:
            del self._offences[entry.id]
            self._cancel(entry, REASON)

    def exceeded_now(self, entry: Entry, message: str) -> None:
        """As `exceeded`, at this moment."""
        self.exceeded(entry, message, now=time.monotonic())

    def unevaluated(self, entry: Entry, message: str) -> None:
        """The filter of *entry* had no turn: too much waited. That is no offence."""
        self.over_budget += 1
        _log.warning("filter.unevaluated", subscription=entry.id, message=message[:200])
