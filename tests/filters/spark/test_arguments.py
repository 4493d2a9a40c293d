"""Arguments of functions for columns: what is wrong with one is said in a sentence."""

import sys
from functools import partial
from typing import Any

import pytest

from filters.spark import functions as X
from filters.spark.arguments import MAX_TYPE, Signature
from filters.spark.session import SparkUnavailable

pyarrow = pytest.importorskip("pyarrow")
TEXT = pyarrow.string()
MATCHES = Signature("matches", X.COLUMNS, 1)
XPATH = Signature("xpath_value", X.EXPRESSION, 2)


def columns(*types: Any) -> list[Any]:
    return [pyarrow.array([], type) for type in types]


TYPES = [
    pytest.param(
        MATCHES,
        (pyarrow.int32(),),
        "matches: payload is int; give a string or binary (cast it)",
        id="payload of numbers",
    ),
    pytest.param(
        MATCHES,
        (pyarrow.list_(TEXT),),
        "matches: payload is array<string>; give a string or binary",
        id="payload of lists",
    ),
    pytest.param(
        MATCHES,
        (TEXT, pyarrow.int32()),
        "matches: topic is int; give a string (cast it)",
        id="topic of numbers",
    ),
    pytest.param(
        MATCHES,
        (TEXT, pyarrow.binary()),
        "matches: topic is binary; give a string (cast it)",
        id="topic of bytes, as the keys of Kafka are",
    ),
    pytest.param(
        MATCHES,
        (TEXT, TEXT, pyarrow.timestamp("us", "UTC")),
        "matches: action is timestamp; give a string (cast it)",
        id="action of times",
    ),
    pytest.param(
        MATCHES,
        (TEXT, TEXT, TEXT, pyarrow.struct([("a", TEXT)])),
        "matches: properties is struct<a:string>; give a map<string,string>",
        id="properties of structs",
    ),
    pytest.param(
        MATCHES,
        (TEXT, TEXT, TEXT, pyarrow.map_(TEXT, pyarrow.int64())),
        "matches: properties is map<string,bigint>; give a map<string,string>",
        id="properties of numbers",
    ),
    pytest.param(
        XPATH,
        (TEXT, pyarrow.int32()),
        "xpath_value: expression is int; give a string (cast it)",
        id="expression of numbers",
    ),
    pytest.param(
        XPATH,
        (TEXT, TEXT, TEXT),
        "xpath_value: namespaces is string; give a map<string,string>",
        id="namespaces of strings",
    ),
    pytest.param(
        XPATH,
        (TEXT,),
        "xpath_value takes (payload, expression[, namespaces]); it was given 1 argument",
        id="too few",
    ),
    pytest.param(
        MATCHES,
        (),
        "matches takes (payload[, topic[, action[, properties]]]); it was given 0 arguments",
        id="none",
    ),
    pytest.param(
        MATCHES,
        (TEXT,) * 5,
        "matches takes (payload[, topic[, action[, properties]]]); it was given 5 arguments",
        id="too many",
    ),
]


@pytest.mark.parametrize(("signature", "types", "said"), TYPES)
def test_wrong_columns(signature: Signature, types: tuple[Any, ...], said: str) -> None:
    with pytest.raises(TypeError) as raised:
        signature.check(columns(*types))
    assert str(raised.value) == said


def test_a_type_is_shown_in_part() -> None:
    many = pyarrow.struct([(f"field{number}", TEXT) for number in range(300)])
    with pytest.raises(TypeError) as raised:
        MATCHES.check(columns(many))
    assert len(str(raised.value)) < MAX_TYPE + 60


@pytest.mark.parametrize("nulls", range(1, 5))
def test_columns_that_are_right(nulls: int) -> None:
    """Of NULL in SQL, and of map(), Spark knows no other type."""
    null = pyarrow.null()
    MATCHES.check(columns(*[null] * nulls))
    MATCHES.check(columns(pyarrow.large_binary(), pyarrow.large_string(), TEXT)[:nulls])
    properties = pyarrow.map_(TEXT, TEXT)
    MATCHES.check(columns(pyarrow.binary(), null, null, properties)[:nulls])


FILTERS = [{"id": "a", "xpath": "/a"}]
UNTYPED: Any = X
"""As whoever has no type checker calls them."""
CALLS = [
    pytest.param(
        partial(X.is_xml, None), "is_xml: payload is None; give a column or its name", id="None"
    ),
    pytest.param(
        partial(X.matches, ["p"], FILTERS),
        "matches: payload is of the type list; give a column or its name",
        id="a list for a column",
    ),
    pytest.param(
        partial(X.matches, "p", FILTERS, topic=7),
        "matches: topic is of the type int; give a column or its name",
        id="a number for a topic",
    ),
    pytest.param(
        partial(UNTYPED.xpath_value, "p", 7),
        "xpath_value: expression is of the type int; give an XPath as text",
        id="a number for an expression",
    ),
    pytest.param(
        partial(UNTYPED.xpath_matches, "p", "/a", ["w"]),
        "xpath_matches: namespaces does not map prefixes to URIs; give a dictionary such as "
        '{"w": "http://example.org/weather"}',
        id="a list for namespaces",
    ),
    pytest.param(
        partial(UNTYPED.xpath_matches, "p", "/a", {"w": 1}),
        "xpath_matches: namespaces does not map prefixes to URIs; give a dictionary such as "
        '{"w": "http://example.org/weather"}',
        id="a number for a URI",
    ),
]


@pytest.mark.parametrize(("call", "said"), CALLS)
def test_wrong_arguments_in_python(call: Any, said: str) -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == said


@pytest.mark.parametrize("name", ["pyarrow", "pyspark"])
def test_without_the_extra_they_say_which(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    for call in (
        partial(X.is_xml, "p"),
        partial(X.matches, "p", FILTERS),
        partial(X.xpath_value, "p", "/a"),
    ):
        with pytest.raises(
            SparkUnavailable, match=rf"^this needs {name}, which is not installed: "
        ):
            call()


SQL = [
    ("xpath_matches(p)", "xpath_matches takes (payload, expression[, namespaces]); it was given 1"),
    ("xpath_matches(p, 1)", "xpath_matches: expression is int; give a string (cast it)"),
    (
        "xpath_value(p, '/a', map('w', 1))",
        "xpath_value: namespaces is map<string,int>; give a map<string,string>",
    ),
    ("matches()", "matches takes (payload[, topic[, action[, properties]]]); it was given 0"),
    ("matches(p, p, p, m, m)", "[, properties]]]); it was given 5 arguments"),
    ("matches(payload => p)", "matches takes no named arguments; give them in their order"),
    ("is_xml(n)", "is_xml: payload is int; give a string or binary (cast it)"),
]
ROW = "SELECT '<a/>' AS p, 1 AS n, map('a', 'b') AS m, struct(1 AS a) AS s"


def test_what_a_query_says(spark: Any) -> None:
    """A worker says it in the last line of what Spark shows."""
    from pyspark.errors import PythonException

    rows = spark.sql(ROW)
    X.register(spark, FILTERS)
    queries = [(rows.selectExpr(call), said) for call, said in SQL]
    for column, said in (
        (X.is_xml("n"), "is_xml: payload is int; give a string or binary (cast it)"),
        (X.matches("p", FILTERS, topic="n"), "matches: topic is int; give a string (cast it)"),
        (X.matches("p", FILTERS, properties="s"), "matches: properties is struct<a:int>; give"),
    ):
        queries.append((rows.select(column), said))
    for query, said in queries:
        with pytest.raises(PythonException) as raised:
            query.collect()
        last = str(raised.value).strip().splitlines()[-1]
        assert last.startswith("TypeError: ") and said in last
    right = ("matches(p, NULL, NULL, m)", "xpath_matches(p, '/a', map())", "is_xml(NULL)")
    [row] = rows.selectExpr(*right).collect()
    assert tuple(row) == (["a"], True, None)
