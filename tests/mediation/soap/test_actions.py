"""The name of a payload's root, read from its start tag."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters.documents import parse_own
from mediation.soap.actions import payload_action, payload_name

PIECES = (
    *("<", ">", "/>", "</a>", "a", "p:a", "xml:a", "é", " ", "\n", "\t", "\r", "=", "&amp;", "&#10;"),
    *(' xmlns="urn:a"', " xmlns:p='urn:p'", ' xmlns=""', ' xmlns="urn:a&amp;b"', " xmlns='urn:\nb'"),
    *(' b="c"', " p:b='>'", ' xmlns:xmlns="u"', ' b=" xmlns=\'urn:no\'"', "<!-- <b> -->", "<?c d?>"),
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=8))
def test_the_name_is_what_a_parser_finds(pieces: list[str]) -> None:
    payload = f"<{''.join(pieces)}".encode()
    try:
        name = etree.QName(parse_own(payload))
    except etree.XMLSyntaxError:
        return  # A payload is well-formed.
    assert payload_name(payload) == (name.namespace or "", name.localname)


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (b"<a/>", ("", "a")),
        (b"<p:a b='1' xmlns:p='urn:p'><b/></p:a>", ("urn:p", "a")),
        (b"<a xmlns='urn:&amp;'/>", ("urn:&", "a")),
        (b"<xml:a/>", ("http://www.w3.org/XML/1998/namespace", "a")),
        (b"<!-- <b> --><a>/</a>", ("", "a")),
    ],
)
def test_names(payload: bytes, name: tuple[str, str]) -> None:
    assert payload_name(payload) == name


def test_actions() -> None:
    assert payload_action(b"<a xmlns='urn:b/'/>") == "urn:b/a"
    assert payload_action(b"<a/>") == "urn:dragoman:event:a"
