"""Queries of words."""

import pytest

from filters import FilterError, Reason
from filters.dialects import QUERY_STRING
from filters.queries import Catalogue, compile_query
from filters.queries.words import MAX_CHARACTERS, MAX_WORDS
from tests.filters.queries.things import HARBOUR
from tests.rigs.cases import for_each

QUERIES = [
    ("wind", True),
    ("WIND harbour", True),
    ("harbour seconds thessaloniki", True),
    ("Weather/Europe", True),
    ("m/s", True),
    ("16622 aussichtspunkt", True),
    ("STRASSE", True),
    ("strasse", True),
    ('"at the harbour"', True),
    ('"weather/europe/thessaloniki" wind', True),
    ('"harbour at"', False),
    ('"t the harbour"', False),
    ('"europe/thess"', False),
    ('"the harbour, every"', True),
    ("win", False),
    ("wind storm", False),
    ("u-7d3f0c52", False),
    ("u", False),
]


@for_each(("text", "verdict"), QUERIES)
def test_words(text: str, verdict: bool) -> None:
    query = compile_query(QUERY_STRING, text)
    assert query.matches(HARBOUR) is verdict
    catalogue: Catalogue[str] = Catalogue()
    catalogue.add("harbour", HARBOUR)
    assert catalogue.find(query).keys == (("harbour",) if verdict else ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "/ - !",
        '"wind',
        "x" * (MAX_CHARACTERS + 1),
        " ".join(map(str, range(MAX_WORDS + 1))),
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_query(QUERY_STRING, text)
    assert caught.value.reason is Reason.QUERY_INVALID
