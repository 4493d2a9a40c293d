"""Makes what copies events to a broker beside their delivery."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from adapters.loading.entry_points import without_password
from adapters.protocol import AdapterError
from filters import Reason, Refused
from filters.extras import how_to_install
from mediation.model.messages import Notification


class EventCopies(Protocol):
    """Copies events, without delay for whoever publishes them.

    Attributes:
        copied: Events that the broker has.
        dropped: Events that it did not get, because too many waited.
        refused: Events that it did not take.
        on_refused: Told of each of these, and why.
    """

    copied: int
    dropped: int
    refused: int
    on_refused: Callable[[Notification, str], None]

    @property
    def waiting(self) -> int:
        """Events that wait for the broker."""

    def start(self) -> None:
        """Connect, and go on connecting."""

    def offer(self, notification: Notification) -> None:
        """Copy *notification* some time, if it is of a kind that is copied."""

    async def close(self, seconds: float) -> None:
        """Copy what waits within *seconds*, and disconnect."""


def load_event_copies(
    url: str, *, routing_keys: Path | None, every_event: bool, prefix: str, durable: bool
) -> EventCopies:
    """Make the copies of WS-Messenger's kind (``amqp:``, ``amqps:``); they are not started.

    Args:
        routing_keys: The file that tells which events are copied, with which keys.
        every_event: Those that it does not name are copied, too.
        prefix: What the names of the exchanges begin with.

    Raises:
        AdapterError: The library is missing, the URL does not fit, or the file cannot be read.
    """
    try:
        from adapters.rabbitmq.copying import AmqpCopies
        from adapters.rabbitmq.routing_keys import read_routing_keys
    except ModuleNotFoundError as exc:
        text = f"needs {exc.name}, which is not installed: {how_to_install('rabbitmq')}"
        raise _wrong(text) from exc
    try:
        content = routing_keys.read_bytes() if routing_keys is not None else None
    except OSError as exc:
        raise _wrong(f"routing_keys: {routing_keys}: {exc.strerror or exc}") from exc
    try:
        keys = read_routing_keys(content, every_event=every_event)
        return AmqpCopies(url, keys, prefix=prefix, durable=durable)
    except Refused as exc:
        raise _wrong(without_password(exc.text, url)) from exc


def _wrong(text: str) -> AdapterError:
    return AdapterError(Reason.INTERNAL, f"amqp_copies: {text}")
