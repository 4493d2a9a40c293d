"""Step "identify": who sends a message, where WS-Security in it says that.

A signature counts more than a UsernameToken, and both more than what the connection says: the
message may have come through others. The signer is who its certificate says, as in mutual TLS.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

from filters import DocumentLimits, Reason
from gateway.exchange import Inbound
from gateway.parsing import Parsing
from gateway.security.authentication import Authentication
from gateway.security.authorise import right_for
from gateway.security.identify import Identification, TransportFacts
from gateway.security.resource_addresses import ResourceAddress, ResourceKind
from gateway.security.signers_file import SignersFile
from gateway.sequences.operations import parts_of
from gateway.soap.used_once import UsedOnce
from gateway.soap.username_tokens import UsernameTokens
from mediation.model.errors import MediationError
from mediation.model.requests import Incoming, Request
from mediation.ws_security import USUAL, Algorithms, SignedMessage, verify_message

_SIGNER = "x509"
"""The user of fingerprints among nonces: a user of UsernameTokens has a name of its own."""
_OF_OURS = frozenset({ResourceKind.SOURCE, ResourceKind.SEQUENCE})
"""Addresses that only producers and consumers know that the gateway chose."""


class MessageSecurity:
    """Identifies senders by their signatures and tokens, and says who must sign.

    Args:
        signers: Whose signatures count; None where nobody's does.
        required: Rights, and paths of endpoints, for which messages must be signed.
    """

    def __init__(
        self,
        identification: Identification,
        authentication: Authentication,
        used: UsedOnce,
        parsing: Parsing,
        limits: DocumentLimits,
        signers: SignersFile | None = None,
        *,
        required: Collection[str] = (),
        algorithms: Algorithms = USUAL,
    ) -> None:
        self._identification = identification
        self._authentication = authentication
        self._used = used
        self._parsing = parsing
        self._limits = limits
        self.signers = signers
        self._rights = frozenset(one for one in required if not one.startswith("/"))
        self._paths = tuple(one.rstrip("/") for one in required if one.startswith("/"))
        self._algorithms = algorithms
        self._tokens = UsernameTokens(identification, authentication, used, parsing, limits)

    async def identify(self, inbound: Inbound, incoming: Incoming) -> Inbound:
        """Return *inbound* as a message of whom its Security header proves; as it is without one.

        Raises:
            MediationError: What is wrong with the header, as WS-Security tells it apart.
            TokenNotAccepted: The token proves nothing.
            Refused: ``RATE``: there were too many that prove nothing. ``UNAVAILABLE``.
        """
        try:
            signed = await self._verified(inbound)
            if signed is not None:
                return await self._signed(signed, inbound, incoming)
        except MediationError:
            self._authentication.count_refused("signature")
            raise
        return await self._tokens.identify(inbound)

    async def _signed(self, signed: SignedMessage, inbound: Inbound, incoming: Incoming) -> Inbound:
        if inbound.attachments:
            raise _not_accepted("the message has attachments, which are not signed")
        if not signed.is_for(inbound.path):
            raise _not_accepted(f"the message was signed for another address, {signed.to}")
        await self._use(signed, incoming)
        identity = self._authentication.of_certificate(signed.certificate)
        if identity is None:
            raise _not_accepted("its certificate has no subject")
        facts = TransportFacts(inbound.principal.address)
        principal = self._identification.principal_of(identity, facts)
        return replace(inbound, principal=principal, signed=True)

    async def _verified(self, inbound: Inbound) -> SignedMessage | None:
        signers = self.signers
        if signers is None or b"Signature" not in inbound.octets:
            return None

        def verify(learnt: set[str] | None) -> SignedMessage | None:
            return verify_message(
                inbound.octets,
                signers.trust,
                now=datetime.now(UTC),
                limits=self._limits,
                algorithms=self._algorithms,
                learnt=learnt,
            )

        sender = inbound.principal
        trusted = not sender.limits.quotas
        return await self._parsing.run_parser(
            len(inbound.octets), verify, trusted=trusted, owner=sender.owner
        )

    async def _use(self, signed: SignedMessage, incoming: Incoming) -> None:
        """Have the message count once, in all gateways of the store. In a sequence that is so
        anyway, and what was not acknowledged is sent again as it was signed."""
        said = parts_of(incoming)
        if said is not None and said.sequence is not None:
            return
        if not await self._used.use(_SIGNER, signed.fingerprint):
            raise _not_accepted("the message was sent before")

    def check(self, inbound: Inbound, request: Request, resource: ResourceAddress | None) -> None:
        """Refuse a request that must be signed, and is not.

        Raises:
            MediationError: ``TOKEN_INVALID``.
        """
        if self.demands(inbound, request, resource):
            raise MediationError(
                Reason.TOKEN_INVALID,
                "The message must be signed here (WS-Security, with an X.509 certificate).",
            )

    def demands(self, inbound: Inbound, request: Request, resource: ResourceAddress | None) -> bool:
        """Return True if *request* must be signed, and is not."""
        if inbound.signed or inbound.asked or not (self._rights or self._paths):
            return False
        if resource is not None and resource.kind in _OF_OURS:
            return False
        path = inbound.path
        if any(path == one or path.startswith(f"{one}/") for one in self._paths):
            return True
        return right_for(type(request)).value in self._rights


def _not_accepted(why: str) -> MediationError:
    return MediationError(Reason.SIGNATURE_REFUSED, f"The signature is not accepted: {why}.")
