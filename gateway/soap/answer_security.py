"""Step "secure": answers are signed, and encrypted, where that is demanded (``sign_answers`` and
``encrypt_answers`` of ``[ws_security]``); faults, too.

What an answer relates to is signed with it, so that nobody can give it for another. It is encrypted
for who signed the request. Who did not, or has no key that one can encrypt for, is refused before
anything is done; and where such a request was encrypted, the fault repeats nothing of it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from secrets import token_hex

from cryptography import x509

from filters import Reason, Refused
from gateway.exchange import Inbound, Reply
from gateway.parsing import SMALL, Parsing
from gateway.security.demands import Demand, Demands
from gateway.security.principals import Principal
from gateway.security.resource_addresses import addressed
from gateway.security.rights import Right
from gateway.security.ws_security_files import WsSecurityFile
from gateway.soap.endpoint_rules import OF_OURS, demanded_at
from mediation.certificates import UNREADABLE_CERTIFICATE, read_certificate
from mediation.model.errors import MediationError
from mediation.ws_security import (
    SigningKey,
    check_recipient,
    encrypt_envelope,
    has_security,
    sign_envelope,
)

_REPEATS_NOTHING = frozenset(
    {
        Reason.TOKEN_INVALID, Reason.TOKEN_UNSUPPORTED, Reason.TOKEN_UNAVAILABLE,
        Reason.TOKEN_REFUSED, Reason.CERTIFICATE_REFUSED, Reason.SIGNATURE_REFUSED,
        Reason.ALGORITHM_UNSUPPORTED, Reason.MESSAGE_EXPIRED, Reason.RATE, Reason.UNAVAILABLE,
        Reason.INTERNAL,
    }
)  # fmt: skip
"""Reasons whose texts have nothing of the content of a Body."""


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """What the answer to a request must be."""

    signed: bool = False
    encrypted: bool = False


PLAIN = AnswerForm()


class AnswerSecurity:
    """Signs and encrypts answers, in threads.

    Args:
        signer: The gateway's own key and certificate.
        demands: Which requests have signed answers, and which encrypted ones, which are signed,
            too.
    """

    def __init__(
        self, signer: WsSecurityFile[SigningKey], demands: Demands, parsing: Parsing
    ) -> None:
        self._signer = signer
        self._demands = demands
        self._parsing = parsing

    def form(
        self, path: str, to: str | None, rights: frozenset[Right] | None, *, asked: bool = False
    ) -> AnswerForm:
        """Return what the answer must be to a request at *path*, for the address *to*.

        Args:
            rights: Those of which it needs one; None where it could not be read, and may have been
                any.
            asked: We asked for what came.
        """
        resource = addressed(path, to)
        if asked or (resource is not None and resource.kind in OF_OURS):
            return PLAIN
        at = demanded_at(path, to)

        def covers(demand: Demand) -> bool:
            if rights is None:
                return bool(demand.rights) or demand.covers(at, (), resource)
            return demand.covers(at, rights, resource)

        encrypted = covers(self._demands.encrypted)
        return AnswerForm(encrypted or covers(self._demands.signed), encrypted)

    @staticmethod
    def check(inbound: Inbound, form: AnswerForm) -> None:
        """Refuse a request whose answer must be encrypted, and cannot be.

        Raises:
            MediationError: ``TOKEN_INVALID``.
        """
        if form.encrypted and _recipient(inbound) is None:
            raise _no_recipient()

    @staticmethod
    def may_be_told(refused: Refused, inbound: Inbound, form: AnswerForm) -> Refused:
        """Return *refused*; instead of one that may repeat what came encrypted, and would be told
        in the clear, what is told of any."""
        if not (form.encrypted and inbound.encrypted) or refused.reason in _REPEATS_NOTHING:
            return refused
        return refused if _recipient(inbound) is not None else _no_recipient()

    async def secure(self, reply: Reply, inbound: Inbound, form: AnswerForm) -> Reply:
        """Return *reply* as it must be; it is not signed again where it is signed, nor encrypted
        where nobody is known for whom, so ask `check` before.

        Raises:
            Refused: ``INTERNAL``: it cannot be signed. ``UNAVAILABLE``: there is too much to do.
        """
        if not (form.signed and reply.body):
            return reply
        return replace(reply, body=await self._secured(reply.body, inbound, form))

    def securing(
        self, inbound: Inbound, form: AnswerForm
    ) -> Callable[[bytes], Awaitable[bytes]] | None:
        """Return what makes an answer that is sent elsewhere as it must be."""
        if not form.signed:
            return None

        async def secure(body: bytes) -> bytes:
            return await self._secured(body, inbound, form)

        return secure

    async def sign(self, reply: Reply, sender: Principal) -> Reply:
        """Return *reply* signed.

        Raises:
            As `secure`.
        """
        return replace(reply, body=await self._run(reply.body, None, sender))

    async def _secured(self, body: bytes, inbound: Inbound, form: AnswerForm) -> bytes:
        recipient = _recipient(inbound) if form.encrypted else None
        return await self._run(body, recipient, inbound.principal)

    async def _run(
        self, body: bytes, recipient: x509.Certificate | None, sender: Principal
    ) -> bytes:
        def write(_: object) -> bytes:
            unique, now = f"d{token_hex(8)}", datetime.now(UTC)
            # A receipt is signed already; a message that waited may have its sender's signature.
            signed = body
            if not has_security(body):
                signed = sign_envelope(body, self._signer.content, unique=unique, now=now)
            if recipient is None:
                return signed
            return encrypt_envelope(signed, recipient, unique=unique)

        try:
            # With a private key even what is small takes 1 ms.
            return await self._parsing.run_parser(
                len(body) + SMALL + 1,
                write,
                trusted=not sender.limits.quotas,
                owner=sender.owner,
            )
        except ValueError:  # In UTF-16, or with a namespace of a relative name.
            text = "The answer cannot be signed: it is not in UTF-8, or has no canonical form."
            raise Refused(Reason.INTERNAL, text) from None


def _recipient(inbound: Inbound) -> x509.Certificate | None:
    """The certificate of who signed a request, where one can encrypt for it."""
    return _checked(inbound.signer) if inbound.signer is not None else None


@lru_cache(maxsize=1024)
def _checked(certificate: bytes) -> x509.Certificate | None:
    try:
        return check_recipient(read_certificate(certificate))
    except UNREADABLE_CERTIFICATE:
        return None


def _no_recipient() -> MediationError:
    return MediationError(
        Reason.TOKEN_INVALID,
        "The answer must be encrypted here: sign the message with a key of RSA, of 2048 bits and "
        "more, whose certificate is for the encipherment of keys, too (WS-Security, X.509).",
    )
