"""What a refusal says is wrong, and where."""

import pytest

from filters import Expression, FilterError, parse_document
from filters.compiling.topic_expressions import parse_expression
from filters.dialects import TOPIC_CONCRETE, TOPIC_FULL
from filters.xpath import parse

MALFORMED = {
    b"<a>\n <b>x</a>": "line 2, column 10: Opening and ending tag mismatch: b line 2 and a",
    b"<a>&nbsp;</a>": "line 1, column 10: Entity 'nbsp' not defined",
    b"": "Document is empty",
    b"<p:a/>": "Namespace prefix p on a is not defined",
    b"<a><" + b"x" * 900 + b"></a>": "xxx...",
    "<a><\u202e\u0301></a>".encode(): "line 1",
}


@pytest.mark.parametrize("document", MALFORMED)
def test_a_malformed_document_has_a_place(document: bytes) -> None:
    with pytest.raises(FilterError) as caught:
        parse_document(document)
    text = caught.value.text
    assert text.startswith("the document is not well-formed XML 1.0: line ")
    assert MALFORMED[document] in text
    assert len(text) < 260 and text.isprintable()


EXPRESSIONS = {
    "/speed[": "the expression ends too early, at character 8",
    "/a/ foo:bar": 'the prefix "foo" of the expression is not declared, at character 5',
    "/a b": 'a name where an operator belongs: "b", at character 4',
    "matches(a, 'b')": 'outside the XPath 1.0 core library: "matches", at character 1',
    "a[count(1)]": 'a function that needs a node-set as its argument: "count", at character 3',
    "a/b ~ 1": "the expression is not XPath 1.0, at character 5",
    "a//": "the expression ends too early, at character 4",
    "$x": "the expression has a variable, and none are bound, at character 1",
    "up::a": 'an axis that XPath 1.0 does not have: "up", at character 1',
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_has_a_place(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(Expression(text))
    assert EXPRESSIONS[text] in caught.value.text


TOPICS = {
    "a b": '"a b" is not a topic name (it has a space)',
    "": "the topic expression has an empty name",
    "//": "the topic expression has an empty name",
    "x/a:b:c": '"a:b:c" is not a topic name (it has several colons)',
    "x/:b": '":b" is not a topic name (it has nothing before or behind its colon)',
    "a&b": '"a&b" is not a topic name (it has the character "&")',
    ".a": '".a" is not a topic name (it begins with a dot)',
}


@pytest.mark.parametrize("text", TOPICS)
def test_what_is_no_topic_is_named(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse_expression(Expression(text, TOPIC_FULL))
    assert caught.value.text == TOPICS[text]


@pytest.mark.parametrize("text", ["storms//coast", "storms/*", "*", "//a"])
def test_a_pattern_is_named(text: str) -> None:
    with pytest.raises(FilterError, match="is a pattern, and its dialect takes one topic alone"):
        parse_expression(Expression(text, TOPIC_CONCRETE))
