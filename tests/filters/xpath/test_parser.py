import threading
from pathlib import Path as FilePath

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from lxml import etree

from filters import Expression, FilterError, Reason
from filters.xpath import UndeclaredPrefix, compile_xpath, parse
from filters.xpath.parser import is_node_set
from filters.xpath.syntax import (
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
    walk,
)
from filters.xpath.unparse import unparse
from tests.filters.xpath.expressions import NAMESPACES, declared, elements, trees
from tests.rigs.cases import for_each
from tests.rigs.corpus import families, forwarding_filters, messages


def tree(text: str) -> Node:
    return parse(Expression(text, namespaces=NAMESPACES))


def name(local: str, *predicates: Node, axis: str = "child", namespace: str = "") -> Step:
    return Step(axis, NameTest(namespace, local), predicates)


NODE = KindTest("node")
SLASHES = Step("descendant-or-self", NODE)
ONE, TWO = Number("1"), Number("2")
A, B = Path((name("a"),)), Path((name("b"),))

TREES = {
    "a": A,
    "(a)": A,
    " ( ( a ) ) ": A,
    "'it'": Literal("it"),
    '"it\'s"': Literal("it's"),
    "1.": Number("1."),
    ".5": Number(".5"),
    "/": Path((), True),
    "/a": Path((name("a"),), True),
    "//a": Path((SLASHES, name("a")), True),
    "a//b": Path((name("a"), SLASHES, name("b"))),
    ".": Path((Step("self", NODE),)),
    "../a": Path((Step("parent", NODE), name("a"))),
    "@a": Path((name("a", axis="attribute"),)),
    "p:a/p:*/*": Path(
        (
            name("a", namespace="urn:p"),
            Step("child", NameTest("urn:p", None)),
            Step("child", NameTest(None, None)),
        )
    ),
    "@xml:lang": Path(
        (name("lang", axis="attribute", namespace="http://www.w3.org/XML/1998/namespace"),)
    ),
    "self::text()": Path((Step("self", KindTest("text")),)),
    "processing-instruction ( 'x' )": Path(
        (Step("child", KindTest("processing-instruction", "x")),)
    ),
    "a[1][b]": Path((name("a", ONE, B),)),
    "(a)[1]": Filtered(A, (ONE,)),
    "((a)[1])[2]": Filtered(Filtered(A, (ONE,)), (TWO,)),
    "(a)/b": Path((name("b"),), start=A),
    "(a)//b": Path((SLASHES, name("b")), start=A),
    "(a)[1]/b": Path((name("b"),), start=Filtered(A, (ONE,))),
    "id('x')/b": Path((name("b"),), start=Call("id", (Literal("x"),))),
    "concat('x', a, 1)": Call("concat", (Literal("x"), A, ONE)),
    "true()": Call("true", ()),
    "- - a": Negative(Negative(A)),
    "-a|b": Negative(Operation("|", A, B)),
    "-a * b": Operation("*", Negative(A), B),
    "a * -b": Operation("*", A, Negative(B)),
    "1 - 2 - 1": Operation("-", Operation("-", ONE, TWO), ONE),
    "1 - (2 - 1)": Operation("-", ONE, Operation("-", TWO, ONE)),
    "1 + 2 * 1": Operation("+", ONE, Operation("*", TWO, ONE)),
    "a or b and 1 = 2 < 1": Operation(
        "or", A, Operation("and", B, Operation("=", ONE, Operation("<", TWO, ONE)))
    ),
    "div div div": Operation("div", Path((name("div"),)), Path((name("div"),))),
    "* * *": Operation(
        "*",
        Path((Step("child", NameTest(None, None)),)),
        Path((Step("child", NameTest(None, None)),)),
    ),
    "/ = 1": Operation("=", Path((), True), ONE),
    "/ | a": Operation("|", Path((), True), A),
    "/and": Path((name("and"),), True),
    "and:and and and": Operation(
        "and", Path((name("and", namespace="urn:a"),)), Path((name("and"),))
    ),
    "a -b": Operation("-", A, B),
    "a-b": Path((name("a-b"),)),
    # Digits of other scripts begin names.
    "ⁿ": Path((name("ⁿ"),)),
}


@for_each("text", TREES)
def test_tree(text: str) -> None:
    assert tree(text) == TREES[text]


def test_equality_is_of_meaning() -> None:
    assert tree("a[b = 1]") == tree(" a [ child::b=1 ]")
    assert hash(tree("a[b = 1]")) == hash(tree(" a [ child::b=1 ]"))
    assert tree("'1'") != tree("1")
    assert tree("/a") != tree("a")
    assert tree("(a)[1]") != tree("a[1]")


SPANS = [
    ("a", ["a"]),
    (" a [ b ] ", ["a [ b ]", "b"]),
    ("(a or b) and c", ["(a or b) and c", "a or b", "a", "b", "c"]),
    ("boolean( a ) = - 1", ["boolean( a ) = - 1", "boolean( a )", "a", "- 1", "1"]),
    ("(a) [ 1 ] / b", ["(a) [ 1 ] / b", "(a) [ 1 ]", "a", "1"]),
    ("/ | //a", ["/ | //a", "/", "//a"]),
    ("'x y' = .5", ["'x y' = .5", "'x y'", ".5"]),
]


@pytest.mark.parametrize(("text", "pieces"), SPANS)
def test_spans(text: str, pieces: list[str]) -> None:
    found = [text[slice(*node.span)] for node in walk(tree(text))]
    assert sorted(found) == sorted(pieces)


def test_spans_of_steps() -> None:
    text = " /a [ b ] // @c / .. / self :: text ( ) "
    path = tree(text)
    assert isinstance(path, Path)
    pieces = [text[slice(*step.span)] for step in path.steps]
    assert pieces == ["a [ b ]", "//", "@c", "..", "self :: text ( )"]


@given(trees())
def test_unparse_and_parse(node: Node) -> None:
    text = unparse(node, NAMESPACES)
    try:
        again = tree(text)
    except FilterError as error:
        assert error.reason is Reason.FILTER_COSTLY
        assume(False)
    assert again == node
    for part in walk(again):
        # What a node's span holds means the node: it was read to its end, and no further.
        if any(part is call for call in _with_positions(again)):
            continue
        assert tree(text[slice(*part.span)]) == part


def _with_positions(node: Node) -> list[Node]:
    """The nodes that may hold a position of a predicate around them."""
    return [
        part
        for part in walk(node)
        if any(
            isinstance(below, Call) and below.function in ("position", "last")
            for below in walk(part)
        )
    ]


def plain(text: str) -> etree.XPath:
    return etree.XPath(text, namespaces=dict(NAMESPACES), regexp=False)


@given(trees(), st.lists(elements(), min_size=1, max_size=3))
def test_what_has_a_tree_is_evaluated_without_an_error(node: Node, payloads: list[str]) -> None:
    text = unparse(node, NAMESPACES)
    try:
        tree(text)
    except FilterError:
        assume(False)
    compiled = compile_xpath(text, NAMESPACES)
    for payload in payloads:
        assert compiled(etree.fromstring(declared(payload))) in (True, False)


MUTATIONS = st.sampled_from(
    [*"()[]/@,*-|=<!$'\".:a1 {½\x01", "//", "::", "..", "and", " or ", "p:", "count(", "last()"]
)


@given(trees(), st.data())
def test_broken_texts(node: Node, data: st.DataObject) -> None:
    """What libxml2 refuses, at once or while it evaluates, has no tree."""
    text = unparse(node, NAMESPACES)
    for _ in range(data.draw(st.integers(1, 2))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 3)))
        text = text[:start] + data.draw(MUTATIONS) + text[end:]
    try:
        tree(text)
    except FilterError:
        return
    document = etree.fromstring(declared("<c><b id='1' a='1'>1<a>2</a><!--c--></b><p:a/></c>"))
    plain(f"boolean({text})")(document)


NODE_SETS = {
    "a": True,
    "(a)[1]": True,
    "id('a')": True,
    "a | b": True,
    "/": True,
    "count(a)": False,
    "'a'": False,
    "1": False,
    "-a": False,
    "a = b": False,
    "a + b": False,
}


@pytest.mark.parametrize("text", NODE_SETS)
def test_node_sets(text: str) -> None:
    assert is_node_set(tree(text)) is NODE_SETS[text]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a[x:b]", "x"),
        ("a = b c = d", "c"),
        ("a[!b]", "!b]"),
        ("a[b", ""),
        ("foo()", "foo"),
        ("foo::a", "foo"),
        ("count(1)", "count"),
        ("$a", ""),
    ],
)
def test_the_value_of_an_error(text: str, value: str) -> None:
    with pytest.raises(FilterError) as caught:
        tree(text)
    assert caught.value.value == value
    assert isinstance(caught.value, UndeclaredPrefix) is (value == "x")


def test_a_deep_tree_in_a_small_thread() -> None:
    texts = [
        " or ".join(["1"] * 101),
        "-" * 100 + "1",
        "|".join(["a"] * 64),
        "(" * 16 + " or ".join(["1"] * 101) + ")" * 16,
        "a[not(-1 or 2 and 3 = 4 < 5 + 6 * 7 or b | c)]",
        "a[" * 16 + "b" + "]" * 16,
        "not(1 or 1 and 1 = 1 < 1 + 1 * -(" * 8 + "1" + "))" * 8,
    ]
    done = []

    def run() -> None:
        for text in texts:
            node = tree(text)
            assert tree(unparse(node)) == node
            done.append((hash(node), repr(node)))

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(60)
    finally:
        threading.stack_size(before)
    assert len(done) == len(texts)


def test_published_filters(material: FilePath) -> None:
    documents = [
        etree.fromstring(message)
        for family in families(material)
        for message in messages(material, family, every=1500)
    ]
    assert len(documents) >= 3
    matched = 0
    for text, namespaces in forwarding_filters(material):
        node = parse(Expression(text, namespaces=namespaces))
        again = unparse(node, namespaces)
        assert parse(Expression(again, namespaces=namespaces)) == node
        one, other = compile_xpath(text, namespaces), compile_xpath(again, namespaces)
        verdicts = [one(document) for document in documents]
        assert verdicts == [other(document) for document in documents]
        matched += verdicts.count(True)
    assert matched
