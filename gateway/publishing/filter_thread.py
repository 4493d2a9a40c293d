"""One filter matched against many messages in a thread, off the event loop."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from filters import Deferred, Filter, FilterSet, View
from gateway.parsing import OCTETS
from mediation.filtering import PAYLOAD_PATHS, PRODUCER_VIEWS
from mediation.model.messages import Notification
from mediation.rendering import filter_event_of


@dataclass(frozen=True, slots=True)
class Candidates:
    """The messages of a slice that the filter takes, or may take, then with what is left to
    evaluate; and the processor time that it took to find out."""

    messages: list[tuple[Notification, Deferred[str] | None]]
    seconds: float


class FilterThread:
    """Matches one filter in a thread, which is replaced when it has met much: libxml2 keeps the
    names that a thread parsed for as long as that lives (`gateway.parsing`)."""

    def __init__(self, filter_: Filter, documents: Mapping[View, bytes]) -> None:
        self._filter = filter_
        self._documents = documents
        self._begin()

    def _begin(self) -> None:
        self._thread = ThreadPoolExecutor(1, "current")
        self._filters: FilterSet[str] | None = None
        self._octets = 0

    async def match(self, part: Sequence[Notification]) -> Candidates:
        """Match the messages of *part*.

        Raises:
            FilterError: The filter cannot be evaluated here.
        """
        self._octets += sum(notification.octets for notification in part)
        if self._octets > OCTETS:
            self.close()
            self._begin()
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._match, part)

    def _match(self, part: Sequence[Notification]) -> Candidates:
        started = time.thread_time()
        if self._filters is None:
            self._filters = FilterSet(payload_paths=PAYLOAD_PATHS, lasting=PRODUCER_VIEWS)
            self._filters.add("", self._filter)
        candidates: list[tuple[Notification, Deferred[str] | None]] = []
        for notification in part:
            matching = self._filters.begin(filter_event_of(notification, self._documents))
            if matching.keys:
                candidates.append((notification, None))
            candidates += ((notification, costly) for costly in matching.deferred)
        return Candidates(candidates, time.thread_time() - started)

    def close(self) -> None:
        self._thread.shutdown(wait=False)
