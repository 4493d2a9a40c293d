"""The paths of all atoms in one trie, and the states in which a walk over a message can be.

A state says which paths lead to an element. It follows from the state of the parent and the
element's name, so it is worked out once and remembered (a lazy deterministic automaton, as of
YFilter's successors): a message of known shape costs one look-up an element, however many paths
there are. A change of the trie forgets those states alone that hold the node that changed.
"""

from collections.abc import Iterable

from filters.matching.plan import CHILD, Path, Step
from filters.matching.tables import SELF_KEY, Key, Table, Tables

MAX_CELLS = 1_000_000
"""About how much is remembered: nodes in states, and transitions. Over it, everything is forgotten
before the next message."""


class Node:
    """The end of a path. *uses*: children, atoms and branches."""

    __slots__ = ("below", "branches", "children", "parent", "states", "step", "tables", "uses")

    def __init__(self, parent: "Node | None", step: Step | None) -> None:
        self.parent = parent
        self.step = step
        self.uses = 0
        self.children: dict[tuple[str | None, str | None], Node] = {}
        self.below: dict[tuple[str | None, str | None], Node] = {}
        """By `DESCENDANT` steps."""
        self.states: set[State] = set()
        """Those that hold this node."""
        self.tables = Tables()
        self.branches = 0
        """How many expressions are exact only if one element meets this path."""


class State:
    """What an element is: the ends of paths that lead to it (*met*), those from which descendants
    may still be reached (*waiting*), and what is to be looked up there."""

    __slots__ = (
        "attributes",
        "branches",
        "goes_on",
        "met",
        "next",
        "others",
        "plain",
        "reached_from",
        "strings",
        "waiting",
    )

    def __init__(self, met: frozenset[Node], waiting: frozenset[Node]) -> None:
        self.met = met
        self.waiting = waiting
        self.next: dict[str, State] = {}
        self.reached_from: set[State] = set()
        self.goes_on = bool(waiting) or any(node.children for node in met)
        self.read()

    def read(self) -> None:
        """Take over what the nodes hold."""
        attributes: dict[Key, list[dict[str, int]]] = {}
        strings: list[dict[str, int]] = []
        others: list[Table] = []
        plain: list[int] = []
        for node in self.met:
            tables = node.tables
            if tables.plain is not None:
                plain.append(tables.plain)
            for key, table in tables.equal.items():
                if key is SELF_KEY:
                    strings.append(table)
                else:
                    attributes.setdefault(key, []).append(table)
            others += tables.others.values()
        self.plain = tuple(plain)
        self.strings = tuple(strings)
        self.attributes = tuple((key.name, tuple(found)) for key, found in attributes.items())
        self.others = tuple(others)
        self.branches = tuple(node for node in self.met if node.branches)

    @property
    def cells(self) -> int:
        return 1 + len(self.met) + len(self.waiting)


class Trie:
    """See the module."""

    def __init__(self) -> None:
        self.root = Node(None, None)
        self._states: dict[tuple[frozenset[Node], frozenset[Node]], State] = {}
        self._start: State | None = None
        self._cells = 0
        self.nodes = 0
        """The document node not counted."""

    def insert(self, path: Path) -> Node:
        """The node of *path*, with one use more."""
        node = self.root
        for step in path:
            axis, namespace, local = step
            ways = node.children if axis == CHILD else node.below
            following = ways.get((namespace, local))
            if following is None:
                following = Node(node, step)
                self._leads_on(node, step)
                ways[namespace, local] = following
                node.uses += 1
                self.nodes += 1
            node = following
        node.uses += 1
        return node

    def release(self, node: Node) -> None:
        """One use less; nodes that nobody uses go."""
        node.uses -= 1
        while not node.uses and node.parent is not None and node.step is not None:
            self._forget(node.states)
            axis, namespace, local = node.step
            parent = node.parent
            del (parent.children if axis == CHILD else parent.below)[namespace, local]
            if axis != CHILD and not parent.below:
                self._forget(parent.states)
            self.nodes -= 1
            parent.uses -= 1
            node = parent

    def changed(self, node: Node) -> None:
        """What *node* holds is no longer what it was."""
        for state in node.states:
            state.read()

    def start(self) -> State:
        """The state of the document node."""
        if self._cells > MAX_CELLS:
            self._forget(list(self._states.values()))
        if self._start is None:
            self._start = self._state(frozenset([self.root]), self._waiting([self.root]))
        return self._start

    def step(self, state: State, tag: str) -> State:
        """The state of a child called *tag* of an element of *state*."""
        names = _names(tag)
        met = {
            ways[name]
            for nodes, axis in ((state.met, "children"), (state.waiting, "below"))
            for node in nodes
            if (ways := getattr(node, axis))
            for name in names
            if name in ways
        }
        waiting = state.waiting | self._waiting(met)
        following = self._state(frozenset(met), waiting)
        if self._cells <= MAX_CELLS:
            self._cells += 1
            state.next[tag] = following
            following.reached_from.add(state)
        return following

    def _waiting(self, nodes: Iterable[Node]) -> frozenset[Node]:
        return frozenset(node for node in nodes if node.below)

    def _state(self, met: frozenset[Node], waiting: frozenset[Node]) -> State:
        state = self._states.get((met, waiting))
        if state is None:
            state = State(met, waiting)
            if self._cells <= MAX_CELLS:
                self._states[met, waiting] = state
                self._cells += state.cells
                for node in met | waiting:
                    node.states.add(state)
        return state

    def _leads_on(self, node: Node, step: Step) -> None:
        """*step* will lead on from *node*."""
        axis, namespace, local = step
        if axis != CHILD and not node.below:
            # It will wait for descendants, which no state knows of.
            self._forget(node.states)
            return
        orphans = []
        for state in node.states:
            if axis == CHILD and node not in state.met:
                continue
            state.goes_on = True
            for tag in [tag for tag in state.next if _is_named(tag, namespace, local)]:
                following = state.next.pop(tag)
                self._cells -= 1
                if following not in state.next.values():
                    following.reached_from.discard(state)
                    orphans.append(following)
        self._forget([state for state in orphans if not state.reached_from])

    def _forget(self, states: Iterable[State]) -> None:
        """*states*, and those that are reached from them alone."""
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if self._states.pop((state.met, state.waiting), None) is None:
                continue
            if state is self._start:
                self._start = None
            for node in state.met | state.waiting:
                node.states.discard(state)
            for before in state.reached_from:
                kept = {tag: to for tag, to in before.next.items() if to is not state}
                self._cells -= len(before.next) - len(kept)
                before.next = kept
            self._cells -= len(state.next) + state.cells
            for after in set(state.next.values()):
                after.reached_from.discard(state)
                if not after.reached_from:
                    waiting.append(after)
            state.next = {}
            state.reached_from = set()


def _is_named(tag: str, namespace: str | None, local: str | None) -> bool:
    return any(name == (namespace, local) for name in _names(tag))


def _names(tag: str) -> tuple[tuple[str | None, str | None], ...]:
    """What a step may call an element of this name."""
    namespace, brace, local = tag[1:].rpartition("}")
    if not brace:
        local = tag
    return ((namespace, local), (namespace, None), (None, local), (None, None))
