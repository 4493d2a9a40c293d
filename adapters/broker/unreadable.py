"""Messages that cannot be read: what is left of one, how many there were, and those that end a
connection.

A message that cannot be read, or exceeds a bound, is yielded as what is left of it, with the reason
(`adapters.Capabilities.unreadable`): the gateway lays it to the dead letters, and only then it is
settled. Were it not, it would come again for ever, and stand before all others.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from filters import Topic
from mediation.model.messages import Notification
from mediation.packaging.data import NO_DATA, payload_of, wrap

MAX_BODY = 128 * 2**20
"""Bytes of a message's body that is read; more than brokers send by default."""
KEPT_BODY = 2**20
"""Bytes of a body that is kept with a message that cannot be read."""
KEPT_PROPERTIES = 16 * 2**10
"""Bytes of its properties that are kept."""
EACH_TOLD = 16
"""Messages of which each has a line in the log; of more, every doubling of the number has one."""

logger = logging.getLogger(__name__)


def cannot_be_read(error: Exception) -> str:
    """Say that a message could not be read because of *error*."""
    return f"it cannot be read ({type(error).__name__}: {str(error)[:200]})"


def remains_of(
    body: bytes,
    properties: Mapping[str, str],
    *,
    id: str,
    source: str,
    time: datetime,
    topic: Topic | None,
) -> Notification:
    """Make a notification of what is left of a message; never fails."""
    kept, room = {}, KEPT_PROPERTIES
    for name, value in properties.items():
        room -= len(name) + len(value)
        if room < 0:
            break
        kept[_text(name)] = _text(value)
    return Notification(
        id=_text(id),
        source=source,
        payload=_payload(body) if body and len(body) <= KEPT_BODY else NO_DATA,
        time=time,
        topic=topic,
        properties=kept,
    )


def _payload(body: bytes) -> bytes:
    try:
        return payload_of(body, None)[0]
    except Exception:  # This body may be why the message cannot be read.
        return wrap(body, None)


def _text(text: str) -> str:
    """*text* without half characters, which cannot be stored."""
    return text.encode(errors="replace").decode()


class UnreadableCount:
    """Counts messages that could not be read."""

    def __init__(self, adapter: str) -> None:
        self._adapter = adapter
        self.total = 0

    def add(self, queue: str, id: str, why: str) -> None:
        """Count the message *id* of *queue*, and log it."""
        self.total += 1
        if self.total <= EACH_TOLD or self.total & (self.total - 1) == 0:
            logger.warning(
                "adapter.message_unreadable",
                extra={
                    "adapter": self._adapter,
                    "queue": queue[:200],
                    "id": id[:200],
                    "reason": why,
                    "total": self.total,
                },
            )


@dataclass(frozen=True, slots=True)
class Place:
    """The place where a connection ended: in message *id* of *queue*, or behind it."""

    queue: str
    id: str
    within: bool

    @property
    def named(self) -> tuple[str, str]:
        """The queue, and the id."""
        return self.queue, self.id

    def __str__(self) -> str:
        where = "" if self.within else "the one behind "
        return f"{where}the message {self.id or 'that comes first'} of {self.queue}"


class Stoppages:
    """Tells the message that ends one connection after the other, by what the broker sends.

    Attributes:
        text: The message for operators; "" before the first one.
    """

    def __init__(self, adapter: str) -> None:
        self._adapter = adapter
        self._place: Place | None = None
        self._after = 0
        self.text = ""

    def ended(self, place: Place, why: str, after: int) -> None:
        """Note that a connection ended at *place*, after so many messages."""
        again, self._place, self._after = place == self._place, place, after
        if not again:
            self.text = ""
            return
        told = f"{place} has ended the connection more than once ({why}): remove it there"
        if told != self.text:
            self.text = told
            logger.error(
                "adapter.message_ends_connection",
                extra={
                    "adapter": self._adapter,
                    "queue": place.queue[:200],
                    "id": place.id[:200],
                    "within": place.within,
                    "reason": why,
                },
            )

    def came(self, number: int) -> None:
        """Note that a connection has brought so many messages: if these are more than before the
        place where the last one ended, that is passed."""
        if self.text and number > self._after:
            self.text, self._place = "", None
