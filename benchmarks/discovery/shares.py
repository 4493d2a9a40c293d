"""Question: what does the time of creation and discovery go into (figures 3 and 7 of the paper):
decrypting, checking, signing, encrypting, querying, or none of these?

The functions of a node and of a program are run one after the other in this process, on the
messages of a whole exchange; milliseconds of processor time, medians. What an exchange takes beyond
them is the way: HTTP, the gateway, the disk, and waiting.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar
from uuid import uuid4

from benchmarks.discovery.charts import Bar
from benchmarks.discovery.setting import PLACEHOLDERS, make_advertisement, wind
from filters.queries import unlimited
from gateway.discovery.limits import NodeLimits
from gateway.discovery.node import Node
from gateway.discovery.node_messages import (
    Answer,
    NewAdvertisement,
    NodeRequest,
    NodeTopic,
    SearchResult,
)
from mediation.discovery import SynopsisType, TopicDiscoveryResponse, decrypt, encrypt
from mediation.discovery.signing import sign
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties

ACTIVITIES = ("decrypting", "checking", "signing", "encrypting", "querying", "the rest")
NODE, PROGRAM = "node", "program"
_T = TypeVar("_T")
_PLENTY = 1e9


@dataclass
class Shares:
    """Milliseconds of each run, by side and activity."""

    runs: list[dict[tuple[str, str], float]] = field(default_factory=list)

    def begin(self) -> None:
        self.runs.append(defaultdict(float))

    def add(self, side: str, activity: str, seconds: float) -> None:
        self.runs[-1][side, activity] += seconds * 1000

    def time(self, side: str, activity: str, work: Callable[[], _T]) -> _T:
        """Do *work*, and count it."""
        took, result = _timed(work)
        self.add(side, activity, took)
        return result

    def of(self, side: str) -> Mapping[str, float]:
        """The median of each activity."""
        return {
            activity: statistics.median(run[side, activity] for run in self.runs)
            for activity in ACTIVITIES
        }


class Exchange:
    """A node and two entities that hand each other their messages."""

    def __init__(self) -> None:
        known = parties()
        limits = NodeLimits(_PLENTY, _PLENTY, queries=_PLENTY)
        self.shares = Shares()
        self._creator, self._seeker = Speaker(known.producer), Speaker(known.consumer)
        self.node = Node(
            known.node, known.verifier(), sign=self._sign, new_uuid=uuid4, limits=limits
        )
        self._signing = 0.0
        self._kept: dict[str, bytes] = {}

    def _sign(self, value: object, credentials: object) -> bytes:
        took, signed = _timed(lambda: sign(value, credentials))  # type: ignore[arg-type]
        self._signing += took
        return signed

    def create(self, kind: SynopsisType) -> None:
        """The six steps."""
        self.shares.begin()
        now, creator = datetime.now(UTC), self._creator
        search = self.shares.time(PROGRAM, "signing", lambda: creator.look_for_nodes(now))
        self._heard(creator, self._answered(search, NodeTopic.NODES))
        request = creator.creation(
            now, synopsis=PLACEHOLDERS[kind], descriptors=wind(0, kind.value)
        )
        signed = self.shares.time(PROGRAM, "signing", lambda: creator.signed(request))
        known = parties()
        octets = self.shares.time(
            PROGRAM, "encrypting", lambda: encrypt(signed, known.node_id, known.node.certificate)
        )
        answer = self._answered(octets, NodeTopic.OWN)
        self._heard(creator, answer)
        took, created = _timed(lambda: creator.made(request, answer.octets, now))
        again, _ = _timed(lambda: creator.read(answer.octets, now))
        self.shares.add(PROGRAM, "checking", took - again)
        self.shares.time(PROGRAM, "signing", lambda: creator.advertisement(created, now))

    def know(self, number: int, keyword: str) -> None:
        """Let the node have so many topics."""
        now = datetime.now(UTC)
        for one in range(number):
            octets = make_advertisement(wind(one, keyword), SynopsisType.PATH, uuid4())
            taken = self.node.read(octets, NodeTopic.TOPICS, "", now=now)
            assert isinstance(taken, NewAdvertisement)
            self.node.add(taken.row)
            self._kept[taken.row.topic_id] = octets

    def discover(self, keyword: str, number: int) -> None:
        """Find topics: those that `know` was given."""
        self.shares.begin()
        now, seeker = datetime.now(UTC), self._seeker
        query = self.shares.time(PROGRAM, "signing", lambda: seeker.query(now, f"wind {keyword}"))
        answer = self._answered(query, NodeTopic.TOPICS)
        message = self._heard(seeker, answer)
        assert isinstance(message, TopicDiscoveryResponse)
        assert len(message.advertisements) == number

    def _answered(self, octets: bytes, way: NodeTopic) -> Answer:
        """What the node answers."""
        shares, now, known = self.shares, datetime.now(UTC), parties()
        took, asked = _timed(lambda: self.node.read(octets, way, "", now=now))
        assert isinstance(asked, NodeRequest)
        if asked.checked.encrypted:
            decrypting, _ = _timed(lambda: decrypt(octets, known.node_id, known.node))
            shares.add(NODE, "decrypting", decrypting)
            took -= decrypting
        shares.add(NODE, "checking", took)
        self._signing = 0.0
        took, found = _timed(lambda: self.node.answer(asked, seconds_left=unlimited, now=now))
        if isinstance(found, SearchResult):
            shares.add(NODE, "querying", took)
            some = [self._kept[topic_id] for topic_id in found.topic_ids]
            took, answer = _timed(lambda: self.node.answer_found(found, some, now=now))
        else:
            answer = found
        entity = self._creator if answer.receiver == self._creator.id else self._seeker
        assert entity.credentials is not None
        own = entity.credentials
        plain = decrypt(answer.octets, entity.id, own)
        encrypting, _ = _timed(lambda: encrypt(plain, entity.id, own.certificate))
        shares.add(NODE, "signing", self._signing)
        shares.add(NODE, "encrypting", encrypting)
        shares.add(NODE, "the rest", took - self._signing - encrypting)
        return answer

    def _heard(self, entity: Speaker, answer: Answer) -> object:
        """What an entity reads of *answer*."""
        own = entity.credentials
        assert own is not None
        took, checked = _timed(lambda: entity.read(answer.octets, datetime.now(UTC)))
        decrypting, _ = _timed(lambda: decrypt(answer.octets, entity.id, own))
        self.shares.add(PROGRAM, "decrypting", decrypting)
        self.shares.add(PROGRAM, "checking", took - decrypting)
        return checked.message


def measure(runs: int, sizes: Sequence[int]) -> Mapping[str, Shares]:
    """The shares of creation, and of each discovery."""
    found = {}
    exchange = Exchange()
    for _ in range(runs + 1):
        exchange.create(SynopsisType.PATH)
    exchange.shares.runs.pop(0)
    found["creation"] = exchange.shares
    for size in sizes:
        exchange = Exchange()
        exchange.know(size, f"of{size}")
        for _ in range(runs + 1):
            exchange.discover(f"of{size}", size)
        exchange.shares.runs.pop(0)
        found[f"{size} found"] = exchange.shares
    return found


def figures(found: Mapping[str, Shares]) -> Mapping[str, Mapping[str, Shares]]:
    """What is drawn by itself: creation as the paper's figure 3, discovery as its figure 7."""
    searches = {name: shares for name, shares in found.items() if name != "creation"}
    return {"creation": {"creation": found["creation"]}, "discovery": searches}


def bars(found: Mapping[str, Shares]) -> list[Bar]:
    """A bar for each side of each."""
    return [
        Bar(f"{name}, {side}", shares.of(side))
        for name, shares in found.items()
        for side in (NODE, PROGRAM)
    ]


def shown(found: Mapping[str, Shares]) -> list[str]:
    """Lines of a table."""
    lines = [f"| | {' | '.join(ACTIVITIES)} |", f"|---{'|---' * len(ACTIVITIES)}|"]
    for bar in bars(found):
        values = " | ".join(f"{bar.parts.get(activity, 0.0):.2f}" for activity in ACTIVITIES)
        lines.append(f"| {bar.name} | {values} |")
    return lines


def _timed(work: Callable[[], _T]) -> tuple[float, _T]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result
