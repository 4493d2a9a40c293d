"""Patterns of topics: the meaning of a topic expression, as alternatives of paths that are matched
without backtracking.

Every path becomes a row of states, one a step and one behind the last, and a pattern is the set
of states it has reached, as the bits of one integer. A level of the topic moves all at once:

    reached = (reached & loops)  |  (reached & tests(level)) << 1

*loops* are the states that may skip a level (a step behind ``//``, and the end of ``a//.``),
*tests(level)* those whose step accepts this level. So a match costs (levels x states / 64) and
nothing an expression says makes it worse than that.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from filters.topics.topics import Step, Topic


@dataclass(frozen=True, slots=True)
class PathStep:
    """A step of a topic expression.

    Args:
        name: None is ``*``.
        namespace: None is the ad hoc namespace, or a plain child.
        any_namespace: The namespace does not matter (``*`` as a child; the dialects of
            WS-Messenger and Synapse).
        descendant: ``//`` stands before it. On the first step (``p://b``): at any depth of
            the namespace, its roots included.
    """

    name: str | None
    namespace: str | None = None
    any_namespace: bool = False
    descendant: bool = False


@dataclass(frozen=True, slots=True)
class TopicPath:
    """An alternative of a topic expression: steps, and *below* for a closing ``//.`` (the topic and
    all under it)."""

    steps: tuple[PathStep, ...]
    below: bool = False


@dataclass(frozen=True, slots=True)
class _Test:
    """The levels that one state accepts: namespaces (None is any), a name (None is any), and
    whether levels may be skipped."""

    namespaces: tuple[str | None, ...] | None
    name: str | None
    loops: bool


class _Any:
    """Stands for every name, or every namespace, in the table of tests."""


_ANY = _Any()


class TopicPattern:
    """A compiled topic expression. Two are equal when their paths are."""

    __slots__ = (
        "__weakref__",
        "_accepting",
        "_anything",
        "_loops",
        "_start",
        "_states",
        "_sums",
        "_tests",
        "paths",
        "topics",
    )

    paths: tuple[TopicPath, ...]
    topics: frozenset[Topic] | None
    """The topics that match, when the expression names them one by one; else None."""

    def __init__(self, paths: tuple[TopicPath, ...]) -> None:
        self.paths = paths
        self.topics = _named(paths)
        self._tests: dict[tuple[str | _Any | None, str | _Any], int] = {}
        self._sums: tuple[dict[str | _Any, int], dict[str | _Any | None, int]] | None = None
        self._anything = self._loops = self._start = self._accepting = self._states = 0
        state = 1
        for tests, below in self._rows():
            self._start |= state
            for test in tests:
                self._add(state, test)
                state <<= 1
            self._accepting |= state
            if below:
                self._loops |= state
            state <<= 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPattern) and self.paths == other.paths

    def __hash__(self) -> int:
        return hash(self.paths)

    def __repr__(self) -> str:
        return f"TopicPattern({self.paths!r})"

    def matches(self, topic: Topic) -> bool:
        """Return True if *topic* is one of those selected (WS-Topics 1.3, Topic Expressions)."""
        if self.topics is not None:
            return topic in self.topics
        reached = self._start
        for step in topic.steps:
            reached = (reached & self._loops) | ((reached & self._accepts(step)) << 1)
            if not reached:
                return False
        return bool(reached & self._accepting)

    def overlaps(self, other: "TopicPattern") -> bool:
        """Return True if some topic, published or not, matches both."""
        if self.topics is not None:
            return any(map(other.matches, self.topics))
        return any(other._meets(tests, below) for tests, below in self._rows())

    def roots(self) -> frozenset[Step] | None:
        """Return the first steps of all topics that match, None if they cannot be listed."""
        roots = set()
        for path in self.paths:
            first = path.steps[0]
            if first.name is None or first.any_namespace or first.descendant:
                return None
            roots.add(Step(first.namespace, first.name))
        return frozenset(roots)

    def _add(self, state: int, test: _Test) -> None:
        self._states |= state
        if test.loops:
            self._loops |= state
        name = _ANY if test.name is None else test.name
        if test.namespaces is not None:
            for namespace in test.namespaces:
                self._tests[namespace, name] = self._tests.get((namespace, name), 0) | state
        elif test.name is None:
            self._anything |= state
        else:
            self._tests[_ANY, name] = self._tests.get((_ANY, name), 0) | state

    def _accepts(self, step: Step) -> int:
        """Return the states whose step accepts *step*."""
        tests = self._tests
        return (
            self._anything
            | tests.get((step.namespace, step.name), 0)
            | tests.get((step.namespace, _ANY), 0)
            | tests.get((_ANY, step.name), 0)
        )

    def _meets(self, tests: list[_Test], below: bool) -> bool:
        """Return True if some topic matches here and in another pattern's row of *tests*."""
        reached = self._start
        for test in tests:
            if test.loops:
                reached = self._freely(reached)
            reached = (reached & self._loops) | ((reached & self._compatible(test)) << 1)
        if below:
            reached = self._freely(reached)
        return bool(reached & self._accepting)

    def _freely(self, reached: int) -> int:
        """Return the states that are reached from *reached* over any levels."""
        while True:
            further = reached | ((reached & self._states) << 1)
            if further == reached:
                return reached
            reached = further

    def _compatible(self, test: _Test) -> int:
        """Return the states that accept some step which *test* accepts too."""
        if test.namespaces is not None and test.name is not None:
            states = 0
            for namespace in test.namespaces:
                states |= self._accepts(Step(namespace, test.name))
            return states
        if test.namespaces is None and test.name is None:
            return self._states
        if self._sums is None:  # Most patterns are never asked.
            self._sums = self._sum_up_tests()
        by_name, by_namespace = self._sums
        states = self._anything
        if test.namespaces is not None:
            states |= by_namespace.get(_ANY, 0)
            for namespace in test.namespaces:
                states |= by_namespace.get(namespace, 0)
        elif test.name is not None:
            states |= by_name.get(test.name, 0) | by_name.get(_ANY, 0)
        return states

    def _sum_up_tests(self) -> tuple[dict[str | _Any, int], dict[str | _Any | None, int]]:
        """Return the states by the name that they test, and by the namespace, whatever the other
        is: a pattern of hundreds of paths is asked for each step of another one."""
        by_name: dict[str | _Any, int] = {}
        by_namespace: dict[str | _Any | None, int] = {}
        for (namespace, name), bits in self._tests.items():
            by_name[name] = by_name.get(name, 0) | bits
            by_namespace[namespace] = by_namespace.get(namespace, 0) | bits
        return by_name, by_namespace

    def _rows(self) -> Iterator[tuple[list[_Test], bool]]:
        for path in self.paths:
            first, *rest = path.steps
            tail = [_test(step) for step in rest]
            if first.descendant:
                # `p://b`: a root b of the namespace, or a b below any root of it. Below the
                # root a name of the same namespace has none of its own, as a rule.
                yield [_Test((first.namespace,), first.name, False), *tail], path.below
                within = (None,) if first.namespace is None else (None, first.namespace)
                root = _Test((first.namespace,), None, False)
                yield [root, _Test(within, first.name, True), *tail], path.below
            else:
                yield [_test(first), *tail], path.below


def _test(step: PathStep) -> _Test:
    namespaces = None if step.any_namespace else (step.namespace,)
    return _Test(namespaces, step.name, step.descendant)


def _named(paths: tuple[TopicPath, ...]) -> frozenset[Topic] | None:
    topics = []
    for path in paths:
        if path.below:
            return None
        steps = []
        for step in path.steps:
            if step.name is None or step.any_namespace or step.descendant:
                return None
            steps.append(Step(step.namespace, step.name))
        topics.append(Topic(tuple(steps)))
    return frozenset(topics)
