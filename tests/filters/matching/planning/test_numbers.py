import math
import random
from typing import cast

from lxml import etree

from filters.matching.planning.numbers import read_number
from tests.rigs.cases import for_each
from tests.rigs.pace import growth

_NUMBER = etree.XPath("number()")
_LITERAL = "{} = number()"

NAN = math.nan
TEXTS = [
    ("", NAN),
    (" ", NAN),
    ("-", NAN),
    (".", NAN),
    ("-.", NAN),
    ("5", 5.0),
    (" 5 ", 5.0),
    ("\t\r\n5\n", 5.0),
    ("5\n\n", 5.0),
    (".5", 0.5),
    ("-.5", -0.5),
    ("5.", 5.0),
    ("-0", -0.0),
    ("+5", NAN),
    ("- 5", NAN),
    ("--5", NAN),
    ("5-", NAN),
    ("5 5", NAN),
    ("5.5.5", NAN),
    ("5a", NAN),
    ("abc", NAN),
    ("e5", NAN),
    (".e5", NAN),
    ("5\xa0", NAN),
    ("５", NAN),
    ("٣", NAN),
    ("NaN", NAN),
    ("Infinity", NAN),
    ("2020-12-11", NAN),
    ("0.1", 0.1),
    ("123456789012345", 123456789012345.0),
    ("-1.23456789012345", -1.23456789012345),
    ("0.00000000000001", 1e-14),
    ("1234567890123456", None),
    ("1.234567890123456", None),
    ("0000000000000001", None),
    ("1234567890123456x", NAN),
    ("1e5", None),
    ("1e", None),
    ("00E1", None),
    ("1.e5", None),
    ("1ex", None),
]


def same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


def by_libxml2(text: str) -> float:
    element = etree.Element("a")
    element.text = text
    return float(cast(float, _NUMBER(element)))


@for_each(("text", "number"), TEXTS, ids=[repr(text) for text, _ in TEXTS])
def test_number(text: str, number: float | None) -> None:
    found = read_number(text)
    if number is None:
        assert found is None
    else:
        assert found is not None
        assert same(found, number)
        assert same(found, by_libxml2(text))


def test_random_texts() -> None:
    """Each that is not doubtful is what libxml2 says, to the last bit."""
    chance = random.Random(1)
    certain = 0
    for _ in range(20_000):
        text = "".join(chance.choices("0123456789.- e\tx", (3,) * 10 + (3, 2, 2, 1, 1, 1), k=8))
        found = read_number(text)
        if found is not None:
            certain += not math.isnan(found)
            assert same(found, by_libxml2(text)), text
    assert certain > 1_000


def test_random_decimals() -> None:
    chance = random.Random(2)
    for _ in range(20_000):
        digits = "".join(chance.choices("0123456789", k=chance.randint(1, 15)))
        point = chance.randint(0, len(digits))
        text = f"{chance.choice(['', '-'])}{digits[:point]}.{digits[point:]}"
        found = read_number(text)
        assert found is not None
        assert same(found, by_libxml2(text)), text
        # The literal of an expression is read by other code than a text.
        element = etree.Element("a")
        element.text = text
        assert etree.XPath(_LITERAL.format(text))(element) is True, text


@for_each("text", ["{}x", "{}.x", ".{}x", "-{} 1"])
@for_each("filling", ["0", " ", "0.", "1e"])
def test_a_text_costs_what_it_is_long(text: str, filling: str) -> None:
    assert growth(lambda size: read_number(text.format(filling * size)), 1000) < 3
