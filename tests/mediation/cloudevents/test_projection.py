"""XML as JSON; `restored` makes the XML again, so that a loss is seen."""

import json
import re
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from mediation.cloudevents.projection import (
    MOST_PARTS,
    may_project,
    project,
    write_projection,
)
from tests.rigs.pace import pace

NAMES = st.sampled_from(["storm", "speed", "at", "w.1-x", "\u00e9t\u00e9"])
TEXT = st.text(
    st.characters(
        codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufffe\uffff"
    ),
    max_size=8,
)
NAMESPACES = st.sampled_from([None, "urn:a", "urn:b"])


@st.composite
def elements(draw: st.DrawFn, deep: int = 3) -> etree._Element:
    """Elements with text or children, whose children of one name stand together."""
    element = _element(draw)
    children = deep and draw(st.booleans())
    if not children:
        element.text = draw(TEXT)
        return element
    groups = draw(st.lists(NAMES, unique=True, max_size=3))
    for name in groups:
        namespace = draw(NAMESPACES)
        for _ in range(draw(st.integers(1, 3))):
            child = draw(elements(deep=deep - 1))
            child.tag = f"{{{namespace}}}{name}" if namespace else name
            element.append(child)
    return element


def _element(draw: st.DrawFn) -> etree._Element:
    namespace, name = draw(NAMESPACES), draw(NAMES)
    nsmap = {"a": "urn:a", "b": "urn:b"}
    element = etree.Element(f"{{{namespace}}}{name}" if namespace else name, nsmap=nsmap)
    for attribute in draw(st.lists(NAMES, unique=True, max_size=2)):
        space = draw(NAMESPACES)
        element.set(f"{{{space}}}{attribute}" if space else attribute, draw(TEXT))
    return element


def restored(value: dict[str, Any]) -> bytes:
    """The XML that was projected to *value*."""
    [(name, inner)] = value.items()
    return _element_text(name, inner).encode()


def _element_text(name: str, value: Any) -> str:
    members = value if isinstance(value, dict) else {"#text": value}
    attributes, children = "", ""
    for member, inner in members.items():
        if member.startswith("@"):
            attributes += f" {member[1:]}={quoteattr(inner)}"
        elif member != "#text":
            for one in inner if isinstance(inner, list) else [inner]:
                children += _element_text(member, one)
    return f"<{name}{attributes}>{escape(members.get('#text', ''))}{children}</{name}>"


def canonical(octets: bytes) -> str:
    return str(etree.canonicalize(octets.decode()))


@given(elements())
def test_what_is_projected_comes_back(element: etree._Element) -> None:
    octets = etree.tostring(element, encoding="unicode").encode()
    value = json.loads(write_projection(octets))
    assert canonical(restored(value)) == canonical(octets)


@pytest.mark.parametrize(
    ("xml", "value"),
    [
        ("<a/>", {"a": ""}),
        ("<a>x</a>", {"a": "x"}),
        ('<a n="1"/>', {"a": {"@n": "1"}}),
        ('<a n="1">x</a>', {"a": {"@n": "1", "#text": "x"}}),
        ("<a><b>1</b><b>2</b></a>", {"a": {"b": ["1", "2"]}}),
        ("<a> <b/> </a>", {"a": {"b": ""}}),
        ('<w:a xmlns:w="urn:w"><w:b/></w:a>', {"w:a": {"@xmlns:w": "urn:w", "w:b": ""}}),
        ('<a xmlns="urn:w"><b/></a>', {"a": {"@xmlns": "urn:w", "b": ""}}),
        ('<a xmlns="urn:w"><b xmlns=""/></a>', {"a": {"@xmlns": "urn:w", "b": {"@xmlns": ""}}}),
        ('<a xml:lang="en">x</a>', {"a": {"@xml:lang": "en", "#text": "x"}}),
        (
            '<a xmlns:p="urn:p"><b xmlns:p="urn:q" p:c=""/><p:b xmlns:p="urn:p"/><p:c p:d=""/></a>',
            {
                "a": {
                    "@xmlns:p": "urn:p",
                    "b": {"@xmlns:p": "urn:q", "@p:c": ""},
                    "p:b": "",
                    "p:c": {"@p:d": ""},
                }
            },
        ),
        ("<a>one<!-- no --><b/>two</a>", {"a": {"b": "", "#text": "onetwo"}}),
    ],
)
def test_rules(xml: str, value: object) -> None:
    assert project(xml.encode()) == value


@pytest.mark.parametrize(
    "xml",
    ['<a xmlns="urn:w"><b xmlns=""/></a>', '<a xml:lang="en">x</a>', '<a xmlns="urn:w"><b/></a>'],
)
def test_namespaces_come_back(xml: str) -> None:
    assert canonical(restored(project(xml.encode()))) == canonical(xml.encode())


def test_the_example_of_the_documentation() -> None:
    page = Path(__file__).parents[3] / "docs" / "cloudevents.md"
    [section] = re.findall(
        r"^### XML as JSON$(.*?)^## ", page.read_text(), re.DOTALL | re.MULTILINE
    )
    [xml] = re.findall(r"^```xml\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    [value] = re.findall(r"^```json\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert project(xml.strip().encode()) == json.loads(value)


def test_namespaces_cost_where_they_are_declared() -> None:
    """And not again for each element within."""
    depth = range(60)
    around = "".join(f'<a{n} xmlns:p{n}="urn:{n}">' for n in depth)
    end = "".join(f"</a{n}>" for n in reversed(depth))
    many = f"{around}{'<b/>' * 10_000}{end}".encode()
    none = f"<a>{'<b/>' * 10_000}</a>".encode()
    assert pace(lambda: project(many)) < 3 * pace(lambda: project(none))


def test_what_was_made_is_not_made_again() -> None:
    payload = b"<a><b>" + b"x" * 100 + b"</b></a>"
    assert write_projection(payload) is write_projection(bytes(bytearray(payload)))


@pytest.mark.parametrize("part", [b"<b/>", b"<b>x</b>", b"<!---->", b'<b c="1"/>', b"<b c='1'/>"])
def test_many_parts_stay_xml(part: bytes) -> None:
    most = MOST_PARTS // (part.count(b"=") + 1)
    assert may_project(b"<a>" + part * (most - 1) + b"</a>")
    assert not may_project(b"<a>" + part * (most + 1) + b"</a>")
