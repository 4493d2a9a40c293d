"""Own types of events, as XML Schemas declare them."""

import pytest
from lxml import etree

from filters import Refused
from mediation import names
from mediation.grid_events import DeclaredTypes, TypeName, read_type_schema, write_description
from mediation.grid_events.types import is_declared
from tests.rigs.cases import for_each

LAB = f"""<xs:schema xmlns:xs="{names.XSD}" xmlns:ev="{names.GRID_EVENT}" xmlns:lab="urn:lab"
    targetNamespace="urn:lab">
  <xs:import namespace="{names.GRID_EVENT}" schemaLocation="event.xsd"/>
  <xs:element name="RunEvent" type="lab:RunEvent" substitutionGroup="ev:Event"/>
  <xs:complexType name="RunEvent"><xs:complexContent><xs:extension base="ev:Event">
    <xs:sequence><xs:element name="iterations" type="xs:int"/></xs:sequence>
  </xs:extension></xs:complexContent></xs:complexType>
  <xs:complexType name="FailedRun"><xs:complexContent><xs:extension base="lab:RunEvent">
    <xs:sequence><xs:element name="why" type="xs:string" minOccurs="0"/></xs:sequence>
  </xs:extension></xs:complexContent></xs:complexType>
</xs:schema>"""


def changed(old: str, new: str) -> bytes:
    assert old in LAB
    return LAB.replace(old, new).encode()


def test_what_a_schema_declares() -> None:
    schema = read_type_schema(LAB.encode(), "lab")
    assert {one.name: one.fields for one in schema.types} == {
        TypeName("urn:lab", "RunEvent"): (("iterations", "int"),),
        TypeName("urn:lab", "FailedRun"): (("iterations", "int"), ("why", "string")),
    }
    types = DeclaredTypes([schema])
    assert types.documents["lab.xsd"] == ("application/xml", LAB.encode())
    assert b"<code>FailedRun</code>" in types.documents["lab"][1]
    for known in (("urn:lab", "RunEvent"), (names.SOAPRMI_TYPES, "org.lab.FailedRun")):
        assert is_declared(TypeName(*known), types.names)
    assert not is_declared(TypeName("urn:other", "RunEvent"), types.names)


def test_the_description_has_it() -> None:
    types = DeclaredTypes([read_type_schema(LAB.encode(), "lab")])
    root = etree.fromstring(write_description("http://gateway/soap", types))
    schemas = {one.get("targetNamespace"): one for one in root.iter(f"{{{names.XSD}}}schema")}
    declared = list(schemas["urn:lab"])
    assert [one.get("name") for one in declared] == [None, "RunEvent", "FailedRun"]
    assert declared[0].get("schemaLocation") is None


def test_a_description_is_not_written_for_each_who_asks() -> None:
    types = DeclaredTypes([read_type_schema(LAB.encode(), "lab")])
    assert types.described is types.described and types.described.count("complexType ") == 2


@for_each(
    ("octets", "file", "said"),
    [
        (b"<a", "lab", "not well-formed"),
        (b"<a/>", "lab", "line 1: the root element is not schema"),
        (changed('targetNamespace="urn:lab"', ""), "lab", '"" is not a namespace of your own'),
        (changed("urn:lab", names.GRID_EVENT), "lab", "is not a namespace of your own"),
        (changed('"xs:int"', '"xs:number"'), "lab", "line 6: the field iterations is not of a simple"),
        (changed('"xs:int"', '"xs:anyType"'), "lab", "line 6: the field iterations is not of a simple"),
        (changed('"xs:int"', '"xs:int" maxOccurs="2"'), "lab", "iterations may be there once"),
        (changed('"iterations"', '"source"'), "lab", "every event has a field source already"),
        (changed('schemaLocation="event.xsd"', 'schemaLocation="/etc/x.xsd"'), "lab", "line 3: only"),
        (changed("<xs:import", '<xs:include schemaLocation="x.xsd"/><xs:import'), "lab", "line 3: only"),
        (changed('targetNamespace', 'elementFormDefault="qualified" targetNamespace'), "lab", "unqual"),
        (f'<xs:schema xmlns:xs="{names.XSD}" targetNamespace="urn:lab"/>'.encode(), "lab", "no complexType"),
        (changed("<xs:complexType name=\"FailedRun\">", "<xs:complexType name='Plain'><xs:sequence/>"
                 "</xs:complexType><xs:complexType name='FailedRun'>"), "lab", "Plain does not extend"),
        (changed('base="ev:Event"', 'base="lab:FailedRun"'), "lab", "extends {urn:lab}RunEvent, not"),
        (changed('<xs:sequence><xs:element name="iter', '<xs:attribute name="a"/><xs:sequence><xs:element name="iter'), "lab", "a sequence of fields, and"),
        (changed('"RunEvent" type', '"RunEvent" typ'), "lab", "line 4|not a valid schema"),
        (changed("<xs:element name=\"Run", "<xs:group name='g'><xs:sequence/></xs:group><xs:element name=\"Run"), "lab", "line 4: group has no place"),
        (changed("<xs:sequence><xs:element name=\"iter", "<xs:sequence maxOccurs='9'><xs:element name=\"iter"), "lab", "line 6: the sequence of fields is there once"),
        (LAB.encode(), "event", '"event" is not a name for it'),
        (LAB.encode(), "../lab", '"../lab" is not a name for it'),
        (LAB.encode() + b" " * 2**18, "lab", "larger than 256 KiB"),
    ],
)  # fmt: skip
def test_what_declares_no_types_is_refused(octets: bytes, file: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        read_type_schema(octets, file)


def test_names_are_declared_once() -> None:
    lab = read_type_schema(LAB.encode(), "lab")
    for other, what in (
        (LAB.encode(), "urn:lab"),
        (changed("urn:lab", "urn:other"), "RunEvent"),
    ):
        with pytest.raises(Refused, match=rf"other\.xsd declares {what}, as lab\.xsd does"):
            DeclaredTypes([lab, read_type_schema(other, "other")])
