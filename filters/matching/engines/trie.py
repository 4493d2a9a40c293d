"""The paths of all atoms in one trie, and the states in which a walk over a message can be.

A state says which paths lead to an element. It follows from the state of the parent and the
element's name, so it is worked out once and remembered (a lazy deterministic automaton, as of
YFilter's successors): a message of a known structure costs one look-up an element, however many
paths there are. A change of the trie forgets only the states that hold the node that changed.
"""

from collections.abc import Iterable

from filters.matching.engines.tables import Table, Tables
from filters.matching.planning.plan import CHILD, Path, Step
from filters.matching.planning.values import SELF_KEY, Checks, Key

BITS = 2_048
"""The number of bits in sets of branches, which are integers. Branches beyond share a bit, and then
count as met by several elements when each is met by one."""

MAX_CELLS = 1_000_000
"""The most that is remembered, about: nodes in states, and transitions. Over it, all states are
forgotten before the next message."""


class Node:
    """The end of a path. *uses*: children, atoms and branches."""

    __slots__ = (
        "below",
        "bit",
        "branches",
        "children",
        "parent",
        "states",
        "step",
        "tables",
        "uses",
    )

    def __init__(self, parent: "Node | None", step: Step | None) -> None:
        self.parent = parent
        self.step = step
        self.uses = 0
        self.children: dict[tuple[str | None, str | None], Node] = {}
        self.below: dict[tuple[str | None, str | None], Node] = {}
        """Children by `DESCENDANT` steps."""
        self.states: set[State] = set()
        """The states that hold this node."""
        self.tables = Tables()
        self.branches = 0
        """The number of expressions that are exact only if one element meets this path."""
        self.bit = 0
        """The bit of this node in sets of branches, 0 if no expression needs it."""


class State:
    """The state of the walk at an element: the ends of paths that lead to it (*met*), those from
    which descendants may still be reached (*waiting*), and the atoms that end there, by the
    string-value, text or attribute that they ask for. *plain* atoms hold at once; expressions wait
    for those *asked* for."""

    __slots__ = (
        "asked",
        "attributes",
        "branches",
        "goes_on",
        "met",
        "next",
        "others",
        "plain",
        "ranged",
        "reached_from",
        "strings",
        "texts",
        "waiting",
    )

    def __init__(self, met: frozenset[Node], waiting: frozenset[Node]) -> None:
        self.met = met
        self.waiting = waiting
        self.next: dict[str, State] = {}
        self.reached_from: set[State] = set()
        self.goes_on = bool(waiting) or any(node.children for node in met)
        self.strings: dict[str, list[int]] = {}
        self.texts: dict[str, list[int]] = {}
        self.attributes: dict[str, dict[str, list[int]]] = {}
        for node in met:
            for key, table in node.tables.equal.items():
                for value, atom in table.items():
                    self.file(key, value, atom)
        self.read()

    def read(self) -> None:
        """Read what the nodes hold, except their ``equal``."""
        others: list[Table] = []
        plain: list[int] = []
        self.asked: set[int] = set()
        self.branches = 0
        for node in self.met:
            if node.tables.plain is not None:
                plain.append(node.tables.plain)
                if node.tables.asked:
                    self.asked.add(node.tables.plain)
            others += node.tables.others.values()
            self.branches |= node.bit
        self.plain = frozenset(plain)
        self.others = tuple(others)
        self.ranged = tuple(node for node in self.met if node.tables.ranges)

    def file(self, key: Key, value: str, atom: int) -> None:
        """File *atom*, which asks for *value* alone."""
        if key.name:
            values = self.attributes.setdefault(key.name, {})
        else:
            values = self.strings if key == SELF_KEY else self.texts
        values.setdefault(value, []).append(atom)

    def unfile(self, key: Key, value: str, atom: int) -> None:
        if key.name:
            values = self.attributes[key.name]
        else:
            values = self.strings if key == SELF_KEY else self.texts
        values[value].remove(atom)
        if not values[value]:
            del values[value]
        if key.name and not values:
            del self.attributes[key.name]

    @property
    def cells(self) -> int:
        tables = [table for node in self.met for table in node.tables.equal.values()]
        return 1 + len(self.met) + len(self.waiting) + sum(map(len, tables))


class Trie:
    """The trie of paths, and the automaton of its states."""

    def __init__(self) -> None:
        self.root = Node(None, None)
        self._states: dict[tuple[frozenset[Node], frozenset[Node]], State] = {}
        self._start: State | None = None
        self._cells = 0
        self._bits = 0
        """The number of bits that were given out."""
        self.nodes = 0
        """The document node not counted."""

    def insert(self, path: Path) -> Node:
        """Return the node of *path*, made if it is missing, with one use more."""
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
        """Count one use less, and remove nodes without uses."""
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

    def use(self, node: Node, atom: int, checks: Checks) -> None:
        """Add an atom to *node*."""
        value = node.tables.add(atom, checks)
        for state in node.states:
            if node in state.met:
                if value is None:
                    state.read()
                else:
                    state.file(*value, atom)
                    self._cells += 1

    def leave(self, node: Node, atom: int, checks: Checks) -> None:
        """Take an atom, and a use, from *node*."""
        value = node.tables.discard(atom, checks)
        for state in node.states:
            if node in state.met:
                if value is None:
                    state.read()
                else:
                    state.unfile(*value, atom)
                    self._cells -= 1
        self.release(node)

    def ask(self, node: Node, asked: bool) -> None:
        """Note whether expressions wait for the plain atom of *node*."""
        atom = node.tables.plain
        assert atom is not None
        node.tables.asked = asked
        for state in node.states:
            if node in state.met:
                if asked:
                    state.asked.add(atom)
                else:
                    state.asked.discard(atom)

    def branch(self, path: Path) -> Node:
        """Return the node of *path*, counting one expression more that is exact only if one element
        meets it."""
        node = self.insert(path)
        node.branches += 1
        if node.branches == 1:
            node.bit = 1 << self._bits % BITS
            self._bits += 1
            for state in node.states:
                state.read()
        return node

    def leave_branch(self, node: Node) -> None:
        node.branches -= 1
        if not node.branches:
            node.bit = 0
            for state in node.states:
                state.read()
        self.release(node)

    def start(self) -> State:
        """Return the state of the document node."""
        if self._cells > MAX_CELLS:
            self._forget(list(self._states.values()))
        if self._start is None:
            self._start = self._state(frozenset([self.root]), self._waiting([self.root]))
        return self._start

    def step(self, state: State, tag: str) -> State:
        """Return the state of a child with the name *tag* of an element of *state*."""
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
        """Forget the transitions that a new *step* from *node* changes."""
        axis, namespace, local = step
        if axis != CHILD and not node.below:
            # The node will wait for descendants, which its states do not know.
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
        """Forget *states*, and those that are reached from them alone."""
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
    """Return the names that a step may have for an element of this name."""
    namespace, brace, local = tag[1:].rpartition("}")
    if not brace:
        local = tag
    return ((namespace, local), (namespace, None), (None, local), (None, None))
