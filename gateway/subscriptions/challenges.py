"""Consumers that speak SOAP are asked whether they agree, before a subscription that strangers make
there: by a request that only who reads messages at the address can answer (`mediation.agreement`),
or by a person, at the URL in it.

    its host has agreed, or somebody speaks for it  -> nothing is asked
    it answers, or agreed at the URL                 -> the host counts as agreed
    else                                             -> the subscription is refused
"""

import asyncio
import secrets
from collections.abc import Callable

from filters import Reason, Refused
from gateway.delivery import Probations
from gateway.delivery.destinations.probation import Name
from gateway.egress import Request, SendFailed, Target, Transport
from gateway.security.keys import message_urn
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate, QuotaExceeded
from gateway.subscriptions.consents import Consents
from gateway.subscriptions.webhooks import ASKED, ASKED_AT_ONCE, PATIENCE, Handshake
from mediation.agreement import Challenge, agrees, write_challenge
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Spec, Wsa


class Challenges:
    """Asks consumers.

    Args:
        consents: Those that are given by a callback.
        agreed: Called with the scheme, host and port of a consumer that agrees.
        wanted: Whose consumers are asked.
    """

    def __init__(
        self,
        transport: Transport,
        probations: Probations,
        consents: Consents,
        *,
        agreed: Callable[[Name], None],
        wanted: Handshake,
    ) -> None:
        self._transport = transport
        self._probations = probations
        self._consents = consents
        self._agreed = agreed
        self._wanted = wanted
        self._rate = PrincipalRate(ASKED, ASKED_AT_ONCE, "Too many subscriptions.")

    async def ask(
        self, consumer: EndpointReference, target: Target | None, spec: Spec, principal: Principal
    ) -> bool:
        """Ask *consumer*, whose messages go to *target*, where it has to agree. Returns whether it
        was asked; on return it agrees, or need not.

        Raises:
            Refused: It does not agree.
            QuotaExceeded: ``RATE``: it, or for *principal*, was asked often enough.
        """
        if target is None or not self._must_agree(target, principal):
            return False
        self._rate.take(principal)
        clock = asyncio.get_running_loop().time
        if self._consents.given(principal.owner, target.url, clock()) is None:
            await self._ask(consumer, target, spec, principal)
        self._agreed(target.destination)
        return True

    def _must_agree(self, target: Target, principal: Principal) -> bool:
        if self._wanted is Handshake.NEVER or self._probations.has_agreed(target.destination):
            return False
        if self._wanted is Handshake.ALWAYS:
            return True
        return not self._probations.speaks_for(principal.owner, target.host)

    async def _ask(
        self, consumer: EndpointReference, target: Target, spec: Spec, principal: Principal
    ) -> None:
        if target.scheme not in ("http", "https"):
            raise self._refused(target, "only consumers over HTTP can be asked whether they agree")
        clock = asyncio.get_running_loop().time
        if not self._probations.may_notify(target.destination, principal.owner, clock()):
            text = "The consumer's host was asked often enough."
            raise QuotaExceeded(Reason.RATE, text, retry_after=60.0)
        callback = self._consents.callback(principal.owner, target.url, clock())
        challenge = Challenge(message_urn(), secrets.token_urlsafe(32), callback)
        soap = spec.form if isinstance(spec.form, Soap) else Soap.V1_2
        headers, envelope = write_challenge(soap, spec.wsa or Wsa.V2005_08, consumer, challenge)
        admit = self._probations.gate_for(target.destination, principal.owner, clock)
        request = Request(target, envelope, headers, soap=soap, admit=admit, owner=principal.owner)
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await self._transport.send(request)
        except (SendFailed, TimeoutError) as error:
            words = error.detail if isinstance(error, SendFailed) else ""
            why = words or f"no answer within {PATIENCE:.0f} s"
            raise self._refused(target, f"it could not be asked: {why}") from error
        if not (200 <= answer.status < 300 and agrees(answer.document, challenge)):
            raise self._refused(target, f"it answered {answer.status}, and not the question")

    def _refused(self, target: Target, why: str) -> Refused:
        self._probations.note_refusal(target.host, why)
        return Refused(
            Reason.CONSUMER_ADDRESS,
            f"The consumer does not agree: {why}. If it agrees at the URL that it was sent, "
            "subscribe again.",
        )
