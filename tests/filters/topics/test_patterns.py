"""Patterns against the plain evaluation of the specification, and against enumeration."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from filters import Expression, Step, Topic, TopicPattern, parse_expression
from filters.dialects import TOPIC_FULL
from tests.rigs.examples import examples

PREFIXES: dict[str, str | None] = {"": None, "t": "urn:t", "u": "urn:u"}
NAMESPACES = (("t", "urn:t"), ("u", "urn:u"))

PREFIX = st.sampled_from(["", "t:", "u:"])
NAME = st.sampled_from(["a", "b"])
ROOT = st.builds("{}{}{}".format, PREFIX, st.sampled_from(["", "//"]), NAME | st.just("*"))
CHILD = st.builds(
    "{}{}".format,
    st.sampled_from(["/", "//"]),
    st.builds("{}{}".format, PREFIX, NAME) | st.sampled_from(["*", "."]),
)
STEP = st.builds(Step, st.sampled_from(list(PREFIXES.values())), NAME)
TOPIC = st.builds(Topic, st.lists(STEP, min_size=1, max_size=6).map(tuple))


def path(most: int) -> st.SearchStrategy[str]:
    return st.builds("{}{}".format, ROOT, st.lists(CHILD, max_size=most).map("".join))


def expression(most: int) -> st.SearchStrategy[str]:
    return st.lists(path(most), min_size=1, max_size=3).map("|".join)


def compiled(text: str) -> TopicPattern:
    return parse_expression(Expression(text, TOPIC_FULL, NAMESPACES))


def evaluate(alternative: str, topic: Topic) -> bool:
    """``go(step, level)`` as WS-Notification's reference has it, section 3.3."""
    prefix, _, rest = alternative.partition(":") if ":" in alternative.split("/")[0] else ("",) * 3
    rest = rest or alternative
    namespace = PREFIXES[prefix]
    if topic.steps[0].namespace != namespace:
        return False
    steps: list[tuple[bool, str]] = []
    descendant = rest.startswith("//")
    for piece in rest.removeprefix("//").split("/"):
        if piece:
            steps.append((descendant, piece))
        descendant = not piece

    def accepts(position: int, test: str, step: Step) -> bool:
        if position == 0:
            inherited = step is topic.steps[0] or step.namespace in (None, namespace)
            return inherited and test in ("*", step.name)
        prefix, _, name = test.rpartition(":")
        return test == "*" or step == Step(PREFIXES[prefix], name)

    def go(position: int, level: int) -> bool:
        if position == len(steps):
            return level == len(topic.steps)
        descendant, test = steps[position]
        for k in range(level, (len(topic.steps) if descendant else level) + 1):
            if test == ".":
                if go(position + 1, k):
                    return True
            elif (
                k < len(topic.steps)
                and accepts(position, test, topic.steps[k])
                and go(position + 1, k + 1)
            ):
                return True
        return False

    return go(0, 0)


@settings(max_examples=examples(day=300, night=1500))
@given(expression(4), TOPIC)
def test_matching_is_the_specification(text: str, topic: Topic) -> None:
    expected = any(evaluate(alternative, topic) for alternative in text.split("|"))
    assert compiled(text).matches(topic) is expected


ROOTS = [Step(namespace, name) for namespace in (None, "urn:t", "urn:u") for name in "abz"]
UNIVERSE = [
    Topic(steps) for depth in range(1, 5) for steps in product(ROOTS, *([ROOTS] * (depth - 1)))
]


@settings(max_examples=60, deadline=None)
@given(path(1), path(1))
def test_overlap_is_a_topic_in_common(one: str, other: str) -> None:
    """Two paths of two steps that meet do so within four levels, names of neither included."""
    first, second = compiled(one), compiled(other)
    common = any(first.matches(topic) and second.matches(topic) for topic in UNIVERSE)
    assert first.overlaps(second) is common
    assert second.overlaps(first) is common


@given(expression(4), TOPIC)
def test_a_pattern_finds_its_topics_in_the_index(text: str, topic: Topic) -> None:
    pattern = compiled(text)
    if pattern.matches(topic):
        assert pattern.topics is None or topic in pattern.topics
        roots = pattern.roots()
        assert roots is None or topic.steps[0] in roots


def test_equal_paths_are_equal_patterns() -> None:
    assert compiled("t:a//./b") == compiled("t:a//b")
    assert hash(compiled("t:a|t:a")) == hash(compiled("t:a"))
    assert compiled("t:a") != compiled("a")
