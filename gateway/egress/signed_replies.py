"""Signed replies: consumers of whom a row of ``consumers`` demands that they sign what they answer
(WS-Security, X.509). What is not signed so is no delivery; what is, is kept as their receipt.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from filters import Reason, Refused
from gateway.egress.transport import Answer, FailureKind, Request, SendFailed
from gateway.parsing import SMALL, Busy, Parsing
from mediation.certificates import subject_of

if TYPE_CHECKING:
    from mediation.ws_security import Trust

Keep: TypeAlias = Callable[[Request, str, bytes], Awaitable[None]]
"""Keeps the signed answer to a request, by the signer with a subject. It raises `Refused` where it
cannot."""
LARGEST_FILE = 2**20
LARGEST = 64 * 1024
"""Bytes of an answer that is kept."""


class ReplySignersUnusable(Refused):
    """A file of signers cannot be used; the text names row and file."""

    def __init__(self, row: str, path: Path, why: str) -> None:
        super().__init__(Reason.MESSAGE_INVALID, f"{row}: signed_replies: {path} {why}")


class SignedReplies(BaseModel):
    """The table ``signed_replies`` of a row of ``consumers``.

    Attributes:
        signers: PEM: the consumer's certificate, or authorities that issue it.
        subject: The subject of the certificate that must have signed, as ``CN=ship``; None: any.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    signers: Path
    subject: str | None = Field(None, min_length=1, max_length=1024)

    def read(self, row: str) -> "ReplyRule":
        """Read the file, for the *row* of that name.

        Raises:
            ReplySignersUnusable: It cannot be used.
        """
        from mediation.ws_security import read_trust

        try:
            with self.signers.open("rb") as file:
                trust = read_trust(file.read(LARGEST_FILE))
        except OSError as error:
            why = f"cannot be read ({error.strerror})"
            raise ReplySignersUnusable(row, self.signers, why) from error
        except ValueError as error:
            raise ReplySignersUnusable(row, self.signers, f"cannot be used: {error}") from error
        return ReplyRule(trust, self.subject)


@dataclass(frozen=True, slots=True)
class ReplyRule:
    """Who must sign the answers of a consumer."""

    trust: "Trust"
    subject: str | None


class ReplyChecks:
    """Checks answers that have to be signed, in threads.

    Args:
        keep: Keeps those that are; None: nothing is kept.
    """

    def __init__(self, parsing: Parsing, keep: Keep | None = None) -> None:
        self._parsing = parsing
        self._keep = keep

    async def check(self, rule: ReplyRule, request: Request, answer: Answer) -> None:
        """Check an *answer* that would be a success.

        Raises:
            SendFailed: ``REPLY``: it is not signed as *rule* says, or cannot be kept.
        """
        if not 200 <= answer.status < 300:
            return
        octets = answer.document
        if not octets or len(octets) > LARGEST:
            raise _refused(answer, "its answer has no signed envelope")
        try:
            subject = await self._parsing.run_answer_parser(
                max(len(octets), SMALL + 1),  # Never on the loop: a signature costs more.
                lambda learnt: _signer_of(octets, rule, request, learnt),
                owner=request.owner or "",
            )
            if self._keep is not None:
                await self._keep(request, subject, octets)
        except Busy:
            raise _refused(answer, "too many answers wait to be verified") from None
        except Refused as refused:
            raise _refused(answer, refused.text) from None


def _signer_of(octets: bytes, rule: ReplyRule, request: Request, learnt: set[str] | None) -> str:
    """The subject of who signed an answer to *request*.

    Raises:
        Refused: Nobody did who should have, or it answers another request.
    """
    from mediation.soap.answers import read_reply
    from mediation.ws_security import verify_message

    now = datetime.now(UTC)
    signed = verify_message(octets, rule.trust, now=now, learnt=learnt)
    if signed is None:
        raise Refused(Reason.SIGNATURE_REFUSED, "its answer is not signed")
    subject = subject_of(signed.certificate)
    if rule.subject is not None and subject != rule.subject:
        raise Refused(Reason.SIGNATURE_REFUSED, f"its answer is signed by {subject[:80]}")
    reply = read_reply(octets, names=learnt)
    relates_to = reply.relates_to if reply is not None else None
    # In a sequence an acknowledgement says what it is about; elsewhere the relation alone does.
    needed = bool(request.message_id) and (relates_to is not None or not request.once)
    if needed and relates_to != request.message_id:
        raise Refused(Reason.SIGNATURE_REFUSED, "its signed answer is not to this message")
    return subject


def _refused(answer: Answer, why: str) -> SendFailed:
    return SendFailed(FailureKind.REPLY, why, status=answer.status)
