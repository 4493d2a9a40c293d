"""The entries of a filter set: distinct filters, and the keys that have them."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar

from filters.compiling.compiled import Condition
from filters.events import View
from filters.filter import Expression
from filters.matching.engines.index import Index
from filters.topics.patterns import TopicPattern

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Deferred(Generic[Key]):
    """Filters that depend on *expressions*, which cost too much to be evaluated on the spot.

    They match if all of the expressions hold, each over the document of its view.
    """

    expressions: tuple[Expression, ...]
    documents: Mapping[View, bytes]
    keys: list[Key] = field(default_factory=list)


@dataclass(slots=True)
class Matching(Generic[Key]):
    """The keys of the filters that one event matches, each once, and the expressions left to
    evaluate. ``read``: whether all documents that were wanted could be read; None: none was."""

    keys: list[Key] = field(default_factory=list)
    deferred: list[Deferred[Key]] = field(default_factory=list)
    read: bool | None = None


class Several(dict[Key, Key]):
    """The keys of one filter that has many, each by itself."""

    __slots__ = ()


class Few(list[Key]):
    """The keys of one filter where they are more than one, and not many: a dictionary would take
    three times the memory. A single one is kept as it is."""

    __slots__ = ()


MANY = 8


class Nobody:
    """Stands where no key is."""


NOBODY: Final = Nobody()

Held: TypeAlias = Key | Few[Key] | Several[Key] | Nobody


def join(held: Held[Key], key: Key) -> Held[Key]:
    """*held* with *key*."""
    if isinstance(held, Nobody):
        return key
    if isinstance(held, Several):
        held[key] = key
        return held
    if not isinstance(held, Few):
        return Few((held, key))
    held.append(key)
    return held if len(held) < MANY else Several(zip(held, held, strict=True))


def object_of(held: Held[Key], key: Key) -> Key:
    """The object in *held* that equals *key*, which is in it."""
    if isinstance(held, Several):
        return held[key]
    if isinstance(held, Few):
        return held[held.index(key)]
    return key if isinstance(held, Nobody) else held


def leave(held: Held[Key], key: Key) -> Held[Key]:
    """*held* without *key*, which is in it."""
    if isinstance(held, Several):
        del held[key]
        return held if len(held) >= MANY // 2 else Few(held)
    if isinstance(held, Few):
        held.remove(key)
        return held if len(held) > 1 else held[0]
    return NOBODY


def extend(keys: list[Key], held: Held[Key]) -> None:
    """Add those of *held* to *keys*."""
    if isinstance(held, Few | Several):
        keys.extend(held)
    elif not isinstance(held, Nobody):
        keys.append(held)


def keys_of(all_held: list[Held[Key]], numbers: "list[int] | array[int]") -> list[Key]:
    """The keys of those of *all_held* with *numbers*."""
    if isinstance(numbers, array):
        # Only the compiled engine packs them, so it is there.
        from filters.matching import _kernel

        return _kernel.keys_of(numbers, all_held, Few, Several, NOBODY)
    keys: list[Key] = []
    for number in numbers:
        extend(keys, all_held[number])
    return keys


Number: TypeAlias = tuple[View, int]
"""A content expression: its view, and its number in the index of that view."""


class Entry(Generic[Key]):
    """A distinct filter of several parts, and the keys that have it."""

    __slots__ = ("conditions", "contents", "group", "held", "others")

    def __init__(
        self,
        group: "Group[Key]",
        contents: tuple[Number, ...],
        others: tuple[Expression, ...],
        conditions: tuple[Condition, ...],
    ) -> None:
        self.group = group
        self.contents = contents
        self.others = others
        self.conditions = conditions
        self.held: Held[Key] = NOBODY


class Group(Generic[Key]):
    """The filters of one combination of topic expressions."""

    __slots__ = ("entries", "filed", "held", "patterns", "topics", "views")

    def __init__(self, topics: tuple[Expression, ...], patterns: tuple[TopicPattern, ...]) -> None:
        self.topics = topics
        self.patterns = patterns
        self.held: Held[Key] = NOBODY
        """Keys whose filter asks for nothing but the topic."""
        self.entries: dict[tuple[tuple[Number, ...], tuple[Expression, ...]], Entry[Key]] = {}
        """All other filters, by their parts."""
        self.filed: dict[Entry[Key], None] = {}
        """Filters that are looked at for each event of the topic."""
        self.views: dict[View, int] = {}
        """The views of their content expressions, and how many filters need each."""


class Contents(Generic[Key]):
    """The content expressions over one view."""

    __slots__ = ("alone", "changes", "filed", "index", "used")

    def __init__(self, index: Index) -> None:
        self.index = index
        self.used = 0
        """Expressions in use; one that several filters have counts as often."""
        self.changes = 0
        """How often the index has changed."""
        self.alone: list[Held[Key]] = []
        """By number of an expression: the keys whose whole filter it is."""
        self.filed: dict[int, dict[Entry[Key], None]] = {}
        """By number of an expression: filters of several parts that are looked at when it holds."""
