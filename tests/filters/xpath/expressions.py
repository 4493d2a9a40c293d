"""Strategies: syntax trees, their texts, and documents that have what they ask for."""

from functools import cache

from hypothesis import strategies as st

from filters import Namespaces
from filters.xpath.functions import FUNCTIONS, NODE_SET
from filters.xpath.parser import AXES
from filters.xpath.syntax import (
    ANY_NODE,
    Call,
    Filtered,
    KindTest,
    Literal,
    NameTest,
    Negative,
    Node,
    Number,
    Operation,
    Path,
    Step,
)

SOAP = "urn:s"
NAMESPACES: Namespaces = (("and", "urn:a"), ("p", "urn:p"), ("s", SOAP))

NAMES = st.sampled_from(["a", "b", "c", "and", "div"])
NAME_TESTS = st.one_of(
    st.builds(NameTest, st.just(""), NAMES),
    st.builds(NameTest, st.sampled_from(["urn:p", "urn:a"]), NAMES | st.none()),
    st.just(NameTest(None, None)),
)
KIND_TESTS = st.one_of(
    st.sampled_from([KindTest("node"), KindTest("text"), KindTest("comment")]),
    st.builds(
        KindTest, st.just("processing-instruction"), st.sampled_from([None, "x", "it's", ""])
    ),
)
VALUES = ["1", "2", "x", "", " 1 ", "it's", 'say "x"', "é"]
LITERALS = st.builds(Literal, st.sampled_from(VALUES))
NUMBERS = st.builds(Number, st.sampled_from(["0", "1", "2", "1.5", ".5", "3."]))
SLASHES = Step("descendant-or-self", ANY_NODE)


def steps(
    predicates: st.SearchStrategy[tuple[Node, ...]], axes: tuple[str, ...]
) -> st.SearchStrategy[Step]:
    usual = ("child",) * 6 + ("attribute",) * 2
    return st.one_of(
        st.builds(
            Step, st.sampled_from(usual + axes), st.one_of(NAME_TESTS, KIND_TESTS), predicates
        ),
        st.just(SLASHES),
        st.just(Step("self", ANY_NODE)),
        st.just(Step("parent", ANY_NODE)) if "parent" in axes else st.just(SLASHES),
    )


ALL_AXES = tuple(sorted(AXES))


@cache
def trees(
    *, positions: bool = False, depth: int = 2, axes: tuple[str, ...] = ALL_AXES
) -> st.SearchStrategy[Node]:
    """Expressions of any type; ``position()`` and ``last()`` only where they are allowed."""
    return st.one_of(
        node_sets(positions=positions, depth=depth, axes=axes), _values(positions, depth, axes)
    )


@cache
def node_sets(
    *, positions: bool = False, depth: int = 2, axes: tuple[str, ...] = ALL_AXES
) -> st.SearchStrategy[Node]:
    absolute = st.booleans() if axes == ALL_AXES else st.just(False)
    inner = (
        st.lists(st.deferred(lambda: trees(positions=True, depth=depth - 1, axes=axes)), max_size=1)
        if depth
        else st.just([])
    )
    predicates = st.one_of(st.just(()), inner.map(tuple))
    some = st.lists(steps(predicates, axes), min_size=1, max_size=3).map(tuple)
    paths = st.one_of(
        st.builds(Path, some, absolute),
        st.builds(Path, some, absolute),
        st.just(Path((), True)) if axes == ALL_AXES else st.just(Path((Step("self", ANY_NODE),))),
    )
    if not depth:
        return paths
    deeper = st.deferred(lambda: node_sets(positions=positions, depth=depth - 1, axes=axes))
    some_predicates = st.lists(
        st.deferred(lambda: trees(positions=True, depth=depth - 1, axes=axes)),
        min_size=1,
        max_size=2,
    ).map(tuple)
    return st.one_of(
        paths,
        paths,
        paths,
        st.builds(Path, some, st.just(False), deeper),
        st.builds(Filtered, deeper, some_predicates),
        st.builds(Operation, st.just("|"), deeper, deeper),
        st.builds(lambda argument: Call("id", (argument,)), _values(positions, 0, axes)),
    )


OPERATORS = ["or", "and", "=", "!=", "<", "<=", ">", ">=", "+", "-", "*", "div", "mod"]


@cache
def _values(positions: bool, depth: int, axes: tuple[str, ...]) -> st.SearchStrategy[Node]:
    if not depth:
        return st.one_of(LITERALS, NUMBERS)
    deeper = st.deferred(lambda: trees(positions=positions, depth=depth - 1, axes=axes))
    return st.one_of(
        LITERALS,
        NUMBERS,
        st.builds(Operation, st.sampled_from(OPERATORS), deeper, deeper),
        st.builds(Operation, st.sampled_from(OPERATORS), deeper, deeper),
        st.builds(Negative, deeper),
        st.sampled_from(sorted(FUNCTIONS)).flatmap(
            lambda name: _calls(name, positions, depth, axes)
        ),
    )


@cache
def _calls(
    name: str, positions: bool, depth: int, axes: tuple[str, ...]
) -> st.SearchStrategy[Node]:
    if name in ("position", "last") and not positions:
        name = "true"
    function = FUNCTIONS[name]
    argument = (node_sets if function.takes == NODE_SET else trees)(
        positions=positions, depth=depth - 1, axes=axes
    )
    most = 4 if function.most is None else function.most
    arguments = st.lists(argument, min_size=function.fewest, max_size=most).map(tuple)
    return st.builds(Call, st.just(name), arguments)


@st.composite
def elements(draw: st.DrawFn, depth: int = 3) -> str:
    """The text of an element; ``p``, ``and`` and ``s`` are bound around it."""
    name = draw(st.sampled_from(["a", "b", "c", "p:a", "p:b", "and:and", "div"]))
    attributes = draw(st.sets(st.sampled_from(["a='1'", "b='x'", "p:a='2'", "xml:lang='en'"])))
    content = st.sampled_from(["1", "2", "x", "", " 1 ", "<!--c-->", "<?x y?>"])
    if depth:
        content = st.one_of(content, elements(depth - 1), elements(depth - 1))
    inside = "".join(draw(st.lists(content, max_size=3)))
    return f"<{' '.join([name, *sorted(attributes)])}>{inside}</{name}>"


def declared(element: str) -> str:
    """*element* with the prefixes declared on it."""
    name, rest = element[1:].replace("/>", " />", 1).split(">", 1)[0], element
    first = name.split(" ", 1)[0]
    scope = " ".join(f"xmlns:{prefix}='{uri}'" for prefix, uri in NAMESPACES)
    return f"<{first} {scope}{rest[len(first) + 1 :]}"
