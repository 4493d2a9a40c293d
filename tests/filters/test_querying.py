"""Queries: their values, and what is refused."""

import pytest

from filters import Expression, FilterError, Reason, evaluate_query

DOCUMENT = b'<a xmlns="urn:x" xmlns:q="urn:q" n="1"><b>one &amp; two</b><b>q:name</b><!-- --></a>'
SCOPE = (("", "urn:other"), ("x", "urn:x"))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("count(//x:b)", "2"),
        ("count(//x:b) div 4", "0.5"),
        ("0 div 0", "NaN"),
        ("//x:b[1] = 'one & two'", "true"),
        ("string(//x:b)", "one &amp; two"),
        ("//x:b/text()", "one &amp; two q:name"),
        ("//@n", "1"),
        ("//x:c", ""),
        ("x:b[2]", '<b xmlns="urn:x" xmlns:q="urn:q">q:name</b>'),
        ("x:b[2]/namespace::q", "urn:q"),
        ("/", DOCUMENT.decode()),
    ],
)
def test_values(text: str, result: str) -> None:
    assert evaluate_query(DOCUMENT, Expression(text, namespaces=SCOPE)) == result


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x:b[", Reason.FILTER_INVALID),
        ("y:b", Reason.FILTER_INVALID),
        ("a" * 5000, Reason.FILTER_COSTLY),
        ("//*" + "[following::*[preceding::*]]" * 9, Reason.QUERY_FAILED),
    ],
)
def test_refused(text: str, reason: Reason) -> None:
    with pytest.raises(FilterError) as refused:
        evaluate_query(b"<a>" + b"<b/>" * 500 + b"</a>", Expression(text, namespaces=SCOPE))
    assert refused.value.reason is reason


def test_a_long_result_is_refused() -> None:
    nested = b"<a>" * 100 + b"</a>" * 100
    evaluate_query(nested, Expression("//*"), max_result=10**6)
    with pytest.raises(FilterError) as refused:
        evaluate_query(nested, Expression("//*"), max_result=10**4)
    assert refused.value.reason is Reason.QUERY_FAILED


@pytest.mark.parametrize("query", ["concat(/, /)", "string(/)", "translate(/, 'x', '<')"])
def test_a_long_text_is_refused(query: str) -> None:
    document = b"<a>" + b"x" * 10_000 + b"</a>"
    evaluate_query(document, Expression(query), max_result=10**5)
    with pytest.raises(FilterError) as refused:
        evaluate_query(document, Expression(query), max_result=9_999)
    assert refused.value.reason is Reason.QUERY_FAILED
