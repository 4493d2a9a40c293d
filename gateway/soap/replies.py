"""Replies: back on the connection, or to the address that the request names.

``wsa:ReplyTo`` and ``wsa:FaultTo`` name addresses of the peer's choice, so what is sent there is
bounded: by the policy of addresses, by hosts that have agreed, and by a rate of bytes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from adapters import AdapterUnavailable
from filters import Reason, Refused
from gateway.egress import AddressPolicy, Request, SendFailed, Target, Transport, parse_target
from gateway.security.authorise import may_choose_reply_address
from gateway.security.principals import Principal
from gateway.token_bucket import TokenBucket
from mediation.model.messages import EndpointReference
from mediation.model.requests import Context, Incoming, Operation, Subscribe, TakeFor
from mediation.model.versions import Soap, Wsa
from mediation.names import MAKE_CONNECTION_ANONYMOUS, WSA_NONE
from mediation.reliable_messaging import RmRefused
from mediation.soap.addressing import is_anonymous
from mediation.soap.envelopes import http_headers

REPLIES_AT_A_TIME = 64
REPLIED, REPLIED_AT_ONCE = 64 * 1024.0, 2 * 2**20
"""Octets of answers that are sent elsewhere for a stranger, and to a host for strangers: a second,
and at once; what is more goes back on the connection."""
_ON_THE_CONNECTION = frozenset(
    {Reason.REPLY_ADDRESS, Reason.TOO_LARGE, Reason.RATE, Reason.UNAVAILABLE, Reason.INTERNAL}
)
_NEVER_ELSEWHERE = frozenset({None, Operation.PUBLISH, Operation.MAKE_CONNECTION})
_log = structlog.get_logger("dragoman.soap")


class Replies:
    """Decides where answers go, and sends those that do not go on the connection.

    Args:
        has_agreed: Whether the host of a target has accepted what subscribers had sent to it.
    """

    def __init__(
        self, transport: Transport, policy: AddressPolicy, *, has_agreed: Callable[[Target], bool]
    ) -> None:
        self._transport = transport
        self._policy = policy
        self._has_agreed = has_agreed
        self._replied = TokenBucket(REPLIED, REPLIED_AT_ONCE)
        self._under_way: set[asyncio.Task[None]] = set()

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
            Refused: ``REPLY_ADDRESS``: the policy does not allow the address. ``UNAVAILABLE``.
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
        if not may_choose_reply_address(principal, host_agreed=self._has_agreed(target)):
            return None
        if len(self._under_way) >= REPLIES_AT_A_TIME:
            raise AdapterUnavailable("Too many replies are under way.")
        return epr

    def may_name(self, address: str, principal: Principal) -> bool:
        """Whether *principal* may name *address* for what is to be sent to it time and again."""
        try:
            target = parse_target(address)
            self._policy.check_named(target, trusted=not principal.limits.reply_addresses)
        except Refused:
            return False
        return may_choose_reply_address(principal, host_agreed=self._has_agreed(target))

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
        if len(self._under_way) >= REPLIES_AT_A_TIME:
            return
        if owner is None or self._has_allowance(target.host, owner, len(body)):
            self.send(to, soap, action, body, sign=sign)

    def may_send(self, to: EndpointReference, octets: int, principal: Principal) -> bool:
        """Whether so many *octets* may be sent to *to* for *principal*; if so, they are counted.
        Else they go back on the connection."""
        if not principal.limits.reply_addresses or to.address == WSA_NONE:
            return True
        return self._has_allowance(parse_target(to.address).host, principal.owner, octets)

    def _has_allowance(self, host: str, owner: str, octets: int) -> bool:
        """Whether so many octets may be sent to *host* for a stranger; if so, they are counted."""
        now = time.monotonic()
        replied = self._replied
        return replied.allows(f"to {host}", now, number=octets) and replied.allows(
            owner, now, number=octets
        )

    def send(
        self,
        to: EndpointReference,
        soap: Soap,
        action: str,
        body: bytes,
        handed_over: Callable[[bool], Awaitable[None]] | None = None,
        *,
        sign: Callable[[bytes], Awaitable[bytes]] | None = None,
    ) -> None:
        """Send an answer to *to*, while its request is over; *sign* signs it."""

        async def send() -> None:
            answered = False
            try:
                if to.address != WSA_NONE:
                    octets = body if sign is None else await sign(body)
                    request = Request(
                        parse_target(to.address), octets, http_headers(soap, action), soap=soap
                    )
                    answer = await self._transport.send(request)
                    answered = 200 <= answer.status < 300
            except SendFailed as failure:
                _log.warning("soap.reply-failed", reason=failure.detail)
            except Refused as unable:  # There is too much to sign.
                _log.warning("soap.reply-failed", reason=unable.text)
            finally:
                if handed_over is not None:
                    await handed_over(answered)

        if to.address == WSA_NONE and handed_over is None:
            return
        task = asyncio.get_running_loop().create_task(send())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
