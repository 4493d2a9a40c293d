"""Messages to a node as values: read, searched for, answered (`gateway.discovery.node`)."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

import structlog

from filters import FilterError
from filters.queries import Search, SecondsLeft, unlimited
from gateway.model.advertisements import AdvertisementRow, RevocationRow
from mediation.discovery import Checked, Head, Signer, TopicCreationRequest

_log = structlog.get_logger("dragoman.discovery")


class NodeTopic(Enum):
    """The kind of topic on which a message came to a node."""

    NODES = "all nodes"
    TOPICS = "queries to all nodes, advertisements"
    OWN = "this node's own two topics"


class MessageDropped(Exception):
    """A message is dropped without an answer; ``why`` is counted."""

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(text or why)
        self.why = why


@dataclass(frozen=True, slots=True)
class NewAdvertisement:
    """An advertisement to keep."""

    row: AdvertisementRow


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A request of *creator* to withdraw a topic, which may be another's."""

    topic_id: str
    creator: str


@dataclass(frozen=True, slots=True)
class Revocation:
    """A delegation that its signer takes back, whose the topic may not be.

    Attributes:
        id: Of the message, to answer it by.
    """

    row: RevocationRow
    id: UUID
    signer: Signer
    way: NodeTopic


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A request to the node, to be answered once.

    Attributes:
        publisher: The source of the notification in which it came.
    """

    checked: Checked
    way: NodeTopic
    publisher: str = ""

    @property
    def head(self) -> Head:
        return self.checked.message.head

    @property
    def creates(self) -> bool:
        return isinstance(self.checked.message, TopicCreationRequest)

    @property
    def signed(self) -> bool:
        return self.checked.signer is not None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Ids of the topics that were found, the newest first; `Node.answer_found` makes an answer of
    it."""

    asked: NodeRequest
    topic_ids: tuple[str, ...]
    more: bool


class RunningSearch:
    """A search that takes too long for others to wait. It goes on in any thread, one at a time;
    `Node.finish_search` answers with what it has found.

    Args:
        begin: Compiles the query, and begins to search.
    """

    def __init__(self, asked: NodeRequest, begin: Callable[[], Search[str]]) -> None:
        self.asked = asked
        self._begin = begin
        self._search: Search[str] | None = None
        self._refused: FilterError | None = None

    def go_on(self, seconds_left: SecondsLeft = unlimited) -> bool:
        """Search on for about *seconds_left*. Returns True when it is done."""
        try:
            if self._search is None:
                self._search = self._begin()
            return self._search.go_on(seconds_left)
        except FilterError as refused:
            self._refused = refused.with_traceback(None)
            return True

    def found(self) -> SearchResult:
        """Return what was found so far.

        Raises:
            FilterError: The query is not valid, or cannot be evaluated.
        """
        if (refused := self._refused) is not None:
            raise FilterError(
                refused.reason, refused.text, value=refused.value, names=refused.names
            ) from None
        if self._search is None:
            return SearchResult(self.asked, (), True)
        found = self._search.found
        return SearchResult(self.asked, found.keys, found.more or not found.complete)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, to be published on the topic of *receiver*.

    Attributes:
        outcome: The outcome to count.
    """

    receiver: str
    octets: bytes
    outcome: str


class CountDropped:
    """A context that ends quietly when a message is dropped in it, and counts that."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, MessageDropped):
            return False
        self._count(f"dropped-{error.why}")
        _log.debug("discovery.dropped", why=error.why, text=str(error)[:300])
        return True
