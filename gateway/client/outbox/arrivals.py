"""Messages that arrive at an inbox: CloudEvents in requests of HTTP, stored before the answer."""

import hmac
import json
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from filters import Reason, Refused
from gateway.client.outbox.records import MAX_NAME
from gateway.client.outbox.tables import WAITING, digest, inbox, lane_of
from gateway.client.outbox.transactions import Transaction
from mediation.cloudevents import CloudEvent, Secret, read_message, signature
from mediation.cloudevents.events import read_time
from mediation.model.errors import MediationError

MOST = 500
"""Messages of one request."""
SKEW = 300.0
"""Seconds by which the time of a signature may differ from ours."""

Headers = Sequence[tuple[bytes, bytes]]
"""Names are in lower case."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of HTTP."""

    status: int
    text: str = ""
    headers: tuple[tuple[str, str], ...] = ()


LATER = Answer(503, "The database does not answer.", (("Retry-After", "2"),))
STOPPED = Answer(503, "Nothing is delivered here: the log says why.", (("Retry-After", "30"),))
FORBIDDEN = Answer(401, "The signature is missing, old or wrong.")


def read_arrivals(headers: Headers, body: bytes, topics: Collection[str]) -> list[dict[str, Any]]:
    """The rows of the events in a request.

    Raises:
        Refused: It has no event, or one that breaks the rules.
        LookupError: Nobody takes the topic of one.
    """
    events = read_message(headers, body, most=MOST)
    now = time.time()
    return [_row(event, topics, now) for event in events]


def _row(event: CloudEvent, topics: Collection[str], now: float) -> dict[str, Any]:
    attributes = event.attributes
    topic, key = str(attributes.get("topic", "")), str(attributes.get("partitionkey", ""))
    if topic not in topics:
        raise LookupError(topic)
    if len(key) > MAX_NAME:
        raise MediationError(Reason.MESSAGE_INVALID, f"A key has {MAX_NAME} characters at most.")
    expires = attributes.get("expirytime")
    return {
        "digest": digest(str(attributes["source"]), str(attributes["id"])),
        "id": str(attributes["id"]),
        "topic": topic,
        "key": key,
        "lane": lane_of(topic, key),
        "state": WAITING,
        "attributes": json.dumps(dict(attributes), ensure_ascii=False, separators=(",", ":")),
        "content_type": (event.media_type or "application/octet-stream")[:MAX_NAME],
        "body": event.data or b"",
        "created_at": now,
        "due_at": now,
        "expires_at": None if expires is None else read_time("expirytime", expires).timestamp(),
        "attempts": 0,
    }


def store_arrivals(rows: Sequence[dict[str, Any]], transaction: Transaction) -> None:
    """Store messages, but for those that came before."""
    transaction.insert_new(inbox, rows)


def is_signed(headers: Headers, body: bytes, secret: Secret) -> bool:
    """Whether a request has a signature of *secret* (Standard Webhooks) that is not old."""
    at = _find(headers, b"webhook-timestamp")
    if not at.isdigit() or abs(time.time() - int(at)) > SKEW:
        return False
    wanted = dict(signature(secret, _find(headers, b"webhook-id"), int(at), body))
    given = _find(headers, b"webhook-signature").split(" ")
    return any(hmac.compare_digest(wanted["webhook-signature"], each) for each in given)


def refusal(error: Refused) -> Answer:
    """The answer to a request that cannot be read."""
    statuses = {Reason.MEDIA_TYPE: 415, Reason.ENCODING: 415, Reason.TOO_LARGE: 413}
    return Answer(statuses.get(error.reason, 400), error.text)


def handshake(headers: Headers) -> Answer:
    """The answer to who asks whether it may send (HTTP 1.1 Web Hooks for Event Delivery)."""
    origin = _find(headers, b"webhook-request-origin") or "*"
    allowed = (("WebHook-Allowed-Origin", origin), ("WebHook-Allowed-Rate", "*"))
    return Answer(200, "", (*allowed, ("Allow", "POST, OPTIONS")))


def _find(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    return next((value.decode("latin-1") for each, value in headers if each == name), "")
