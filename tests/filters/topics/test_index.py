"""The index finds what a look at each of its patterns does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from filters import Topic
from filters.topics import TopicIndex
from tests.filters.topics.test_patterns import TOPIC, compiled, expression
from tests.rigs.examples import examples


@settings(max_examples=examples(day=200, night=5000))
@given(
    st.lists(st.lists(expression(3), max_size=2), max_size=12),
    st.sets(st.integers(0, 11)),
    st.lists(TOPIC, min_size=1, max_size=4),
)
def test_values_by_topic(filters: list[list[str]], removed: set[int], topics: list[Topic]) -> None:
    index = TopicIndex[int]()
    patterns = {n: tuple(map(compiled, texts)) for n, texts in enumerate(filters)}
    for n, those in patterns.items():
        index.add(n, those)
    for gone in (frozenset[int](), removed & patterns.keys()):
        for n in gone:
            index.remove(n)
        for topic in topics:
            wanted = {
                n
                for n, those in patterns.items()
                if n not in gone and all(one.matches(topic) for one in those)
            }
            for found in (index.search(topic), index.find(topic)):
                assert (set(found), len(found)) == (wanted, len(wanted))
