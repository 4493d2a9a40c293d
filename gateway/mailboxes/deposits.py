"""Deposits: envelopes that are sent to a mailbox, and kept as they came."""

from collections.abc import Iterator

import structlog

from filters import DocumentLimits
from filters.documents import DEFAULT_LIMITS
from gateway.exchange import Inbound
from gateway.mailboxes.errors import MailboxUnknown
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.observing.samples import Sample, counter
from gateway.parsing import Parsing
from gateway.security.intake import Intake
from gateway.security.resource_addresses import MESSAGE_BOXES, ResourceAddress, key_named
from mediation.mailboxes.kept import convert_envelope, message_id, split_envelope
from mediation.model.requests import Named
from mediation.notification.reading_notify import check_number

_log = structlog.get_logger("dragoman.soap")


class Deposits:
    """Puts messages into mailboxes.

    Attributes:
        stored: Messages that were put into mailboxes.
        attachments_dropped: Attachments of these messages, for readers get envelopes alone.
    """

    def __init__(
        self,
        mailboxes: Mailboxes,
        parsing: Parsing,
        intake: Intake,
        *,
        limits: DocumentLimits = DEFAULT_LIMITS,
    ) -> None:
        self._mailboxes = mailboxes
        self._parsing = parsing
        self._intake = intake
        self._limits = limits
        self.stored = 0
        self.attachments_dropped = 0

    def metrics(self) -> Iterator[Sample]:
        """Messages that were put in, and attachments that were left out."""
        yield counter("mailbox_stored", "Messages that others put into mailboxes.", self.stored)
        yield counter(
            "attachments_dropped",
            "Attachments left out for want of a packaging that the consumer reads.",
            self.attachments_dropped,
        )

    async def deposit(self, inbound: Inbound, resource: ResourceAddress, named: Named) -> None:
        """Keep the envelope of *inbound*, which was sent to *resource*; it is durable on return.

        A message box keeps it whole; another mailbox keeps each event in it for itself.

        Raises:
            MailboxUnknown: There is no such mailbox.
            QuotaExceeded: The sender sends too much.
            Refused: The mailbox is full, or the envelope cannot be taken apart.
        """
        key = resource.key or next(filter(None, map(key_named, named.identifiers)), None)
        principal, mailbox = inbound.principal, await self._mailboxes.find(key)
        if not principal.may_send_to(mailbox.owner):
            raise MailboxUnknown
        self._intake.admit_events(principal, 1)
        whole = resource.kind in MESSAGE_BOXES

        def envelopes(_: object) -> list[tuple[str | None, bytes]]:
            envelope = convert_envelope(inbound.octets, limits=self._limits)
            if whole:
                return [(message_id(envelope), envelope)]
            events = split_envelope(envelope)
            check_number(len(events))
            return [(message_id(part), part) for part in events]

        parts = await self._parsing.run_parser(
            len(inbound.octets),
            envelopes,
            trusted=not principal.limits.quotas,
            owner=principal.owner,
        )
        self._intake.admit_bytes(principal, sum(len(envelope) for _, envelope in parts))
        if len(parts) > 1:
            self._intake.admit_events(principal, len(parts) - 1)
        await self._mailboxes.put(mailbox, parts)
        self.stored += len(parts)
        if inbound.attachments:
            number = len(inbound.attachments)
            self.attachments_dropped += number
            _log.info("mailbox.without-attachments", mailbox=mailbox.id, attachments=number)
