"""Receipts of what senders sent: answers that the gateway signs, and keeps in its audit log before
it gives them.

Who asks for one says ``Prefer: receipt`` (RFC 7240). Answers to signed messages about sequences,
faults too, are signed anyway: an acknowledgement is a receipt, and nobody in between ends one.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from secrets import token_hex
from typing import TypeVar

from gateway.exchange import Inbound, Reply
from gateway.http.preferences import preferences_of
from gateway.parsing import SMALL, Parsing
from gateway.security.audit import Audit
from gateway.security.principals import Principal
from gateway.security.ws_security_files import WsSecurityFile
from mediation.model.requests import Context, Incoming, Publish
from mediation.names import DRAGOMAN_RECEIPT
from mediation.receipts import receipt_block, sign_receipt, write_receipt
from mediation.reliable_messaging import ReliableMessage, read_message, with_blocks
from mediation.ws_security import SigningKey, sign_envelope

GIVEN = "gave a receipt"
"""What a record of the audit log did that has one."""
MOST_IDS = 32
"""Ids of events that a receipt names."""
MOST_OCTETS_OF_IDS = 1536
"""What the ids of events take in a receipt at most, as JSON. It is a field of HTTP, of which common
clients and proxies read 8 KiB; one that RSA of 4096 bits signs has 3 KiB without ids. The
digest is of all events, also of those that are not named."""
_PREFERENCE = "receipt"
T = TypeVar("T")


class Receipts:
    """Signs answers, in threads.

    Args:
        signer: The gateway's own key and certificate.
    """

    def __init__(self, signer: WsSecurityFile[SigningKey], parsing: Parsing, audit: Audit) -> None:
        self.signer = signer
        self._parsing = parsing
        self._audit = audit

    def is_due(self, inbound: Inbound, incoming: Incoming) -> bool:
        """Return True if the answer to *inbound* is signed, where it is no refusal."""
        if incoming.context.reliable is not None and inbound.signer is not None:
            return True
        return isinstance(incoming.request, Publish) and self.are_asked(inbound.headers)

    async def sign(
        self, received: bytes, inbound: Inbound, incoming: Incoming, reply: Reply
    ) -> Reply:
        """Return *reply* signed; as it is where it says nothing that could be held against us.

        Args:
            received: The octets that came, as they came.

        Raises:
            ReceiptNotKept: The receipt cannot be kept, so it is not given.
            Refused: ``UNAVAILABLE``: there is too much to do.
        """
        if reply.status not in (200, 202):
            return reply
        context, sender = incoming.context, inbound.principal
        said = context.reliable
        if not reply.body and (said is not None or not isinstance(incoming.request, Publish)):
            return reply  # What waits in a sequence is not accepted yet.
        write = partial(self._written, received, context, isinstance(incoming.request, Publish))
        body, is_receipt = await self._run(
            len(reply.body) + SMALL + 1, lambda: write(reply.body), sender
        )
        message_id = context.headers.message_id or ""
        if is_receipt:
            await self._audit.keep(sender.owner, sender.address, GIVEN, message_id, body)
        action = reply.action if reply.body else DRAGOMAN_RECEIPT
        return replace(reply, status=200, body=body, action=action)

    def _written(
        self, received: bytes, context: Context, publishes: bool, body: bytes
    ) -> tuple[bytes, bool]:
        """The signed answer, and whether it says that something was received."""
        said, message_id = context.reliable, context.headers.message_id
        told = read_message(body).acknowledgements if said is not None and body else ()
        taken = publishes
        if isinstance(said, ReliableMessage) and said.sequence is not None:
            one = said.sequence
            taken = any(
                one.identifier == each.identifier and one.number in each.ranges for each in told
            )
        block = receipt_block(received, message_id) if taken else b""
        if not body:
            body = write_receipt(context.soap, context.wsa, message_id, block)
        elif block:
            body = with_blocks(body, [block])
        return self._signed(body), bool(block or told)

    def _signed(self, body: bytes) -> bytes:
        now = datetime.now(UTC)
        return sign_envelope(body, self.signer.content, unique=f"d{token_hex(8)}", now=now)

    async def sign_fault(self, inbound: Inbound, context: Context, reply: Reply) -> Reply:
        """Return *reply*, the fault that answers a message about a sequence, signed where that was.
        What it acknowledges besides is kept.

        Raises:
            As `sign`.
        """
        if context.reliable is None or inbound.signer is None or not reply.body:
            return reply
        return replace(reply, body=await self._sign_and_keep(inbound, context, reply.body))

    def signing_for(
        self, inbound: Inbound, context: Context
    ) -> Callable[[bytes], Awaitable[bytes]] | None:
        """Return what signs an answer that is sent elsewhere, as `sign_fault` does."""
        if context.reliable is None or inbound.signer is None:
            return None
        return partial(self._sign_and_keep, inbound, context)

    async def _sign_and_keep(self, inbound: Inbound, context: Context, body: bytes) -> bytes:
        sender, message_id = inbound.principal, context.headers.message_id or ""
        trusted = not sender.limits.quotas
        return await self.sign_acknowledgement(
            body, sender.owner, trusted=trusted, address=sender.address, message_id=message_id
        )

    async def sign_acknowledgement(
        self, body: bytes, owner: str, *, trusted: bool, address: str = "", message_id: str = ""
    ) -> bytes:
        """Return *body*, which is told to an *owner*, signed. What it acknowledges is kept.

        Raises:
            As `sign`.
        """

        def write(_: object) -> tuple[bytes, bool]:
            return self._signed(body), bool(read_message(body).acknowledgements)

        signed, acknowledges = await self._parsing.run_parser(
            len(body) + SMALL + 1, write, trusted=trusted, owner=owner
        )
        if acknowledges:
            await self._audit.keep(owner, address, GIVEN, message_id, signed)
        return signed

    @staticmethod
    def are_asked(headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return True if the fields of a request ask for a receipt."""
        return preferences_of(headers).get(_PREFERENCE) == ""

    async def of_events(self, received: bytes, ids: Sequence[str], inbound: Inbound) -> str:
        """Return the receipt of events that are no SOAP.

        Args:
            received: The body that had them.

        Raises:
            As `sign`.
        """
        sender, now = inbound.principal, datetime.now(UTC)
        sign = partial(
            sign_receipt,
            self.signer.content,
            received,
            named_ids(ids),
            issuer=inbound.base,
            now=now,
        )
        receipt = await self._run(SMALL + 1, sign, sender)
        first = ids[0] if ids else ""
        await self._audit.keep(sender.owner, sender.address, GIVEN, first, receipt.encode())
        return receipt

    async def _run(self, octets: int, work: Callable[[], T], sender: Principal) -> T:
        return await self._parsing.run_parser(
            octets, lambda _: work(), trusted=not sender.limits.quotas, owner=sender.owner
        )


def named_ids(ids: Sequence[str]) -> Sequence[str]:
    """The first of *ids*: as many as there is room for in a receipt."""
    sizes = accumulate(len(json.dumps(one)) + 1 for one in ids[:MOST_IDS])
    return ids[: sum(size <= MOST_OCTETS_OF_IDS for size in sizes)]
