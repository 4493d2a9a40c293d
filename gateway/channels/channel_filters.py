"""What a channel takes, as a filter, and what of notifications passes it.

It is decided when they are published, by the engine that decides for subscriptions; what is dear is
evaluated in turn with all other dear filters (`adapters.filtering.slow_filters`), in the share of
the stranger that published it: how dear a filter is, is up to what it is asked about.
"""

import threading
from collections.abc import Awaitable, Callable, Sequence

import structlog

from adapters import Evaluated
from filters import (
    EVERYTHING,
    Deferred,
    Expression,
    Filter,
    FilterSet,
    Question,
    Reason,
    Refused,
    compile,
)
from gateway.model.channels import Selection
from gateway.parsing import Parsing
from mediation.filtering import PAYLOAD_PATHS
from mediation.grid_events import example_of, filter_of
from mediation.model.messages import Notification
from mediation.rendering import filter_event_of

Evaluate = Callable[[str | None, Sequence[Question]], Awaitable[Evaluated | None]]
"""`XPathFilterAdapter.evaluate_for`."""
_log = structlog.get_logger("dragoman.channels")


def filter_for(selection: Selection) -> Filter:
    """The filter that *selection* is.

    Raises:
        Refused: It is none.
    """
    example, filter_ = example_of(dict(selection.example)), EVERYTHING
    if example is not None:
        filter_ = filter_of(example)
    if selection.xpath:
        condition = Expression(selection.xpath, namespaces=selection.namespaces)
        filter_ = Filter(filter_.topics, (*filter_.contents, condition))
    compile(filter_)
    return filter_


class Selector:
    """Says which notifications pass one filter.

    Args:
        key: What logs call it.

    Raises:
        Refused: *selection* is no filter.
    """

    def __init__(
        self, key: str, selection: Selection, parsing: Parsing, evaluate: Evaluate
    ) -> None:
        self._key = key
        self._parsing, self._evaluate = parsing, evaluate
        self._filter = filter_for(selection)
        self._filters = _set_of(self._filter)
        self._thread = threading.get_ident()

    async def passing(
        self, notifications: Sequence[Notification], *, stranger: str | None
    ) -> list[Notification]:
        """Those of *notifications* that pass.

        Args:
            stranger: Who published them; None for a trusted peer.

        Raises:
            Refused: ``UNAVAILABLE``: too much waits to be evaluated.
        """
        if self._filter == EVERYTHING:
            return list(notifications)
        return [one for one in notifications if await self._passes(one, stranger)]

    async def _passes(self, notification: Notification, stranger: str | None) -> bool:
        def match(_: set[str] | None) -> tuple[bool, list[Deferred[str]]]:
            # One set serves one thread; what is large enough for another is worth one of its own.
            here = threading.get_ident() == self._thread
            filters = self._filters if here else _set_of(self._filter)
            matching = filters.begin(filter_event_of(notification))
            return bool(matching.keys), list(matching.deferred)

        passes, deferred = await self._parsing.run_parser(
            len(notification.payload), match, trusted=stranger is None, owner=stranger or ""
        )
        for one in deferred:
            evaluated = await self._evaluate(stranger, [(one.expressions, one.documents)])
            if evaluated is None:
                raise Refused(Reason.UNAVAILABLE, "Too much waits for the filter of the channel.")
            passes = evaluated.verdicts[0] is True
            if evaluated.verdicts[0] is None:  # Nobody knows whether it passes: it is not taken.
                _log.warning("channel.filter-over-budget", channel=self._key, id=notification.id)
                raise Refused(Reason.UNAVAILABLE, "The filter of the channel took too long.")
        return passes


def _set_of(filter_: Filter) -> FilterSet[str]:
    filters: FilterSet[str] = FilterSet(payload_paths=PAYLOAD_PATHS)
    filters.add("", filter_)
    return filters
