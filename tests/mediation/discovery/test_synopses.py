"""A UUID in a placeholder of each type, and what a finished synopsis has somebody subscribe to."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters import Topic, parse_clark
from mediation.discovery import (
    MAX_SYNOPSIS,
    Property,
    Selection,
    Synopsis,
    SynopsisRefused,
    SynopsisType,
    check_placeholder,
    place_uuid,
    selection_of,
)
from tests.rigs import discovery, discovery_strategies
from tests.rigs.cases import for_each

ID = discovery.TOPIC_ID
LEVEL = f"u-{ID}"
TDN = "urn:dragoman:tdn:1"


def path(text: str, namespace: str | None = "urn:n") -> Synopsis:
    return Synopsis(SynopsisType.PATH, text, namespace)


def tags(text: str) -> Synopsis:
    return Synopsis(SynopsisType.TAGS, text)


def properties(*pairs: tuple[str, str]) -> Synopsis:
    found = tuple(Property(name, value) for name, value in pairs)
    return Synopsis(SynopsisType.PROPERTIES, properties=found)


def document(octets: bytes) -> Synopsis:
    return Synopsis(SynopsisType.XML, document=octets)


TOPIC_ID = f'<tdn:TopicId xmlns:tdn="{TDN}">urn:uuid:{ID}</tdn:TopicId>'.encode()

PLACED = [
    pytest.param(path("A/B/{uuid}"), path(f"A/B/{LEVEL}"), id="path, at the end"),
    pytest.param(path("A/{uuid}/B"), path(f"A/{LEVEL}/B"), id="path, in the middle"),
    pytest.param(path("{uuid}/B"), path(f"{LEVEL}/B"), id="path, at the beginning"),
    pytest.param(path("A/B"), path(f"A/B/{LEVEL}"), id="path, without a token"),
    pytest.param(path(""), path(LEVEL), id="path, empty"),
    pytest.param(path("A", None), path(f"A/{LEVEL}", None), id="path, without a namespace"),
    pytest.param(
        path("/".join(["A" * 80] * 15)),
        path("/".join(["A" * 80] * 15 + [LEVEL])),
        id="path, as long as can be",
    ),
    pytest.param(
        Synopsis(SynopsisType.INTEGER, "what ever"),
        Synopsis(SynopsisType.INTEGER, "123698340377370562230931894716105195041"),
        id="integer",
    ),
    pytest.param(tags("a=1,b=2"), tags(f"a=1,b=2,uuid={ID}"), id="tags"),
    pytest.param(tags(""), tags(f"uuid={ID}"), id="no tags"),
    pytest.param(tags("a=b=c,d="), tags(f"a=b=c,d=,uuid={ID}"), id="tags with odd values"),
    pytest.param(
        properties(("a", "1"), ("b", "2")),
        properties(("uuid", str(ID)), ("a", "1"), ("b", "2")),
        id="properties",
    ),
    pytest.param(properties(), properties(("uuid", str(ID))), id="no properties"),
    pytest.param(document(b"<a><b/></a>"), document(b"<a>" + TOPIC_ID + b"<b></b></a>"), id="xml"),
    pytest.param(document(b"<a/>"), document(b"<a>" + TOPIC_ID + b"</a>"), id="xml, empty"),
    pytest.param(
        document(b"<a> 1 <b/> 2 </a>"),
        document(b"<a>" + TOPIC_ID + b" 1 <b></b> 2 </a>"),
        id="xml with text",
    ),
    pytest.param(
        document(b'<tdn:a xmlns:tdn="urn:other"/>'),
        document(b'<tdn:a xmlns:tdn="urn:other">' + TOPIC_ID + b"</tdn:a>"),
        id="xml with our prefix for something else",
    ),
]


@for_each(("placeholder", "finished"), PLACED)
def test_a_uuid_is_put_in(placeholder: Synopsis, finished: Synopsis) -> None:
    assert int("123698340377370562230931894716105195041") == ID.int
    check_placeholder(placeholder)
    assert place_uuid(placeholder, ID) == finished
    selection_of(finished, ID)
    # Nobody gets a UUID into what has one already, but where it replaces or is a level like others.
    if placeholder.type not in (SynopsisType.INTEGER, SynopsisType.PATH):
        with pytest.raises(SynopsisRefused):
            place_uuid(finished, ID)


@for_each(
    "placeholder",
    [
        pytest.param(path("A", TDN), id="a reserved namespace"),
        pytest.param(path("{uuid}/A/{uuid}"), id="two tokens"),
        pytest.param(path("A/{uuid}x"), id="a token within a level"),
        pytest.param(path("A//B"), id="an empty level"),
        pytest.param(path("/A"), id="an empty first level"),
        pytest.param(path("1"), id="a digit at the beginning"),
        pytest.param(path("A B"), id="a blank"),
        pytest.param(path(" A"), id="a blank before it"),
        pytest.param(path("a:b"), id="a prefix"),
        pytest.param(path("*"), id="a wildcard"),
        pytest.param(path("A" * 81), id="a long level"),
        pytest.param(path("/".join("A" * 16)), id="seventeen levels"),
        pytest.param(path("/".join("A" * 16) + "/{uuid}"), id="seventeen levels, with a token"),
        pytest.param(path("A", ""), id="an empty namespace"),
        pytest.param(path("A", "urn:a}b"), id="a namespace with a brace"),
        pytest.param(tags("uuid=1"), id="a uuid among tags"),
        pytest.param(tags("a=1,uuid=1"), id="a uuid behind tags"),
        pytest.param(tags("a=1, uuid=1"), id="a uuid behind a blank"),
        pytest.param(tags("a"), id="no value"),
        pytest.param(tags("a=1,"), id="a comma too many"),
        pytest.param(tags("=1"), id="no name"),
        pytest.param(tags("a=1,a=2"), id="a tag twice"),
        pytest.param(properties(("uuid", "1")), id="a uuid among properties"),
        pytest.param(properties(("a", "1"), ("a", "1")), id="a property twice"),
        pytest.param(document(b"<a>" + TOPIC_ID + b"</a>"), id="a TopicId"),
        pytest.param(document(b"<a><b>" + TOPIC_ID + b"</b></a>"), id="a TopicId deep within"),
        pytest.param(document(TOPIC_ID), id="a TopicId as the document"),
        pytest.param(document(b"<a>"), id="no XML"),
        pytest.param(Synopsis(SynopsisType.XML), id="no document"),
        pytest.param(tags("a=" + "1" * MAX_SYNOPSIS), id="large tags"),
        pytest.param(document(b"<a>" + b"1" * MAX_SYNOPSIS + b"</a>"), id="a large document"),
    ],
)
def test_a_wrong_placeholder_is_refused(placeholder: Synopsis) -> None:
    with pytest.raises(SynopsisRefused):
        check_placeholder(placeholder)


@given(discovery_strategies.synopses, st.uuids(), st.uuids())
def test_what_was_put_in_is_found_again(placeholder: Synopsis, mine: Any, other: Any) -> None:
    try:
        finished = place_uuid(placeholder, mine)
    except SynopsisRefused:
        return
    selection_of(finished, mine)
    if mine != other:
        assert place_uuid(placeholder, other) != finished
        with pytest.raises(SynopsisRefused):
            selection_of(finished, other)


def test_a_path_is_a_topic() -> None:
    finished = place_uuid(path("A/{uuid}"), ID)
    expected: Topic = parse_clark(f"{{urn:n}}A/{LEVEL}")
    assert selection_of(finished, ID) == Selection(expected)
    without = place_uuid(path("A/{uuid}", None), ID)
    assert selection_of(without, ID) == Selection(parse_clark(f"A/{LEVEL}"))


def test_an_integer_is_a_topic() -> None:
    finished = place_uuid(Synopsis(SynopsisType.INTEGER), ID)
    expected = parse_clark(f"{{{TDN}}}Integer/i-{ID.int}")
    assert selection_of(finished, ID) == Selection(expected)


@pytest.mark.parametrize("placeholder", [tags("a=1"), properties(("a", "1"))])
def test_tags_and_properties_are_selected(placeholder: Synopsis) -> None:
    found = selection_of(place_uuid(placeholder, ID), ID)
    assert found == Selection(None, "urn:dragoman:dialect:jms-selector:1", f"uuid = '{ID}'")


def test_a_document_is_selected_by_xpath() -> None:
    finished = place_uuid(document(b"<a/>"), ID)
    found = selection_of(finished, ID)
    assert found.dialect == "http://www.w3.org/TR/1999/REC-xpath-19991116"
    event = etree.fromstring(b"<e>" + (finished.document or b"") + b"</e>")
    assert event.xpath(found.expression) is True
    other = place_uuid(document(b"<a/>"), discovery.MESSAGE_ID).document or b""
    assert etree.fromstring(other).xpath(found.expression) is False


@pytest.mark.parametrize(
    "synopsis",
    [
        path("A"),
        path(f"A/{LEVEL}/{LEVEL}"),
        path(f"A/{LEVEL}", TDN),
        Synopsis(SynopsisType.INTEGER, "12"),
        tags("a=1"),
        tags(f"uuid=1,uuid={ID}"),
        properties(("uuid", "1")),
        replace(
            properties(("uuid", str(ID))),
            properties=(Property("uuid", str(ID)), Property("uuid", "1")),
        ),
        document(b"<a/>"),
        document(b"<a>" + TOPIC_ID * 2 + b"</a>"),
    ],
)
def test_a_synopsis_without_its_uuid_selects_nothing(synopsis: Synopsis) -> None:
    with pytest.raises(SynopsisRefused):
        selection_of(synopsis, ID)
