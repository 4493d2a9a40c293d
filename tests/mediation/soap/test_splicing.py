"""Header blocks added to finished envelopes: nothing else changes, and time is linear."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from mediation.soap.splicing import add_header_blocks
from tests.rigs.pace import growth

S = 'xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"'
BLOCKS = b'<a xmlns="urn:a"/><b xmlns="urn:b"/>'
SAFE = st.text(" \n<>/='abs:Header-", max_size=30)


def blocks_of(octets: bytes) -> list[str]:
    header = etree.fromstring(octets).find("{*}Header")
    assert header is not None
    return [block.tag for block in header]


ENVELOPES = [
    pytest.param(f"<s:Envelope {S}><s:Body/></s:Envelope>", [], id="no header"),
    pytest.param(f"<s:Envelope {S}><s:Header/><s:Body/></s:Envelope>", [], id="an empty header"),
    pytest.param(f"<s:Envelope {S}><s:Header><h/></s:Header><s:Body/></s:Envelope>", ["h"], id="h"),
    pytest.param(
        f'<?xml version="1.0" encoding="utf-8"?>\n<s:Envelope {S}><s:Header /><s:Body/>'
        "</s:Envelope>",
        [],
        id="a declaration",
    ),
    pytest.param(
        f'<s:Envelope {S}><s:Header ><s:x a="1">="</s:x></s:Header><s:Body/></s:Envelope>',
        ["{http://schemas.xmlsoap.org/soap/envelope/}x"],
        id="what looks like an attribute",
    ),
]


@pytest.mark.parametrize(("envelope", "before"), ENVELOPES)
def test_blocks_come_first(envelope: str, before: list[str]) -> None:
    after = add_header_blocks(envelope.encode(), BLOCKS)
    assert blocks_of(after) == ["{urn:a}a", "{urn:b}b", *before]


@given(st.lists(SAFE, max_size=4), SAFE, st.booleans())
def test_all_else_stays(values: list[str], comment: str, empty: bool) -> None:
    comment = comment.replace("--", "").rstrip("-")
    root = etree.Element("{urn:s}Envelope", nsmap={"s": "urn:s"})
    header = etree.SubElement(root, "{urn:s}Header")
    for number, value in enumerate(values):
        root.set(f"a{number}", value)
        header.set(f"b{number}", value)
    if not empty:
        etree.SubElement(header, "h").text = "".join(values)
    root.insert(0, etree.Comment(comment))
    etree.SubElement(root, "{urn:s}Body")
    before = etree.tostring(root)
    after = add_header_blocks(before, BLOCKS)
    assert blocks_of(after)[:2] == ["{urn:a}a", "{urn:b}b"]
    place = after.index(BLOCKS)
    rest = after[:place] + after[place + len(BLOCKS) :]
    assert rest == before or rest.replace(b"></s:Header>", b"/>", 1) == before


def test_no_blocks_change_nothing() -> None:
    envelope = f"<s:Envelope {S}><s:Body/></s:Envelope>".encode()
    assert add_header_blocks(envelope, b"") is envelope


@pytest.mark.parametrize("octets", [b"", b"<a/>", b"<s:Envelope", b"<Envelope/>"])
def test_what_is_no_envelope(octets: bytes) -> None:
    with pytest.raises(ValueError, match="envelope"):
        add_header_blocks(octets, BLOCKS)


HOSTILE = [
    pytest.param(lambda n: b" " * n, id="blanks"),
    pytest.param(lambda n: b"<!--" + b"-" * n, id="dashes"),
    pytest.param(lambda n: b"<!---->" * n, id="comments"),
    pytest.param(lambda n: b"<s:Envelope" + b' a="b"' * n, id="attributes"),
    pytest.param(lambda n: b"<s:Envelope" + b" a" * n, id="names"),
    pytest.param(lambda n: b"<s:Envelope a='" + b" a=" * n, id="quotes"),
    pytest.param(lambda n: b"<s:Envelope>" + b" " * n + b"<", id="blanks inside"),
    pytest.param(lambda n: b"<?xml " + b"?" * n, id="a declaration"),
    pytest.param(lambda n: b"<" + b"a" * n, id="a name"),
    pytest.param(lambda n: b"<" + b"a:" * n, id="prefixes"),
]


@pytest.mark.parametrize("make", HOSTILE)
def test_time_is_linear(make: Callable[[int], bytes]) -> None:
    def splice(size: int) -> None:
        with pytest.raises(ValueError, match="envelope"):
            add_header_blocks(make(size), BLOCKS)

    assert growth(splice, 50_000) < 4
