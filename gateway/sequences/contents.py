"""Events as the buffer of a sequence keeps them until their turn comes: read and checked, so that
nothing has to be known of their message any more."""

import json
from collections.abc import Sequence
from dataclasses import replace
from uuid import NAMESPACE_URL, uuid5

from mediation.model.messages import Notification
from mediation.packaging.records import decode, encode

MEDIA_TYPE = "application/x-dragoman-notifications"


def named(
    notifications: Sequence[Notification], identifier: str, number: int
) -> tuple[Notification, ...]:
    """*notifications* with the ids that message *number* of a sequence gives them: the same each
    time that it comes. The identifier of the sequence, which is a secret, cannot be told from them.
    """
    base = f"urn:uuid:{uuid5(NAMESPACE_URL, f'{identifier} {number}')}"
    if len(notifications) == 1:
        return (replace(notifications[0], id=base),)
    return tuple(
        replace(each, id=f"{base}#{place}") for place, each in enumerate(notifications, start=1)
    )


def write_content(notifications: Sequence[Notification]) -> bytes:
    """Write *notifications*; `read_content` is the inverse."""
    records = [encode(each) for each in notifications]
    head = [[len(record.body), record.properties] for record in records]
    return b"\n".join((json.dumps(head).encode(), b"".join(record.body for record in records)))


def read_content(content: bytes) -> tuple[Notification, ...]:
    """Read what `write_content` wrote; no octets are no events."""
    if not content:
        return ()
    head, _, bodies = content.partition(b"\n")
    notifications, at = [], 0
    for length, properties in json.loads(head):
        notifications.append(decode(bodies[at : at + length], properties))
        at += length
    return tuple(notifications)
