"""A call that is read by a mould is what it would be read as a whole."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filters import parse_clark
from mediation.detect import read
from mediation.grid_events import Template
from mediation.grid_events.types import BASE, BASE_FIELDS
from mediation.matrix import PUBLISHING, write_publication
from mediation.model.calling import CallRules
from mediation.model.messages import Notification
from mediation.model.requests import EndpointRules
from mediation.soap.recurring import Moulds
from tests.rigs.cases import for_each
from tests.rigs.grid_events import EVENTS, SPELLINGS, handle, sample
from tests.rigs.mediation import ARRIVAL, NOW
from tests.rigs.moulds import outcome, same, taught, teach, untaught, whole

(DIALECT,) = (dialect for dialect in PUBLISHING if dialect.name == "grid-events")
VALUES = {
    "eventNamespace": "http://example.org/weather",
    "eventType": "storm.coast",
    "source": "buoy7",
    "timestamp": "1016000000123",
    "seqNo": "41",
    "message": "waves of &lt;9&gt; metres",
    "handback": "desk-5",
}
KINDS = {"timestamp": "long", "seqNo": "long"}


def called(values: dict[str, str] = VALUES) -> bytes:
    return handle(
        "\n".join(
            f"<{name} xsi:type='xsd:{KINDS.get(name, 'string')}'>{value}</{name}>"
            for name, value in values.items()
        )
    )


def changed(**values: str) -> bytes:
    return called({**VALUES, **values})


@pytest.mark.parametrize("name", EVENTS)
@for_each("spelling", SPELLINGS)
def test_calls_in_any_spelling(name: str, spelling: str) -> None:
    octets = SPELLINGS[spelling](sample(name))
    moulds = taught(octets)
    known = same(moulds, octets)
    if name == "event" and spelling != "another order":
        assert known
    arrival = replace(
        ARRIVAL, source="another", fresh_id="urn:2", url_topic=parse_clark("{urn:u}u")
    )
    same(moulds, octets, arrival)
    for one, other in ((b"storm", b"wind"), (b">41<", b">0<"), (b"1016000000123", b"7")):
        same(moulds, octets.replace(one, other), arrival)


def test_three_times_make_a_mould() -> None:
    octets, moulds = called(), untaught()
    for known in (False, False, False, True, True):
        assert same(moulds, octets) is known
        teach(moulds, octets)


def test_what_others_publish_as_calls() -> None:
    def made(payload: str, name: str) -> bytes:
        event = Notification("1", "p", payload.encode(), NOW, parse_clark(name))
        return write_publication(DIALECT, event, "").octets

    moulds = taught(made("<a/>", "storms"))
    assert same(moulds, made("<b x='\"'>&amp;&#233;\u20ac\n</b>", "winds"))


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"eventType": "wind"},
        {"eventType": ""},
        {"source": ""},
        {"eventNamespace": "", "message": ""},
        {"message": "&amp;lt; \n\t '\" \u20ac \U0001f600"},
        {"timestamp": "0"},
        {"timestamp": "000"},
        {"timestamp": "00000000001016000000124", "seqNo": "000000000041"},
        {"seqNo": "0"},
        {"seqNo": "-5"},
        {"timestamp": "99999999999999"},
        {"handback": " x "},
    ],
)
def test_plain_values_are_read_by_it(values: dict[str, str]) -> None:
    assert same(taught(called()), changed(**values))


@for_each(
    "values",
    [
        {"eventType": " wind"},
        {"eventType": "a&amp;b"},
        {"eventType": ".".join("x" * 33)},
        {"eventNamespace": "x" * 2049},
        {"source": "\n"},
        {"source": "x" * 1025},
        {"handback": "\u20ac" * 400},
        {"message": "a > b"},
        {"message": "]]>"},
        {"message": "&quot;"},
        {"message": "&"},
        {"message": "&amp"},
        {"message": "&#65;"},
        {"message": "&other;"},
        {"message": "a\rb"},
        {"message": "a\x00b"},
        {"message": "a\x0bb"},
        {"message": "\ufffe"},
        {"message": "\ufffd"},
        {"message": "<a/>"},
        {"message": "<!-- -->a"},
        {"message": "<![CDATA[a]]>"},
        {"message": "<?p?>"},
        {"message": "x" * 17_000},
        {"timestamp": ""},
        {"timestamp": "007 "},
        {"timestamp": "-007"},
        {"timestamp": "0x7"},
        {"timestamp": "-1"},
        {"timestamp": "x"},
        {"timestamp": "253402300800000"},
        {"seqNo": "+5"},
        {"seqNo": "9223372036854775808"},
        {"seqNo": "09223372036854775808"},
        {"seqNo": " 5"},
        {"seqNo": "\u0665"},
    ],
)
def test_other_values_are_read_by_a_parser(values: dict[str, str]) -> None:
    octets = changed(**values)
    assert not same(taught(called()), octets)
    assert outcome(lambda: read(octets, ARRIVAL)) == whole(octets)


def test_what_is_not_utf_8_is_read_by_a_parser() -> None:
    octets = called().replace(b"waves", b"w\xff\xed\xa0\x80")
    assert not same(taught(called()), octets)


def test_calls_of_a_template() -> None:
    holes = [(name, kind) for name, kind in BASE_FIELDS if name != "source"]
    template = Template(BASE.name, BASE_FIELDS, {"source": "here"})

    def filled(number: int) -> bytes:
        return template.fill({name: number if kind == "long" else "x" for name, kind in holes})

    assert same(taught(filled(1)), filled(2**40))


PIECES = ["a", "1", "0", "&lt;", "&amp;", "&gt;", "&#9;", " ", "\n", "\t", "\r", ".", "-", "\ufffe"]
TEXTS = st.lists(st.sampled_from([*PIECES, "é", "<", ">", "&", '"']), max_size=4).map("".join)
_known: list[Moulds] = []


def known() -> Moulds:
    if not _known:
        _known.append(taught(called()))
    return _known[0]


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(VALUES, TEXTS)))
def test_any_values_are_what_they_are_as_a_whole(values: dict[str, str]) -> None:
    same(known(), changed(**values))


@settings(max_examples=200)
@given(
    at=st.integers(0, len(called())),
    cut=st.integers(0, 12),
    put=st.binary(max_size=3) | st.sampled_from([b"<!--", b"</message>", b"<source>", b"'", b">"]),
)
def test_any_call_is_what_it_is_as_a_whole(at: int, cut: int, put: bytes) -> None:
    octets = called()
    same(known(), octets[:at] + put + octets[at + cut :])


@pytest.mark.parametrize(
    "fields",
    [
        "<message xsi:nil='1'></message><eventType>storm</eventType>",
        "<eventType>storm</eventType><own>1</own>",
        "<!-- <source>a</source> --><eventType>storm</eventType>",
        "<own><source>a</source></own><eventType>storm</eventType>",
        "<source>a</source><eventType>storm</eventType>",
        "<source href='#a'></source><eventType>storm</eventType><message id='a'>b</message>",
        "<eventType xsi:type='enc:Array'>storm</eventType>",
        "<source/><eventType>storm</eventType>",
        "<a:eventType xmlns:a='urn:a'>storm</a:eventType>",
        "<eventType xsi:a='>'>storm</eventType>",
        "",
    ],
)
def test_calls_of_other_forms(fields: str) -> None:
    """Wherever a mould is made of them, it reads as all would be read."""
    octets = handle(fields)
    moulds = taught(octets)
    for other in (octets, octets.replace(b"storm", b"wind"), octets.replace(b">a<", b">c<")):
        same(moulds, other)


def test_what_the_address_decides_is_part_of_a_mould() -> None:
    moulds = taught(called())
    rules = EndpointRules(calls=CallRules(known_types=True))
    assert not same(moulds, called(), replace(ARRIVAL, rules=rules))
    assert not same(moulds, called(), replace(ARRIVAL, http_action="urn:a"))
