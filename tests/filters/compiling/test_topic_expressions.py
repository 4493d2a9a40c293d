import itertools

import pytest

from filters import (
    DEFAULT_TOPIC,
    KNOWN_PREFIXES,
    Expression,
    FilterError,
    Reason,
    Step,
    Topic,
    TopicPattern,
    parse_expression,
    parse_topics,
    topic_dialects,
)
from filters.dialects import (
    SPELLINGS,
    TOPIC_CONCRETE,
    TOPIC_CONCRETE_SET,
    TOPIC_FULL,
    TOPIC_IBM_SIMPLE,
    TOPIC_SIMPLE,
    TOPIC_SYNAPSE,
    TOPIC_WSO2,
    XPATH_1_0,
)
from tests.rigs.cases import for_each
from tests.rigs.pace import pace

NAMESPACES = (("", "urn:default"), ("t", "urn:t"), ("u", "urn:u"))


def pattern(text: str, dialect: str = TOPIC_FULL) -> TopicPattern:
    return parse_expression(Expression(text, dialect, NAMESPACES))


def topic(text: str) -> Topic:
    """A concrete topic, with the prefixes t and u."""
    steps = []
    for piece in text.split("/"):
        prefix, colon, name = piece.rpartition(":")
        steps.append(Step(f"urn:{prefix}" if colon else None, name))
    return Topic(tuple(steps))


MATCHES = [
    # The test table of WS-Notification's reference, section 3.3.
    ("t:a", "t:a", True),
    ("t:a", "t:a/b", False),
    ("t:a/*", "t:a/b", True),
    ("t:a/*", "t:a", False),
    ("t:a/*", "t:a/b/c", False),
    ("t:a//.", "t:a", True),
    ("t:a//.", "t:a/b/c", True),
    ("t:a//*", "t:a", False),
    ("t:a//*", "t:a/b", True),
    ("t:a/b|t:x", "t:x", True),
    ("t:a//c", "t:a/c", True),
    ("t:a//c", "t:a/b/c", True),
    ("t:a//c", "t:a/b/c/d", False),
    ("t:a/*/c", "t:a/b/c", True),
    ("t:*", "t:a/b", False),
    ("t:*//.", "t:a/b/c", True),
    ("t://c", "t:c", True),
    ("t://c", "t:a/b/c", True),
    ("t://c", "t:a/c/d", False),
    ("a", "t:a", False),
    # The forms of its table of operators.
    ("t:a/b", "t:a/b", True),
    ("t:a/b", "u:a/b", False),
    ("t:a/b", "t:a/t:b", False),
    ("t:a/t:b", "t:a/t:b", True),
    ("t:a/.", "t:a", True),
    ("t:a/.", "t:a/b", False),
    ("t:a//*", "t:a/b/c", True),
    ("t:a/*", "t:a/u:b", True),
    ("t:*", "t:a", True),
    ("t:*", "u:a", False),
    ("t:*", "a", False),
    ("t:*//.", "t:a", True),
    ("t:*//.", "u:a/b", False),
    ("t://c", "u:c", False),
    ("t://c", "u:a/c", False),
    ("t://c", "t:a/u:c", False),
    ("t://c", "t:a/t:c", True),
    ("t://*", "t:a/b", True),
    ("//c", "c", True),
    ("//c", "a/b/c", True),
    ("//c", "t:c", False),
    ("t:a//./b", "t:a/x/y/b", True),
    ("t:a//.//.", "t:a", True),
    ("t:a/./b", "t:a/b", True),
    ("t:a/./b", "t:a/x/b", False),
    (" t:a | t:x ", "t:a", True),
    ("t:a//b//c", "t:a/b/x/b/c", True),
    ("t:a//b/c", "t:a/b/b/c", True),
    ("t:a//b/c", "t:a/b/x/c", False),
    # The default topic is in no namespace.
    ("wseTopic", "wseTopic", True),
    ("*", "wseTopic", True),
    ("*//.", "wseTopic", True),
    ("//wseTopic", "wseTopic", True),
    ("t:wseTopic", "wseTopic", False),
    ("t:*", "wseTopic", False),
    ("t:*//.", "wseTopic", False),
    ("*", "t:wseTopic", False),
]


@for_each(("expression", "text", "verdict"), MATCHES)
def test_match(expression: str, text: str, verdict: bool) -> None:
    assert pattern(expression).matches(topic(text)) is verdict
    assert pattern(expression).overlaps(TopicPattern(pattern(text).paths)) is verdict


def test_default_namespace_does_not_apply() -> None:
    assert not pattern("a").matches(Topic((Step("urn:default", "a"),)))
    assert pattern("wseTopic").matches(DEFAULT_TOPIC)


DIALECTS = [
    (TOPIC_SIMPLE, "t:a", True),
    (TOPIC_SIMPLE, "a", True),
    (TOPIC_SIMPLE, "\n t:a\t", True),
    (TOPIC_SIMPLE, "t:a/b", False),
    (TOPIC_SIMPLE, "t:a|t:b", False),
    (TOPIC_SIMPLE, "t:*", False),
    (TOPIC_SIMPLE, "*", False),
    (TOPIC_SIMPLE, "t://a", False),
    (TOPIC_SIMPLE, "", False),
    (TOPIC_CONCRETE, "t:a/b/u:c", True),
    (TOPIC_CONCRETE, "t:a", True),
    (TOPIC_CONCRETE, "t:a/*", False),
    (TOPIC_CONCRETE, "t:*", False),
    (TOPIC_CONCRETE, "t:a//b", False),
    (TOPIC_CONCRETE, "t:a//.", False),
    (TOPIC_CONCRETE, "t:a/.", False),
    (TOPIC_CONCRETE, "t:a|t:b", False),
    (TOPIC_CONCRETE, "t://a", False),
    (TOPIC_CONCRETE_SET, "t:a/b//.|u:c", True),
    (TOPIC_CONCRETE_SET, "t:a//.", True),
    (TOPIC_CONCRETE_SET, "t:a/.", False),
    (TOPIC_CONCRETE_SET, "t:a//b", False),
    (TOPIC_CONCRETE_SET, "t:a//b//.", False),
    (TOPIC_CONCRETE_SET, "t:a//./b", False),
    (TOPIC_CONCRETE_SET, "t:a/*", False),
    (TOPIC_CONCRETE_SET, "t:*//.", False),
    (TOPIC_CONCRETE_SET, "t://a", False),
    (TOPIC_FULL, "*", True),
    (TOPIC_FULL, "//*", True),
    (TOPIC_FULL, "t:a/b | t:*//u:c/.", True),
    (TOPIC_FULL, "orders/2024/new", True),
    (TOPIC_FULL, "", False),
    (TOPIC_FULL, "|", False),
    (TOPIC_FULL, "t:a|", False),
    (TOPIC_FULL, "t:a||t:b", False),
    (TOPIC_FULL, "/t:a", False),
    (TOPIC_FULL, "t:a/", False),
    (TOPIC_FULL, "t:a//", False),
    (TOPIC_FULL, "t:a///b", False),
    (TOPIC_FULL, "t:a/..", False),
    (TOPIC_FULL, "t:a/b*", False),
    (TOPIC_FULL, "t:a/t:*", False),
    (TOPIC_FULL, "t:a b", False),
    (TOPIC_FULL, "t:", False),
    (TOPIC_FULL, ":a", False),
    (TOPIC_FULL, "t::a", False),
    (TOPIC_FULL, ":*", False),
    (TOPIC_FULL, "://a", False),
    (TOPIC_FULL, ".", False),
    (TOPIC_FULL, "//", False),
    (TOPIC_FULL, "t://", False),
    (TOPIC_FULL, "t:///a", False),
    (TOPIC_FULL, "t://u:a", False),
    (TOPIC_FULL, "x:*", False),
    (TOPIC_FULL, "x://a", False),
    (TOPIC_FULL, "a[1]", False),
    (TOPIC_FULL, "t:a@b", False),
    (TOPIC_SYNAPSE, "/a/b/", True),
    (TOPIC_SYNAPSE, "a//b", False),
    (TOPIC_SYNAPSE, "", False),
]


@for_each(("dialect", "text", "valid"), DIALECTS)
def test_grammar(dialect: str, text: str, valid: bool) -> None:
    if valid:
        assert pattern(text, dialect).paths
        return
    with pytest.raises(FilterError) as caught:
        pattern(text, dialect)
    assert caught.value.reason is Reason.TOPIC_INVALID
    assert len(caught.value.text) < 200


SPELT = [
    ("", TOPIC_SIMPLE),
    (f"\n  {TOPIC_FULL} ", TOPIC_FULL),
    ("http://docs.oasis-open.org/wsn/t1/TopicExpression/Simple", TOPIC_SIMPLE),
    (" http://docs.oasis-open.org/wsn/t1/TopicExpression/Simple\t", TOPIC_SIMPLE),
    ("http://docs.oasis-open.org/wsnt/t-1/TopicExpression/ConcreteSet", TOPIC_CONCRETE_SET),
    ("http://docs.oasis-open.org/wsn/2004/06/TopicExpression/Simple", TOPIC_SIMPLE),
    ("http://docs.oasis-open.org/wsn/2004/06/TopicExpression/Concrete", TOPIC_CONCRETE),
    ("http://docs.oasis-open.org/wsn/2004/06/TopicExpression/Full", TOPIC_FULL),
    (
        "http://www.ibm.com/xmlns/stdwip/web-services/WSTopics/TopicExpression/simple",
        TOPIC_IBM_SIMPLE,
    ),
    (
        "http://www.ibm.com/xmlns/stdwip/web-services/WS-Topics/TopicExpression/full",
        TOPIC_FULL,
    ),
]


@pytest.mark.parametrize(("spelt", "meant"), SPELT)
def test_spelling(spelt: str, meant: str) -> None:
    assert pattern("t:a", spelt) == pattern("t:a", meant)
    assert parse_topics("t:a", spelt, NAMESPACES) == parse_topics("t:a", meant, NAMESPACES)


def test_every_spelling_means_a_dialect_we_support() -> None:
    topics = [spelt for spelt, meant in SPELLINGS.items() if meant in topic_dialects()]
    assert {SPELLINGS[spelt] for spelt in SPELLINGS.keys() - set(topics)} <= {XPATH_1_0}
    for dialect in [*topics, *topic_dialects()]:
        assert pattern("t:a", dialect).paths


@pytest.mark.parametrize("dialect", ["urn:unknown", XPATH_1_0, "simple"])
def test_unknown_dialect(dialect: str) -> None:
    with pytest.raises(FilterError) as caught:
        pattern("t:a", dialect)
    assert caught.value.reason is Reason.TOPIC_DIALECT
    assert caught.value.names == topic_dialects()
    with pytest.raises(FilterError):
        parse_topics("t:a", dialect, NAMESPACES)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("ihe:FullDocumentEntry", (Step("urn:ihe:iti:dsub:2009", "FullDocumentEntry"),)),
        ("tns1:A/B", (Step("http://www.onvif.org/ver10/topics", "A"), Step(None, "B"))),
        (
            "tns1:A/tnsaxis:B",
            (
                Step("http://www.onvif.org/ver10/topics", "A"),
                Step("http://www.axis.com/2009/event/topics", "B"),
            ),
        ),
    ],
)
@pytest.mark.parametrize("dialect", [TOPIC_CONCRETE, TOPIC_FULL, TOPIC_CONCRETE_SET])
def test_a_prefix_that_everybody_knows_needs_no_declaration(
    text: str, known: tuple[Step, ...], dialect: str
) -> None:
    """Half of the parties of IHE DSUB declare theirs, and half do not."""
    declared = text.replace("ihe:", "i:").replace("tns1:", "o:").replace("tnsaxis:", "x:")
    scope = (
        ("i", KNOWN_PREFIXES["ihe"]),
        ("o", KNOWN_PREFIXES["tns1"]),
        ("x", KNOWN_PREFIXES["tnsaxis"]),
    )
    for subscribed, published in itertools.product(((text, ()), (declared, scope)), repeat=2):
        [topic] = parse_topics(published[0], TOPIC_CONCRETE, published[1])
        assert topic == Topic(known)
        assert parse_expression(Expression(subscribed[0], dialect, subscribed[1])).matches(topic)


def test_a_declaration_wins_over_what_everybody_knows() -> None:
    [topic] = parse_topics("ihe:A", TOPIC_CONCRETE, (("ihe", "urn:other"),))
    assert topic == Topic((Step("urn:other", "A"),))


@pytest.mark.parametrize(
    "text", ["x:1", "a:b:c", "t:b:c", "t:a/x:b", "x:b/t:a", ":a", "t:", "a|x:b"]
)
def test_other_undeclared_prefixes_are_refused_on_both_sides(text: str) -> None:
    """Who publishes with one names no topic: to take it would be to deliver to nobody, silently."""
    for refused in (
        lambda: parse_topics(text, TOPIC_CONCRETE, NAMESPACES),
        lambda: pattern(text, TOPIC_FULL),
    ):
        with pytest.raises(FilterError) as caught:
            refused()
        assert caught.value.reason is Reason.TOPIC_INVALID


def test_the_refusal_names_the_prefix() -> None:
    with pytest.raises(
        FilterError, match=r'^the prefix "x" of the topic expression is not declared$'
    ):
        pattern("t:a/x:b")


@for_each(
    ("expression", "names", "verdict"),
    [
        ("a", ["a"], True),
        ("w:a", ["a"], True),
        ("undeclared:a", ["a"], True),
        (" w:a ", ["a"], True),
        ("a:b:c", ["b:c"], True),
        ("a:b:c", ["c"], False),
        (">", ["anything", "at", "all"], True),
        ("widget:>", ["wseTopic"], True),
        ("", ["a"], True),
        ("widget:/Test", ["/Test"], True),
        ("widget:/Test", ["Test"], False),
        ("a/b", ["a", "b"], True),
        ("a/b", ["a/b"], True),
        ("a", ["a", "b"], False),
        ("*", ["a"], False),
        ("*", ["*"], True),
        ("a b|c", ["a b|c"], True),
        ("A", ["a"], False),
    ],
)
def test_ibm(expression: str, names: list[str], verdict: bool) -> None:
    compiled = pattern(expression, TOPIC_IBM_SIMPLE)
    for namespace in (None, "urn:t", "urn:other"):
        root, *children = names
        of_namespace = Topic((Step(namespace, root), *(Step(None, child) for child in children)))
        assert compiled.matches(of_namespace) is verdict


@pytest.mark.parametrize("dialect", [TOPIC_SYNAPSE, TOPIC_WSO2])
def test_synapse(dialect: str) -> None:
    compiled = pattern("/a/b", dialect)
    assert compiled.matches(topic("a/b"))
    assert compiled.matches(topic("a/b/c"))
    assert compiled.matches(topic("t:a/b/c"))
    assert not compiled.matches(topic("a"))
    assert not compiled.matches(topic("a/bc"))
    assert pattern("t:a", dialect).matches(topic("t:a/b"))
    assert not pattern("t:a", dialect).matches(topic("a/b"))


NOTIFIED = [
    ("t:a/b", TOPIC_CONCRETE, ["t:a/b"]),
    ("t:a/b", TOPIC_SIMPLE, ["t:a/b"]),
    ("t:a", "", ["t:a"]),
    ("  t:a  ", TOPIC_FULL, ["t:a"]),
    ("t:a|t:b", TOPIC_CONCRETE_SET, ["t:a", "t:b"]),
    ("t:a | t:a/b | t:a", TOPIC_FULL, ["t:a", "t:a/b"]),
    ("t:a//.", TOPIC_CONCRETE_SET, ["t:a"]),
    ("t:a/.", TOPIC_FULL, ["t:a"]),
    ("t:a/b//.|u:c/.", TOPIC_FULL, ["t:a/b", "u:c"]),
    ("wseTopic", TOPIC_SIMPLE, ["wseTopic"]),
    ("w:a", TOPIC_IBM_SIMPLE, ["a"]),
    ("a", TOPIC_IBM_SIMPLE, ["a"]),
    ("/a/b/", TOPIC_SYNAPSE, ["a/b"]),
]


@pytest.mark.parametrize(("text", "dialect", "topics"), NOTIFIED)
def test_topic_of_a_notification(text: str, dialect: str, topics: list[str]) -> None:
    assert parse_topics(text, dialect, NAMESPACES) == tuple(map(topic, topics))


def test_topic_of_a_notification_of_ws_messenger() -> None:
    for text, name in [("w:a:b", "a:b"), ("w:/a/b", "/a/b"), ("a b", "a b")]:
        assert parse_topics(text, TOPIC_IBM_SIMPLE, ()) == (Topic((Step(None, name),)),)
    assert parse_topics("", TOPIC_IBM_SIMPLE, ()) == ()
    assert parse_topics("w:", TOPIC_IBM_SIMPLE, ()) == ()


@for_each(
    ("text", "dialect"),
    [
        ("t:*", TOPIC_FULL),
        ("*", TOPIC_FULL),
        ("*//.", TOPIC_FULL),
        ("t:a//b", TOPIC_FULL),
        ("t:a/*", TOPIC_FULL),
        ("t://a", TOPIC_FULL),
        ("t:a|t:*", TOPIC_FULL),
        ("", TOPIC_SIMPLE),
        ("/", TOPIC_CONCRETE),
        ("//.", TOPIC_CONCRETE),
        ("/.", TOPIC_CONCRETE),
        ("t:a|", TOPIC_CONCRETE),
        (">", TOPIC_IBM_SIMPLE),
        ("w:>", TOPIC_IBM_SIMPLE),
        ("a" * 4097, TOPIC_SIMPLE),
        ("a" * 4097, TOPIC_IBM_SIMPLE),
        ("é" * 2049, TOPIC_SIMPLE),
        ("|".join(["t:a"] * 65), TOPIC_FULL),
        ("/".join(["a"] * 65), TOPIC_CONCRETE),
        ("/" * 4000, TOPIC_CONCRETE),
    ],
)
def test_no_topic_of_a_notification(text: str, dialect: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_topics(text, dialect, NAMESPACES)
    assert caught.value.reason is Reason.TOPIC_INVALID


def test_a_namespace_with_braces_is_no_uri() -> None:
    for text in ["p:a", "p:*", "p://a"]:
        with pytest.raises(FilterError):
            parse_expression(Expression(text, TOPIC_FULL, (("p", "u}r{i"),)))


@pytest.mark.parametrize(
    "text",
    [
        "t:" + "a" * 4095,
        "|".join(["t:a"] * 65),
        "/".join(["a"] * 65),
        "/." * 2000,
        "a" + "//*" * 64,
        "a" + "//." * 1300,
        "/" * 4096,
        "|" * 4096,
        "(" * 4096,
    ],
)
def test_costly_expressions_are_refused_at_once(text: str) -> None:
    """Q06: over the limits of section 3."""

    def refused() -> None:
        with pytest.raises(FilterError) as caught:
            pattern(text)
        assert caught.value.reason is Reason.TOPIC_INVALID

    assert pace(refused, enough=2) < 2


@pytest.mark.parametrize(
    "text",
    [
        "t:a" + "//*" * 62,
        "|".join(["t:a" + "//*" * 20] * 60),
        "|".join(f"t:a{'//*//b' * 9}{n}" for n in range(60)),
        "|".join(["t:a" + "//a" * 8 + f"{n}" for n in range(64)]),
    ],
)
def test_matching_is_linear(text: str) -> None:
    """Q06: each in less than twice the time of a small piece of work."""
    compiled = pattern(text)
    deep = topic("t:a" + "/a" * 63 + "/z")
    assert pace(lambda: [compiled.matches(deep) for _ in range(10)], enough=20) < 20
    other = pattern("t:*" + "//q" * 60 + "//.")
    assert pace(lambda: compiled.overlaps(other), enough=200) < 200


@pytest.mark.parametrize(
    "text",
    [
        "t:" + "a" * 4094,
        "|".join(f"t:a{n}" for n in range(64)),
        "/".join(["a"] * 64),
        "t://a" + "//a" * 62 + "//.",
    ],
)
def test_at_the_limits(text: str) -> None:
    assert pattern(text).paths


def test_limits_are_those_of_the_caller() -> None:
    expression = Expression("a/b|c", TOPIC_FULL)
    assert parse_expression(expression, max_octets=5, max_alternatives=2, max_steps=2).topics
    for limits in ({"max_octets": 4}, {"max_alternatives": 1}, {"max_steps": 1}):
        with pytest.raises(FilterError):
            parse_expression(expression, **limits)
