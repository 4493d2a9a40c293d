"""What each subscription makes of one message: as its consumer is sent it, or why its filter says
no."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import overload

from filters import Refused
from gateway.delivery import Entry
from gateway.mailboxes.transport import SCHEME
from gateway.model.channels import CHANNEL_PROPERTY
from gateway.observing.masking import Mask
from gateway.security.keys import public_id
from gateway.security.resource_addresses import shown_in
from gateway.subscriptions.explaining import Explainer, Step
from gateway.subscriptions.table import SubscriptionTable
from mediation.model.messages import Notification
from mediation.notification.document_metadata import minimal_form
from mediation.rendering import delivery_id_of, render

SCANNED = 200
"""Subscriptions that one page looks at; it may be short, or empty, and have a next one."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """What one subscription makes of a message.

    Attributes:
        step: Whether it gets the message, and why; as the filter says now.
        octets: What its consumer is sent, masked; None where it gets nothing, where that cannot be
            written, or cannot be masked.
    """

    entry: Entry
    step: Step
    octets: bytes | None


class Recipients:
    """Explains messages by subscription.

    Args:
        mask: Hides fields of what is shown.
        producer: The gateway's own address, for events without a producer reference.
    """

    def __init__(
        self, table: SubscriptionTable, explainer: Explainer, mask: Mask, *, producer: str
    ) -> None:
        self._table = table
        self._explainer = explainer
        self.mask = mask
        self._producer = producer

    async def page(
        self, notification: Notification, *, matched: bool | None, after: str, limit: int
    ) -> tuple[Sequence[Recipient], str | None]:
        """Subscriptions in the order of their ids behind *after*, and the id to go on behind.

        Args:
            matched: Those that get the message, or those that do not; None: both.
            limit: How many at most.
        """
        scanned = limit if matched is None else SCANNED
        ids = await self._table.listed(after, scanned)
        entries = [one for one in map(self._table.by_id, ids) if one is not None]
        steps = await self._explain(entries, notification)
        found: list[tuple[Entry, Step]] = []
        last = ids[-1] if ids else ""
        for entry, step in zip(entries, steps, strict=True):
            if matched is None or step.holds is matched:
                found.append((entry, step))
            if len(found) == limit:
                last = entry.id
                break
        recipients = await asyncio.to_thread(self._recipients, found, notification)
        more = len(ids) == scanned or (ids and last != ids[-1])
        return recipients, last if more else None

    async def explain(self, entry: Entry, notification: Notification) -> Step:
        """Whether *entry* gets *notification*, and why; as the filter says now."""
        [step] = await self._explain([entry], notification)
        return step

    async def _explain(self, entries: Sequence[Entry], notification: Notification) -> list[Step]:
        """Whether each of *entries* gets *notification*, and why."""
        channel = notification.properties.get(CHANNEL_PROPERTY, "")
        here = [one for one in entries if one.subscription.policy.channel == channel]
        steps = await self._explainer.explain_filters(here, notification)
        if self.mask.names:  # An explanation may name the values that are masked.
            steps = [replace(step, details=()) for step in steps]
        by_entry = dict(zip(here, steps, strict=True))
        elsewhere = Step("channel", False, "it is at another channel than the message")
        return [by_entry.get(entry, elsewhere) for entry in entries]

    def _recipients(
        self, found: Iterable[tuple[Entry, Step]], notification: Notification
    ) -> list[Recipient]:
        return [
            Recipient(entry, step, self._sent(entry, notification) if step.holds else None)
            for entry, step in found
        ]

    def _sent(self, entry: Entry, notification: Notification) -> bytes | None:
        """What the consumer of *entry* is sent, without keys, which the ids stand for."""
        recipient = entry.recipient
        message_id = delivery_id_of(notification.source, notification.id, entry.id)
        octets: bytes | None = None
        with suppress(Refused, ValueError):  # What cannot be written may be what is wrong.
            seen = minimal_form(notification) if recipient.minimal else notification
            written = render(seen, recipient.shape, self._producer).fill(recipient, message_id)
            octets = without_keys(self.mask.document(written), entry)
        return octets


@overload
def without_keys(octets: bytes, entry: Entry) -> bytes: ...
@overload
def without_keys(octets: None, entry: Entry) -> None: ...
def without_keys(octets: bytes | None, entry: Entry) -> bytes | None:
    """A document of the subscription of *entry* with ids in the places of keys: of its own, and of
    those in each address in it, for the consumer is one of several. It is masked before, which
    writes it anew: what its sender escaped is plain then."""
    if octets is None:
        return None
    subscription = entry.subscription
    octets = shown_in(octets.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    if entry.target.scheme == SCHEME:
        key = entry.target.host
        octets = octets.replace(key.encode(), public_id(key).encode())
    return octets.replace(subscription.key.encode(), subscription.id.encode())
