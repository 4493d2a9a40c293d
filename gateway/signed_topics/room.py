"""The room of topics on which events must be signed."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from filters import Topic
from gateway.observing.samples import Sample
from gateway.parsing import Parsing
from gateway.rooms import Room, Work
from gateway.signed_topics.checks import SignatureChecks
from gateway.signed_topics.requirements import Requirement, SignedTopics
from gateway.signed_topics.settings import SignedTopicsRow
from gateway.store import Store, StoreUnavailable, answered_in_time


class SignedTopicsRoom(Room):
    """Checks signatures on the topics of *rows*.

    Args:
        advertised: What the creator of a topic wants, where no row has it.

    Raises:
        SignersUnusable: A file of certificates cannot be read.
    """

    def __init__(
        self,
        rows: Sequence[SignedTopicsRow],
        store: Store,
        parsing: Parsing,
        advertised: Callable[[Topic], Requirement | None] = lambda _: None,
    ) -> None:
        self._topics = SignedTopics(rows, advertised)
        self.checks = SignatureChecks(self._topics, store, parsing)

    def works(self) -> Iterable[Work]:
        return self._topics.watch, self.checks.run

    def metrics(self) -> Iterable[Sample]:
        return self.checks.metrics()

    async def close(self) -> None:
        with suppress(StoreUnavailable):
            await answered_in_time(self.checks.flush())
