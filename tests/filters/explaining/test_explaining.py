import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import EVERYTHING, Event, Expression, Filter, FilterError, Step, Topic, View, compile
from filters.dialects import ACTION_DPWS_1_1, TOPIC_FULL
from filters.explaining import explain
from filters.explaining.explanation import Explanation
from filters.explaining.xpath import MAX_LINES, TOO_EXPENSIVE
from filters.xpath.syntax import Node
from filters.xpath.unparse import unparse
from tests.filters.xpath.expressions import NAMESPACES, declared, elements, trees
from tests.rigs.cases import for_each
from tests.rigs.pace import pace

EVENTS = "http://example.org/events"
SCOPE = (("e", EVENTS), ("x", "urn:x"))
LOGON = Event(
    f"<Event xmlns='{EVENTS}'><!--c--><System><Provider Name='Security'/><EventID>4625</EventID>"
    "<Level>0</Level></System><EventData><Data Name='User'>bob</Data><Data Name='Type'>3</Data>"
    f"</EventData><Text>{'long ' * 100}</Text></Event>".encode(),
    topic=Topic((Step("urn:t", "logons"),)),
    action="urn:logon",
)


def told(text: str, event: Event = LOGON) -> str:
    """The explanation of *text* without the line of the whole filter."""
    filter = Filter(contents=(Expression(text, namespaces=SCOPE),))
    explanation = explain(filter, event)
    assert explanation.verdict is compile(filter).matches(event)
    [child] = explanation.children
    return str(child)


TOLD = {
    "e:System": "yes e:System  -- 1 node: '46250'",
    "e:System/e:Level": "yes e:System/e:Level  -- 1 node: '0'",
    "//e:Data": "yes //e:Data  -- 2 nodes: 'bob', '3'",
    "/": "yes /  -- 1 node: the document",
    "//text()": "yes //text()  -- 5 nodes: '4625', '0', 'bob' and 2 more",
    "comment()": "yes comment()  -- 1 node: 'c'",
    "true()": "yes true()  -- the value is true",
    "1 div 0": "yes 1 div 0  -- the value is inf",
    "''": "no  ''",
    "e:System/e:EventID = 4624": "no  e:System/e:EventID = 4624  -- the value is '4625', not 4624",
    "e:System/e:EventID = 4625": "yes e:System/e:EventID = 4625  -- the value is '4625'",
    "5000 < //e:EventID": "no  5000 < //e:EventID  -- the value is '4625', 5000 is not < that",
    "//e:EventID >= 5000": "no  //e:EventID >= 5000  -- the value is '4625', not >= 5000",
    "//e:Data = 'x'": "no  //e:Data = 'x'  -- the values are 'bob', '3', not 'x'",
    "//e:EventID = //e:Level": "no  //e:EventID = //e:Level  -- //e:EventID is '4625', "
    "//e:Level is '0'",
    "count(//e:Data) > 5": "no  count(//e:Data) > 5  -- the value is 2, not > 5",
    "number(//e:Data) = 1": "no  number(//e:Data) = 1  -- the value is not a number, not 1",
    "contains(//e:Data, 'al')": "no  contains(//e:Data, 'al')  -- //e:Data is 'bob', the first "
    "of 2",
    "starts-with(//e:Level, concat('1', '2'))": "no  starts-with(//e:Level, concat('1', '2'))  -- "
    "//e:Level is '0'; concat('1', '2') is '12'",
    "not(e:System/e:Level)": "no  not(e:System/e:Level)\n  yes e:System/e:Level  -- 1 node: '0'",
    "boolean(e:None)": "no  boolean(e:None)\n"
    "  no  e:None  -- no element e:None in e:Event; there are e:System, e:EventData, e:Text",
    "e:None = 1": "no  e:None = 1  -- there is nothing to compare\n"
    "  no  e:None  -- no element e:None in e:Event; there are e:System, e:EventData, e:Text",
    "e:None/e:More or e:System/e:Level/e:X": "no  e:None/e:More or e:System/e:Level/e:X\n"
    "  no  e:None/e:More  -- no element e:None in e:Event; there are e:System, e:EventData, "
    "e:Text\n"
    "  no  e:System/e:Level/e:X  -- no element e:X in e:Level; it is empty",
    "/*[e:System[e:EventID=1]]": "no  /*[e:System[e:EventID=1]]  -- 1 element, but it does not "
    "pass [e:System[e:EventID=1]]\n"
    "  no  e:System[e:EventID=1]  -- 1 e:System, but it does not pass [e:EventID=1]\n"
    "    no  e:EventID=1  -- the value is '4625', not 1",
    "//e:Data[@Name='User'][.='eve']": "no  //e:Data[@Name='User'][.='eve']  -- 1 e:Data, but it "
    "does not pass [.='eve']\n  no  .='eve'  -- the value is 'bob', not 'eve'",
    "//e:Data[3]": "no  //e:Data[3]  -- there are 2 e:Data, and none has the position 3",
    "//e:Data[last() + 1]": "no  //e:Data[last() + 1]  -- there are 2 e:Data, and none has the "
    "position last() + 1",
    "//e:Level[position() = 2]": "no  //e:Level[position() = 2]  -- 1 e:Level, but it does not "
    "pass [position() = 2]\n"
    "  ?   position() = 2  -- depends on the position among the nodes",
    "//@Name[. = 'x']": "no  //@Name[. = 'x']  -- 3 @Name, but none passes [. = 'x']: "
    "'Security', 'User', 'Type'",
    "(//e:Data)[7]": "no  (//e:Data)[7]  -- the predicates leave none of them",
    "(//e:X)[7]/e:Y": "no  (//e:X)[7]/e:Y\n  no  (//e:X)[7]\n"
    "    no  //e:X  -- no element e:X in the document; there are e:Event, e:System, e:Provider, "
    "e:EventID, e:Level, e:EventData and 2 more",
    "//e:EventData//e:Level": "no  //e:EventData//e:Level  -- no element e:Level anywhere in "
    "e:EventData; there is e:Data",
    "e:EventData/descendant::e:Level": "no  e:EventData/descendant::e:Level  -- no element "
    "e:Level anywhere in e:EventData; there is e:Data",
    "//e:Data/e:X": "no  //e:Data/e:X  -- no element e:X in 2 e:Data; it is empty",
    "//e:Level/@Name": "no  //e:Level/@Name  -- no attribute Name on e:Level; there are no "
    "attributes",
    "e:System/..//e:X/..": "no  e:System/..//e:X/..  -- no element e:X anywhere in node(); there "
    "are e:System, e:Provider, e:EventID, e:Level, e:EventData, e:Data and 1 more",
    ".//e:X": "no  .//e:X  -- no element e:X anywhere in e:Event; there are e:System, e:Provider, "
    "e:EventID, e:Level, e:EventData, e:Data and 1 more",
    "e:X = false()": "yes e:X = false()  -- e:X is nothing, false() is false",
    "e:System/preceding-sibling::*": "no  e:System/preceding-sibling::*  -- no element on the axis "
    "preceding-sibling",
    "e:System/text()": "no  e:System/text()  -- no text() in e:System; there are e:Provider, "
    "e:EventID, e:Level",
    # The usual mistakes.
    "/Event": f"no  /Event  -- the root element is e:Event, element Event was asked for. Event "
    f"exists in namespace {EVENTS}; the expression asks for no namespace, as names without a prefix do",
    "System/Level": "no  System/Level  -- no element System in e:Event; there are e:System, "
    f"e:EventData, e:Text. System exists in namespace {EVENTS}; the expression asks for no "
    "namespace, as names without a prefix do",
    "//e:Provider[@e:Name]": "no  //e:Provider[@e:Name]  -- 1 e:Provider, but it does not pass "
    "[@e:Name]\n"
    "  no  @e:Name  -- no attribute e:Name on e:Provider; there is Name. Name exists in no "
    f"namespace; the expression asks for namespace {EVENTS}",
    "//x:Data": "no  //x:Data  -- no element x:Data in the document; there are e:Event, e:System, "
    "e:Provider, e:EventID, e:Level, e:EventData and 2 more. Data exists in namespace "
    f"{EVENTS}; the expression asks for namespace urn:x",
    "e:System/e:eventID": "no  e:System/e:eventID  -- no element e:eventID in e:System; there are "
    "e:Provider, e:EventID, e:Level. Capital and small letters differ",
}


@for_each("text", TOLD)
def test_told(text: str) -> None:
    assert told(text) == TOLD[text]


def test_values_are_shortened() -> None:
    assert len(told("e:Text = 'x'")) < 120
    assert len(told(f"e:Text = '{'y' * 4000}'")) < 300
    assert len(told(" or ".join(["e:Text"] * 60))) < 10_000


def test_all_expressions_are_lines() -> None:
    filter = Filter(
        topics=(Expression("t:logons//.", TOPIC_FULL, (("t", "urn:t"),)),),
        contents=(
            Expression("//@Name"),
            Expression("e:Level", namespaces=SCOPE, view=View("envelope")),
        ),
        others=(Expression("urn:other", ACTION_DPWS_1_1),),
    )
    assert str(explain(filter, LOGON)) == (
        "no  the filter\n"
        "  yes t:logons//.  -- the topic is {urn:t}logons\n"
        "  yes //@Name  -- 3 nodes: 'Security', 'User', 'Type'\n"
        "  no  e:Level  -- the message has no envelope\n"
        f"  no  urn:other  -- in the dialect {ACTION_DPWS_1_1}; the message has the action urn:logon"
    )


def test_no_expression_and_no_document() -> None:
    assert explain(EVERYTHING, LOGON).verdict is True
    assert told("true()", Event(b"no XML")) == "no  true()  -- the message has no payload in XML"
    with pytest.raises(FilterError):
        explain(Filter(contents=(Expression("e:Level"),)), LOGON)


def test_what_is_too_expensive() -> None:
    """Nothing is begun that may not end; what else there is still decides."""
    event = Event(f"<a>{'<b><c/></b>' * 4000}</a>".encode())
    costly = Expression("//*[../*[../*[../*[x]]]]")
    assert pace(lambda: explain(Filter(contents=(costly,)), event), enough=200) < 200
    explanation = explain(Filter(contents=(costly,)), event)
    assert explanation.verdict is None
    assert explanation.children == (Explanation(None, costly.text, TOO_EXPENSIVE),)
    assert explain(Filter(contents=(costly, Expression("x"))), event).verdict is False


def test_many_lines_are_not_told() -> None:
    event = Event(f"<a>{'<b><c/><c/><c/></b>' * 50}</a>".encode())
    text = "b[c[. = 1 or . = 2 or . = 3][. = 1]]" + " or b[c[. = 1 or . = 2]]" * 14
    lines = told(text, event).splitlines()
    assert MAX_LINES / 2 < len(lines) <= MAX_LINES + 1


@given(trees(), st.lists(elements(), min_size=1, max_size=3))
def test_the_verdict_is_that_of_the_filter(node: Node, payloads: list[str]) -> None:
    expression = Expression(unparse(node, NAMESPACES), namespaces=NAMESPACES)
    filter = Filter(contents=(expression,))
    try:
        compiled = compile(filter)
    except FilterError:
        return
    for payload in map(declared, payloads):
        event = Event(payload.encode())
        explanation = explain(filter, event)
        assert explanation.verdict is compiled.matches(event)
        assert len(str(explanation).splitlines()) <= MAX_LINES + 1
