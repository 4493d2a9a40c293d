"""Step "identify": who sends a message, where WS-Security in it says that; and before it is read,
the step that decrypts it.

A signature counts more than a UsernameToken, and both more than what the connection says: the
message may have come through others. The signer is who its certificate says, as in mutual TLS.
"""

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from filters import DocumentLimits, Reason, Refused
from gateway.exchange import Inbound
from gateway.parsing import SMALL, Parsing
from gateway.security.authentication import Authentication
from gateway.security.authorise import rights_for
from gateway.security.certificate_proofs import subject_of
from gateway.security.demands import NO_DEMANDS, Demands
from gateway.security.identify import Identification, TransportFacts
from gateway.security.principals import Principal
from gateway.security.resource_addresses import ResourceAddress
from gateway.security.ws_security_files import WsSecurityFile
from gateway.soap.endpoint_rules import OF_OURS, demanded_at
from gateway.soap.own_addresses import OwnAddresses
from gateway.soap.replay_cache import ReplayCache
from gateway.soap.username_tokens import UsernameTokens
from mediation.model.errors import MediationError
from mediation.model.requests import Context, Request
from mediation.reliable_messaging import CreateSequence, ReliableMessage
from mediation.soap.username_tokens import may_have_passwords, without_passwords
from mediation.ws_security import (
    USUAL,
    Algorithms,
    Decrypted,
    DecryptionKeys,
    SignedMessage,
    Trust,
    decrypt_message,
    decryption_failed,
    verify_message,
)

_SIGNER = "\n"
"""What the users of fingerprints among nonces begin with: no name of a user has it."""


@dataclass(frozen=True, slots=True)
class DecryptedMessage:
    """A message after it was decrypted.

    Attributes:
        hidden: Makes what is answered instead of anything else until its signature is verified;
            None where anything may be said of it.
    """

    inbound: Inbound
    hidden: Callable[[], Refused] | None


class MessageSecurity:
    """Decrypts messages, identifies senders by their signatures and tokens, and says who must sign.

    Args:
        addresses: For which messages may be signed.
        signers: Whose signatures count; None where nobody's does.
        keys: Those that decrypt; None where nothing is.
        cbc: AES-CBC is taken, too.
        demands: For what messages must be signed, or encrypted.
    """

    def __init__(
        self,
        identification: Identification,
        authentication: Authentication,
        used: ReplayCache,
        parsing: Parsing,
        limits: DocumentLimits,
        addresses: OwnAddresses,
        signers: WsSecurityFile[Trust] | None = None,
        keys: WsSecurityFile[DecryptionKeys] | None = None,
        *,
        cbc: bool = False,
        demands: Demands = NO_DEMANDS,
        algorithms: Algorithms = USUAL,
    ) -> None:
        self._identification = identification
        self._authentication = authentication
        self._used = used
        self._parsing = parsing
        self._limits = limits
        self._addresses = addresses
        self._signers = signers
        self._keys = keys
        self._cbc = cbc
        self.demands = demands
        self._algorithms = algorithms
        self._tokens = UsernameTokens(identification, authentication, used, parsing, limits)

    def works(self) -> Iterable[Callable[[], Coroutine[Any, Any, None]]]:
        """Reads files again that change."""
        return [one.watch for one in (self._signers, self._keys) if one is not None]

    def may_decrypt(self, octets: bytes) -> bool:
        """Return True if an envelope may be encrypted, and there is a key."""
        return self._keys is not None and b"EncryptedData" in octets

    async def decrypt(self, inbound: Inbound) -> DecryptedMessage:
        """Decrypt the Body of *inbound*, and its header blocks, where they are encrypted, in a
        thread.

        Raises:
            MediationError: ``SIGNATURE_REFUSED``, ``ALGORITHM_UNSUPPORTED``: it cannot be.
            Refused: It is no envelope. ``UNAVAILABLE``: there is too much to do.
        """
        keys = self._keys
        if keys is None:
            return DecryptedMessage(inbound, None)

        def decrypt(learnt: set[str] | None) -> Decrypted | None:
            return decrypt_message(
                inbound.octets, keys.content, cbc=self._cbc, limits=self._limits, learnt=learnt
            )

        sender = inbound.principal
        # With a private key even what is small takes 1 ms.
        octets = max(len(inbound.octets), SMALL + 1)
        found = await self._parsing.run_parser(
            octets, decrypt, trusted=not sender.limits.quotas, owner=sender.owner
        )
        if found is None:
            return DecryptedMessage(inbound, None)
        hidden = None if found.authenticated else decryption_failed
        return DecryptedMessage(replace(inbound, octets=found.octets, encrypted=found.body), hidden)

    async def identify(self, inbound: Inbound, context: Context) -> Inbound:
        """Return *inbound* as a message of whom its Security header proves, without a password in
        it; as it is without one.

        Raises:
            MediationError: What is wrong with the header, as WS-Security tells it apart.
            TokenNotAccepted: The token proves nothing.
            Refused: ``RATE``: there were too many that prove nothing. ``UNAVAILABLE``.
        """
        try:
            signed = await self._verified(inbound)
            if signed is not None:
                known = await self._signed(signed, inbound, context)
                return await self.without_passwords(known)
        except MediationError:
            sender = inbound.principal
            self._authentication.count_signature(sender.address if sender.limits.quotas else None)
            raise
        return await self.without_passwords(await self._tokens.identify(inbound))

    async def without_passwords(self, inbound: Inbound) -> Inbound:
        """Return *inbound* without the passwords in its Security header: whoever is passed the
        envelope, or shown it, could be its sender with them. Nothing verifies it again.

        Raises:
            Refused: It is no envelope. ``UNAVAILABLE``: there is too much to do.
        """
        if not may_have_passwords(inbound.octets):
            return inbound
        sender = inbound.principal
        octets = await self._parsing.run_parser(
            len(inbound.octets),
            lambda _: without_passwords(inbound.octets, self._limits),
            trusted=not sender.limits.quotas,
            owner=sender.owner,
        )
        return inbound if octets == inbound.octets else replace(inbound, octets=octets)

    async def _signed(self, signed: SignedMessage, inbound: Inbound, context: Context) -> Inbound:
        if inbound.attachments:
            raise _not_accepted("the message has attachments, which are not signed")
        if not self._addresses.are_meant(signed.to, inbound.path):
            raise _not_accepted(f"the message was signed for another address, {signed.to}")
        subject = subject_of(signed.certificate)
        identity = self._authentication.of_certificate(signed.certificate)
        if subject is None or identity is None:
            raise _not_accepted("its certificate has no subject")
        await self._use(signed, context, f"{_SIGNER}{subject}")
        facts = TransportFacts(inbound.principal.address)
        principal = self._identification.principal_of(identity, facts)

        async def identify_again() -> Principal:
            now = self._authentication.of_certificate(signed.certificate)
            return self._identification.principal_of(now, facts)

        return replace(
            inbound,
            principal=principal,
            identify_again=identify_again,
            signer=signed.certificate,
            names_signer=signed.names_signer,
        )

    async def _verified(self, inbound: Inbound) -> SignedMessage | None:
        signers = self._signers
        if signers is None or b"Signature" not in inbound.octets:
            return None

        def verify(learnt: set[str] | None) -> SignedMessage | None:
            return verify_message(
                inbound.octets,
                signers.content,
                now=datetime.now(UTC),
                limits=self._limits,
                algorithms=self._algorithms,
                learnt=learnt,
            )

        sender = inbound.principal
        trusted = not sender.limits.quotas
        octets = len(inbound.octets)
        if not trusted:
            self._authentication.check_signatures(sender.address)
            # On the loop eight senders delayed all else by 38 ms, in a thread by 1.
            octets = max(octets, SMALL + 1)
        return await self._parsing.run_parser(octets, verify, trusted=trusted, owner=sender.owner)

    async def _use(self, signed: SignedMessage, context: Context, signer: str) -> None:
        """Have the message count once, in all gateways of the store. In a sequence that is so
        anyway, and what was not acknowledged is sent again as it was signed; so are the requests
        about sequences, which do the same however often they come."""
        said = context.reliable
        if isinstance(said, ReliableMessage) and (
            said.sequence is not None or _is_repeatable(said)
        ):
            return
        if not await self._used.use(signer, signed.fingerprint):
            raise _not_accepted("the message was sent before")

    def check(
        self,
        inbound: Inbound,
        request: Request,
        resource: ResourceAddress | None,
        to: str | None,
    ) -> None:
        """Refuse a request, for the address *to*, that must be secured, and is not.

        Raises:
            MediationError: ``TOKEN_INVALID``.
        """
        lacking = self.lacking(inbound, request, resource, to)
        if lacking:
            raise MediationError(
                Reason.TOKEN_INVALID, f"The message must be {lacking} here (WS-Security, X.509)."
            )

    def lacking(
        self,
        inbound: Inbound,
        request: Request,
        resource: ResourceAddress | None,
        to: str | None = None,
    ) -> str:
        """What *request* must be, and is not: signed, or encrypted; else empty."""
        if inbound.asked or (resource is not None and resource.kind in OF_OURS):
            return ""
        return self.demands.lacking(
            demanded_at(inbound.path, to),
            rights_for(type(request)),
            resource,
            signed=inbound.signed,
            encrypted=inbound.encrypted,
        )


def _is_repeatable(said: ReliableMessage) -> bool:
    """Return whether a message, which is about a sequence alone, does nothing when it comes again:
    CreateSequence is known by its message id."""
    return said.body is not None and (
        not isinstance(said.body, CreateSequence) or said.headers.message_id is not None
    )


def _not_accepted(why: str) -> MediationError:
    return MediationError(Reason.SIGNATURE_REFUSED, f"The signature is not accepted: {why}.")
