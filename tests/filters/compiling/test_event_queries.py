"""Event queries of Windows, as XPath over events that are documents of their own."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from filters import Event, Expression, Filter, FilterError, FilterSet, Reason, compile
from filters.compiling.event_queries import WINDOWS_EVENTS, translate_event_query
from filters.dialects import EVENT_QUERY
from tests.rigs.cases import for_each

LOGON = f"""<Event xmlns="{WINDOWS_EVENTS}"><System>
  <Provider Name="Microsoft-Windows-Security-Auditing"/><EventID>4624</EventID><Level>0</Level>
  <Keywords>0x8020000000000000</Keywords><TimeCreated SystemTime="2026-01-31T10:00:00Z"/>
  <Channel>Security</Channel></System><EventData><Data Name="LogonType">3</Data>
  <Data Name="TargetUserName">alice</Data></EventData></Event>"""
NOT_WINDOWS = "<Event><System><EventID>4624</EventID><Channel>Security</Channel></System></Event>"


def matches(query: str, event: str = LOGON) -> bool:
    filter_ = Filter(contents=(Expression(query, EVENT_QUERY),))
    compiled = compile(filter_).matches(Event(event.encode()))
    filters = FilterSet[str]()
    filters.add("key", filter_)
    assert ("key" in filters.match(Event(event.encode()))) is compiled
    return compiled


def queries(*queries: str) -> str:
    return f"<QueryList>{''.join(queries)}</QueryList>"


def query(*parts: str, path: str = "") -> str:
    at = f' Path="{path}"' if path else ""
    return f'<Query Id="0"{at}>{"".join(parts)}</Query>'


SELECTS = [
    ("*", True),
    ("*[System]", True),
    ("*[System[EventID=4624]]", True),
    ("*[System[(EventID=4625)]]", False),
    ("*[System[(Level=1 or Level=0) and (EventID &gt;= 4600 and EventID &lt;= 4700)]]", True),
    ("*[System[Provider[@Name='Microsoft-Windows-Security-Auditing']]]", True),
    ("*[System[Provider[@Name='Other']]]", False),
    ("Event[System[EventID=4624]]", True),
    ("Event/System[EventID=4624]", True),
    ("*[EventData[Data[@Name='LogonType']='3']]", True),
    ("*[EventData[Data[@Name='LogonType'] and (Data='alice')]]", True),
    ("*[EventData[Data[@Name='LogonType'] and (Data='bob')]]", False),
    ("*[System[EventID=4624] and EventData[Data[@Name='TargetUserName']='alice']]", True),
    ("*[System[not(EventID=4624)]]", False),
    ("*/System/child::EventID", True),
    ("/Event/System", True),
    ("System", False),
    ("count(*/EventData/Data) = 2", True),
    ("<!-- c -->*[System[EventID=4624]]", True),
    ("*[System[EventID=<!-- a -->4625<!-- b -->]]<!-- c -->", False),
    ("<![CDATA[*[System[EventID]]><!-- c --><![CDATA[>4600]]]]>", True),
]


@for_each(("select", "expected"), SELECTS)
def test_selects(select: str, expected: bool) -> None:
    assert matches(queries(query(f"<Select>{select}</Select>"))) is expected


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        pytest.param(query("<Select>*</Select>", path="Security"), True, id="channel"),
        pytest.param(query("<Select>*</Select>", path="System"), False, id="another channel"),
        pytest.param(
            query('<Select Path="Security">*</Select>', path="System"), True, id="of the Select"
        ),
        pytest.param(
            query("<Select>*</Select>", "<Suppress>*[System[EventID=4624]]</Suppress>"),
            False,
            id="suppressed",
        ),
        pytest.param(
            query("<Select>*</Select>", '<Suppress Path="System">*</Suppress>', path="Security"),
            True,
            id="suppressed in another channel",
        ),
        pytest.param(
            query("<Select>*[System[EventID=1]]</Select>", "<Select>*[System[EventID=4624]]</Select>"),
            True,
            id="one of two Selects",
        ),
        pytest.param(
            query("<Select>*</Select>", path="System") + query("<Select>*</Select>", path="Security"),
            True,
            id="one of two queries",
        ),
        pytest.param(
            query("<Select>*</Select>", "<Suppress>*</Suppress>") + query("<Select>*</Select>"),
            True,
            id="a Suppress is of its own Query",
        ),
    ],
)  # fmt: skip
def test_queries(lists: str, expected: bool) -> None:
    assert matches(queries(lists)) is expected


def test_a_path_alone() -> None:
    assert matches("*[System[EventID=4624]]")


def test_names_are_of_windows_events() -> None:
    assert not matches(queries(query("<Select>*[System]</Select>")), NOT_WINDOWS)
    assert not matches(queries(query("<Select>*</Select>", path="Security")), NOT_WINDOWS)


REFUSED = [
    ("*[System[TimeCreated[timediff(@SystemTime) &lt;= 86400000]]]", "timediff"),
    ("*[System[band(Keywords,13510798882111488)]]", "band"),
    ("*[System[TimeCreated[@SystemTime &gt; '2026-01-31T00:00:00Z']]]", "compares a text"),
    ("*[System[", "ends too early"),
    ("", "empty"),
]


@pytest.mark.parametrize(("select", "why"), REFUSED)
def test_what_xpath_has_not(select: str, why: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile(
            Filter(
                contents=(Expression(queries(query(f"<Select>{select}</Select>")), EVENT_QUERY),)
            )
        )
    assert caught.value.reason is Reason.FILTER_INVALID
    assert why in caught.value.text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("<QueryList/>", Reason.FILTER_INVALID, id="empty"),
        pytest.param("<Query/>", Reason.FILTER_INVALID, id="no list"),
        pytest.param(queries(query()), Reason.FILTER_INVALID, id="no Select"),
        pytest.param("<QueryList>", Reason.NOT_XML, id="no XML"),
        pytest.param(
            queries(query("<Select>*</Select>", path="file://C:/a.evtx")), Reason.FILTER_INVALID,
            id="a file",
        ),
        pytest.param(
            queries(query(*["<Select>*</Select>"] * 65)), Reason.FILTER_COSTLY, id="too many"
        ),
        pytest.param(
            queries(query(f"<Select>*[{' or '.join(['System'] * 200)}]</Select>")),
            Reason.FILTER_COSTLY,
            id="too long",
        ),
        pytest.param(
            queries(query("<Select>*</Select>")).ljust(8193), Reason.FILTER_COSTLY, id="long list"
        ),
        pytest.param(" " * 8192 + "<", Reason.FILTER_COSTLY, id="long, and no XML"),
    ],
)  # fmt: skip
def test_refused(text: str, reason: Reason) -> None:
    with pytest.raises(FilterError) as caught:
        compile(Filter(contents=(Expression(text, EVENT_QUERY),)))
    assert caught.value.reason is reason


def test_the_expression() -> None:
    text = queries(query("<Select>*[System[EventID=1]]</Select>", path="Security"))
    translated = translate_event_query(Expression(text, EVENT_QUERY))
    assert translated.text == (
        "(/e:Event/e:System/e:Channel='Security' and /*[e:System[e:EventID=1]])"
    )


def corpus(shared: Path) -> Iterator[str]:
    with gzip.open(shared / "corpus/winevent/winevent.jsonl.gz", "rt") as lines:
        for line in lines:
            yield json.loads(line)["xml"]


def test_real_events(shared: Path) -> None:
    """Of each event its own channel and its own number match, and those of no other."""
    checked = 0
    for event in corpus(shared):
        root = event.partition("<EventID")[2]
        number = root.partition(">")[2].partition("<")[0].strip()
        channel = event.partition("<Channel>")[2].partition("<")[0].strip()
        if not number or not channel or "'" in channel:
            continue
        one = query(f"<Select>*[System[EventID={number}]]</Select>", path=channel)
        assert matches(queries(one), event), event
        other = query(f"<Select>*[System[EventID={number}1]]</Select>", path=channel)
        assert not matches(queries(other), event)
        checked += 1
        if checked == 300:
            break
    assert checked > 100
