"""Replies: back on the connection, or to the address that the request names.

``wsa:ReplyTo`` and ``wsa:FaultTo`` name addresses of the peer's choice, so what is sent there is
bounded: by the policy of addresses, by hosts that have agreed, by rates, and by places
(`gateway.soap.reply_bounds`).
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from filters import Reason, Refused
from gateway.delivery.destinations.probation import Probations
from gateway.egress import AddressPolicy, Request, SendFailed, Target, Transport, parse_target
from gateway.security.authorise import may_choose_reply_address
from gateway.security.principals import Principal
from gateway.soap.reply_bounds import ReplyBounds
from mediation.model.messages import EndpointReference
from mediation.model.requests import Context, Incoming, Operation, Subscribe, TakeFor
from mediation.model.versions import Soap, Wsa
from mediation.names import MAKE_CONNECTION_ANONYMOUS, WSA_NONE
from mediation.reliable_messaging import RmRefused
from mediation.soap.addressing import is_anonymous
from mediation.soap.envelopes import http_headers

_ON_THE_CONNECTION = frozenset(
    {
        Reason.REPLY_ADDRESS, Reason.TOO_LARGE, Reason.RATE, Reason.UNAVAILABLE, Reason.INTERNAL,
        # Who may not ask may not have it told to others, either.
        Reason.NOT_ALLOWED, Reason.NOT_IDENTIFIED,
    }
)  # fmt: skip
_NEVER_ELSEWHERE = frozenset({None, Operation.PUBLISH, Operation.MAKE_CONNECTION})
_log = structlog.get_logger("dragoman.soap")


class Replies:
    """Decides where answers go, and sends those that do not go on the connection.

    Args:
        probations: Which hosts have agreed to be sent to, and what others still get.
    """

    def __init__(self, transport: Transport, policy: AddressPolicy, probations: Probations) -> None:
        self._transport = transport
        self._policy = policy
        self._probations = probations
        self._bounds = ReplyBounds(probations)
        self._under_way: set[asyncio.Future[None]] = set()

    def address_of_response(
        self, incoming: Incoming, principal: Principal
    ) -> EndpointReference | None:
        """The address that the response is sent to; None for the connection that the request came
        on.

        Raises:
            Refused: ``REPLY_ADDRESS``: the policy does not allow the address.
        """
        headers, request = incoming.context.headers, incoming.request
        if headers.reply_to is None and headers.fault_to is None:
            return None
        if isinstance(request, TakeFor):
            return None  # What is fetched is always answered on the connection.
        self._elsewhere(headers.fault_to, "wsa:FaultTo", principal)
        reply_to = headers.reply_to
        if (
            reply_to is not None
            and isinstance(request, Subscribe)
            and request.consumer.address == reply_to.address
        ):
            return None  # agsh/onvif names its consumer there and waits on the connection.
        return self._elsewhere(reply_to, "wsa:ReplyTo", principal)

    def address_of_fault(
        self, refused: Refused, context: Context, principal: Principal
    ) -> EndpointReference | None:
        """The address that the fault about *refused* is sent to; None for the connection.

        A refusal that HTTP has a status for, or of an event, is always told on the connection, but
        for one about the sequence that the event is in.
        """
        headers, operation = context.headers, context.operation
        sequence = isinstance(refused, RmRefused) and refused.fault.identifier is not None
        if refused.reason in _ON_THE_CONNECTION or (operation in _NEVER_ELSEWHERE and not sequence):
            return None
        to = (refused.acks_to if isinstance(refused, RmRefused) else None) or headers.fault_to
        if to is None and operation is not Operation.SUBSCRIBE:  # It may be agsh/onvif's.
            to = headers.reply_to
        try:
            return self._elsewhere(to, "", principal)
        except Refused:
            return None

    def _elsewhere(
        self, epr: EndpointReference | None, name: str, principal: Principal
    ) -> EndpointReference | None:
        """*epr*; None where it means the connection, or *principal* may not choose it.

        Raises:
            Refused: ``REPLY_ADDRESS``: the policy does not allow the address.
        """
        if epr is None or is_anonymous(epr.address):
            return None
        if epr.address.startswith(MAKE_CONNECTION_ANONYMOUS):
            return None  # Nor has the connection to be another (WS-MakeConnection 1.1, 3.1).
        if epr.address == WSA_NONE and epr.wsa is Wsa.V2005_08:
            return epr
        try:
            target = parse_target(epr.address)
            self._policy.check_named(target, trusted=not principal.limits.reply_addresses)
        except Refused as refused:
            raise Refused(
                Reason.REPLY_ADDRESS, "The reply address is refused.", names=(name,)
            ) from refused
        return epr if self._may_choose(target, principal) else None

    def _may_choose(self, target: Target, principal: Principal) -> bool:
        """Whether *principal* may have answers sent to *target*. Who may do nothing at all, and is
        refused whatever it asks, may not."""
        if principal.limits.guarded and not principal.rights:
            return False
        agreed = self._probations.has_agreed(target.destination)
        return may_choose_reply_address(principal, host_agreed=agreed)

    def may_name(self, address: str, principal: Principal) -> bool:
        """Whether *principal* may name *address* for what is to be sent to it time and again."""
        try:
            target = parse_target(address)
            self._policy.check_named(target, trusted=not principal.limits.reply_addresses)
        except Refused:
            return False
        return self._may_choose(target, principal)

    def send_again(
        self,
        to: EndpointReference,
        soap: Soap,
        action: str,
        body: bytes,
        owner: str | None,
        sign: Callable[[bytes], Awaitable[bytes]] | None = None,
    ) -> None:
        """Send what will be sent again, should it be lost, to an address that a peer named; *owner*
        is None where that is trusted; *sign* signs it. It is left out where too much goes there."""
        try:
            target = parse_target(to.address)
            self._policy.check_named(target, trusted=owner is None)
        except Refused:
            return
        if self._bounds.may_send(target, len(body), owner):
            self.send(to, soap, action, body, owner=owner, sign=sign)

    def may_send(self, to: EndpointReference, octets: int, principal: Principal) -> bool:
        """Whether so many *octets* may be sent to *to* for *principal*; if so, they are counted.
        Else they go back on the connection."""
        if to.address == WSA_NONE:
            return True
        return self._bounds.may_send(parse_target(to.address), octets, payer_of(principal))

    def send(
        self,
        to: EndpointReference,
        soap: Soap,
        action: str,
        body: bytes,
        handed_over: Callable[[bool], Awaitable[None]] | None = None,
        *,
        owner: str | None,
        sign: Callable[[bytes], Awaitable[bytes]] | None = None,
    ) -> None:
        """Send an answer to *to*, while its request is over, for *owner*, None where that is
        trusted; *sign* signs it. It is one that `may_send`."""

        async def send() -> None:
            answered = False
            try:
                octets = body if sign is None else await sign(body)
                answered = await self._post(target, octets, soap, action, owner)
            except Refused as unable:  # There is too much to sign.
                _log.warning("soap.reply-failed", reason=unable.text)
            finally:
                if handed_over is not None:
                    await handed_over(answered)

        if to.address == WSA_NONE:
            if handed_over is not None:
                self._keep(asyncio.ensure_future(handed_over(False)))
            return
        target = parse_target(to.address)
        task = asyncio.get_running_loop().create_task(send())
        self._bounds.begin(target, owner)
        task.add_done_callback(lambda _: self._bounds.end(target, owner))
        self._keep(task)

    def _keep(self, task: asyncio.Future[None]) -> None:
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _post(
        self, target: Target, body: bytes, soap: Soap, action: str, owner: str | None
    ) -> bool:
        """Send *body* to *target*; whether it was accepted."""
        admit, reached = self._bounds.gate(target, owner)
        headers = http_headers(soap, action)
        accepted = False
        try:
            answer = await self._transport.send(
                Request(target, body, headers, soap=soap, admit=admit)
            )
            accepted = 200 <= answer.status < 300
        except SendFailed as failure:
            _log.warning("soap.reply-failed", reason=failure.detail)
        if owner is not None:
            self._bounds.answered({target.host, *reached}, accepted=accepted)
        return accepted


def payer_of(principal: Principal) -> str | None:
    """The owner to whom answers that go elsewhere are counted; None: it speaks for the operator."""
    return principal.owner if principal.limits.guarded else None
