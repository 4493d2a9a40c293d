"""Step "answer": a response, or a fault, becomes an envelope, and goes where it is to go."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import structlog

from filters import Reason, Refused
from gateway.egress import AddressRefused
from gateway.exchange import ACCEPTED, Handover, Inbound, Reply
from gateway.parsing import SMALL, Parsing
from gateway.publishing.resources import OCTETS_OF_TOPIC
from gateway.security.keys import message_urn
from gateway.security.principals import Principal
from gateway.security.resource_addresses import shown
from gateway.soap.replies import Replies, payer_of
from mediation.faults import write_fault
from mediation.mailboxes.make_connection import soap_in
from mediation.model.messages import EndpointReference
from mediation.model.requests import (
    Acknowledged,
    Context,
    Events,
    Incoming,
    NoContent,
    Operation,
    Published,
    Response,
    Taken,
)
from mediation.model.versions import Soap
from mediation.responses import write_response
from mediation.soap.addressing import reference_headers
from mediation.specifications import SPECIFICATIONS

RETRY_AFTER = 2.0
"""Seconds after which a peer may try again what we could not take."""
FAULT = 4096
"""Octets of a fault, about."""
_log = structlog.get_logger("dragoman.soap")


class Answers:
    """Writes responses and faults.

    Attributes:
        refusals: How many messages were refused, by reason.
    """

    def __init__(self, replies: Replies, parsing: Parsing) -> None:
        self._replies = replies
        self._parsing = parsing
        self.refusals: dict[str, int] = {}

    async def answer(
        self,
        result: Response | Handover,
        incoming: Incoming,
        inbound: Inbound,
        elsewhere: EndpointReference | None,
        sign: Callable[[bytes], Awaitable[bytes]] | None = None,
    ) -> Reply:
        """The reply with *result*; where it goes *elsewhere*, signed by *sign*, the reply without a
        word.

        Raises:
            Refused: ``UNAVAILABLE``: it cannot be written now.
        """
        context = incoming.context
        if isinstance(result, Handover):
            response, settle = result.response, result.settle
        else:
            response, settle = result, None
        if elsewhere is not None and isinstance(response, Published):
            # Who publishes learns nothing elsewhere: that would be an event sent to anybody.
            return ACCEPTED[context.soap]
        if isinstance(response, NoContent):
            return Reply(status=204, soap=context.soap)
        try:
            extra = ""
            # An acknowledgement has the parameters of the anonymous address, too.
            acknowledged = isinstance(response, Acknowledged)
            to = elsewhere or (context.headers.reply_to if acknowledged else None)
            if to is not None and context.wsa is not None:
                extra = reference_headers(to, context.wsa).decode()
            action, body, soap = await self._write(response, context, extra, inbound.principal)
        except BaseException:
            if settle is not None:
                await settle(False)
            raise
        if not body:
            return ACCEPTED[context.soap]
        if elsewhere is None or not self._replies.may_send(elsewhere, len(body), inbound.principal):
            return Reply(
                status=200,
                soap=soap,
                action=action,
                body=body,
                expected=context.headers.message_id is not None,
                handed_over=settle,
            )
        owner = payer_of(inbound.principal)
        self._replies.send(elsewhere, context.soap, action, body, settle, owner=owner, sign=sign)
        return ACCEPTED[context.soap]

    async def _write(
        self, response: Response, context: Context, headers: str, principal: Principal
    ) -> tuple[str, bytes, Soap]:
        """The action, the envelope, and its version of SOAP. What mailboxes kept is parsed for it,
        and that is never done on the event loop: it is much, and its names are strangers'.

        Raises:
            Refused: as `write_response`; ``UNAVAILABLE``: there is too much to do.
        """

        def written(_: object = None) -> tuple[str, bytes, Soap]:
            action, body = write_response(
                response, context, message_id=message_urn(), reply_headers=headers
            )
            fetched = context.operation is Operation.MAKE_CONNECTION and body
            return action, body, soap_in(body) if fetched else context.soap

        if isinstance(response, Events):
            return await self._parsing.run_off_loop(
                OCTETS_OF_TOPIC * len(response.topics), written, owner=principal.owner
            )
        octets = sum(map(len, response.envelopes)) if isinstance(response, Taken) else 0
        if not octets:
            return written()
        return await self._parsing.run_parser(
            max(octets, SMALL + 1),
            written,
            trusted=not principal.limits.quotas,
            owner=principal.owner,
        )

    def refuse(
        self,
        refused: Refused,
        context: Context,
        principal: Principal,
        *,
        on_connection: bool,
        begin: str = "",
        status_of_calls: int = 500,
        sign: Callable[[bytes], Awaitable[bytes]] | None = None,
    ) -> Reply:
        """The reply that tells *principal* of *refused*, in a text that begins with *begin*; where
        it may be told elsewhere, unless *on_connection*, the reply without a word.
        *status_of_calls* is as in `write_fault`; *sign* signs what is told elsewhere."""
        if not principal.limits.guarded and isinstance(refused, AddressRefused):
            refused = refused.with_mend()
        self.count_refusal(refused.reason.value)
        retry_after = refused.retry_after
        if retry_after is None and refused.reason is Reason.UNAVAILABLE:
            retry_after = RETRY_AFTER
        _log.info(
            "soap.refused",
            peer=principal.address,
            reason=refused.reason.value,
            text=str(refused)[:500],
            operation=context.operation.value if context.operation else None,
            element=context.element[:200],
            value=shown(refused.value)[:200],
            **_mend(refused),
        )
        elsewhere = None
        if not on_connection:
            elsewhere = self._replies.address_of_fault(refused, context, principal)
            if elsewhere is not None and not self._replies.may_send(elsewhere, FAULT, principal):
                elsewhere = None
        status, action, body = write_fault(
            refused,
            context,
            now=datetime.now(UTC),
            message_id=message_urn(),
            retry_after=retry_after,
            to=elsewhere,
            begin=begin,
            status_of_calls=status_of_calls,
        )
        if elsewhere is not None:
            owner = payer_of(principal)
            self._replies.send(elsewhere, context.soap, action, body, owner=owner, sign=sign)
            return ACCEPTED[context.soap]
        return Reply(
            status=status,
            soap=context.soap,
            body=body,
            retry_after=retry_after,
            expected=context.headers.message_id is not None or _is_call(context),
        )

    def count_refusal(self, reason: str) -> None:
        """Count one message more as refused for *reason*."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1


def _is_call(context: Context) -> bool:
    """Whether a method was called: whoever does that waits for the answer, with or without an
    id."""
    return context.version is not None and SPECIFICATIONS[context.version].calls is not None


def _mend(refused: Refused) -> dict[str, str]:
    """The field of a log line that names the setting which would let *refused* pass, if one does;
    the peer is not told."""
    setting = getattr(refused, "allowed_by", None)
    return {"allowed_by": setting} if setting else {}
