"""Columns of ids in bulk: what filters match row by row, whatever they ask for."""

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from filters import Event, FilterSet
from filters.spark import functions as X
from filters.spark.definitions import Portable
from filters.spark.id_columns import PACKED, IdColumn, Places
from filters.workloads import Vocabulary, expressions, family_of, messages

pyarrow = pytest.importorskip("pyarrow")

DOUBTFUL = "sum(//Data) > 3 and count(//Data) > 1"
"""What the compiled engine leaves to libxml2."""
UNREAD = ["<storm>", None, "<!DOCTYPE a><a/>", "plain text"]


def definitions(count: int, others: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    """Filters of which many are the same."""
    octets = messages(family_of("ev"), 50, 1)
    drawn = [*expressions("ev", count, 1, Vocabulary(octets))]
    drawn += drawn[:20] * 10
    rows = [
        {"id": f"f{number}", "xpath": one.text, "namespaces": dict(one.namespaces)}
        for number, one in enumerate(drawn)
    ]
    return [*rows, *others]


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([], id="expressions alone"),
        pytest.param([{"id": "sum", "xpath": DOUBTFUL}], id="one that libxml2 decides"),
        pytest.param([{"id": "all"}], id="one that asks for nothing"),
        pytest.param([{"id": "at sea", "topic": "sea//.", "xpath": "/*"}], id="a topic"),
    ],
)
@pytest.mark.parametrize("engine", [None, "reference"])
def test_rows_in_bulk(others: Sequence[dict[str, Any]], engine: str | None) -> None:
    rows = definitions(300, others)
    payloads: list[str | None] = [one.decode() for one in messages(family_of("ev"), 300, 2)]
    payloads += UNREAD
    random.Random(1).shuffle(payloads)
    made = X.as_definitions(rows, engine=engine)
    one_by_one: FilterSet[str] = FilterSet(checked=False, engine=engine)
    for row in made.rows:
        one_by_one.add(row.id, row.filter)
    match = partial(X._match_batch, Portable(made), ("payload",))
    column = match(pyarrow.array(payloads))
    total = 0
    for payload, ids in zip(payloads, column.to_pylist(), strict=True):
        if payload is None or payload in UNREAD:
            assert ids is None
        else:
            assert sorted(ids) == sorted(one_by_one.match(Event(payload.encode())))
            total += len(ids)
    assert total > PACKED  # Several lots are packed.
    assert match(pyarrow.array([], pyarrow.string())).to_pylist() == []


def test_lots() -> None:
    ids = pyarrow.array(["a", "b", "c", "d"])
    column = IdColumn(ids, Places.of([0, 1]))
    wanted: list[list[str] | None] = []
    for number in range(PACKED):
        match number % 4:
            case 0:
                column.add([0, 1])
                wanted.append(["a", "b"])
            case 1:
                column.add_null()
                wanted.append(None)
            case 2:
                column.add([])
                wanted.append([])
            case _:
                column.add([1], [2, 3] if number % 3 else [])
                wanted.append(["b", "c", "d"] if number % 3 else ["b"])
    assert column.finish().to_pylist() == wanted
    assert IdColumn(ids).finish().to_pylist() == []


def test_text_that_is_not_in_utf_8() -> None:
    """Spark's strings may hold any bytes."""
    broken = pyarrow.array([b"<a>\xff</a>", b"<a>b</a>", None]).view(pyarrow.string())
    made = Portable(X.as_definitions([{"id": "a", "xpath": "/a"}]))
    assert X._match_batch(made, ("payload",), broken).to_pylist() == [None, ["a"], None]
    assert X._are_xml(broken).to_pylist() == [False, True, None]
    assert X._each(X._value, "/a", (), broken).to_pylist() == [None, "b", None]


@pytest.mark.parametrize("type", [pyarrow.string(), pyarrow.large_string(), pyarrow.binary()])
def test_every_type_of_payload(type: Any) -> None:
    payloads = pyarrow.array([b"<a/>", None, "<ä/>".encode()]).cast(type)
    made = Portable(X.as_definitions([{"id": "a", "xpath": "/a"}]))
    assert X._match_batch(made, ("payload",), payloads).to_pylist() == [["a"], None, []]
