"""Topics as destinations of a broker, and back; topic expressions as a broker's patterns.

    {http://weather.example/}storms/sea      dragoman.weather.storms.sea
    {http://other.example/}storms/{urn:x}a   dragoman.nmzxw6ytboi4tqmrr.storms.x_n_a
    Æsir/north wind                          dragoman.adhoc._x00C6_sir.north_x0020_wind
    a topic whose destination is too long    dragoman.weather._long.7f3c…
    no topic                                 dragoman.adhoc.wseTopic
    storms/sea of the tenant acme            dragoman._tenant.acme.storms.sea

The words are the root, the prefix of the root topic's namespace (configured, or derived from a
hash), and the names. In a name all but ``[A-Za-z0-9-]`` is written ``_xHHHH_``; so an underscore
opens an escape, or one of the words that no name has: ``prefix_n_name``, a step in a namespace of
its own, ``_long``, and ``_tenant``, the prefix of all topics of tenants (`mediation.tenants`). So
the mapping is injective, and total.

Rows map destinations that exist already, in other exchanges too: every word is a step.
"""

import json
import re
from base64 import b32encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

from adapters.protocol import AdapterError
from filters import DEFAULT_TOPIC, Reason, Step, Topic, TopicPattern
from filters.topics import PathStep, TopicPath
from mediation import tenants

MAX_OCTETS = 200
"""The longest destination, in octets; brokers end at 255."""
MAX_REMEMBERED = 10_000
"""Topics, and namespaces, whose mapping is remembered."""

AD_HOC = "adhoc"
"""The prefix of topics in no namespace."""
LONG = "_long"
TENANT = "_tenant"

ONE = "*"
ANY = "#"
"""Any number of words, none included."""

_PREFIX = re.compile(r"[A-Za-z0-9-]{1,32}\Z")
_DERIVED = re.compile(r"n[a-z2-7]{16}\Z")
_ROOT = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\Z")
_ESCAPED = re.compile(r"[^A-Za-z0-9-]")
_ESCAPE = re.compile(r"_x([0-9A-F]{4,6})_")
_EMPTY = "_x_"
_OF_NAMESPACE = re.compile(r"([A-Za-z0-9-]+)_n_(.*)\Z", re.DOTALL)
_NO_WORD = re.compile(r"[.*#>\s]")
"""Characters that no word of a foreign destination may have: they would be read as something
else."""

Words = tuple[str, ...]


class Destination(NamedTuple):
    """A destination, or a pattern of some. ``exchange`` None is our own, or a broker has none."""

    name: str
    exchange: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Destinations that exist already: those of *exchange* whose name matches *pattern* (``*`` is
    one word, ``#`` any number) are topics of *namespace*, each word a step."""

    pattern: str
    exchange: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Wildcards:
    """The way a broker writes patterns. ``inside``: `ANY` may stand anywhere, not only at the
    end."""

    any: str
    inside: bool


AMQP = Wildcards("#", inside=True)
"""Bindings of a topic exchange (AMQP 0-9-1, 3.1.3.3)."""
JMS = Wildcards(">", inside=False)
"""ActiveMQ's, where ``a.>`` matches ``a`` too."""


class Destinations:
    """The mapping between topics and destinations.

    Args:
        root: The first words of every destination of our own.
        prefixes: Namespaces by their prefixes.
        rows: For destinations that exist already; the first one that fits wins.

    Raises:
        AdapterError: The root, a prefix or a row cannot be one.
    """

    def __init__(
        self,
        root: str = "dragoman",
        prefixes: Mapping[str, str] | None = None,
        rows: Sequence[Row] = (),
    ) -> None:
        if len(root) > 50 or not _ROOT.match(root):
            raise _wrong(
                f"the root {root!r} must be words of letters, digits and hyphens,"
                " with dots between, 50 characters at most"
            )
        self.root = root
        self.rows = tuple(rows)
        self._prefixes: dict[str | None, str] = {None: AD_HOC, tenants.NAMESPACE: TENANT}
        self._namespaces: dict[str, str | None] = {AD_HOC: None, TENANT: tenants.NAMESPACE}
        for prefix, namespace in (prefixes or {}).items():
            self._configure(prefix, namespace)
        self._rows = [(row, _words_of(row)) for row in rows]
        self._known: dict[Topic | None, Destination] = {}
        self._topics: dict[Destination, Topic | None] = {}

    def destination(self, topic: Topic | None) -> Destination:
        """Return the destination of messages on *topic*; None is the default topic."""
        found = self._known.get(topic)
        if found is None:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            found = self._known[topic] = self._choose(topic or DEFAULT_TOPIC)
        return found

    def topic(self, destination: Destination) -> Topic | None:
        """Return the topic of *destination*; None if no topic has it, or its name is a hash.

        A derived prefix is understood once its namespace occurred in a topic or an expression.
        """
        try:
            return self._topics[destination]
        except KeyError:
            if len(self._topics) >= MAX_REMEMBERED:
                self._topics.clear()
            topic = self._topics[destination] = self._topic(destination)
            return topic

    def tenant(self, destination: Destination) -> str:
        """Return the tenant whose *destination* this is; empty for the default tenant."""
        before = f"{self.root}.{TENANT}."
        if destination.exchange is not None or not destination.name.startswith(before):
            return ""
        return destination.name.removeprefix(before).partition(".")[0]

    def patterns(
        self, pattern: TopicPattern | None, wildcards: Wildcards
    ) -> frozenset[Destination]:
        """Return patterns that together match the destination of every topic that *pattern*
        matches; None is every topic. They may match more, so the caller checks what comes."""
        if pattern is None:
            return frozenset(
                Destination(_join(words, wildcards), exchange)
                for exchange, words in [
                    (None, (ANY,) if wildcards.inside else (*self.root.split("."), ANY)),
                    *((row.exchange, words) for row, words in self._rows),
                ]
            )
        found: set[tuple[str | None, Words]] = set()
        for path in pattern.paths:
            for plain in _without_leading_descent(path):
                found.update((None, words) for words in self._own_patterns(plain))
                found.update(self._foreign_patterns(plain))
        kept: list[tuple[str | None, Words]] = []
        for exchange, words in sorted(found, key=repr):
            if not any(covers(others, words) for there, others in kept if there == exchange):
                kept = [
                    (there, others)
                    for there, others in kept
                    if there != exchange or not covers(words, others)
                ]
                kept.append((exchange, words))
        return frozenset(Destination(_join(words, wildcards), there) for there, words in kept)

    def _topic(self, destination: Destination) -> Topic | None:
        if destination.exchange is None and destination.name.startswith(f"{self.root}."):
            own = self._read(destination.name.removeprefix(f"{self.root}.").split("."))
            if own is not None:
                return own
        words = tuple(destination.name.split("."))
        for row, pattern in self._rows:
            if row.exchange == destination.exchange and covers(pattern, words):
                first, *others = [word or _EMPTY for word in words]
                return Topic((Step(row.namespace, first), *(Step(None, word) for word in others)))
        return None

    def _configure(self, prefix: str, namespace: str) -> None:
        if not _PREFIX.match(prefix) or _DERIVED.match(prefix) or prefix == AD_HOC:
            raise _wrong(
                f"the prefix {prefix!r} must be at most 32 letters, digits and hyphens, other than"
                f" {AD_HOC} and those that are derived from a hash"
            )
        if prefix in self._namespaces or not namespace or namespace in self._prefixes:
            raise _wrong(
                f"the prefix {prefix!r} is used twice, or its namespace is empty or has two"
            )
        self._prefixes[namespace] = prefix
        self._namespaces[prefix] = namespace

    def _prefix(self, namespace: str | None) -> str:
        namespace = namespace or None
        prefix = self._prefixes.get(namespace)
        if prefix is None:
            assert namespace is not None
            digest = blake2b(namespace.encode(errors="surrogatepass"), digest_size=10).digest()
            prefix = f"n{b32encode(digest).decode().lower()}"
            if len(self._namespaces) < MAX_REMEMBERED:
                self._prefixes[namespace] = prefix
                self._namespaces[prefix] = namespace
                self._topics.clear()
        return prefix

    def _choose(self, topic: Topic) -> Destination:
        if self._rows and all(step.namespace is None for step in topic.steps[1:]):
            names = tuple(step.name for step in topic.steps)
            name = ".".join(names)
            if not any(map(_is_no_word, names)) and len(name.encode(errors="ignore")) <= MAX_OCTETS:
                for row, pattern in self._rows:
                    there = Destination(name, row.exchange)
                    # Another row may read it as another topic.
                    if covers(pattern, names) and self.topic(there) == topic:
                        return there
        return Destination(self._own(topic))

    def _own(self, topic: Topic) -> str:
        first, *others = topic.steps
        prefix = self._prefix(first.namespace)
        words = [self.root, prefix, _escape(first.name), *map(self._child, others)]
        name = ".".join(words)
        if len(name) <= MAX_OCTETS:
            return name
        steps = json.dumps([(step.namespace, step.name) for step in topic.steps])
        digest = blake2b(steps.encode(), digest_size=16)
        kept = words[: 3 if prefix == TENANT else 2]
        return ".".join((*kept, LONG, digest.hexdigest()))

    def _child(self, step: Step | PathStep) -> str:
        name = _escape(step.name or "")
        return f"{self._prefix(step.namespace)}_n_{name}" if step.namespace else name

    def _read(self, words: list[str]) -> Topic | None:
        prefix, *names = words
        if prefix not in self._namespaces or not names or LONG in names or "" in names:
            return None
        first, *others = names
        return Topic(
            (Step(self._namespaces[prefix], _unescape(first)), *map(self._read_child, others))
        )

    def _read_child(self, word: str) -> Step:
        if (found := _OF_NAMESPACE.match(word)) and found[1] in self._namespaces:
            return Step(self._namespaces[found[1]], _unescape(found[2]))
        return Step(None, _unescape(word))

    def _own_patterns(self, path: TopicPath) -> Iterator[Words]:
        root = tuple(self.root.split("."))
        first = path.steps[0]
        topic = _only_topic(path)
        if topic is not None:
            yield tuple(self._own(topic).split("."))
            return
        prefix = ONE if first.any_namespace else self._prefix(first.namespace)
        words = [*root, prefix, ONE if first.name is None else _escape(first.name)]
        for step in path.steps[1:]:
            if step.descendant:
                words.append(ANY)
            words.append(ONE if step.name is None or step.any_namespace else self._child(step))
        if path.below:
            words.append(ANY)
        yield tuple(words)
        yield (*root, prefix, LONG, ONE)

    def _foreign_patterns(self, path: TopicPath) -> Iterator[tuple[str | None, Words]]:
        first = path.steps[0]
        words: list[str] = []
        for step in path.steps:
            if step is not first and step.namespace and not step.any_namespace:
                return
            if step.name is not None and _is_no_word(step.name):
                return
            if step.descendant:
                words.append(ANY)
            words.append(ONE if step.name is None else step.name)
        if path.below:
            words.append(ANY)
        wanted = tuple(words)
        for row, pattern in self._rows:
            if first.any_namespace or first.namespace == row.namespace:
                if covers(wanted, pattern):
                    yield row.exchange, pattern
                elif overlap(wanted, pattern):
                    yield row.exchange, wanted


def covers(pattern: Words, words: Words) -> bool:
    """Return True if *pattern* matches *words*; where these are a pattern too, if it surely matches
    all that they match."""
    end = len(pattern)
    reached = _freely(pattern, {0})
    for word in words:
        following = set()
        for state in reached:
            if state == end:
                continue
            if pattern[state] == ANY:
                following.add(state)
            elif word != ANY and pattern[state] in (ONE, word):
                following.add(state + 1)
        reached = _freely(pattern, following)
        if not reached:
            return False
    return end in reached


def overlap(one: Words, other: Words) -> bool:
    """Return True if some name matches both patterns."""

    @cache
    def meet(here: int, there: int) -> bool:
        a = one[here] if here < len(one) else None
        b = other[there] if there < len(other) else None
        if a == ANY:
            return meet(here + 1, there) or (b is not None and meet(here, there + 1))
        if b == ANY:
            return meet(here, there + 1) or (a is not None and meet(here + 1, there))
        if a is None or b is None:
            return a is b
        return (a == b or ONE in (a, b)) and meet(here + 1, there + 1)

    return meet(0, 0)


def _freely(pattern: Words, reached: set[int]) -> set[int]:
    """Return the states that are reached from *reached* without a word."""
    for state in sorted(reached):
        while state < len(pattern) and pattern[state] == ANY:
            state += 1
            reached.add(state)
    return reached


def _join(words: Words, wildcards: Wildcards) -> str:
    """Write a pattern; one that the broker cannot have ends earlier, and matches more."""
    if not wildcards.inside and ANY in words:
        words = words[: words.index(ANY) + 1]
    words = _without_repeats(words)
    while len(".".join(words).encode(errors="ignore")) > MAX_OCTETS:
        words = (*words[: -2 if words[-1] == ANY else -1], ANY)
    return ".".join(wildcards.any if word == ANY else word for word in words)


def _without_leading_descent(path: TopicPath) -> Iterator[TopicPath]:
    """*path* as paths whose root step is a root: ``p://b`` is a root b of the namespace, or a b
    below any root of it, whether it repeats the namespace or not (as `TopicPattern` reads it)."""
    first, *rest = path.steps
    if not first.descendant:
        yield path
        return
    yield replace(path, steps=(replace(first, descendant=False), *rest))
    root = PathStep(None, first.namespace, first.any_namespace)
    for namespace in {None, first.namespace}:
        yield replace(path, steps=(root, PathStep(first.name, namespace, descendant=True), *rest))


def _only_topic(path: TopicPath) -> Topic | None:
    """Return the topic that *path* names, None if it does not name exactly one."""
    topics = TopicPattern((path,)).topics
    return None if topics is None else next(iter(topics))


def _words_of(row: Row) -> Words:
    words = tuple(row.pattern.replace(">", ANY).split("."))
    if len(row.pattern.encode()) > MAX_OCTETS or any(
        word not in (ONE, ANY) and _is_no_word(word) for word in words
    ):
        raise _wrong(
            f"the destinations {row.pattern!r} must be words and wildcards, with dots between"
        )
    if row.exchange == "":
        raise _wrong(f"the destinations {row.pattern!r} must name an exchange")
    return _without_repeats(words)


def _without_repeats(words: Words) -> Words:
    """Return *words* with one `ANY` for several in a row."""
    return (words[0], *(word for before, word in pairwise(words) if not before == word == ANY))


def _is_no_word(name: str) -> bool:
    return not name or _NO_WORD.search(name) is not None


@cache
def _escape_character(character: str) -> str:
    return f"_x{ord(character):04X}_"


def _escape(name: str) -> str:
    return _ESCAPED.sub(lambda found: _escape_character(found[0]), name) or _EMPTY


def _unescape(word: str) -> str:
    if word == _EMPTY:
        return ""
    return _ESCAPE.sub(
        lambda found: chr(code) if (code := int(found[1], 16)) <= 0x10FFFF else found[0], word
    )


def _wrong(text: str) -> AdapterError:
    return AdapterError(Reason.INTERNAL, f"the adapter's settings: {text}")
