"""What the compiled engine keeps: numbers, memory, and its wits under hostile documents.

Its verdicts are held to libxml2's in `test_engines`.
"""

import random
import sys
import time
from array import array
from collections.abc import Sequence

import pytest
from lxml import etree

from filters import Expression, FilterError, Reason
from filters.documents import parse_own
from filters.matching.engines.choice import engine_note
from filters.matching.planning.plan import Plan
from filters.matching.planning.templates import plan_of
from filters.workloads import Vocabulary, expressions, family_of, messages
from filters.xpath import compile_xpath
from tests.filters.matching.differential import check
from tests.filters.matching.expressions import NAMESPACES, Grammar
from tests.filters.matching.nasty import document

if note := engine_note():
    pytest.skip(note, allow_module_level=True)

from filters.filterset.entries import Few, Several
from filters.matching._kernel import Kernel, keys_of
from filters.matching.engines.native import NativeIndex
from tests.rigs.pace import unit

MAX_STATES = 20_000
MAX_REMEMBERED = 2**14
PATH = 257
"""Elements around one another, and the document."""


def expression(text: str) -> Expression:
    return Expression(text, namespaces=NAMESPACES)


def said(index: NativeIndex, root: etree._Element) -> tuple[list[int], list[int]]:
    """What is true, and what is doubtful."""
    true, doubtful = index.find(root)
    return list(true), doubtful


def expect(
    texts: Sequence[str], documents: Sequence[bytes], index: NativeIndex | None = None
) -> None:
    """Libxml2's verdict of each, one after the other, in one index."""
    index = index or NativeIndex()
    numbers = {text: index.add(expression(text)) for text in texts}
    compiled = {text: compile_xpath(text, NAMESPACES) for text in texts}
    for octets in documents:
        root = parse_own(octets)
        true, doubtful = index.find(root)
        for text, number in numbers.items():
            if number not in doubtful:
                assert (number in true) == bool(compiled[text](root)), text


# ---------------------------------------------------------------------------------------- numbers


def test_a_number_is_shared() -> None:
    index = NativeIndex()
    number = index.add(expression("a = 'x'"))
    assert index.add(expression("a = 'x'")) == number
    assert index.add(expression("a  = 'x'")) != number
    assert len(index) == 2
    index.remove(number)
    assert index.find(parse_own(b"<r><a>x</a></r>")).true.count(number) == 1
    index.remove(number)
    assert number not in index.find(parse_own(b"<r><a>x</a></r>")).true
    with pytest.raises(KeyError):
        index.expression(number)


def test_only_namespaces_in_use_matter() -> None:
    index = NativeIndex()
    one = index.add(Expression("p:a", namespaces=(("p", "urn:p"), ("q", "urn:q"))))
    same = index.add(Expression("p:a", namespaces=(("p", "urn:p"), ("other", "urn:o"))))
    other = index.add(Expression("p:a", namespaces=(("p", "urn:q"),)))
    assert one == same != other
    assert said(index, parse_own(b"<r><a xmlns='urn:q'/></r>")) == ([other], [])
    assert index.expression(one) == Expression("p:a", namespaces=(("p", "urn:p"),))


def test_numbers_are_used_again() -> None:
    index = NativeIndex()
    for round_ in range(100):
        numbers = [index.add(expression(f"a = '{round_}.{at}'")) for at in range(5)]
        assert sorted(numbers) == [0, 1, 2, 3, 4]
        root = parse_own(f"<r><a>{round_}.3</a></r>".encode())
        assert said(index, root) == ([numbers[3]], [])
        for number in numbers:
            index.remove(number)


def test_numbers_of_atoms_are_used_again() -> None:
    """Those of one value lie side by side in runs: each has room for what comes, once some went."""
    chance = random.Random(11)
    texts = [f"/r/a{at} = '{value}'" for at in range(150) for value in ("x", "y")]
    index = NativeIndex()
    held = {text: index.add(expression(text)) for text in texts}
    most = index.sizes()["numbers"]
    for _ in range(60):
        for text in chance.sample(texts, chance.choice((30, 60, 150))):
            index.remove(held.pop(text))
        left = [text for text in texts if text not in held]
        chance.shuffle(left)
        held |= {text: index.add(expression(text)) for text in left}
    assert index.sizes()["numbers"] <= 1.5 * most
    root = parse_own(b"<r><a7>x</a7><a9>y</a9></r>")
    assert said(index, root) == (sorted([held["/r/a7 = 'x'"], held["/r/a9 = 'y'"]]), [])


def test_numbers_of_atoms_are_bounded() -> None:
    """Crowds come under one value after the other, and leave one of theirs each: their runs are
    shared then, and are whole again when all went."""
    index, stayed = NativeIndex(), []
    slack = 2 * 2**12 + 200  # of atoms and of nodes, and a crowd at its largest
    for value in range(2000):
        crowd = [index.add(expression(f"/r/a{at} = 'v{value}'")) for at in range(25)]
        stayed.append(crowd.pop(value % 25))
        for number in crowd:
            index.remove(number)
        sizes = index.sizes()
        assert sizes["numbers"] <= 4 * (sizes["atoms"] + sizes["nodes"]) + slack
    most = sizes["numbers"]
    root = parse_own(b"<r><a3>v28</a3><a4>v28</a4><a5>v30</a5></r>")
    assert said(index, root) == (sorted([stayed[28], stayed[30]]), [])
    for number in stayed:
        index.remove(number)
    for at in range(1500):  # As many as there were, in runs as large as there are.
        index.add(expression(f"/r/a{at % 30} = 'w{at // 30}'"))
    assert index.sizes()["numbers"] <= most + 64


@pytest.mark.parametrize("number", [1, -1, 2**32 - 1, 2**32, 2**70])
def test_unknown_numbers(number: int) -> None:
    index = NativeIndex()
    index.add(expression("a"))
    with pytest.raises(KeyError):
        index.remove(number)
    with pytest.raises(KeyError):
        index.expression(number)
    assert len(index) == 1


@pytest.mark.parametrize(
    "refused",
    [
        Expression("a = '\ud800'"),
        Expression("p:a", namespaces=(("p", "urn:\ud800"),)),
        Expression("a ="),
        Expression("//*[" * 20 + "a" + "]" * 20),
    ],
)
def test_a_refused_expression_leaves_nothing(refused: Expression) -> None:
    index = NativeIndex()
    with pytest.raises(FilterError) as error:
        index.add(refused)
    assert error.value.reason in (Reason.FILTER_INVALID, Reason.FILTER_COSTLY)
    left = index.sizes()
    assert (left["filters"], left["scopes"], left["atoms"], left["values"]) == (0, 0, 0, 0)


def test_a_plan_too_long_leaves_nothing() -> None:
    kernel = Kernel()
    plan = plan_of(expression("a[@y = 'v'] = 'x' or b"))
    long = Plan(plan.atoms, (0, *[0] * 70_000), True)
    for text, told in ((b"x" * 70_000, plan), (b"x", long)):
        with pytest.raises(ValueError, match="too long"):
            kernel.add(text, 0, told)
        left = kernel.sizes()
        assert (left["filters"], left["atoms"], left["tables"], left["values"]) == (0, 0, 0, 0)
    longest = b"x" * 65_535
    number = kernel.add(longest, 0, plan)
    assert kernel.text(number) == longest
    true, *others = kernel.find(parse_own(b"<r><b/></r>"))
    assert (list(true), others) == ([number], [[], []])


# ------------------------------------------------------------------------------- coming and going


@pytest.mark.parametrize("style", ["ev", "xm3"])
def test_churn_leaves_nothing(style: str) -> None:
    documents = messages(family_of(style), 20, 1)
    roots = [parse_own(octets) for octets in documents]
    texts = expressions(style, 4_000, 2, Vocabulary(documents))
    kept, others = texts[:500], texts[500:]
    fresh, index = NativeIndex(), NativeIndex()
    for one in kept:
        fresh.add(one)
    numbers = [index.add(one) for one in kept]
    for start in range(0, len(others), 500):
        come = [index.add(one) for one in others[start : start + 500]]
        for root in roots:
            index.find(root)
        for number in come:
            index.remove(number)
    for root in roots:
        assert len(index.find(root).true) == len(fresh.find(root).true)
    found, wanted = index.sizes(), fresh.sizes()
    for thing in ("filters", "scopes", "atoms", "tables", "nodes", "names", "values"):
        assert found[thing] == wanted[thing], thing
    assert found["states"] <= wanted["states"] * 1.5 + 64
    assert found["remembered"] <= wanted["remembered"] * 1.5
    for number in numbers:
        index.remove(number)
    left = index.sizes()
    for thing in ("filters", "scopes", "atoms", "tables", "names", "values", "programs"):
        assert not left[thing], thing
    assert left["nodes"] == 1, "the document"


def test_a_crowd_under_one_fact_comes_and_goes() -> None:
    """From nobody to hundreds and back, some decided by the fact, some asking for more, some
    waiting elsewhere too: all move to larger and smaller places meanwhile."""
    chance = random.Random("a crowd")
    decided = [f"/a{' ' * number}[@k='x']" for number in range(150)]
    asking = [f"/a[@k='x'][@n='{number}']" for number in range(75)]
    either = [f"/a[@k='x' or{' ' * number} @n='7']" for number in range(75)]
    below = [f"/a/b[@k='x' or{' ' * number} @n='7']/c" for number in range(75)]
    pool = [expression(text) for text in decided + asking + either + below]
    root = parse_own(b"<a k='x' n='7'><b k='x' n='7'><c/></b></a>")
    true = {one for one in pool if compile_xpath(one.text, NAMESPACES)(root)}
    index = NativeIndex()
    numbers: dict[Expression, int] = {}
    for size in (1, 0, 1, 2, 3, 1, 40, 300, 120, 10, 2, 0, 300, 1, 0):
        while len(numbers) != size:
            if len(numbers) < size:
                one = chance.choice([one for one in pool if one not in numbers])
                numbers[one] = index.add(one)
            else:
                index.remove(numbers.pop(chance.choice(list(numbers))))
            if chance.random() < 0.3 or len(numbers) < 5:
                expected = sorted(number for one, number in numbers.items() if one in true)
                assert (sorted(said(index, root)[0]), said(index, root)[1]) == (expected, [])
    assert index.sizes()["filters"] == 0


def test_keys_of_numbers() -> None:
    nobody, key = object(), "a key"
    few, several = Few([key, "b"]), Several({"c": "c", "d": "d"})
    held = [nobody, "e", few, several]
    numbers = array("I", [3, 0, 2, 1, 1])
    before = sys.getrefcount(key)
    keys = keys_of(numbers, held, Few, Several, nobody)
    assert keys == ["c", "d", key, "b", "e", "e"]
    assert sys.getrefcount(key) == before + 1
    del keys
    assert sys.getrefcount(key) == before
    assert keys_of(array("I"), held, Few, Several, nobody) == []
    with pytest.raises(IndexError):
        keys_of(array("I", [1, 4]), held, Few, Several, nobody)


def test_coming_and_going_changes_no_verdict() -> None:
    chance = random.Random("coming and going")
    grammar = Grammar(chance, 0.1)
    pool: list[Expression] = []
    while len(pool) < 300:
        one = grammar.expression()
        try:
            plan_of(one)
        except FilterError:
            continue
        pool.append(one)
    index = NativeIndex()
    held: dict[int, Expression] = {}
    for _ in range(60):
        for one in chance.sample(pool, 40):
            number = index.add(one)
            if number in held:
                index.remove(number)
            held[number] = one
        for number in chance.sample(sorted(held), min(len(held), 35)):
            index.remove(number)
            del held[number]
        fresh = NativeIndex()
        names = {fresh.add(one): number for number, one in held.items()}
        root = parse_own(document(chance))
        for _ in range(2):
            true, doubtful = index.find(root)
            again = fresh.find(root)
            assert sorted(true) == sorted(names[number] for number in again.true)
            assert sorted(doubtful) == sorted(names[number] for number in again.doubtful)


def small_document(chance: random.Random) -> bytes:
    """Few names and values, so that many filters say something of it."""

    def element(depth: int) -> str:
        name = chance.choice("abcd")
        given = "".join(f" {at}='{chance.randrange(3)}'" for at in "xy" if chance.random() < 0.4)
        width = chance.choice([0, 1, 2, 3]) if depth < 5 else 0
        within = "".join(element(depth + 1) for _ in range(width))
        return f"<{name}{given}>{within or chance.randrange(3)}</{name}>"

    return element(0).encode()


def small_expression(chance: random.Random) -> str:
    text = ""
    for _ in range(chance.randrange(1, 5)):
        text += chance.choice(["/", "/", "//"]) + chance.choice("abcd*")
        if chance.random() < 0.4:
            value = chance.randrange(3)
            test = chance.choice(
                [
                    f"@x='{value}'",
                    f"@y={value}",
                    f"{chance.choice('abcd')}='{value}'",
                    f"@x >= {value} and @x < {chance.randrange(4)}",
                    f"@x='{value}' and @y='1'",
                    "b",
                    "not(c)",
                    "contains(., '1')",
                ]
            )
            text += f"[{test}]"
    return text


@pytest.mark.parametrize("seed", range(4))
def test_what_is_known_is_mended(seed: int) -> None:
    """Filters come and go between messages that have been met before."""
    chance = random.Random(f"mended {seed}")
    roots = [parse_own(small_document(chance)) for _ in range(8)]
    texts = sorted({small_expression(chance) for _ in range(60)})
    compiled = {text: compile_xpath(text, ()) for text in texts}
    verdicts = {text: [bool(compiled[text](root)) for root in roots] for text in texts}
    index = NativeIndex()
    held: dict[str, int] = {}
    for step in range(400):
        text = chance.choice(texts)
        if text not in held:
            held[text] = index.add(Expression(text))
        elif step > 200 or chance.random() < 0.7:
            index.remove(held.pop(text))
        for at in chance.sample(range(len(roots)), 5):
            true, doubtful = index.find(roots[at])
            assert len(true) == len(set(true))
            assert {*true, *doubtful} <= set(held.values())
            for one, number in held.items():
                if number not in doubtful:
                    assert (number in true) == verdicts[one][at], one
    for number in held.values():
        index.remove(number)
    assert all(said(index, root) == ([], []) for root in roots)
    assert index.sizes()["nodes"] == 1


def test_paths_come_back() -> None:
    index = NativeIndex()
    roots = [parse_own(f"<r><n{at}><b>x</b></n{at}></r>".encode()) for at in range(0, 3_000, 100)]
    for round_ in range(4):
        texts = [f"n{at}[b = 'x']" if round_ % 2 else f".//n{at}/b" for at in range(3_000)]
        numbers = [index.add(expression(text)) for text in texts]
        for at, root in zip(range(0, 3_000, 100), roots, strict=True):
            assert said(index, root) == ([numbers[at]], [])
        for number in numbers:
            index.remove(number)
        assert all(said(index, root) == ([], []) for root in roots)
        assert index.sizes()["nodes"] == 1


@pytest.mark.parametrize("style", ["xm1", "xm3"])
def test_the_message_after_a_change_is_not_dear(style: str) -> None:
    """What messages taught stays known when a filter comes or goes: to learn it again takes as long
    as a hundred messages."""
    documents = messages(family_of(style), 30, 1)
    roots = [parse_own(octets) for octets in documents]
    texts = expressions(style, 8_600, 2, Vocabulary(documents))
    index = NativeIndex()
    held = [index.add(one) for one in texts[:8_000]]
    for root in roots * 4:
        index.find(root)
    before = index.sizes()
    assert before["states"] > 100 and before["remembered"] > 400
    for at, further in enumerate(texts[8_000:]):
        index.remove(held[at])
        index.add(further)
        now = index.sizes()
        for known in ("states", "remembered"):
            assert now[known] > 0.9 * before[known], (known, at)
        index.find(roots[at % 30])


def test_names_that_a_program_brings() -> None:
    """The first program reads the message, the next speaks of names that nobody knew then."""
    deep = "/".join(["descendant-or-self::*"] * 10)
    texts = [f"{deep}/{name}" for name in "abcd"]
    assert all(not plan_of(expression(text)).atoms for text in texts)
    expect(texts, [b"<r><a/><c/></r>", b"<r><b/><d/></r>", b"<r><a><b/></a></r>"])


def test_a_message_says_nothing_of_the_next() -> None:
    texts = ["a = 'x'", "b", "not(a)", "a[b = 1][c = 2]", "a >= 1 and a < 9", "//*[@x]/b = 'y'"]
    documents = [
        b"<r><a>x</a></r>",
        b"<r><b/></r>",
        b"<r><a><b>1</b></a><a><c>2</c></a></r>",
        b"<r/>",
    ]
    expect(texts, documents * 3)


# ------------------------------------------------------------------------------- hostile documents

CROSSING = [f"//n{at}//*" for at in range(20)]
"""Elements within some of 20 others: as many states as there are sets of these."""


def crossing(chance: random.Random, elements: int = 40_000, *, depth: int = 12) -> str:
    """Elements that are in states of their own, nearly all."""
    pieces = []
    for _ in range(elements // depth):
        names = [f"n{chance.randrange(20)}" for _ in range(depth)]
        pieces += [f"<{name}>" for name in names]
        pieces += [f"</{name}>" for name in reversed(names)]
    return "".join(pieces)


def test_states_are_bounded() -> None:
    chance = random.Random("states")
    index = NativeIndex()
    numbers = {index.add(expression(text)) for text in CROSSING}
    for _ in range(5):
        root = parse_own(f"<r>{crossing(chance)}</r>".encode())
        assert set(index.find(root).true) == numbers
        assert index.sizes()["states"] <= MAX_STATES + PATH
    for number in numbers:
        index.remove(number)
    assert said(index, parse_own(b"<r><n1><a/></n1></r>")) == ([], [])


def test_elements_are_counted_across_forgotten_states() -> None:
    chance = random.Random("counting")
    between = crossing(chance)
    index = NativeIndex()
    for text in CROSSING:
        index.add(expression(text))
    expect(
        ["a[b = 1][c = 2]", "a >= 1 and a < 9", "a[b = 1]"],
        [
            f"<r><a><b>1</b></a>{between}<a><c>2</c></a></r>".encode(),
            f"<r><a>0</a>{between}<a>9</a></r>".encode(),
            f"<r>{between}<a><b>1</b><c>2</c></a></r>".encode(),
        ],
        index,
    )


def test_a_path_may_fill_the_automaton() -> None:
    """More members in the states of one path than are kept: that must not cost each element."""
    names = [f"n{at}" for at in range(150)]
    index = NativeIndex()
    for first in names:
        for second in names:
            index.add(expression(f"//{first}//{second}//*"))
    path = names + names[:100]
    opening = "".join(f"<{name}>" for name in path)
    closing = "".join(f"</{name}>" for name in reversed(path))
    root = parse_own(f"{opening}{'<x/><y/>' * 500}{closing}".encode())
    started = time.process_time()
    found = index.find(root)
    assert time.process_time() - started < 1000 * unit()
    assert len(found.true) == sum(
        names.index(second) > names.index(first) or names.index(second) < 100
        if names.index(first) >= 100
        else True
        for first in names
        for second in names
    )


def test_what_is_remembered_of_values_is_bounded() -> None:
    index = NativeIndex()
    number = index.add(expression("//*[@v = 5]"))
    atoms = index.sizes()["atoms"]
    for start in (0, 10**6):
        many = "".join(f"<a v='{start + at}'/>" for at in range(45_000))
        found = said(index, parse_own(f"<r>{many}</r>".encode()))
        assert found == ([] if start else [number], [])
        assert index.sizes()["remembered"] <= MAX_REMEMBERED + atoms + 1


def test_names_of_strangers_are_not_kept() -> None:
    chance = random.Random("names")
    index = NativeIndex()
    for text in ("//a//b", "//p:*[@x]", "*/*[. = 'x']"):
        index.add(expression(text))
    before = index.sizes()["names"]
    for _ in range(50):
        names = [f"{chance.choice('abcdefgh')}{chance.randrange(10**9)}" for _ in range(500)]
        index.find(parse_own(f"<r>{''.join(f'<{name}/>' for name in names)}</r>".encode()))
    assert index.sizes()["names"] == before
    assert index.sizes()["states"] < 50


def test_depth() -> None:
    octets = b"<a>" * 250 + b"<b x='1'>x</b>" + b"</a>" * 250
    texts = ["//a//a//b", "//b[@x = 1]", "/" + "a/" * 60 + "a", "//a[b = 'x']", "//a[not(a)]/b"]
    expect(texts, [octets, octets])
    assert not NativeIndex().find(parse_own(octets)).true


def test_large_documents_take_bounded_time() -> None:
    documents = messages(family_of("xm1"), 40, 1)
    texts = expressions("xm1", 5_000, 2, Vocabulary(documents))
    index = NativeIndex()
    for one in texts:
        index.add(one)
    pieces: list[str] = []
    while sum(piece.count("</") + piece.count("/>") for piece in pieces) < 50_000:
        pieces += [etree.tostring(parse_own(octets)).decode() for octets in documents]
    root = parse_own(f"<all>{''.join(pieces)}</all>".encode())
    started = time.process_time()
    index.find(root)
    index.find(root)
    assert time.process_time() - started < 1000 * unit()


def test_comments_around_the_root() -> None:
    expect(
        ["/*", "//comment()", "/a[b]", "b = 'x'", "/ = 'x'", "count(/*) = 1"],
        [b"<!--1--><a><b>x</b></a><!--2--><?p?>", b"<!--x--><b><a/></b>"],
    )


def test_entities_are_for_libxml2() -> None:
    """Documents of strangers have no document type; should one get here, nothing is guessed."""
    octets = b"<!DOCTYPE r [<!ENTITY e 'x'>]><r><a>&e;</a></r>"
    root = etree.fromstring(octets, etree.XMLParser(resolve_entities=False))
    index = NativeIndex()
    numbers = {index.add(expression(text)) for text in ("a = 'x'", "b", "not(a)")}
    index.remove(index.add(expression("c")))
    true, doubtful = index.find(root)
    assert not true
    assert set(doubtful) == numbers


def test_many_ranges_on_one_value() -> None:
    chance = random.Random("ranges")
    texts = [
        f"a[@x > {low} and @x <= {low + chance.randrange(1, 50)}]"
        for low in (chance.randrange(10_000) for _ in range(2_000))
    ]
    values = [-1, 0, 17, 5_000, 9_999, 10_060]
    documents = [f"<r><a x='{value}'/></r>".encode() for value in values]
    check(NativeIndex, [expression(text) for text in texts], documents, claims=False)


def test_many_ask_for_the_same() -> None:
    """Filters with an alternative in common, and all else alike, are looked at together."""
    chance = random.Random(5)
    texts = {
        f"/*[{' or '.join(f'a={n}' for n in sorted(chance.sample(range(14), 5)))}]"
        f"[{chance.choice(['b=1 and c', 'not(c)', 'c or b=2'])}]"
        for _ in range(4_000)
    }
    assert len(texts) > 2_500
    documents = [
        parse_own(
            f"<r>{''.join(f'<a>{n}</a>' for n in chance.sample(range(16), 2))}"
            f"{chance.choice(['', '<b>1</b>', '<b>2</b>', '<b>1</b><b>2</b>'])}"
            f"{chance.choice(['', '<c/>', '<c/><c/>', '<d/><d/>'])}</r>".encode()
        )
        for _ in range(6)
    ]
    index = NativeIndex()
    compiled = {text: compile_xpath(text, ()) for text in texts}
    numbers: dict[str, int] = {}
    for share in (1.0, 0.5, 1.0, 0.1, 0.0, 1.0):
        for text in sorted(texts):
            if chance.random() >= share:
                if text in numbers:
                    index.remove(numbers.pop(text))
            elif text not in numbers:
                numbers[text] = index.add(Expression(text))
        for root in documents:
            true, doubtful = index.find(root)
            assert len(set(true)) == len(true)
            asked = {number for number in numbers.values() if number not in doubtful}
            wanted = {number for text, number in numbers.items() if compiled[text](root)}
            assert set(true) == wanted & asked
