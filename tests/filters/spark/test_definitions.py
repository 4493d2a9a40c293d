"""Filters as a job takes them: read, checked, built once a process."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import EVERYTHING
from filters.events import Event
from filters.spark.definitions import (
    KEPT,
    KEYS,
    DefinitionError,
    Definitions,
    builds,
    definition_of,
    filter_set,
    make_definition,
    read_definitions,
)
from filters.topics import Step, parse_clark


def definitions(*pairs: tuple[str, str | None, str | None]) -> Definitions:
    return Definitions(
        tuple(make_definition(id, xpath=x, topic=t, namespaces={}) for id, x, t in pairs)
    )


def written(folder: Path, *lines: object) -> Path:
    path = folder / "filters.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def test_a_file_of_filters(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"id": "a", "xpath": "/w:storm", "namespaces": {"w": "urn:w"}},
        "",
        {"id": 2, "topic": "{urn:t}tides//."},
        {"id": "all"},
    )
    read = read_definitions(path)
    assert [row.id for row in read.rows] == ["a", "2", "all"]
    assert read.rows[0].filter.contents[0].namespaces == (("w", "urn:w"),)
    assert read.rows[2].filter == EVERYTHING
    found = filter_set(read.digest, lambda: read)
    tides = Event(b"<tide/>", topic=parse_clark("{urn:t}tides/high"))
    assert sorted(found.match(tides)) == ["2", "all"]
    assert sorted(found.match(Event(b"<storm xmlns='urn:w'/>"))) == ["a", "all"]


ERRORS = [
    pytest.param(["{"], "line 1: not JSON", id="not JSON"),
    pytest.param(['{"subscriptions": 1}'], "neither a list of subscriptions", id="no export"),
    pytest.param(['{"subscriptions": [], "next": "x"}'], "one page of several", id="a page"),
    pytest.param(
        ['[{"id": "a"}, {"id": "a"}]'], "filter 2: the id 'a' is there", id="export twice"
    ),
    pytest.param([{"id": "a", "filter": "[]"}], "line 1: filter has to be an object", id="filter"),
    pytest.param([{"id": "a", "filter": {"others": [1]}}], "an expression is", id="expression"),
    pytest.param([{"id": "a", "filter": {"topics": [{}]}}], "has a text", id="no text"),
    pytest.param([[1]], "line 1: not an object", id="no object"),
    pytest.param([{"xpath": "/a"}], "line 1: there is no id", id="no id"),
    pytest.param([{"id": "a"}, {"id": "a"}], "line 2: the id 'a' is there", id="id twice"),
    pytest.param([{"id": "a"}, {"id": "b", "xpath": "/a["}], "line 2: b: the expr", id="XPath"),
    pytest.param([{"id": "a", "topic": "a b"}], 'line 1: a: "a b" is not a topic name', id="topic"),
    pytest.param([{"id": "a", "xpath": 7}], "line 1: xpath and topic are strings", id="number"),
    pytest.param([{"id": "a", "namespaces": []}, 1], "not an object", id="a number"),
    pytest.param([{"id": "a", "namespaces": {"b": 1}}], "namespaces maps", id="namespaces"),
    pytest.param(
        [{"id": "x", "xptah": "/a"}],
        "line 1: x: there is no 'xptah'; a filter has id, xpath, topic and namespaces",
        id="misspelt",
    ),
    pytest.param(
        ['[{"id": "x", "xptah": "/a"}]'], "filter 1: x: there is no 'xptah'", id="of a list"
    ),
    pytest.param([{"id": "x", "xpath": ""}], "line 1: x: xpath is empty; give", id="empty XPath"),
    pytest.param([{"id": "x", "topic": ""}], "line 1: x: topic is empty; give", id="empty topic"),
    pytest.param(
        [{"id": "x", "filter": {"contents": []}, "xpath": "/a"}],
        "line 1: x: it has a filter beside xpath or topic",
        id="filter and XPath",
    ),
    pytest.param(["[" * 70_000], "line 1: the line is too long", id="long"),
    pytest.param([], "no filters", id="empty"),
]


@pytest.mark.parametrize(("lines", "said"), ERRORS)
def test_what_is_wrong_is_said_with_its_line(
    tmp_path: Path, lines: list[object], said: str
) -> None:
    with pytest.raises(DefinitionError, match=r"filters\.jsonl") as raised:
        read_definitions(written(tmp_path, *lines))
    assert said in str(raised.value)


WRITTEN = [
    pytest.param({"xpath": None}, id="null"),
    pytest.param({"xpath": None, "topic": None, "namespaces": None, "filter": None}, id="nulls"),
    pytest.param({}, id="left out"),
]


@pytest.mark.parametrize("row", WRITTEN)
def test_everything_is_written_as_null_or_left_out(row: dict[str, Any]) -> None:
    assert definition_of({"id": "all", **row}).filter == EVERYTHING


@given(st.text().filter(lambda name: name not in KEYS), st.none() | st.text())
def test_a_key_that_is_none_of_ours_says_no_filter(name: str, value: str | None) -> None:
    with pytest.raises(DefinitionError) as raised:
        definition_of({"id": "a", name: value}, "line 7")
    assert str(raised.value).startswith(f"line 7: a: there is no {name!r}; a filter has id, ")
    row = {"id": "a", "xpath": "/a", name: value}
    assert definition_of(row, of_table=True) == definition_of({"id": "a", "xpath": "/a"})
    exported = {"id": "a", "filter": {"contents": [{"text": "/a"}]}, name: value}
    assert definition_of(exported) == definition_of({"id": "a", "xpath": "/a"})


@pytest.mark.parametrize(
    "name",
    ["xptah", "XPath", "xpaht", "x-path", "Topic", "tpoic", "topics", "namespace", "name_spaces",
     "ID", "Filter", "action", "Properties"],
)  # fmt: skip
def test_a_key_that_is_meant_as_ours_is_refused(name: str) -> None:
    """Also beside another one."""
    with pytest.raises(DefinitionError, match=f"there is no '{name}'"):
        definition_of({"id": "a", "xpath": "/a", "topic": "b", name: "c"})


def test_what_is_noted_beside_a_filter() -> None:
    """Such as where it comes from."""
    noted = dict.fromkeys(
        ("origin", "file", "licence", "subscription", "kind", "channel", "windows_xpath", "note",
         "comment", "owner", "description", "tags", "name", "query")
    )  # fmt: skip
    row = {"id": "a", "xpath": "/a"}
    assert definition_of({**noted, **row}) == definition_of(row)


NEEDING = [
    pytest.param([("a", "/a", None), ("b", None, "storms"), ("c", None, "tides")], "b", id="first"),
    pytest.param([("a", "/a", None)], None, id="no topic"),
    pytest.param(
        [("a", None, "wseTopic"), ("b", None, "*")], None, id="those without a topic, too"
    ),
]


@pytest.mark.parametrize(("pairs", "id"), NEEDING)
def test_a_filter_that_needs_a_topic(
    pairs: list[tuple[str, str | None, str | None]], id: str | None
) -> None:
    assert definitions(*pairs).needing_topic() == id


def test_a_set_is_built_once_and_few_are_kept() -> None:
    several = [definitions((f"kept-{n}", f"/a[b={n}]", None)) for n in range(KEPT + 1)]
    before = builds()
    loads: list[str] = []

    def load(one: Definitions) -> Definitions:
        loads.append(one.rows[0].id)
        copied: Definitions = pickle.loads(pickle.dumps(one))
        return copied

    first = filter_set(several[0].digest, lambda: load(several[0]))
    assert filter_set(several[0].digest, lambda: load(several[0])) is first
    assert (builds() - before, loads) == (1, ["kept-0"])
    for one in several[1:]:
        filter_set(one.digest, lambda one=one: load(one))  # type: ignore[misc]
    assert filter_set(several[0].digest, lambda: load(several[0])) is not first
    assert builds() - before == KEPT + 2


def test_the_digest_is_of_all_that_matters() -> None:
    one = definitions(("a", "/a", None))
    assert one.digest == definitions(("a", "/a", None)).digest
    others = (
        definitions(("b", "/a", None)),
        definitions(("a", "/b", None)),
        definitions(("a", "/a", "t")),
        Definitions(one.rows, "reference"),
    )
    assert len({one.digest, *(other.digest for other in others)}) == 5


ROOTS = [
    pytest.param([("a", "/a", "storms/coast")], {Step(None, "storms")}, id="one"),
    pytest.param(
        [("a", None, "storms//."), ("b", None, "{urn:t}tides|x")],
        {Step(None, "storms"), Step("urn:t", "tides"), Step(None, "x")},
        id="several",
    ),
    pytest.param([("a", None, "storms"), ("b", "/a", None)], None, id="one without topics"),
    pytest.param([("a", None, "*/coast")], None, id="wildcard"),
]


@pytest.mark.parametrize(("pairs", "roots"), ROOTS)
def test_roots(pairs: list[tuple[str, str | None, str | None]], roots: set[Step] | None) -> None:
    assert definitions(*pairs).roots() == roots


def test_what_a_row_has_not_is_left_out_of_an_export(tmp_path: Path) -> None:
    expression = {"text": "/a", "namespaces": {"w": None}}
    of_envelope = {"contents": [{"text": "/a", "view": "envelope"}]}
    path = tmp_path / "subscriptions.json"
    rows = [
        {"id": "plain", "filter": {"contents": [expression]}},
        {"id": "other", "filter": of_envelope},
    ]
    path.write_text(json.dumps(rows))
    read = read_definitions(path)
    assert ([row.id for row in read.rows], read.left_out) == (["plain"], ("other",))
    assert filter_set(read.digest, lambda: read).match(Event(b"<a/>")) == ["plain"]
    with pytest.raises(DefinitionError, match="line 1: '/a' is over the view 'envelope'"):
        read_definitions(written(tmp_path, {"id": "other", "filter": of_envelope}))
