"""Seal publications whose publisher has proved the right to their topic.

A proof of possession lives for seconds; a publication may wait for days until the messaging system
yields it. So the right is checked once, when the publication is accepted, and the seal says so ever
after. It is an HMAC with a secret that lies in the store, over the topic's id, the end of the
right, a number and everything of the publication that subscribers get: all but the properties that
gateways and messaging systems add on its way.

    end of the right, 12 digits | number, 16 digits | HMAC, in hexadecimal

No two seals have one number, by which a publication that was delivered is known when somebody
repeats it (`seal_numbers.py`).
"""

import hashlib
import hmac
import json
from dataclasses import replace
from datetime import datetime, timedelta

from filters import Refused
from mediation.cloudevents.mapping import ATTRIBUTES
from mediation.model.messages import Notification
from mediation.packaging.records import TYPE, encode

PROPERTY = "tdn_seal"
"""The property of a publication that holds its seal."""
SECRET = "publications"
"""The name of the secret in the store."""
SECRET_OCTETS = 32
AFTER = timedelta(days=30)
"""For how long after the end of the right a publication may still come."""
CARRIED = frozenset({ATTRIBUTES, TYPE})
"""The properties that subscribers get: the attributes with which a CloudEvent came."""
_DIGITS, _OF_NUMBER = 12, 16
_LATEST = 10**_DIGITS - 1


class Seals:
    """Seals publications with *secret*."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def seal(self, notification: Notification, topic_id: str, until: datetime, number: int) -> str:
        """Return the seal of *notification*, whose publisher has the right to the topic of
        *topic_id* until *until*. No other seal has *number*.

        Raises:
            Refused: It cannot be carried.
        """
        ends = f"{min(int(until.timestamp()), _LATEST):0{_DIGITS}}"
        head = f"{ends}{number:0{_OF_NUMBER}}"
        return head + self._code(notification, topic_id, head)

    def holds(self, seal: str, notification: Notification, topic_id: str, now: datetime) -> bool:
        """Return True if *seal* is that of *notification*, and not too old."""
        if self.number(seal, notification, topic_id) is None:
            return False
        return now.timestamp() < int(seal[:_DIGITS]) + AFTER.total_seconds()

    def number(self, seal: str, notification: Notification, topic_id: str) -> int | None:
        """Return the number of *seal*; None if it is not that of *notification*."""
        head, said = seal[: _DIGITS + _OF_NUMBER], seal[_DIGITS + _OF_NUMBER :]
        try:
            code = self._code(notification, topic_id, head)
        except Refused:  # Not sealed here: what is sealed can be encoded.
            return None
        if not hmac.compare_digest(said.encode(), code.encode()):
            return None
        return int(head[_DIGITS:])

    def _code(self, notification: Notification, topic_id: str, head: str) -> str:
        said_of_itself = {
            name: value for name, value in notification.properties.items() if name in CARRIED
        }
        record = encode(replace(notification, properties=said_of_itself))
        body = hashlib.sha256(record.body).hexdigest()
        said = json.dumps([topic_id, head, body, sorted(record.properties.items())])
        return hmac.digest(self._secret, said.encode(), "sha256").hex()
