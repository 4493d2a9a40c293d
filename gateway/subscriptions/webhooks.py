"""The handshake of web hooks: a consumer of CloudEvents is asked whether it wants them (HTTP 1.1
Web Hooks for Event Delivery 1.0.2, section 4), before anything is sent to it."""

import asyncio
import re
from enum import Enum

import structlog

from filters import Reason, Refused
from gateway.delivery import Probations
from gateway.egress import Request, SendFailed, Target, Transport
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate, QuotaExceeded
from gateway.security.resource_addresses import shown
from gateway.subscriptions.consents import Consents
from gateway.subscriptions.consumers import Consumers
from mediation.cloudevents import CALLBACK_HEADER, ORIGIN_HEADER, origin_of
from mediation.model.messages import EndpointReference

PATIENCE = 10.0
"""Seconds that a consumer has to answer."""
ASKED, ASKED_AT_ONCE = 1.0, 10.0
"""Handshakes that one stranger may cause: a second, and at once."""
MOST = 1_000_000
"""Requests a minute from which on a rate counts as unlimited."""
_NUMBER = re.compile(r"[0-9]{1,100}(\.[0-9]{0,100})?", re.ASCII)
_log = structlog.get_logger("dragoman.webhooks")


class Handshake(Enum):
    """The subscribers whose consumers must agree before a subscription is made."""

    ALWAYS = "always"
    STRANGERS = "strangers"
    """Those of strangers: the word of a trusted subscriber is enough."""
    NEVER = "never"
    """Nobody's; nobody is asked."""


class WebHooks:
    """Asks consumers.

    Args:
        base: The gateway's own URL, without a slash at the end: consumers are told its host.
    """

    def __init__(
        self,
        transport: Transport,
        consumers: Consumers,
        probations: Probations,
        *,
        base: str,
        handshake: Handshake,
    ) -> None:
        self._transport = transport
        self._consumers = consumers
        self._probations = probations
        self._origin = origin_of(base)
        self.consents = Consents(base)
        self._handshake = handshake
        self._rate = PrincipalRate(ASKED, ASKED_AT_ONCE, "Too many subscriptions.")

    async def ask(self, consumer: EndpointReference, principal: Principal) -> int:
        """Ask *consumer*; how many requests a minute it allows, 0 where it sets no limit.

        Raises:
            Refused: It may not be sent to, or does not agree.
        """
        self._rate.take(principal)
        target = await self._consumers.check(consumer, principal.owner)
        if target is None or target.scheme not in ("http", "https"):
            raise Refused(Reason.CONSUMER_ADDRESS, "CloudEvents are sent over HTTP alone.")
        if self._handshake is Handshake.NEVER:
            return 0
        required = principal.limits.reply_addresses or self._handshake is Handshake.ALWAYS
        if self._probations.is_approved(target.host):
            required = False
        try:
            return await self._ask(target, principal, required)
        except Refused as refused:
            if required:
                self._probations.note_refusal(target.host, refused.text)
                raise
            _log.info("webhook.unasked", consumer=shown(target.url), why=refused.text)
            return 0

    def agree(self, key: str, rate: str | None, origin: str | None) -> bool:
        """Take the consent that came by callback, with its headers ``WebHook-Allowed-Rate`` and
        ``WebHook-Allowed-Origin``; False where there is nothing to agree to."""
        if not self._is_ours(origin or "*"):
            return False
        return self.consents.agree(key, _rate(rate or "*"), asyncio.get_running_loop().time())

    def _is_ours(self, origin: str | None) -> bool:
        return origin in ("*", self._origin)

    async def _ask(self, target: Target, principal: Principal, required: bool) -> int:
        clock = asyncio.get_running_loop().time
        headers = [(ORIGIN_HEADER, self._origin)]
        if required:
            given = self.consents.given(principal.owner, target.url, clock())
            if given is not None:
                return given
        if not self._probations.may_notify(target.destination, principal.owner, clock()):
            raise QuotaExceeded(
                Reason.RATE, "The consumer's host was asked often enough.", retry_after=60.0
            )
        if required:
            callback = self.consents.callback(principal.owner, target.url, clock())
            headers.append((CALLBACK_HEADER, callback))
        request = Request(
            target,
            b"",
            tuple(headers),
            method="OPTIONS",
            soap=None,
            admit=self._probations.gate_for(target.destination, principal.owner, clock),
            owner=principal.owner,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await self._transport.send(request)
        except (SendFailed, TimeoutError) as error:
            words = error.detail if isinstance(error, SendFailed) else ""
            why = words or f"no answer within {PATIENCE:.0f} s"
            raise Refused(
                Reason.CONSUMER_ADDRESS,
                f"The consumer could not be asked whether it agrees: {why}.",
            ) from error
        if not self._is_ours(answer.headers.get("webhook-allowed-origin")):
            raise Refused(
                Reason.CONSUMER_ADDRESS,
                "The consumer does not agree: it answers OPTIONS without WebHook-Allowed-Origin "
                f"for {self._origin}. If it agrees by its callback, subscribe again.",
            )
        return _rate(answer.headers.get("webhook-allowed-rate", "*"))


def _rate(text: str) -> int:
    """The rate a minute that a header allows; 0 is any, which ``*`` means. Text that is not
    a positive number counts as 1: whoever writes 0 wants few (HTTP 1.1 Web Hooks for Event
    Delivery, 4.2.2)."""
    text = text.strip()
    if text == "*":
        return 0
    if _NUMBER.fullmatch(text) is None:
        return 1
    whole = text.partition(".")[0].lstrip("0")
    number = MOST if len(whole) >= 10 else max(1, int(whole or "0"))
    return number if number < MOST else 0
