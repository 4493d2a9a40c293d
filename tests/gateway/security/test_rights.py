"""Rules grant, nothing else does; topics bound publishing and subscribing."""

import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filters import Step, Topic, TopicPattern, parse_clark, parse_expression
from filters.dialects import TOPIC_FULL
from filters.filter import Expression
from gateway.security.rights import ALL_RIGHTS, BY_TOPIC, Policy, Right, Rule, read_topics
from tests.rigs.examples import examples

HARBOUR = Rule(
    1, frozenset({"role:harbour"}), frozenset({Right.PUBLISH}), read_topics(["weather//."], {})
)
MOLE = Rule(2, frozenset({"user:mole"}), frozenset({Right.SUBSCRIBE, Right.MANAGE}))
ALL = Rule(3, frozenset({"everybody"}), frozenset({Right.READ}))
POLICY = Policy([HARBOUR, MOLE, ALL])


@pytest.mark.parametrize(
    ("names", "right", "topic", "rule"),
    [
        (["user:mole"], Right.SUBSCRIBE, "anything", 2),
        (["user:mole"], Right.SUBSCRIBE, None, 2),
        (["user:mole"], Right.PUBLISH, "weather", None),
        (["user:mole", "role:harbour"], Right.PUBLISH, "weather/storms", 1),
        (["user:mole", "role:harbour"], Right.PUBLISH, "storms", None),
        (["role:harbour"], Right.PUBLISH, None, None),
        (["role:harbour"], Right.READ, None, 3),
        (["user:harbour"], Right.PUBLISH, "weather", None),
        ([], Right.OPERATE, None, None),
    ],
)
def test_which_rule_decides(
    names: list[str], right: Right, topic: str | None, rule: int | None
) -> None:
    grants = POLICY.grants(names)
    on = parse_clark(topic) if topic else None
    found = grants.rule_for(right, on)
    assert (found.number if found else None) == rule
    for _ in range(2):  # The second time it is remembered.
        assert grants.allows(right, on) is (rule is not None)


@pytest.mark.parametrize(
    ("pattern", "may"),
    [("weather/storms", True), ("//*", True), ("*", True), ("tides//.", False), ("tides", False)],
)
def test_a_pattern_may_match_what_is_granted(pattern: str, may: bool) -> None:
    grants = POLICY.grants(["role:harbour"])
    assert grants.may_match(Right.PUBLISH, parse_expression(Expression(pattern, TOPIC_FULL))) is may
    assert not grants.may_match(Right.SUBSCRIBE, parse_expression(Expression("*", TOPIC_FULL)))


_NAMES = st.sampled_from(["user:a", "user:b", "role:c", "anonymous", "everybody"])
_RULES = st.lists(
    st.tuples(
        st.frozensets(_NAMES, min_size=1), st.frozensets(st.sampled_from(sorted(Right, key=str)))
    ),
    max_size=6,
)


@given(_RULES, st.frozensets(_NAMES))
def test_rights_are_the_union_of_rules_for_ones_names(
    rows: list[tuple[frozenset[str], frozenset[Right]]], names: frozenset[str]
) -> None:
    policy = Policy([Rule(n, who, rights) for n, (who, rights) in enumerate(rows, start=1)])
    wanted: Iterable[frozenset[Right]] = (
        rights for who, rights in rows if who & (names | {"everybody"})
    )
    assert policy.grants(names).rights == frozenset[Right]().union(*wanted) <= ALL_RIGHTS


def test_many_rules_are_gathered_once() -> None:
    """What rules grant is gathered once for a set of names, and not by a look at all rules."""
    rules = [Rule(n, frozenset({f"user:{n}"}), frozenset({Right.PUBLISH})) for n in range(10_000)]
    policy = Policy(rules)
    grants = policy.grants(["user:77"])
    assert grants.rule_for(Right.PUBLISH, None) is rules[77]
    assert policy.grants(["user:77"]) is grants


NAMESPACES = (("t", "urn:t"), ("u", "urn:u"))
_STEP_NAME = st.sampled_from(["a", "b", "c"])
_PREFIX = st.sampled_from(["", "t:", "u:"])
_ROOT = st.builds(
    "{}{}{}".format, _PREFIX, st.sampled_from(["", "", "//"]), _STEP_NAME | st.just("*")
)
_CHILD = st.builds(
    "{}{}".format,
    st.sampled_from(["/", "/", "//"]),
    st.builds("{}{}".format, _PREFIX, _STEP_NAME) | st.sampled_from(["*", "."]),
)
_PATH = st.builds("{}{}".format, _ROOT, st.lists(_CHILD, max_size=3).map("".join))
_EXPRESSION = st.lists(_PATH, min_size=1, max_size=2).map("|".join)
_TOPIC = st.builds(
    Topic,
    st.lists(
        st.builds(Step, st.sampled_from([None, "urn:t", "urn:u"]), _STEP_NAME),
        min_size=1,
        max_size=4,
    ).map(tuple),
)
_TOPIC_RULES = st.lists(
    st.builds(
        Rule,
        st.integers(1, 100),
        st.frozensets(_NAMES, min_size=1),
        st.frozensets(st.sampled_from(sorted(Right, key=str))),
        st.lists(_EXPRESSION, max_size=3).map(lambda texts: read_topics(texts, dict(NAMESPACES))),
    ),
    max_size=30,
    unique_by=lambda rule: rule.number,
)


@settings(max_examples=examples(day=200, night=5000))
@given(
    _TOPIC_RULES,
    st.frozensets(_NAMES),
    st.sampled_from(sorted(Right, key=str)),
    st.lists(_TOPIC | st.none(), max_size=5),
    st.lists(_EXPRESSION, max_size=5),
)
def test_an_index_finds_what_a_look_at_each_rule_does(
    rules: list[Rule],
    names: frozenset[str],
    right: Right,
    topics: list[Topic | None],
    expressions: list[str],
) -> None:
    """The first rule by number that grants a right on a topic, and whether one does on some topic
    of an expression, for any rules."""
    mine = [
        one
        for one in sorted(rules, key=lambda one: one.number)
        if one.who & (names | {"everybody"})
    ]
    grants = Policy(rules).grants(names)
    for topic in topics:
        first = next((one for one in mine if one.grants(right, topic)), None)
        assert grants.rule_for(right, topic) is first
        for _ in range(2):  # The second time it is remembered.
            assert grants.allows(right, topic) is (first is not None)
    for text in expressions:
        pattern = parse_expression(Expression(text, TOPIC_FULL, NAMESPACES))
        may = any(
            right in one.rights
            and (
                not one.topics
                or right not in BY_TOPIC
                or any(own.overlaps(pattern) for own in one.topics)
            )
            for one in mine
        )
        assert grants.may_match(right, pattern) is may


@pytest.mark.parametrize(
    ("expression", "granted", "refused"),
    [
        pytest.param("site{n}//.", "site{n}/event{e}", "site{n}x/{e}", id="a subtree each"),
        pytest.param("plant/unit{n}", "plant/unit{n}", "plant/unit{n}x{e}", id="a topic each"),
        pytest.param("r{m}/line{k}//.", "r{m}/line{k}/{e}", "r{m}/{e}/line{k}", id="two names"),
        pytest.param("*/line{n}//.", "x{e}/line{n}", "x{e}/x/line{n}", id="behind a wildcard"),
        pytest.param("t:*//.", "{{urn:{n}}}event{e}", "event{e}", id="a namespace each"),
    ],
)
def test_a_decision_looks_at_few_of_many_rules(
    expression: str, granted: str, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On topics that were never asked for, with 10,000 rules for everybody: a flood of new ones
    would else block the gateway."""

    def filled(text: str, n: int, event: int = 0) -> str:
        return text.format(n=n, m=n // 100, k=n % 100, e=event)

    everybody, publish = frozenset({"everybody"}), frozenset({Right.PUBLISH})
    rules = [
        Rule(n, everybody, publish, read_topics([filled(expression, n)], {"t": f"urn:{n}"}))
        for n in range(10_000)
    ]
    grants = Policy(rules).grants([])
    looked = 0
    matches = TopicPattern.matches

    def counted(pattern: TopicPattern, topic: Topic) -> bool:
        nonlocal looked
        looked += 1
        return matches(pattern, topic)

    monkeypatch.setattr(TopicPattern, "matches", counted)
    for event in range(100):
        n = event * 97
        assert grants.rule_for(Right.PUBLISH, parse_clark(filled(granted, n, event))) is rules[n]
        assert not grants.allows(Right.PUBLISH, parse_clark(filled(refused, n, event)))
    assert looked < 200 * 10


def test_what_rules_grant_is_kept_once() -> None:
    """However many principals have the same 10,000 rules: else 4,096 took gigabytes."""
    everybody, publish = frozenset({"everybody"}), frozenset({Right.PUBLISH})
    policy = Policy(
        [Rule(n, everybody, publish, read_topics([f"site{n}//."], {})) for n in range(10_000)]
    )
    topic = parse_clark("site9/a")
    tracemalloc.start()
    try:
        for n in range(500):
            assert policy.grants([f"user:{n}"]).allows(Right.PUBLISH, topic)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 500 * 8_000
