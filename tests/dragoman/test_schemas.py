"""Schemas of dataclasses, and dataclasses of schemas."""

import dataclasses
from dataclasses import dataclass
from typing import get_type_hints

import pytest
from hypothesis import given
from lxml import etree

from dragoman.events import event_type, from_xml, to_xml
from dragoman.schemas import dataclass_of, schema_of
from tests.dragoman.test_events import STORMS, Place, Storm

SCHEMA = etree.XMLSchema(etree.fromstring(schema_of(Storm)))
MADE = dataclass_of(schema_of(Storm))


@given(STORMS)
def test_what_is_written_is_of_its_schema_and_of_the_dataclass_of_that(storm: Storm) -> None:
    written = to_xml(storm)
    SCHEMA.assertValid(etree.fromstring(written))
    again = from_xml(MADE, written)
    assert dataclasses.asdict(again) == dataclasses.asdict(storm)
    assert to_xml(again) == written


def test_the_fields_come_back() -> None:
    hints = get_type_hints(dataclass_of(schema_of(Place)))
    assert hints == {"name": str, "depth": int | None}


def test_types_of_others_are_read() -> None:
    made = dataclass_of(
        b"""<s:schema xmlns:s="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:o"
             elementFormDefault="qualified"><s:annotation/>
          <s:element name="order"><s:complexType><s:sequence>
            <s:element name="number" type="s:unsignedInt"/>
            <s:element name="item" maxOccurs="unbounded"><s:complexType><s:sequence>
              <s:element name="uri" type="s:anyURI" minOccurs="0"/></s:sequence></s:complexType>
            </s:element></s:sequence></s:complexType></s:element></s:schema>"""
    )
    order = from_xml(made, b'<order xmlns="urn:o"><number>7</number><item/><item/></order>')
    assert dataclasses.asdict(order) == {"number": 7, "item": [{"uri": None}] * 2}


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        ("", "name one of its elements"),
        ('<s:element name="a" type="b"/>', "not declared here"),
        ('<s:element name="a"><s:complexType><s:choice/></s:complexType></s:element>', "sequence"),
        ('<s:element name="a" type="b"/><s:complexType name="b"><s:sequence>'
         '<s:element name="c" type="b"/></s:sequence></s:complexType>', "itself within"),
        ('<s:element name="a" type="b"/><s:complexType name="b"><s:sequence>'
         '<s:element name="c" type="s:duration"/></s:sequence></s:complexType>', "s:duration"),
        ('<s:element name="a" type="b"/><s:complexType name="b"><s:sequence>'
         '<s:element name="class" type="s:int"/></s:sequence></s:complexType>', "no field"),
        ('<s:element name="a" type="b"/><s:complexType name="b"><s:sequence>'
         "<s:any/></s:sequence></s:complexType>", "no field"),
    ],
)  # fmt: skip
def test_what_dataclasses_have_not_is_refused(inside: str, why: str) -> None:
    schema = f'<s:schema xmlns:s="http://www.w3.org/2001/XMLSchema">{inside}</s:schema>'
    with pytest.raises(ValueError, match=why):
        dataclass_of(schema.encode())


def test_what_is_no_schema_and_what_is_no_dataclass() -> None:
    with pytest.raises(ValueError, match="no XML Schema"):
        dataclass_of(b"<a/>")
    with pytest.raises(TypeError, match="int is no dataclass"):
        schema_of(int)

    @event_type("urn:w")
    @dataclass
    class Two:
        one: "Place"
        other: Storm

    twice = dataclasses.make_dataclass("Two", [("inner", Two)])
    with pytest.raises(TypeError, match="two dataclasses have the name Two"):
        schema_of(twice)
