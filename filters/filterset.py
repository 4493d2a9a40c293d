"""The filter set: which of all filters does one event match?

What filters have in common is done once. Identical filters are one entry with many keys; entries
with the same topic expressions are one group; a content expression is compiled once, and evaluated
once per event. Groups are looked up rather than tried:

    topic -> groups (a bounded cache)  <-  those that name the topic
                                           those whose topics begin with its first step
                                           those that may match anywhere, and those without topics
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from filters.compiled import CompiledFilter, Compiler, Evaluation, Shared, compile
from filters.events import Event
from filters.filter import Expression, Filter
from filters.topic_expressions import parse_expression
from filters.topics import Step, Topic

Key = TypeVar("Key")

CACHED_TOPICS = 1024


class _Entry(Generic[Key]):
    """One distinct filter, and whose it is."""

    __slots__ = ("compiled", "filter", "keys")

    def __init__(self, filter: Filter, compiled: CompiledFilter) -> None:
        self.filter = filter
        self.compiled = compiled
        self.keys: dict[Key, None] = {}

    @property
    def topics_only(self) -> bool:
        return not (self.compiled.contents or self.compiled.conditions)


class _Group(Generic[Key]):
    """The entries of one combination of topic expressions."""

    __slots__ = ("entries", "plain", "topics")

    def __init__(self, topics: tuple[Expression, ...]) -> None:
        self.topics = topics
        self.plain: _Entry[Key] | None = None
        """The entry that asks for nothing but the topic."""
        self.entries: dict[Filter, _Entry[Key]] = {}
        """All others."""

    def all(self) -> Iterator[_Entry[Key]]:
        if self.plain:
            yield self.plain
        yield from self.entries.values()


class FilterSet(Generic[Key]):
    """Filters by key. Not for several threads at a time.

    Args:
        compilers: As for `filters.compile`.
    """

    def __init__(self, *, compilers: Mapping[str, Compiler] | None = None) -> None:
        self._compilers = compilers
        self._shared = Shared()
        self._entry_of: dict[Key, _Entry[Key]] = {}
        self._groups: dict[tuple[Expression, ...], _Group[Key]] = {}
        self._places: dict[Topic | Step | None, dict[_Group[Key], None]] = {}
        """Where groups are found: under a topic, under a first step, or under None."""
        self._cache: dict[Topic, tuple[_Group[Key], ...]] = {}

    def __len__(self) -> int:
        return len(self._entry_of)

    def __contains__(self, key: object) -> bool:
        return key in self._entry_of

    def add(self, key: Key, filter: Filter) -> None:
        """Add *filter* as that of *key*, in place of the one it may have had.

        Raises:
            FilterError: As `filters.compile`; nothing has changed then.
        """
        group = self._groups.get(filter.topics)
        entry = group and self._find(group, filter)
        if not entry:
            compiled = compile(filter, compilers=self._compilers, shared=self._shared)
            entry = _Entry(filter, compiled)
        if key in self._entry_of:
            if self._entry_of[key] is entry:
                return
            self.remove(key)
        self._entry_of[key] = entry
        entry.keys[key] = None
        if len(entry.keys) == 1:
            self._place(entry)

    def remove(self, key: Key) -> None:
        """Forget the filter of *key*.

        Raises:
            KeyError: It has none.
        """
        entry = self._entry_of.pop(key)
        del entry.keys[key]
        if not entry.keys:
            self._displace(entry)

    def match(self, event: Event) -> list[Key]:
        """The keys of all filters that *event* matches, each once, in no particular order."""
        groups = self._cache.get(event.topic)
        if groups is None:
            groups = self._look_up(event.topic)
        keys: list[Key] = []
        evaluation = Evaluation(event)
        for group in groups:
            if group.plain:
                keys.extend(group.plain.keys)
            for entry in group.entries.values():
                if entry.compiled.passes(evaluation):
                    keys.extend(entry.keys)
        return keys

    def overlaps(self, expression: Expression) -> bool:
        """Whether some filter may match some event on a topic that *expression* covers.

        Raises:
            FilterError: *expression* is no topic expression.
        """
        wanted = parse_expression(expression)
        return any(
            all(pattern.overlaps(wanted) for pattern in next(group.all()).compiled.patterns)
            for group in self._groups.values()
        )

    def _find(self, group: _Group[Key], filter: Filter) -> _Entry[Key] | None:
        if group.plain and group.plain.filter == filter:
            return group.plain
        return group.entries.get(filter)

    def _place(self, entry: _Entry[Key]) -> None:
        topics = entry.filter.topics
        group = self._groups.get(topics)
        if group is None:
            group = self._groups[topics] = _Group(topics)
            for place in _places(entry.compiled):
                self._places.setdefault(place, {})[group] = None
            self._cache.clear()
        if entry.topics_only:
            group.plain = entry
        else:
            group.entries[entry.filter] = entry

    def _displace(self, entry: _Entry[Key]) -> None:
        group = self._groups[entry.filter.topics]
        if entry.topics_only:
            group.plain = None
        else:
            del group.entries[entry.filter]
        if group.plain or group.entries:
            return
        del self._groups[group.topics]
        for place in _places(entry.compiled):
            del self._places[place][group]
            if not self._places[place]:
                del self._places[place]
        self._cache.clear()

    def _look_up(self, topic: Topic) -> tuple[_Group[Key], ...]:
        groups = tuple(
            group
            for place in (topic, topic.steps[0], None)
            for group in self._places.get(place, ())
            if next(group.all()).compiled.selects(topic)
        )
        if len(self._cache) >= CACHED_TOPICS:
            # The oldest goes: topics come in bursts, and a look-up is cheap.
            del self._cache[next(iter(self._cache))]
        self._cache[topic] = groups
        return groups


def _places(compiled: CompiledFilter) -> frozenset[Topic] | frozenset[Step] | tuple[None]:
    """Where a filter is to be found, by its first topic expression."""
    if not compiled.patterns:
        return (None,)
    pattern = compiled.patterns[0]
    if pattern.topics is not None:
        return pattern.topics
    roots = pattern.roots()
    return (None,) if roots is None else roots
