"""Engines of other packages: their answers, and what becomes of wrong ones."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from lxml import etree

from filters import Event, Expression, Filter, FilterError, FilterSet
from filters.matching.engines import choice, installed
from filters.matching.engines.choice import check_engine, engine, use_engine
from filters.matching.engines.installed import InstalledIndex

DOCUMENT = etree.fromstring(b"<a><b/></a>")


class Made:
    """A set that gives the answer that it is told."""

    def __init__(
        self, answer: Callable[[Sequence[Any]], Any], undecided: Iterable[int] = ()
    ) -> None:
        self.undecided = list(undecided)
        self.match = answer


def index(answer: Any, undecided: Iterable[int] = ()) -> tuple[InstalledIndex, list[Any]]:
    compiled: list[Any] = []

    def compile(expressions: Sequence[Expression]) -> Any:
        compiled.append([one.text for one in expressions])
        return Made(answer, undecided)

    return InstalledIndex(compile), compiled


def test_numbers_stay_when_others_go() -> None:
    made, compiled = index(lambda documents: [[0, 1, 1, 7, -1]] * len(documents))
    one, two, three = (made.add(Expression(text)) for text in ("/a", "/b", "/c"))
    assert made.add(Expression("/b")) == two and len(made) == 3
    assert made.find(DOCUMENT) == ([one, two], [])
    made.remove(one)
    made.remove(two)
    assert made.find_all([DOCUMENT, DOCUMENT]) == [([two, three], [])] * 2
    made.remove(two)
    assert made.find(DOCUMENT) == ([three], [])
    assert made.expression(three).text == "/c"
    assert compiled == [["/a", "/b", "/c"], ["/b", "/c"], ["/c"]]


def raises(*_: Any) -> Any:
    raise RuntimeError("no")


@pytest.mark.parametrize(
    "answer",
    [raises, lambda _: [], lambda _: None, lambda _: [["x"]]],
    ids=("an error", "too few", "nothing", "no numbers"),
)
def test_an_engine_that_fails_leaves_all_to_libxml2(answer: Any, caplog: Any) -> None:
    made, _ = index(answer)
    numbers = [made.add(Expression(text)) for text in ("/a", "/b")]
    for _ in range(3):
        assert made.find(DOCUMENT) == ([], numbers)
    assert len(caplog.records) == 1


def test_in_a_set_of_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the engine leaves open, libxml2 decides; what is not valid, it never sees."""

    def compile(expressions: Sequence[Expression]) -> Made:
        return Made(lambda documents: [[0]] * len(documents), range(1, len(expressions)))

    monkeypatch.setattr(choice, "installed_engines", lambda: ("mine",))
    monkeypatch.setattr(choice, "load_engine", lambda _: compile)
    try:
        use_engine("mine")
        assert engine() == "mine"
        filters: FilterSet[str] = FilterSet()
        with pytest.raises(FilterError):
            filters.add("wrong", Filter(contents=(Expression("/a["),)))
        for text in ("/x", "/a", "/b", "//b"):
            filters.add(text, Filter(contents=(Expression(text),)))
        assert sorted(filters.match(Event(b"<a><b/></a>"))) == ["//b", "/a", "/x"]
    finally:
        use_engine(None)


class Point:
    name = "mine"

    def __init__(self, load: Callable[[], Any]) -> None:
        self.load = load


@pytest.mark.parametrize(
    ("load", "says"),
    [(raises, "cannot be loaded: RuntimeError: no"), (lambda: 1, "is not a function")],
)
def test_what_cannot_be_loaded_is_said(monkeypatch: Any, load: Any, says: str) -> None:
    monkeypatch.setattr(installed, "entry_points", lambda group: [Point(load)])
    installed.load_engine.cache_clear()
    with pytest.raises(ValueError, match=says):
        check_engine("mine")
    installed.load_engine.cache_clear()
    with pytest.raises(
        ValueError, match="'other' is not an engine; there are native, reference, mine"
    ):
        check_engine("other")
