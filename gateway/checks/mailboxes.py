"""Settings of mailboxes that each can be, but do not fit each other or the rest."""

from collections.abc import Iterator

from gateway.checks.findings import Finding, ok, warn
from gateway.http import HttpLimits
from gateway.settings.settings import Settings


def check_mailboxes(settings: Settings) -> Iterator[Finding]:
    findings = [warn("mailboxes", text) for text in _doubts(settings)]
    days = settings.mailbox_age.total_seconds() / 86400
    text = f"{settings.mailbox_messages} messages in each, for {days:.3g} days"
    only = "; nothing else is offered" if settings.mailboxes_only else ""
    yield from findings or [ok("mailboxes", text + only)]


def _doubts(settings: Settings) -> Iterator[str]:
    largest = HttpLimits().message
    if settings.mailbox_bytes < largest:
        yield (
            f"mailbox_bytes is {settings.mailbox_bytes}, a message may have {largest}: a larger "
            "one than fits is refused for ever; raise it"
        )
    if settings.mailbox_idle < settings.mailbox_age:
        yield (
            f"a mailbox is given up after {settings.mailbox_idle} without a reader, with messages "
            f"that may wait for {settings.mailbox_age}; raise mailbox_idle, or lower mailbox_age"
        )
    if settings.max_mailboxes_per_owner >= settings.max_mailboxes:
        yield (
            f"one stranger may have all {settings.max_mailboxes} of them; lower "
            "max_mailboxes_per_owner"
        )
    if settings.mailboxes_only and settings.archive is not None:
        yield (
            "archive is set, but nothing is published where mailboxes_only is; remove one of the "
            "two"
        )
