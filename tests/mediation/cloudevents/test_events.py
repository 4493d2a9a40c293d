"""The rules for attributes, as the specification of CloudEvents has them."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Reason, Refused
from mediation.cloudevents import MAX_OCTETS, read_attributes
from mediation.cloudevents.events import _read_any, is_json, is_xml, text_of
from tests.rigs.cases import for_each

EVENT = {"specversion": "1.0", "id": "A234-1", "source": "/sensors/4", "type": "com.example.tide"}


def read(**more: object) -> dict[str, str | int | bool]:
    return read_attributes({**EVENT, **more}.items())


@pytest.mark.parametrize("name", EVENT)
def test_what_is_required(name: str) -> None:
    rest = [pair for pair in EVENT.items() if pair[0] != name]
    for attributes in (rest, [*rest, (name, None)], [*rest, (name, "")]):
        with pytest.raises(Refused) as refused:
            read_attributes(attributes)
        assert refused.value.reason is Reason.MESSAGE_INVALID
        assert name in refused.value.text


@for_each(
    ("name", "value"),
    [
        ("specversion", "0.3"),
        ("source", "a b"),
        ("source", "http://example.org/%zz"),
        ("source", "/m\u00fcnchen"),
        ("source", 5),
        ("dataschema", "relative"),
        ("subject", ""),
        ("subject", "a\x00"),
        ("subject", "a\x9f"),
        ("subject", "\ud800"),
        ("subject", "\ufffe"),
        ("time", "yesterday"),
        ("time", "2026-02-30T00:00:00Z"),
        ("time", "2026-03-01T00:00:00"),
        ("time", "2026-03-01 00:00:00Z"),
        ("datacontenttype", "json"),
        ("datacontenttype", "text/plain; x=\u20ac"),
        ("Ext", "x"),
        ("my_ext", "x"),
        ("my-ext", "x"),
        ("", "x"),
        ("data", "x"),
        ("x" * 65, "x"),
        ("ext", 1.5),
        ("ext", 2**31),
        ("ext", -(2**31) - 1),
        ("ext", {}),
        ("ext", []),
        ("ext", "a\nb"),
    ],
)
def test_what_breaks_a_rule(name: str, value: object) -> None:
    with pytest.raises(Refused) as refused:
        read(**{name: value})
    assert refused.value.reason is Reason.MESSAGE_INVALID


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("source", "https://example.org/a?b#c"),
        ("source", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66"),
        ("source", "1-555-123-4567"),
        ("dataschema", "urn:schema:tide"),
        ("subject", "mynewfile.jpg \u20ac"),
        ("time", "2018-04-05T17:31:00Z"),
        ("time", "2018-04-05t17:31:00.123456789+02:00"),
        ("time", "2016-12-31T23:59:60Z"),
        ("datacontenttype", "application/json; charset=utf-8"),
        ("comexampleextension1", ""),
        ("comexampleothervalue", 5),
        ("sampledrate", -(2**31)),
        ("flag", False),
    ],
)
def test_what_is_kept(name: str, value: object) -> None:
    assert read(**{name: value})[name] is value


NAMES = ["specversion", "id", "source", "type", "time", "subject", "datacontenttype", "ext", "Ext"]
TEXTS = [
    "",
    "x",
    "a b",
    "1.0",
    "\x00",
    "\u20ac",
    '"',
    "2026-03-01T00:00:00Z",
    "text/xml",
    "x" * 300,
]


def outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except Refused as refused:
        return refused.reason, refused.text


@given(
    st.dictionaries(
        st.sampled_from(NAMES), st.sampled_from(TEXTS) | st.text(max_size=4), max_size=5
    ),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["x", None, 5])), max_size=1),
    st.permutations(list(EVENT)),
)
def test_attributes_are_checked_together_as_one_by_one(
    more: dict[str, str], twice: list[tuple[str, object]], order: list[str]
) -> None:
    attributes = [*{**{name: EVENT[name] for name in order}, **more}.items(), *twice]
    assert outcome(lambda: read_attributes(attributes)) == outcome(lambda: _read_any(attributes))


def test_null_is_unset() -> None:
    assert read(subject=None, ext=None) == EVENT


def test_attributes_are_bounded() -> None:
    assert read(ext="x" * (MAX_OCTETS - 100))
    for more in ({"ext": "x" * MAX_OCTETS}, {f"e{number}": "" for number in range(80)}):
        with pytest.raises(Refused) as refused:
            read(**more)
        assert refused.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize(
    ("media_type", "json", "xml"),
    [
        ("application/json", True, False),
        ("text/JSON;charset=utf-8", True, False),
        ("application/ld+json", True, False),
        ("application/xml", False, True),
        ("text/xml; charset=utf-8", False, True),
        ("application/soap+xml", False, True),
        ("application/jsonp", False, False),
        ("application/xmljson", False, False),
        ("json/text", False, False),
        ("text/plain", False, False),
    ],
)
def test_what_data_is(media_type: str, json: bool, xml: bool) -> None:
    assert (is_json(media_type), is_xml(media_type)) == (json, xml)


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (-5, "-5"), ("", "")]
)
def test_canonical_strings(value: str | int | bool, text: str) -> None:
    assert text_of(value) == text
