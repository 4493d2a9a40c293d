"""What the reference engine remembers: enough, and no more."""

import random
from typing import Any

import pytest
from lxml import etree

from filters import Expression, FilterError
from filters.documents import parse_own
from filters.matching.engines import trie
from filters.matching.engines.reference import ReferenceIndex
from filters.workloads import Vocabulary, expressions, family_of, messages
from tests.filters.matching.differential import check
from tests.filters.matching.expressions import NAMESPACES, Grammar
from tests.filters.matching.nasty import document


def counts(index: ReferenceIndex) -> dict[str, int]:
    """How much of everything there is, but for what messages leave."""
    nodes = [index._trie.root]
    for node in nodes:
        nodes += [*node.children.values(), *node.below.values()]
    assert len(nodes) == index._trie.nodes + 1
    return {
        "expressions": len(index),
        "entries": len(index._entries),
        "atoms": len(index._atoms),
        "named atoms": len(index._atom_numbers),
        "nodes": len(nodes),
        "uses": sum(node.uses for node in nodes),
        "branches": sum(node.branches for node in nodes),
        "tables": sum(
            (node.tables.plain is not None)
            + sum(map(len, node.tables.equal.values()))
            + sum(map(len, node.tables.others.values()))
            + len(node.tables.ranges)
            for node in nodes
        ),
        "sure": sum(len(one.true or ()) for one in index._waiting.values()),
        "watching": len({n for one in index._waiting.values() for n in one.looked_at or ()}),
        "always": len(index._always),
        "true": len(index._true),
    }


def cells(index: ReferenceIndex) -> int:
    """What `Trie` should have counted."""
    states = set(index._trie._states.values())
    filed = sum(
        len(atoms)
        for state in states
        for values in (state.strings, state.texts, *state.attributes.values())
        for atoms in values.values()
    )
    held = sum(1 + len(state.met) + len(state.waiting) + len(state.next) for state in states)
    return held + filed


def consistent(index: ReferenceIndex) -> None:
    """Fail unless nodes and states know of each other what is so."""
    plain = {number for number, atom in index._atoms.items() if not atom.checks}
    assert index._asked == index._waiting.keys() - plain
    states = set(index._trie._states.values())
    for state in states:
        assert set(state.next.values()) <= states
        assert state.reached_from <= states
        assert all(state in after.reached_from for after in state.next.values())
        assert all(state in before.next.values() for before in state.reached_from)
        assert all(state in node.states for node in state.met | state.waiting)
        fresh = trie.State(state.met, state.waiting)
        assert state.asked == state.plain & index._waiting.keys()
        for slot in ("plain", "others"):
            assert set(getattr(state, slot)) == set(getattr(fresh, slot))
        for slot in ("branches", "strings", "texts", "attributes"):
            left, right = getattr(state, slot), getattr(fresh, slot)
            assert sorted_atoms(left) == sorted_atoms(right)
        assert state.goes_on or not fresh.goes_on
    assert index._trie._cells == cells(index)


def sorted_atoms(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: sorted_atoms(value) for key, value in values.items()}
    return sorted(values) if isinstance(values, list) else values


def test_churn_leaves_nothing() -> None:
    """Ten times as many come and go; then all is as in an index that never had them."""
    chance = random.Random(7)
    grammar = Grammar(chance, 0.1)
    documents = [parse_own(document(chance)) for _ in range(20)]

    def some(count: int) -> list[Expression]:
        return [grammar.expression() for _ in range(count)]

    index = ReferenceIndex()
    kept = some(150)
    for text in kept:
        add(index, text)
    for _ in range(10):
        numbers = [number for text in some(150) if (number := add(index, text)) is not None]
        for root in documents:
            index.find(root)
        consistent(index)
        chance.shuffle(numbers)
        for number in numbers:
            index.remove(number)
        consistent(index)
    for root in documents:
        index.find(root)
    fresh = ReferenceIndex()
    for text in kept:
        add(fresh, text)
    for root in documents:
        fresh.find(root)
        assert [set(part) for part in index.find(root)] == [
            {remap(index, fresh, n) for n in part} for part in fresh.find(root)
        ]
    assert counts(index) == counts(fresh)


def remap(index: ReferenceIndex, fresh: ReferenceIndex, number: int) -> int:
    """The number in *index* of what has *number* in *fresh*."""
    found = index.add(fresh.expression(number))
    index.remove(found)
    return found


def add(index: ReferenceIndex, text: Expression) -> int | None:
    try:
        return index.add(text)
    except FilterError:
        return None


def test_all_gone() -> None:
    texts = expressions("xm3", 300, 1, Vocabulary(messages(family_of("xm3"), 50, 1)))
    roots = [parse_own(octets) for octets in messages(family_of("xm3"), 50, 2)]
    index = ReferenceIndex()
    numbers = [index.add(text) for text in texts]
    for root in roots:
        index.find(root)
    assert index._trie._cells > 100
    for number in numbers:
        index.remove(number)
    index.find(roots[0])
    assert set(counts(index).values()) == {0, 1}, "the document node is left"
    assert index._trie._cells < 10


def test_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever messages are called, what is remembered of them is bounded."""
    monkeypatch.setattr(trie, "MAX_CELLS", 500)
    index = ReferenceIndex()
    number = index.add(Expression("//a[b = 'x']/c"))
    index.add(Expression("*/*[. = 'y']"))
    for turn in range(50):
        names = "".join(f"<n{turn}_{at}/>" for at in range(100))
        root = etree.fromstring(f"<r>{names}<a><b>x</b><c/></a></r>")
        assert index.find(root).true == [number]
        assert index._trie._cells <= 500 + 110
        consistent(index)


def test_branches_share_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more branches than bits libxml2 decides more, and nothing is wrong."""
    monkeypatch.setattr(trie, "BITS", 2)
    texts = [f"//{a}[b = '{n}'][c]/{d}" for a in "bcd" for d in "bcd" for n in "123"]
    documents = [
        b"<a><b><b>1</b><c/><d/></b><c><b>2</b></c></a>",
        b"<a><b><b>1</b></b><b><c/><d/></b></a>",
        b"<d><b>1</b><b>3</b><c><b>3</b><c/></c><d><b>2</b><c/><c/></d></d>",
    ]
    tally = check(ReferenceIndex, [Expression(text) for text in texts], documents)
    assert tally.true and tally.decided < tally.pairs


def test_watches_what_is_rare() -> None:
    """Looked at in vain, an expression comes to watch what did not hold."""
    index = ReferenceIndex()
    for n in range(100):
        index.add(Expression(f"/*[a = '{n}' and b = '{n}']"))
    root = etree.fromstring(f"<r>{''.join(f'<a>{n}</a>' for n in range(100))}</r>")
    looked = []
    for _ in range(100):
        passed, _, _, _ = index._walk(root)
        waiting = [one for atom in passed if (one := index._waiting.get(atom))]
        looked.append(sum(len(one.looked_at or ()) for one in waiting))
        assert index.find(root) == ([], [])
    assert looked[0] == 100
    assert looked == sorted(looked, reverse=True)
    assert looked[-1] == 0


def test_numbers() -> None:
    index = ReferenceIndex()
    first = index.add(Expression("p:a = 1", namespaces=NAMESPACES))
    # A namespace that is not used makes no difference, one that is used does.
    assert index.add(Expression("p:a = 1", namespaces=(("p", "urn:p"),))) == first
    other = index.add(Expression("p:a = 1", namespaces=(("p", "urn:other"),)))
    assert other != first
    assert len(index) == 2
    index.remove(first)
    assert index.expression(first).text == "p:a = 1"
    index.remove(first)
    for call in (index.remove, index.expression):
        with pytest.raises(KeyError):
            call(first)
    assert index.add(Expression("b")) == first
    with pytest.raises(FilterError):
        index.add(Expression("p:a"))
    assert len(index) == 2


def test_depth() -> None:
    index = ReferenceIndex()
    number = index.add(Expression("//a[not(*)] = 'x'"))
    root = parse_own(b"<a>" * 256 + b"x" + b"</a>" * 256)
    found = index.find(root)
    assert found.doubtful == [number], "256 elements meet the branch"
    assert index.find(parse_own(b"<a>x</a>")).true == [number]
