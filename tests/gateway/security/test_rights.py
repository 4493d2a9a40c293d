"""Rules grant, nothing else does; topics bound publishing and subscribing."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import parse_clark, parse_expression
from filters.dialects import TOPIC_FULL
from filters.filter import Expression
from gateway.security.rights import ALL_RIGHTS, Policy, Right, Rule, read_topics

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
    """A decision looks at none of 10,000 rules of others, however often it is made."""
    rules = [Rule(n, frozenset({f"user:{n}"}), frozenset({Right.PUBLISH})) for n in range(10_000)]
    policy = Policy(rules)
    grants = policy.grants(["user:77"])
    assert grants.rules == (rules[77],)
    assert policy.grants(["user:77"]) is grants
