"""Calls made of payloads without a parser: the same ones as with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters.documents import parse_own
from mediation.grid_events import Event, Further, Generation, TypeName, read_payload, write_payload
from mediation.grid_events.events import write_fields
from mediation.grid_events.rewriting import rewrite_payload
from mediation.grid_events.types import BASE_FIELDS, MACHINE_UTILIZATION
from mediation.names import GRID_EVENT

STORM = Event(
    "http://example.org/weather",
    "storm.coast.Warning",
    "buoy7.example.org",
    1016000000123,
    41,
    "\twaves of <9> metres & more\n",
    "desk",
)
MACHINE = Event(
    type="resdata.machine",
    number=-5,
    message="",
    type_name=MACHINE_UTILIZATION.name,
    further=(Further("cpuUtilization", "0.25"), Further("memoryUsed", "7341056")),
)
START, END = f'<ev:Event xmlns:ev="{GRID_EVENT}">', "</ev:Event>"
assert write_payload(Event()).decode() == START + END
PIECES = (
    *(f"<{name}>" for name in ("eventNamespace", "eventType", "timestamp", "seqNo", "message")),
    *(f"</{name}>" for name in ("eventNamespace", "eventType", "timestamp", "seqNo", "message")),
    *("<eventType>a.b</eventType>", "<timestamp>12</timestamp>", "<seqNo>-3</seqNo>"),
    *("<message>&lt;a b=\"c\"/&gt;</message>", "<handback>h</handback>", "<source> s </source>"),
    *("<timestamp>007</timestamp>", "<seqNo>+1</seqNo>", "<timestamp>253402300800000</timestamp>"),
    *("&amp;", "&#13;", "&#65;", "&quot;", "&", ">", "]]>", "<!-- -->", "<![CDATA[<]]>", "<a/>"),
    *(" ", "\n", "\t", "\r", "\0", "\x7f", "\ufffe", "\ud800", "é", "\U0001f600", "0", ".", "x" * 600),
)  # fmt: skip


def slowly(payload: bytes, generation: Generation) -> tuple[TypeName, str, str] | None:
    """The same with the parser; None where a payload is no event, or none that is well-formed."""
    try:
        parse_own(payload)
    except etree.XMLSyntaxError:
        return None
    event = read_payload(payload)
    return None if event is None else (event.type_name, *write_fields(event, generation))


def quickly(payload: bytes, generation: Generation) -> tuple[TypeName, str, str] | None:
    found = rewrite_payload(payload, generation)
    if found is None:
        return None
    event, before, behind = found
    return event.type_name, before.decode(), behind.decode()


@pytest.mark.parametrize("event", [STORM, MACHINE, Event()])
@pytest.mark.parametrize("generation", Generation)
def test_what_is_made_without_a_parser(event: Event, generation: Generation) -> None:
    payload = write_payload(event)
    assert quickly(payload, generation) == slowly(payload, generation) is not None


@pytest.mark.parametrize(
    "event",
    [
        Event(type_name=TypeName("urn:a", "Unknown")),
        Event(message="\r"),
        Event(source="s" * 1025),
        Event(further=(Further("own", "1", b"<own>1</own>"),)),
    ],
)
def test_what_takes_a_parser(event: Event) -> None:
    assert quickly(write_payload(event), Generation.V2001) is None


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.sampled_from(Generation))
def test_it_comes_to_the_same(pieces: list[str], generation: Generation) -> None:
    payload = f"{START}{''.join(pieces)}{END}".encode(errors="surrogatepass")
    found = quickly(payload, generation)
    assert found is None or found == slowly(payload, generation)


WORDS = (
    "a",
    "1",
    "&lt;",
    "&amp;",
    "&gt;",
    "&#9;",
    " ",
    "\n",
    "\t",
    "\r",
    ".",
    "-",
    "0",
    "\ufffe",
    "é",
)


@given(
    st.lists(
        st.none() | st.lists(st.sampled_from(WORDS), max_size=4).map("".join),
        min_size=len(BASE_FIELDS),
        max_size=len(BASE_FIELDS),
    )
)
def test_it_comes_to_the_same_for_any_text(texts: list[str | None]) -> None:
    fields = zip(BASE_FIELDS, texts, strict=True)
    written = [f"<{name}>{text}</{name}>" for (name, _), text in fields if text is not None]
    payload = f"{START}{''.join(written)}{END}".encode()
    found = quickly(payload, Generation.V1999)
    assert found is None or found == slowly(payload, Generation.V1999)
