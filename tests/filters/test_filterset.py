import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from lxml import etree

from filters import (
    DEFAULT_TOPIC,
    EVERYTHING,
    PAYLOAD,
    Event,
    Expression,
    Filter,
    FilterError,
    FilterSet,
    Step,
    Topic,
    View,
    compile,
)
from filters.dialects import ACTION_DPWS_1_1, TOPIC_CONCRETE, TOPIC_FULL, TOPIC_IBM_SIMPLE
from filters.matching.fallback.verification import Verifier
from filters.matching.fallback.worker import Question, Worker, evaluate_questions
from filters.topics.index import CACHED_TOPICS
from tests.rigs.corpus import forwarding_filters, messages
from tests.rigs.examples import examples
from tests.rigs.pace import pace

NAMESPACES = (("t", "urn:t"), ("u", "urn:u"))


def topic_expression(text: str) -> Expression:
    return Expression(text, TOPIC_FULL, NAMESPACES)


TOPIC_EXPRESSIONS = [
    *map(
        topic_expression,
        ["t:a", "t:a/b", "t:a//.", "t:*", "t:*//.", "t://b", "a", "*//.", "t:a|u:a", "u:a/*/b"],
    ),
    Expression("a", TOPIC_IBM_SIMPLE),
    Expression(">", TOPIC_IBM_SIMPLE),
]
CONTENTS = [
    Expression(text, view=view)
    for text in ["/r/a", "a = 1", "not(b)", "count(a) > 1", "b[count(.) = 1]", "string(1 div a)"]
    for view in [View("payload"), View("envelope"), View("none")]
]
OTHERS = [Expression(text, ACTION_DPWS_1_1) for text in ["urn:x", "urn:x urn:y", "urn:z"]]

FILTERS = st.builds(
    Filter,
    st.lists(st.sampled_from(TOPIC_EXPRESSIONS), max_size=2).map(tuple),
    st.lists(st.sampled_from(CONTENTS), max_size=2).map(tuple),
    st.lists(st.sampled_from(OTHERS), max_size=1).map(tuple),
)
TOPICS = st.builds(
    Topic,
    st.lists(
        st.builds(
            Step, st.sampled_from([None, "urn:t", "urn:u"]), st.sampled_from(["a", "b", "c"])
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
)
PAYLOADS = st.sampled_from([b"<r><a>1</a></r>", b"<r><a/><a/></r>", b"<r><b>x</b></r>", b"<r>"])


def envelope(view: View) -> bytes:
    if view != "envelope":
        raise LookupError(view)
    return b"<e><a>1</a><a>2</a></e>"


EVENTS = st.builds(
    lambda payload, topic, action: Event(payload, topic=topic, action=action, views=envelope),
    PAYLOADS,
    st.none() | TOPICS,
    st.sampled_from([None, "urn:x", "urn:y/z"]),
)


class Sets(RuleBasedStateMachine):
    """Whatever is added and removed, a set answers as its filters do one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.filters: dict[int, Filter] = {}
        self.set: FilterSet[int] = FilterSet()

    @rule(key=st.integers(0, 9), filter=FILTERS)
    def add(self, key: int, filter: Filter) -> None:
        self.set.add(key, filter)
        self.filters[key] = filter

    @rule(key=st.integers(0, 9))
    def refuse(self, key: int) -> None:
        with pytest.raises(FilterError):
            self.set.add(key, Filter(topics=(topic_expression("a//"),)))

    @precondition(lambda self: self.filters)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.filters)))
        self.set.remove(key)
        del self.filters[key]

    @rule(event=EVENTS)
    def match(self, event: Event) -> None:
        expected = [key for key, filter in self.filters.items() if compile(filter).matches(event)]
        assert sorted(self.set.match(event)) == sorted(expected)

    @rule(topic=TOPICS)
    def overlap(self, topic: Topic) -> None:
        prefixes = {None: "", "urn:t": "t:", "urn:u": "u:"}
        text = "/".join(prefixes[step.namespace] + step.name for step in topic.steps)
        expected = any(compile(filter).selects(topic) for filter in self.filters.values())
        assert self.set.overlaps(Expression(text, TOPIC_CONCRETE, NAMESPACES)) is expected

    @invariant()
    def holds_its_keys(self) -> None:
        assert len(self.set) == len(self.filters)
        assert all((key in self.set) == (key in self.filters) for key in range(10))


TestSets = Sets.TestCase
TestSets.settings = settings(max_examples=examples(day=30, night=120), stateful_step_count=30)


@given(st.lists(FILTERS, max_size=20), st.lists(EVENTS, max_size=4))
def test_a_set_is_its_filters(filters: list[Filter], events: list[Event]) -> None:
    set_ = FilterSet[int]()
    for key, filter in enumerate(filters):
        set_.add(key, filter)
    compiled = [compile(filter) for filter in filters]
    for event in events:
        expected = [key for key, one in enumerate(compiled) if one.matches(event)]
        assert sorted(set_.match(event)) == expected


def test_everything() -> None:
    set_ = FilterSet[str]()
    set_.add("all", EVERYTHING)
    assert set_.match(Event(b"not XML, and nobody looks")) == ["all"]
    assert set_.overlaps(topic_expression("t:a"))
    set_.remove("all")
    assert set_.match(Event(b"<a/>")) == []
    assert not set_.overlaps(topic_expression("t:a"))


def test_the_default_topic() -> None:
    set_ = FilterSet[str]()
    for text in ["wseTopic", "*", "*//.", "t:*", "t:*//.", "t:wseTopic"]:
        set_.add(text, Filter(topics=(topic_expression(text),)))
    set_.add(">", Filter(topics=(Expression(">", TOPIC_IBM_SIMPLE),)))
    expected = {"wseTopic", "*", "*//.", ">"}
    assert set(set_.match(Event(b"<a/>"))) == expected
    assert set(set_.match(Event(b"<a/>", topic=DEFAULT_TOPIC))) == expected


def test_adding_again_replaces() -> None:
    set_ = FilterSet[str]()
    set_.add("key", Filter(contents=(Expression("a"),)))
    set_.add("key", Filter(contents=(Expression("b"),)))
    set_.add("key", Filter(contents=(Expression("b"),)))
    assert len(set_) == 1
    assert set_.match(Event(b"<r><b/></r>")) == ["key"]
    assert set_.match(Event(b"<r><a/></r>")) == []
    with pytest.raises(FilterError):
        set_.add("key", Filter(contents=(Expression("c["),)))
    assert set_.match(Event(b"<r><b/></r>")) == ["key"]
    with pytest.raises(KeyError):
        set_.remove("another")


def test_the_same_text_again_matches_again() -> None:
    """WM-X-05: the original lost an expression once its last subscriber had left."""
    set_ = FilterSet[int]()
    filter = Filter(topics=(topic_expression("t:a"),), contents=(Expression("/r/a"),))
    event = Event(b"<r><a/></r>", topic=Topic((Step("urn:t", "a"),)))
    set_.add(0, Filter(topics=filter.topics, contents=(Expression("/r"),)))
    for _ in range(3):
        set_.add(1, filter)
        set_.add(2, filter)
        assert set_.match(event) == [0, 1, 2]
        set_.remove(1)
        set_.remove(2)
        assert set_.match(event) == [0]


def test_each_view_is_made_once() -> None:
    made: list[View] = []

    def views(view: View) -> bytes:
        made.append(view)
        return b"<e/>"

    set_ = FilterSet[int]()
    for key in range(10):
        expression = Expression(f"/e[{key} = {key}]", view=View("envelope"))
        set_.add(key, Filter(contents=(expression,)))
    assert len(set_.match(Event(b"<r/>", views=views))) == 10
    assert made == ["envelope"]


def test_expressions_are_shared_and_forgotten() -> None:
    set_ = FilterSet[int]()
    for key in range(100):
        topics = (topic_expression(f"t:a{key % 10}"),)
        set_.add(key, Filter(topics=topics, contents=(Expression("/r"), Expression("a"))))
        set_.add(100 + key, Filter(contents=(Expression("/r"),)))
    index = set_._contents[PAYLOAD].index
    assert len(index) == 2
    for key in range(200):
        set_.remove(key)
    assert not len(index)
    assert not set_._contents[PAYLOAD].filed
    assert not set_._groups
    assert not set_._places
    assert not len(set_._topics)


def test_a_refused_filter_leaves_nothing() -> None:
    set_ = FilterSet[int]()
    with pytest.raises(FilterError):
        set_.add(0, Filter(contents=(Expression("/r"), Expression("a["))))
    with pytest.raises(FilterError):
        set_.add(0, Filter(contents=(Expression("/r"), Expression("a", "urn:unknown"))))
    assert not len(set_._contents[PAYLOAD].index)
    assert 0 not in set_


@pytest.mark.parametrize("both", [True, False])
def test_a_filter_of_two_parts_is_filed_under_the_rarer_one(both: bool) -> None:
    """So that neither a busy topic nor a common expression makes all of them candidates."""
    set_ = FilterSet[int]()
    for key in range(1000):
        topic, value = ("a", key) if both else (f"a{key}", 0)
        topics = (topic_expression(f"t:{topic}"),)
        set_.add(key, Filter(topics=topics, contents=(Expression(f"/r = {value}"),)))
    filed = [group.filed for group in set_._groups.values()]
    by_content = set_._contents[PAYLOAD].filed
    assert max(map(len, filed)) <= 1
    assert max(map(len, by_content.values())) <= 1


def test_an_expression_over_an_envelope_is_evaluated_over_the_payload_where_that_is_exact() -> None:
    view = View("envelope")
    made: list[View] = []

    def views(view: View) -> bytes:
        made.append(view)
        return b"<s:E xmlns:s='urn:s'><s:H/><s:B><r><a>1</a></r></s:B></s:E>"

    set_ = FilterSet[str](payload_paths={view: ("{urn:s}E", "{urn:s}B")})
    namespaces = (("s", "urn:s"),)
    for text in ["/s:E/s:B/r/a = 1", "s:B/r[a = 1]", "/s:E/s:B/r[a = 2]"]:
        set_.add(text, Filter(contents=(Expression(text, namespaces=namespaces, view=view),)))
    event = Event(b"<r><a>1</a></r>", views=views)
    assert sorted(set_.match(event)) == ["/s:E/s:B/r/a = 1", "s:B/r[a = 1]"]
    assert made == []
    set_.add("header", Filter(contents=(Expression("/s:E/s:H", namespaces=namespaces, view=view),)))
    assert "header" in set_.match(event)
    assert made == [view]


def test_costly_expressions_are_left_for_later() -> None:
    """Reliability, Q02: what is expensive is evaluated where it can be stopped."""
    set_ = FilterSet[str]()
    costly = Expression("//*[../*[../*[../*[name() = 'x']]]]")
    topics = (topic_expression("t:a"),)
    set_.add("alone", Filter(contents=(costly,)))
    set_.add("same", Filter(contents=(costly,)))
    set_.add("both", Filter(topics=topics, contents=(costly, Expression("/r"))))
    set_.add("never", Filter(topics=topics, contents=(costly, Expression("/x"))))
    set_.add("cheap", Filter(contents=(Expression("/r/a"),)))
    event = Event(b"<r>%s</r>" % (b"<a/>" * 500), topic=Topic((Step("urn:t", "a"),)))
    matching = set_.begin(event)
    assert matching.keys == ["cheap"]
    [deferred] = matching.deferred
    assert sorted(deferred.keys) == ["alone", "both", "same"]
    assert [expression.text for expression in deferred.expressions] == [costly.text]
    assert deferred.documents == {PAYLOAD: event.view(PAYLOAD)}
    assert sorted(set_.match(event)) == ["cheap"]


def test_topics_remembered_are_bounded() -> None:
    set_ = FilterSet[int]()
    set_.add(0, Filter(topics=(topic_expression("t:*//."),)))
    for n in range(CACHED_TOPICS + 100):
        event = Event(b"<a/>", topic=Topic((Step("urn:t", f"a{n}"),)))
        assert set_.match(event) == [0]
    assert len(set_._topics._cache) == CACHED_TOPICS


def test_ten_thousand_identical_filters_are_one() -> None:
    set_ = FilterSet[int]()
    filter = Filter(topics=(topic_expression("t:a//."),), contents=(Expression("//a = 1"),))
    for key in range(10_000):
        set_.add(key, filter)
    event = Event(b"<r><a>1</a></r>", topic=Topic((Step("urn:t", "a"),)))
    assert len(set_.match(event)) == 10_000
    assert pace(lambda: set_.match(event), enough=10) < 10


def test_published_filters_over_real_messages(material: Path) -> None:
    """The verdicts are those of libxml2, one expression at a time (filtering, section 1)."""
    filters = forwarding_filters(material)
    set_ = FilterSet[int]()
    plain = []
    for key, (text, namespaces) in enumerate(filters):
        set_.add(key, Filter(contents=(Expression(text, namespaces=namespaces),)))
        plain.append(etree.XPath(text, namespaces=dict(namespaces), regexp=False))
    hits = 0
    for octets in messages(material, "winevent", every=60):
        root = etree.fromstring(octets)
        expected = [key for key, one in enumerate(plain) if one(root)]
        assert sorted(set_.match(Event(octets))) == expected
        hits += len(expected)
    assert hits > 100


@pytest.mark.parametrize("engine", [None, "reference"])
def test_keys_of_one_filter_come_and_go(engine: str | None) -> None:
    chance = random.Random("keys")
    filters: FilterSet[int] = FilterSet(engine=engine)
    event = Event(b"<a><b>x</b></a>")
    texts = ["/a[b='x']", "/a", "/a[b='y']"]
    held: dict[int, str] = {}
    for number in range(600):
        key = chance.randrange(40 if number < 300 else 12)
        if key in held and chance.random() < 0.4:
            filters.remove(key)
            del held[key]
        else:
            held[key] = chance.choice(texts)
            filters.add(key, Filter(contents=(Expression(held[key]),)))
        assert sorted(filters.match(event)) == sorted(
            key for key, text in held.items() if text != texts[2]
        )
        assert len(filters) == len(held)


def test_replacing_filters_takes_no_memory() -> None:
    filters: FilterSet[int] = FilterSet()
    for key in range(2_000):
        filters.add(key, Filter(contents=(Expression(f"/a[b='{key}']"),)))
    before = sys.getsizeof(filters._places)
    for number in range(5_000):
        filters.add(number % 2_000, Filter(contents=(Expression(f"/a[b='{number}']"),)))
    assert sys.getsizeof(filters._places) == before


def doubtful(number: int) -> Filter:
    """One that libxml2 decides, differently from all others."""
    return Filter(contents=(Expression(f"count(//b) = {number} or string-length(/a) > {number}"),))


def test_each_share_has_time_of_its_own() -> None:
    """Who has many filters to be verified uses up nobody else's time."""
    filters: FilterSet[tuple[str, int]] = FilterSet(share_of=lambda key: key[0])
    filters._verifier = Verifier(seconds=1e9, seconds_of_share=1e-9)  # One each.
    for number in range(10):
        filters.add(("many", number), doubtful(number))
    filters.add(("one", 0), doubtful(99))
    filters.add(("many", 100), doubtful(100))
    filters.add(("joint", 0), doubtful(100))  # It pays where its fellow cannot.
    matching = filters.begin(Event(b"<a><b>x</b></a>"))
    waiting = sorted(key for deferred in matching.deferred for key in deferred.keys)
    assert waiting == [("many", number) for number in range(1, 10)]


@pytest.mark.parametrize("order", [("many", "other"), ("other", "many")])
@pytest.mark.parametrize("first", ["many", "other"])
def test_who_has_no_time_leaves_the_same_expression_to_others(
    first: str, order: tuple[str, str]
) -> None:
    """Filters of several parts may have one in common, and be looked at one after the other."""
    filters: FilterSet[tuple[str, int]] = FilterSet(share_of=lambda key: key[0])
    filters._verifier = Verifier(seconds=1e9, seconds_of_share=1e-9)  # One each.
    topics = {"many": "a", "other": "a|b"} if first == "many" else {"many": "a|b", "other": "a"}
    filters.add(("many", 0), doubtful(99))
    for share in order:
        topic = Expression(topics[share], TOPIC_FULL)
        filters.add((share, 1), Filter(topics=(topic,), contents=doubtful(100).contents))
    matching = filters.begin(Event(b"<a><b>x</b></a>", topic=Topic((Step(None, "a"),))))
    waiting = {key for deferred in matching.deferred for key in deferred.keys}
    assert not waiting & {("other", 1)}


def test_what_is_deferred_is_asked_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round trip a filter took 480 ms a message for 1,400 filters."""
    filters: FilterSet[int] = FilterSet()
    filters._verifier = Verifier(visits=0)
    for number in range(200):
        filters.add(number, doubtful(number))
    asked: list[int] = []

    def counting(worker: Worker, questions: Sequence[Question]) -> list[bool | None]:
        asked.append(len(questions))
        return evaluate_questions(worker, questions)

    monkeypatch.setattr("filters.matching.fallback.verification.evaluate_questions", counting)
    event = Event(b"<a><b>x</b></a>")
    assert sorted(filters.match(event)) == [0, 1]
    assert asked == [200]
