import logging
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint

import pytest

from filters import (
    EVERYTHING,
    Event,
    Expression,
    Filter,
    FilterError,
    Reason,
    Step,
    Topic,
    View,
    compile,
    content_dialects,
    topic_dialects,
)
from filters.compiling import compiled as module
from filters.compiling.compiled import Compiler, Condition, installed_compilers
from filters.dialects import (
    ACTION_DPWS_1_0,
    ACTION_DPWS_1_1,
    EBRIM_QUERY,
    EVENT_QUERY,
    TOPIC_FULL,
    XPATH_1_0,
)
from tests.rigs.cases import for_each

TOPIC = Topic((Step("urn:t", "a"), Step(None, "b")))
EVENT = Event(b"<c><b>1</b></c>", topic=TOPIC, action="http://example.org/x/Reading")

NOT_OURS = "urn:example:length"


def longer_than(expression: Expression) -> Condition:
    """A dialect of others: the payload has more octets than the text says."""
    least = int(expression.text)

    def condition(event: Event) -> bool:
        return len(event.view(View("payload"))) > least

    return condition


def topic(text: str) -> Expression:
    return Expression(text, TOPIC_FULL, (("t", "urn:t"),))


@pytest.mark.parametrize(
    ("filter", "verdict"),
    [
        (EVERYTHING, True),
        (Filter(topics=(topic("t:a/b"),)), True),
        (Filter(topics=(topic("t:a"),)), False),
        (Filter(topics=(topic("t:a//."), topic("t:*/b"))), True),
        (Filter(topics=(topic("t:a//."), topic("t:x//."))), False),
        (Filter(contents=(Expression("/c/b = 1"),)), True),
        (Filter(contents=(Expression("/c/b = 1"), Expression("b = 2"))), False),
        (Filter(contents=(Expression("/c/b = 1", f" {XPATH_1_0} "),)), True),
        (Filter(contents=(Expression("/c/b = 1", ""),)), True),
        (Filter(others=(Expression("b"),)), True),
        (Filter(topics=(topic("t:a//."),), contents=(Expression("b"),)), True),
        (Filter(topics=(topic("t:a"),), contents=(Expression("b"),)), False),
        (Filter(topics=(topic("t:a//."),), contents=(Expression("x"),)), False),
        (Filter(contents=(Expression("b", view=View("nobody offers it")),)), False),
        (Filter(contents=(Expression("not(b)", view=View("nobody offers it")),)), False),
    ],
)
def test_verdict(filter: Filter, verdict: bool) -> None:
    assert compile(filter).matches(EVENT) is verdict


def test_views() -> None:
    made: list[View] = []

    def views(view: View) -> bytes:
        made.append(view)
        if view == "broken":
            return b"<a"
        if view == "refused":
            raise FilterError(Reason.NOT_XML, "no")
        return b"<s:Envelope xmlns:s='urn:s'><s:Body><c/></s:Body></s:Envelope>"

    event = Event(b"<c/>", views=views)
    assert not made
    over_envelope = View("envelope")
    expressions = tuple(
        Expression(text, namespaces=(("s", "urn:s"),), view=over_envelope)
        for text in ("s:Body/c", "/s:Envelope", "//c", "not(/c)", "/*/*/c")
    )
    assert compile(Filter(contents=expressions)).matches(event)
    assert made == [over_envelope]
    for broken in ("broken", "refused"):
        expression = Expression("true()", view=View(broken))
        assert not compile(Filter(contents=(expression,))).matches(event)


ACTIONS = [
    ("http://example.org/x/Reading", True),
    ("  http://example.org/y \n\t http://example.org/x/Reading ", True),
    ("http://example.org/x", True),
    ("http://example.org/x/", True),
    ("http://example.org", True),
    ("http://example.org/x/Read", False),
    ("http://example.org/x/Reading/More", False),
    ("http://example.org/X/Reading", False),
    ("urn:other", False),
]


@for_each("dialect", [ACTION_DPWS_1_0, ACTION_DPWS_1_1])
@for_each(("text", "verdict"), ACTIONS)
def test_actions(dialect: str, text: str, verdict: bool) -> None:
    assert compile(Filter(others=(Expression(text, dialect),))).matches(EVENT) is verdict
    assert compile(Filter(contents=(Expression(text, dialect),))).matches(EVENT) is verdict
    assert not compile(Filter(others=(Expression(text, dialect),))).matches(Event(b"<a/>"))


@pytest.mark.parametrize(
    ("filter", "reason"),
    [
        (Filter(topics=(Expression("a", "urn:x"),)), Reason.TOPIC_DIALECT),
        (Filter(topics=(topic("a//"),)), Reason.TOPIC_INVALID),
        (Filter(contents=(Expression("a", "urn:x"),)), Reason.FILTER_DIALECT),
        (Filter(others=(Expression("a", "urn:x"),)), Reason.FILTER_DIALECT),
        (Filter(contents=(Expression("a["),)), Reason.FILTER_INVALID),
        (Filter(contents=(Expression("(" * 17),)), Reason.FILTER_COSTLY),
        (Filter(contents=(Expression("a"),) * 17), Reason.FILTER_COSTLY),
        (
            Filter((topic("a"),) * 6, (Expression("a"),) * 6, (Expression("a"),) * 5),
            Reason.FILTER_COSTLY,
        ),
        (Filter(others=(Expression(" ", ACTION_DPWS_1_1),)), Reason.FILTER_INVALID),
    ],
)
def test_refused(filter: Filter, reason: Reason) -> None:
    with pytest.raises(FilterError) as caught:
        compile(filter)
    assert caught.value.reason is reason
    supported = {
        Reason.TOPIC_DIALECT: topic_dialects(),
        Reason.FILTER_DIALECT: content_dialects(),
    }
    assert caught.value.names == supported.get(reason, ())


def test_sixteen_expressions_are_taken() -> None:
    assert compile(Filter(contents=(Expression("b"),) * 16)).matches(EVENT)


def test_supported() -> None:
    assert content_dialects()[0] == XPATH_1_0
    assert {ACTION_DPWS_1_0, ACTION_DPWS_1_1} <= set(content_dialects())
    assert not set(topic_dialects()) & set(content_dialects())


def test_a_dialect_of_others() -> None:
    compilers: dict[str, Compiler] = {NOT_OURS: longer_than}
    for text, verdict in [("3", True), ("300", False)]:
        filter = Filter(contents=(Expression(text, NOT_OURS),))
        assert compile(filter, compilers=compilers).matches(EVENT) is verdict
    with pytest.raises(FilterError) as caught:
        compile(Filter(contents=(Expression("x", NOT_OURS),)), compilers=compilers)
    assert caught.value.reason is Reason.FILTER_INVALID
    assert content_dialects(compilers) == (XPATH_1_0, EBRIM_QUERY, EVENT_QUERY, NOT_OURS)


def test_a_dialect_that_fails_does_not_match() -> None:
    def fails(event: Event) -> bool:
        raise RuntimeError(event.action)

    filter = Filter(contents=(Expression("", NOT_OURS),))
    assert not compile(filter, compilers={NOT_OURS: lambda _: fails}).matches(EVENT)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[list[EntryPoint]], None]]:
    def install(entry_points: list[EntryPoint]) -> None:
        monkeypatch.setattr(module, "entry_points", lambda group: entry_points)
        installed_compilers.cache_clear()

    yield install
    monkeypatch.undo()
    installed_compilers.cache_clear()


EXTRA: dict[str, Compiler] = {NOT_OURS: longer_than, XPATH_1_0: longer_than}
EXTRA[ACTION_DPWS_1_1] = longer_than


def test_installed_dialects(
    installed: Callable[[list[EntryPoint]], None], caplog: pytest.LogCaptureFixture
) -> None:
    group = module.ENTRY_POINT_GROUP
    installed(
        [
            EntryPoint("missing", "no_such_module:X", group),
            EntryPoint("broken", "tests.filters.compiling.test_compiled:TOPIC", group),
            EntryPoint("good", "tests.filters.compiling.test_compiled:EXTRA", group),
        ]
    )
    with caplog.at_level(logging.WARNING, logger="filters"):
        assert compile(Filter(contents=(Expression("3", NOT_OURS),))).matches(EVENT)
    assert [vars(record)["plugin"] for record in caplog.records] == ["missing", "broken"]
    # None replaces a dialect of ours.
    ours = {XPATH_1_0, EBRIM_QUERY, EVENT_QUERY, *module.BUILT_IN}
    assert set(content_dialects()) == {*ours, NOT_OURS}
    action = Expression("http://example.org/x", ACTION_DPWS_1_1)
    assert compile(Filter(contents=(Expression("b"),), others=(action,))).matches(EVENT)
