from functools import cache

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from lxml import etree

from filters import PAYLOAD, Expression, FilterError, View
from filters.xpath import compile_xpath, relocate
from filters.xpath.syntax import NameTest, Node, Operation, Path, Step
from filters.xpath.unparse import unparse
from tests.filters.xpath.expressions import (
    ALL_AXES,
    NAMESPACES,
    SOAP,
    declared,
    elements,
    node_sets,
    steps,
    trees,
)
from tests.rigs.cases import for_each

ENVELOPE = View("envelope")
PATH = (f"{{{SOAP}}}Envelope", f"{{{SOAP}}}Body")


def moved(text: str) -> str | None:
    expression = Expression(text, "urn:dialect", NAMESPACES, ENVELOPE)
    relocated = relocate(expression, PATH)
    if relocated is None:
        return None
    assert relocated == Expression(relocated.text, "urn:dialect", NAMESPACES, PAYLOAD)
    return relocated.text


MOVED = {
    "/s:Envelope/s:Body/p:a[p:b>1]": "/p:a[p:b > 1]",
    "s:Body/p:a": "/p:a",
    "./s:Body/p:a": "/p:a",
    "/*/s:Body/p:a": "/p:a",
    "/s:*/s:Body/p:a/@b": "/p:a/@b",
    "/s:Envelope/s:Body//p:a": "//p:a",
    "s:Body//p:a[1]/b": "//p:a[1]/b",
    "s:Body/descendant::p:a[2]": "/descendant::p:a[2]",
    "s:Body/*": "/*",
    "s:Body/*/b/..": "/*/b/..",
    "s:Body/./*": "/*",
    "boolean(s:Body/a)": "boolean(/a)",
    "not(s:Body/a)": "not(/a)",
    "s:Body/a = 1 and (s:Body/b or not(s:Body/c = 'x'))": "/a = 1 and (/b or not(/c = 'x'))",
    "count(s:Body/a/b) > 2": "count(/a/b) > 2",
    "s:Body/a | s:Body/b": "/a | /b",
    "(s:Body/a | s:Body//b)[2]/c": "(/a | //b)[2]/c",
    "contains(s:Body/a, 'x')": "contains(/a, 'x')",
    "string-length(s:Body/a) + 1 > 3": "string-length(/a) + 1 > 3",
    "s:Body/a[position() = last()]": "/a[position() = last()]",
    "s:Body/a[b][2]": "/a[b][2]",
    "s:Body/a[.//b]": "/a[.//b]",
    "s:Body/a/b/following-sibling::c": "/a/b/following-sibling::c",
    "s:Body/a[/s:Envelope/s:Body/b]": "/a[/b]",
    "s:Body/a[b/text() = string()]": "/a[b/text() = string()]",
    "s:Body[a/b = 1]": "/a/b = 1",
    "/s:Envelope[s:Body/a]": "/a",
    "/*[s:Body[a or b]][not(s:Body/c)]": "(/a or /b) and not(/c)",
    "s:Body[a]/b": "/a and /b",
    "true()": "true()",
    "1 = 2": "1 = 2",
    "@none or s:Body/a": None,
}


@for_each("text", MOVED)
def test_moved(text: str) -> None:
    assert moved(text) == MOVED[text]


@for_each(
    "text",
    [
        # What lies around the payload.
        "/",
        ".",
        "*",
        "/s:Envelope",
        "s:Body",
        "/s:Envelope/s:Body",
        "s:Header/a",
        "not(s:Header/a)",
        "/s:Envelope/s:Header or s:Body/a",
        "s:Body = 'x'",
        "string() = 'x'",
        "contains(., 'x')",
        "contains(s:Body, 'x')",
        "name() = 'x'",
        "name(s:Body/a/..) = 'x'",
        "s:Body/@id",
        "s:Body/text()/..",
        "@id",
        "s:Body/a/..",
        "s:Body/a/../../s:Header",
        "s:Body//b/..",
        "s:Body/a[../../s:Header]",
        "s:Body/a/ancestor::s:Envelope",
        "s:Body/a/ancestor-or-self::*",
        "s:Body/a/b/following::c",
        "s:Body/a/b/preceding::c",
        "s:Body/following-sibling::a",
        "s:Body//.",
        "s:Body//@id",
        "s:Body//self::s:Body",
        "s:Body/.",
        "s:Body/a/namespace::*",
        # From the top, or to more than the one place.
        "//a",
        "//s:Body/a",
        "//p:a = 1 or s:Body/a",
        "descendant::a",
        "/*/*/a",
        "/s:Envelope/*/a",
        "s:*/a",
        "node()/a",
        "self::*/s:Body/a",
        # Positions, types.
        "s:Body[1]/a",
        "/s:Envelope[1]/s:Body/a",
        "s:Body[last()]/a",
        "s:Body[count(a)]/b",
        "s:Body[position() = 1]/a",
        "count(s:Body[a]/b) = 1",
        "s:Body[a]/b = 1",
        # The whole document, and what ancestors say.
        "id('a')",
        "s:Body/a[id('a')]",
        "s:Body/a[lang('en')]",
        # It cannot match.
        "/p:Envelope/p:Body/a",
        "/Envelope/Body/a",
        "Body/a",
        "/a/b",
        "a/b",
    ],
)
def test_not_moved(text: str) -> None:
    assert moved(text) is None


def test_not_over_a_limit() -> None:
    """Conditions that become a conjunction are operators."""
    text = " or ".join(["s:Body/a[b]"] * 20) + "".join(["+1"] * 81)
    assert moved(text) is not None
    several = f"s:Body[a][{text}]"
    assert moved(several) is None


def test_no_expression() -> None:
    with pytest.raises(FilterError):
        moved("s:Body/")


BODY = (Step("child", NameTest(SOAP, "Body")),)
WAYS = st.sampled_from(
    [
        Path(BODY),
        Path(BODY),
        Path((Step("child", NameTest(SOAP, "Envelope")), *BODY), True),
        Path((Step("child", NameTest(None, None)), *BODY), True),
        Path((Step("child", NameTest(SOAP, None)), *BODY), True),
        Path((), True),
        Path((Step("child", NameTest(SOAP, "Envelope")),), True),
    ]
)
DOWN = ("child", "descendant", "descendant-or-self", "following-sibling", "self", "parent")


def _below(way: Path, node: Node) -> Node:
    """Put *way* in front of the steps of a path."""
    if isinstance(node, Path) and node.start is None and node.steps:
        return Path(way.steps + node.steps, way.absolute)
    return node


@cache
@st.composite
def over_envelopes(draw: st.DrawFn, depth: int = 2) -> Node:
    """Expressions that mostly look into the body."""
    kind = draw(st.sampled_from(["path"] * 4 + ["operation", "body", "any"]))
    if kind == "any":
        return draw(trees(depth=1))
    if kind == "operation" and depth:
        operator = draw(st.sampled_from(["and", "or", "and", "or", "=", "+", "<"]))
        some = over_envelopes(depth - 1)
        return Operation(operator, draw(some), draw(some))
    way = draw(WAYS)
    if kind == "body" and depth and way.steps:
        last = way.steps[-1]
        step = Step(last.axis, last.test, (draw(over_inside(depth - 1)),))
        return Path((*way.steps[:-1], step), way.absolute)
    return _below(way, draw(node_sets(depth=1, axes=draw(st.sampled_from([DOWN, DOWN, ALL_AXES])))))


@cache
def over_inside(depth: int) -> st.SearchStrategy[Node]:
    return st.one_of(trees(positions=True, depth=1, axes=DOWN), over_envelopes(depth))


AROUND = st.sampled_from(["", "<a/>", "<s:Header/>", "<s:Header><a>1</a><p:a>x</p:a></s:Header>"])


@given(over_envelopes(), st.lists(elements(), min_size=1, max_size=4), AROUND, AROUND)
def test_the_verdict_stays(node: Node, payloads: list[str], before: str, after: str) -> None:
    text = unparse(node, NAMESPACES)
    try:
        other = moved(text)
    except FilterError:
        return
    event("moved" if other else "not moved")
    if other is None:
        return
    over_envelope, over_payload = (compile_xpath(each, NAMESPACES) for each in (text, other))
    for payload in map(declared, payloads):
        envelope = etree.fromstring(
            f"<s:Envelope xmlns:s='{SOAP}' xmlns:p='urn:p' id='x'>{before}<s:Body a='1'>{payload}</s:Body>"
            f"{after}</s:Envelope>"
        )
        assert over_envelope(envelope) == over_payload(etree.fromstring(payload))


@given(st.lists(steps(st.just(()), ("child", "attribute")), max_size=4))
def test_what_only_steps_down_moves(below: list[Step]) -> None:
    path = Path((*BODY, Step("child", NameTest(None, None)), *below))
    assert moved(unparse(path, NAMESPACES)) is not None
