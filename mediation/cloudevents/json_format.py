"""Events and batches of them in JSON (JSON Event Format for CloudEvents 1.0.2)."""

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any

from filters import Reason, quoted
from mediation.cloudevents.events import CloudEvent, is_json, is_text, read_attributes
from mediation.model.errors import MediationError

_DEEPEST = 200
"""Brackets within each other that data may have."""


def read_event(octets: bytes) -> CloudEvent:
    """Read an event.

    Raises:
        MediationError: ``MESSAGE_INVALID``, ``TOO_LARGE``.
    """
    return _read(read_json(octets))


def read_batch(octets: bytes, most: int) -> tuple[CloudEvent, ...]:
    """Read a batch of *most* events at most; it may have none.

    Raises:
        MediationError: as `read_event`.
    """
    values = read_json(octets)
    if not isinstance(values, list):
        raise MediationError(Reason.MESSAGE_INVALID, "A batch is an array of events.")
    if len(values) > most:
        raise MediationError(Reason.TOO_LARGE, f"A batch has {most} events at most.")
    return tuple(map(_read, values))


def write_event(event: CloudEvent) -> bytes:
    """Write an event. Data that its media type says to be JSON, and is not, is written as binary
    data, and so is text that is not UTF-8."""
    return _write(_members(event))


def write_batch(events: Iterable[CloudEvent]) -> bytes:
    """Write a batch."""
    return b"[" + b",".join(map(write_event, events)) + b"]"


def read_json(octets: bytes) -> Any:
    """Read a JSON document that has one reading (RFC 8259).

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is none, or not UTF-8, or has a name twice in one
            object, or too many brackets within each other.
    """
    try:
        text = octets.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
        _check_depth(value)
    except MediationError:
        raise
    except UnicodeDecodeError:
        raise MediationError(Reason.MESSAGE_INVALID, "The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise MediationError(
            Reason.MESSAGE_INVALID, f"The body is not JSON: {error.msg} ({where})."
        ) from None
    except (ValueError, RecursionError):
        raise MediationError(
            Reason.MESSAGE_INVALID, "The body is JSON that is too deep, or has too large a number."
        ) from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise MediationError(Reason.MESSAGE_INVALID, "The body has a name twice in one object.")
    return found


def _constant(name: str) -> Any:
    raise MediationError(Reason.MESSAGE_INVALID, f"The body is not JSON: {name} is no number.")


def _check_depth(value: Any) -> None:
    level = [value]
    if value in (math.inf, -math.inf):
        raise ValueError
    for _ in range(_DEEPEST):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if math.inf in level or -math.inf in level:  # 1e999
            raise ValueError
        if not level:
            return
    raise RecursionError


def _read(value: object) -> CloudEvent:
    if not isinstance(value, dict):
        raise MediationError(Reason.MESSAGE_INVALID, "An event is an object.")
    attributes = read_attributes(
        (name, one) for name, one in value.items() if name not in ("data", "data_base64")
    )
    if value.get("data_base64") is not None:
        if "data" in value:
            raise MediationError(Reason.MESSAGE_INVALID, "An event has `data` or `data_base64`.")
        return CloudEvent(attributes, _binary(value["data_base64"]))
    if "data" not in value:
        return CloudEvent(attributes)
    data = value["data"]
    media_type = str(attributes.setdefault("datacontenttype", "application/json"))
    if is_json(media_type):
        return CloudEvent(attributes, _write(data))
    if data is None:
        return CloudEvent(attributes)
    if not isinstance(data, str):
        raise MediationError(
            Reason.MESSAGE_INVALID, f"The data is {quoted(media_type)}, but no string."
        )
    try:
        return CloudEvent(attributes, data.encode())
    except UnicodeEncodeError:
        raise MediationError(
            Reason.MESSAGE_INVALID, "The data has half a character (a lone surrogate)."
        ) from None


def _binary(text: object) -> bytes:
    try:
        if not isinstance(text, str):
            raise ValueError
        return b64decode(text, validate=True)
    except ValueError:
        raise MediationError(Reason.MESSAGE_INVALID, "`data_base64` is not base64.") from None


def _members(event: CloudEvent) -> dict[str, Any]:
    members: dict[str, Any] = dict(event.attributes)
    data, media_type = event.data, event.media_type
    if data is None:
        return members
    try:
        if is_json(media_type):
            members["data"] = read_json(data)
            return members
        if is_text(media_type):
            members["data"] = data.decode()
            return members
    except (MediationError, UnicodeDecodeError):
        pass
    members["data_base64"] = b64encode(data).decode()
    return members


def _write(value: object) -> bytes:
    """JSON in UTF-8; what UTF-8 cannot hold (half a character) stays escaped."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
