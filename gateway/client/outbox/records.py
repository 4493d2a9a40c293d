"""A message that a program sends, and its row in the outbox."""

import json
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from filters import Refused
from gateway.client.outbox.payloads import encode
from gateway.client.outbox.tables import WAITING, digest
from gateway.client.outbox.tracing import current_trace
from mediation.cloudevents import read_attributes

MAX_NAME = 255
"""Characters of a topic or a key."""

Moment = datetime | timedelta | float


def outgoing_row(
    topic: str,
    payload: Any,
    *,
    id: str | None = None,
    key: str = "",
    type: str | None = None,
    content_type: str = "",
    delay: timedelta | float = 0.0,
    expires: Moment | None = None,
    priority: int | None = None,
    attributes: Mapping[str, str | int | bool] | None = None,
) -> dict[str, Any]:
    """The row of a message: see `Outbox.publish`. Its attributes have no ``source`` yet.

    Raises:
        ValueError: Something of it cannot be sent.
    """
    check_name("topic", topic)
    check_name("key", key, may_be_empty=True)
    body, content_type = encode(payload, content_type)
    now = time.time()
    expires_at = None if expires is None else _when(expires, now)
    message_id = str(uuid.uuid4()) if id is None else id
    found: dict[str, object] = {
        **current_trace(),
        **(attributes or {}),
        "specversion": "1.0",
        "id": message_id,
        "source": "unknown",
        "type": type or topic,
        "time": _text(now),
        "topic": topic,
        "datacontenttype": content_type,
    }
    if priority is not None:
        if priority not in range(10):
            raise ValueError(f"the priority is {priority}, not one of 0 to 9")
        found["priority"] = priority
    if key:
        found["partitionkey"] = key
    if expires_at is not None:
        found["expirytime"] = _text(expires_at)
    checked = _checked(found)
    return {
        "digest": digest(message_id),
        "id": message_id,
        "topic": topic,
        "key": key,
        "state": WAITING,
        "attributes": json.dumps(checked, ensure_ascii=False, separators=(",", ":")),
        "content_type": content_type,
        "body": body,
        "created_at": now,
        "due_at": now + _seconds(delay),
        "expires_at": expires_at,
        "attempts": 0,
        "error": None,
    }


def _checked(attributes: dict[str, object]) -> dict[str, str | int | bool]:
    """Check the attributes of an event, and leave out its source.

    Raises:
        ValueError: One of them cannot be.
    """
    try:
        checked = read_attributes(attributes.items())
    except Refused as error:
        raise ValueError(error.text) from error
    del checked["source"]
    return checked


def check_name(what: str, text: str, *, may_be_empty: bool = False) -> None:
    """Check a topic or a key.

    Raises:
        ValueError: It is empty, too long, or has characters that do not print.
    """
    if not text and may_be_empty:
        return
    if not text or len(text) > MAX_NAME or not text.isprintable():
        raise ValueError(
            f"{text[:80]!r} is not a {what}: it has 1 to {MAX_NAME} printing characters"
        )


def _seconds(length: timedelta | float) -> float:
    return length.total_seconds() if isinstance(length, timedelta) else float(length)


def _when(moment: Moment, now: float) -> float:
    """A time, or a length from *now*, in seconds since the epoch."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("expires is a datetime without a time zone: give one with tzinfo")
        return moment.timestamp()
    return now + _seconds(moment)


def _text(moment: float) -> str:
    text = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
