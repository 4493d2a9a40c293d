"""Notifications as commands print them."""

from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.cli.options import Form
from gateway.cli.output import envelope_text, is_terminal, json_line, line, payload_text, styled
from gateway.client import ReceivedMessage
from mediation.client import Ended, Received, text_in

if TYPE_CHECKING:  # Its libraries are for who asks for signatures.
    from gateway.cli.signatures import SignatureCheck


@dataclass(frozen=True, slots=True)
class Printing:
    """Options of printing: the form, and how many notifications; None is all."""

    whole: bool
    form: Form
    count: int | None
    signatures: "SignatureCheck | None" = None
    """Tells whose signature a notification has."""


async def print_all(consumer: AsyncIterable[ReceivedMessage], printing: Printing) -> Ended | None:
    """Print what comes until there is enough, or the gateway ends the subscription."""
    printed = 0
    async for message in consumer:
        if message.ended is not None:
            return message.ended
        if printing.whole and printing.form is Form.TEXT:
            line(envelope_text(message.octets))
        for notification in message.notifications:
            if printing.form is Form.JSON:
                json_line(_record(message, notification, printing))
            elif not printing.whole:
                styled(str(notification.topic or "(no topic)"))
                if printing.signatures is not None:
                    line(printing.signatures.of(notification).text)
                text = text_in(notification.payload)
                line(payload_text(notification.payload) if text is None else text)
            printed += 1
            if printed == printing.count:
                return None
        if is_terminal():
            line()
    return None


def _record(
    message: ReceivedMessage, notification: Received, printing: Printing
) -> dict[str, object]:
    """A notification as JSON; one that came in an envelope with others shares its id."""
    record: dict[str, object] = {
        "topic": str(notification.topic) if notification.topic else None,
        "action": notification.action,
        "message_id": notification.message_id,
        "received": message.time.isoformat(timespec="milliseconds"),
        "payload": payload_text(notification.payload, indent=False),
    }
    if printing.signatures is not None:
        record["signature"] = printing.signatures.of(notification).record
    if printing.whole:
        record["envelope"] = message.octets.decode("utf-8", "replace")
    return record
