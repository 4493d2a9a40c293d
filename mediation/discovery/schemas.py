"""Schemas of topics' events, as strangers write them: looked at, and never compiled."""

import json
from typing import Any, NoReturn

from filters import DocumentLimits, Refused, parse_document
from mediation import names
from mediation.discovery.errors import Malformed
from mediation.discovery.values import MAX_DESCRIPTORS, Schema, SchemaType

MAX_DEPTH = 64
"""The deepest nesting of a JSON Schema."""
_LIMITS = DocumentLimits(octets=MAX_DESCRIPTORS)


def check_schema(schema: Schema) -> None:
    """Check that *schema* is what it says to be, by its outermost form: an ``xs:schema`` without
    a document type, or an object of JSON. Nothing is fetched, and no entity is resolved.

    Raises:
        Malformed: It is not, or is too deep or large.
    """
    octets = schema.text.encode("utf-8", "surrogatepass")
    if len(octets) > MAX_DESCRIPTORS:
        raise Malformed(f"A schema is larger than {MAX_DESCRIPTORS} bytes.")
    if schema.type is SchemaType.XSD:
        _check_xsd(octets)
    else:
        read_json_schema(schema)


def _check_xsd(octets: bytes) -> None:
    try:
        root = parse_document(octets, limits=_LIMITS)
    except Refused as refused:
        raise Malformed(f"The XML Schema cannot be read: {refused.text}") from None
    if root.tag != f"{{{names.XSD}}}schema":
        raise Malformed("The schema is no xs:schema.", value=str(root.tag)[:200])


def read_json_schema(schema: Schema) -> dict[str, Any]:
    """Return a JSON Schema as an object.

    Raises:
        Malformed: It is none.
    """
    try:
        found = json.loads(schema.text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Malformed("The JSON Schema is no JSON.") from None
    if not isinstance(found, dict):
        raise Malformed("The JSON Schema is no object.")
    if _depth(found) > MAX_DEPTH:
        raise Malformed(f"The JSON Schema is nested deeper than {MAX_DEPTH} levels.")
    try:  # A catalogue that holds it is written as one document: it would take all others along.
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        raise Malformed(
            "The JSON Schema has a number that is too large, or half a character."
        ) from None
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(word)  # NaN and the like are no JSON, and could not be written as such.


def _depth(value: object) -> int:
    """Return how deep *value* is nested, level by level: it may be deeper than Python's stack."""
    level, depth = [value], 0
    while level:
        depth += 1
        level = [
            inner
            for each in level
            for inner in (
                each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
            )
        ]
    return depth


def read_schema(octets: bytes) -> Schema:
    """Return the schema that a file has, of the type that its content says.

    Raises:
        Malformed: It is none.
    """
    try:
        text = octets.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Malformed("A schema is written in UTF-8.") from None
    kind = SchemaType.XSD if text.lstrip().startswith("<") else SchemaType.JSON_SCHEMA
    # As it comes out of XML, where ends of lines are so.
    schema = Schema(kind, text.replace("\r\n", "\n").replace("\r", "\n"))
    check_schema(schema)
    return schema
