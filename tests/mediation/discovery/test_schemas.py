"""Schemas that strangers put into advertisements: what is one, and what costs nothing to refuse."""

import json

import pytest

from mediation.discovery import (
    MAX_DESCRIPTORS,
    Malformed,
    Schema,
    SchemaType,
    TopicAdvertisement,
    read_as,
    read_json_schema,
    read_schema,
    write,
)
from tests.rigs.discovery import ADVERTISEMENT, SCHEMA

XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{}</xs:schema>'
JSON = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}


@pytest.mark.parametrize(
    "octets, kind",
    [
        (SCHEMA.encode(), SchemaType.XSD),
        (b"\xef\xbb\xbf \r\n" + SCHEMA.encode(), SchemaType.XSD),
        # What it refers to is its readers' matter.
        (XSD.format('<xs:include schemaLocation="file:///etc/passwd"/>').encode(), SchemaType.XSD),
        (json.dumps(JSON).encode(), SchemaType.JSON_SCHEMA),
        (b"{}", SchemaType.JSON_SCHEMA),
    ],
)
def test_what_is_a_schema(octets: bytes, kind: SchemaType) -> None:
    assert read_schema(octets).type is kind


HOSTILE = {
    "entities": '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + XSD.format("&amp;"),
    "bomb": '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + XSD.format(""),
    "another root": "<a/>",
    "no namespace": "<schema/>",
    "no XML": "<xs:schema",
    "deep XML": XSD.format("<a>" * 2000 + "</a>" * 2000),
    "large": XSD.format(" " * MAX_DESCRIPTORS),
    "no JSON": "{",
    "no object": "[]",
    "a number": "1",
    "not finite": '{"maximum": NaN}',
    "too large to be finite": '{"maximum": 1e999}',
    "half a character, escaped": r'{"title": "\ud800"}',
    "half a character in a name": r'{"\udfff": 1}',
    "more digits than are read": '{"maximum": ' + "9" * 5000 + "}",
    "deep": '{"a":' * 80 + "1" + "}" * 80,
    "deeper": "[" * 7000 + "]" * 7000,
    "large JSON": json.dumps({"a": "x" * MAX_DESCRIPTORS}),
    "half a character": '{"a": "\ud800"}'[:8],
    "nothing": "",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_is_none(text: str) -> None:
    with pytest.raises(Malformed):
        read_schema(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "old, new",
    [
        ('type="application/xml"', 'type="text/html"'),
        ('type="application/xml"', ""),
        ('type="application/xml"', 'type="application/schema+json"'),
        (
            "</tdn:Schema>",
            '</tdn:Schema><tdn:Schema type="application/schema+json">{}</tdn:Schema>',
        ),
        ("&lt;xs:schema", "&lt;xs:sch"),
    ],
)
def test_advertisements_with_others_are_refused(old: str, new: str) -> None:
    octets = write(ADVERTISEMENT)
    assert read_as(TopicAdvertisement, octets).value == ADVERTISEMENT
    assert old.encode() in octets
    with pytest.raises(Malformed):
        read_as(TopicAdvertisement, octets.replace(old.encode(), new.encode()))


def test_json_is_kept_as_it_was_written() -> None:
    text = '{"b": 1.0,\n "a": [true]}'
    schema = read_schema(text.encode())
    assert schema == Schema(SchemaType.JSON_SCHEMA, text)
    assert read_json_schema(schema) == {"b": 1.0, "a": [True]}
