"""What becomes of a message to a node, step by step (`gateway.discovery.node`)."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import structlog

from filters import FilterError
from filters.queries import Search, SecondsLeft, unlimited
from gateway.model.advertisements import AdvertisementRow
from mediation.discovery import Checked, Head, TopicCreationRequest

_log = structlog.get_logger("dragoman.discovery")


class Way(Enum):
    """The topic on which a message came."""

    NODES = "all nodes"
    TOPICS = "queries to all nodes, advertisements"
    OWN = "this node's own two topics"


class Dropped(Exception):
    """A message of which nothing becomes; ``why`` is counted."""

    def __init__(self, why: str, text: str = "") -> None:
        super().__init__(text or why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Advertised:
    """An advertisement that is to be kept."""

    row: AdvertisementRow


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A topic that its creator takes back, if it is *creator*'s."""

    topic_id: str
    creator: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A message that is to be answered once.

    Attributes:
        publisher: Who published it, as the gateway tells publishers apart.
    """

    checked: Checked
    way: Way
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
class Found:
    """Topics that were found, by their ids, the newest first: `Node.respond` writes the answer."""

    asked: Asked
    topic_ids: tuple[str, ...]
    more: bool


class Searching:
    """A search that takes longer than others should wait: it goes on in any thread, in one at a
    time, and `Node.end` makes of it what was found.

    Args:
        begin: Compiles the query, and begins to search.
    """

    def __init__(self, asked: Asked, begin: Callable[[], Search[str]]) -> None:
        self.asked = asked
        self._begin = begin
        self._search: Search[str] | None = None
        self._refused: FilterError | None = None

    def go_on(self, seconds_left: SecondsLeft = unlimited) -> bool:
        """Search on for about *seconds_left*; True: it is done."""
        try:
            if self._search is None:
                self._search = self._begin()
            return self._search.go_on(seconds_left)
        except FilterError as refused:
            self._refused = refused.with_traceback(None)
            return True

    def found(self) -> Found:
        """What was found so far.

        Raises:
            FilterError: The query is not valid, or cannot be evaluated.
        """
        if (refused := self._refused) is not None:
            raise FilterError(
                refused.reason, refused.text, value=refused.value, names=refused.names
            ) from None
        if self._search is None:
            return Found(self.asked, (), True)
        found = self._search.found
        return Found(self.asked, found.keys, found.more or not found.complete)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is published on the topic of whoever asked.

    Attributes:
        outcome: What is counted.
    """

    receiver: str
    octets: bytes
    outcome: str


class Dropping:
    """Counts what is dropped within it."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if not isinstance(error, Dropped):
            return False
        self._count(f"dropped-{error.why}")
        _log.debug("discovery.dropped", why=error.why, text=str(error)[:300])
        return True
