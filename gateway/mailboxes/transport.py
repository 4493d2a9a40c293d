"""Delivery to consumers that are mailboxes of this gateway."""

from filters import Reason, Refused
from gateway.egress import Answer, FailureKind, Request, SendFailed, Target
from gateway.mailboxes.errors import MailboxUnknown
from gateway.mailboxes.mailboxes import FULL_FOR, Mailboxes
from gateway.model.mailboxes import Mailbox

SCHEME = "mailbox"
"""The scheme of targets that are mailboxes of this gateway."""


def mailbox_target(mailbox: Mailbox, address: str) -> Target:
    """The target of deliveries to a consumer with *address* that is *mailbox*."""
    return Target(SCHEME, mailbox.key, 0, "/", address)


class MailboxTransport:
    """The `Transport` to our own mailboxes: 202 means that the message is in the store. They keep
    envelopes, not attachments."""

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes

    async def send(self, request: Request) -> Answer:
        """Put the message into the mailbox that is the target's host.

        Raises:
            SendFailed: The store cannot take it now; or it could not be signed.
        """
        try:
            key = request.target.host
            mailbox = self._mailboxes.known(key) or await self._mailboxes.find(key)
            envelopes = [(request.message_id, request.body)]
            await self._mailboxes.put(
                mailbox, envelopes, expires=request.expires, grant=request.grant
            )
        except MailboxUnknown:
            return Answer(410)
        except Refused as refused:
            if refused.reason is Reason.MAILBOX_FULL:
                return Answer(503, headers={"retry-after": str(round(FULL_FOR))})
            unsignable = refused.reason is Reason.MESSAGE_INVALID
            kind = FailureKind.UNSIGNABLE if unsignable else FailureKind.RESET
            raise SendFailed(kind, refused.text) from refused
        return Answer(202, dropped=len(request.attachments))

    async def close(self) -> None:
        """Nothing is kept open."""
