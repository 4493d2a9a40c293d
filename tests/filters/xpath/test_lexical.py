"""Names compared as they are written, as YFilter does for WS-Messenger (Apache Airavata 0.11)."""

import pytest

from filters import Event, Expression, Filter, FilterError, FilterSet, compile, content_dialects
from filters.dialects import XPATH_LEXICAL
from filters.topics import DEFAULT_TOPIC
from filters.xpath import as_lexical
from tests.rigs.cases import for_each

TRUE = [
    ("/c/b/a", "<c><b><a> 123 </a></b></c>"),
    ("/c/b/a", "<c xmlns='urn:d'><b><a/></b></c>"),
    ("/c/b/a[text()=1]", "<c xmlns='urn:d'><b><a>1</a></b></c>"),
    ("/p:x", "<p:x xmlns:p='urn:any'/>"),
    ("/p:x", "<p:x xmlns:p='urn:p'/>"),
    ("/p:x", "<q:x xmlns:q='urn:p'/>"),  # By the rules of namespaces, with the prefix declared.
    ("//msg/src", "<m><msg xmlns='urn:d'><src/></msg></m>"),
    ("/m/*[@k='v']/n[2]", "<m xmlns='urn:d'><o k='v'><n/><z/><n/></o></m>"),
    ("/m/n[position()<=1]", "<m xmlns='urn:d'><n/></m>"),
    ("/m[@p:k='v']", "<m xmlns='urn:d' xmlns:p='urn:z' p:k='v'/>"),
    ("/m[n//o[@x='1']]", "<m xmlns='urn:d'><n><t><o x='1'/></t></n></m>"),
    ("/m/p:*", "<m><p:z xmlns:p='urn:z'/></m>"),
    ("/div/and[or='1']", "<div xmlns='urn:d'><and><or>1</or></and></div>"),
]
FALSE = [
    ("/c/b/a", "<a><b><c> 123 </c></b></a>"),
    ("/c/b/a[text()=1]", "<c><b><a>2</a></b></c>"),
    ("/c", "<p:c xmlns:p='urn:d'/>"),
    ("/z:x", "<q:x xmlns:q='urn:z'/>"),  # Its prefix is declared nowhere.
    ("/m/n[2]", "<m xmlns='urn:d'><n/><o/></m>"),
]
OUTSIDE = ["/a and /b", "not(/a)", "/a | /b", "/a/..", "/a[. = '1']", "count(/a) > 1", "child::a",
           "/a[b + 1 = 2]", "/a[b * 2 = 2]"]  # fmt: skip
SCOPE = (("p", "urn:p"),)


@for_each("path", ["", "as one of many"])
@for_each(
    ("text", "document", "verdict"),
    [*((*row, True) for row in TRUE), *((*row, False) for row in FALSE)],
)
def test_verdicts(text: str, document: str, verdict: bool, path: str) -> None:
    filter_ = Filter(contents=(as_lexical(Expression(text, namespaces=SCOPE)),))
    event = Event(document.encode(), topic=DEFAULT_TOPIC)
    if path:
        filters: FilterSet[str] = FilterSet()
        filters.add("it", filter_)
        filters.add("other", Filter(contents=(Expression("/elsewhere"),)))
        assert (set(filters.match(event)) == {"it"}) is verdict
    else:
        assert compile(filter_).matches(event) is verdict


def test_the_text_stays_as_it_was_written() -> None:
    made = as_lexical(Expression("/p:x[a]"))
    assert (made.text, made.dialect) == ("/p:x[a]", XPATH_LEXICAL)
    assert XPATH_LEXICAL not in content_dialects()


@pytest.mark.parametrize("text", OUTSIDE)
def test_what_yfilter_does_not_have_is_left_alone(text: str) -> None:
    assert as_lexical(Expression(text)) == Expression(text)


@pytest.mark.parametrize(
    "text", ["/a[", "", "/a/", "//", "/a[1", "a b", "/p:", "\x00", "/a" * 9000]
)
def test_what_is_no_expression_is_refused_when_it_is_compiled(text: str) -> None:
    made = as_lexical(Expression(text))
    with pytest.raises(FilterError):
        compile(Filter(contents=(made,)))
