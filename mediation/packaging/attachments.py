"""Attachments of a message, given to those of its notifications that refer to them."""

import re
from collections.abc import Sequence
from dataclasses import replace

from lxml import etree

from filters import Reason
from filters.documents import parse_own
from mediation.model.errors import MediationError
from mediation.model.messages import Attachment, Notification
from mediation.packaging.packages import content_ids

MOST_COPIES = 4
"""The factor by which the copies of a message's attachments in its notifications may exceed the
attachments, besides `EACH` octets for each notification."""
EACH = 64 * 1024

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def attach(
    notifications: tuple[Notification, ...], attachments: Sequence[Attachment]
) -> tuple[Notification, ...]:
    """Give each of the *notifications* of one message the parts that it refers to.

    A part that some payload refers to, by the value of an attribute or the text of an element,
    goes with those whose payload does. One that none refers to goes with all.

    Raises:
        MediationError: ``MESSAGE_INVALID``: an id or a media type has control characters, or the
            parts would be copied too often.
    """
    if not attachments:
        return notifications
    for part in attachments:
        if _CONTROL.search(part.content_id + part.media_type):
            raise MediationError(
                Reason.MESSAGE_INVALID, "An attachment's id or media type has control characters."
            )
    if len(notifications) == 1:
        return (replace(notifications[0], attachments=tuple(attachments)),)
    names = [content_ids(part.content_id) for part in attachments]
    known = frozenset().union(*names)
    said: dict[bytes, frozenset[str]] = {}  # Notifications on several topics have one payload.
    for notification in notifications:
        if notification.payload not in said:
            said[notification.payload] = _said(notification.payload, known)
    referred = frozenset().union(*said.values())
    with_parts = tuple(
        replace(
            notification,
            attachments=tuple(
                part
                for part, ids in zip(attachments, names, strict=True)
                if referred.isdisjoint(ids) or not ids.isdisjoint(said[notification.payload])
            ),
        )
        for notification in notifications
    )
    copied = sum(len(part.content) for one in with_parts for part in one.attachments)
    once = sum(len(part.content) for part in attachments)
    if copied > MOST_COPIES * once + EACH * len(notifications):
        raise MediationError(
            Reason.MESSAGE_INVALID, "The attachments would go with too many notifications."
        )
    return with_parts


def _said(payload: bytes, known: frozenset[str]) -> frozenset[str]:
    """The members of *known* that stand in *payload* as an attribute's value or an element's
    text."""
    texts: set[str] = set()
    for element in parse_own(payload).iter(etree.Element):
        texts.update(str(value).strip() for value in element.values())
        if element.text:
            texts.add(element.text.strip())
    return known & texts
