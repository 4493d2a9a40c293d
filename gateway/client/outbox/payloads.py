"""Bodies of messages: XML, JSON, and bytes with a content type."""

import dataclasses
import json
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from mediation.soap.body_elements import body_element

JSON, XML, TEXT = "application/json", "application/xml", "text/plain;charset=utf-8"


def encode(payload: Any, content_type: str = "") -> tuple[bytes, str]:
    """The bytes of *payload*, and their content type.

    Args:
        payload: Bytes with a content type; an element of lxml, or text or bytes of one (they begin
            with ``<``); any other text; or what becomes JSON: dictionaries, lists, numbers,
            dataclasses, and models of pydantic.
        content_type: Of bytes and texts; the others have their own.

    Raises:
        ValueError: XML is not one well-formed element (the text has the line and the column), or
            bytes have no content type.
        TypeError: It becomes no JSON.
    """
    if isinstance(payload, (bytes, bytearray, memoryview)):
        body = bytes(payload)
        if content_type:
            return body, content_type
        if body.lstrip()[:1] == b"<":
            return body_element(body), XML
        raise ValueError("bytes need a content_type, such as image/png")
    if isinstance(payload, str):
        if content_type:
            return payload.encode(), content_type
        if payload.lstrip()[:1] == "<":
            return body_element(payload), XML
        return payload.encode(), TEXT
    if hasattr(payload, "tag") and hasattr(payload, "nsmap"):
        return body_element(payload), XML
    return json_text(payload).encode(), content_type or JSON


def json_text(value: Any) -> str:
    """*value* as JSON; a dataclass by its fields, a model of pydantic as that writes it."""
    write = getattr(value, "model_dump_json", None)
    if write is not None and not isinstance(value, type):
        return str(write())
    return json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (UUID, Decimal)):
        return str(value)
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} does not become JSON: give a dict or a dataclass")


def load(kind: type, value: Any) -> Any:
    """Make a dataclass or a model of pydantic of a value of JSON.

    Raises:
        ValueError, TypeError: It does not fit.
    """
    validate = getattr(kind, "model_validate", None)
    if validate is not None:
        return validate(value)
    if not isinstance(value, dict):
        raise ValueError(f"{kind.__name__} is made of an object of JSON")
    return kind(**value)
