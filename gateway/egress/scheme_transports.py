"""The transport that has others under it, one for each scheme of addresses."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from gateway.egress.addresses import Target
from gateway.egress.attachments import packaged
from gateway.egress.client_limits import ClientLimits
from gateway.egress.consumer_options import PLAIN, Options
from gateway.egress.dialing import Dialer
from gateway.egress.http_transport import HttpTransport
from gateway.egress.signed_replies import ReplyChecks
from gateway.egress.transport import (
    Answer,
    FailureKind,
    Lane,
    Posting,
    Request,
    SendFailed,
    SendingAsOurselves,
    Transport,
)
from gateway.parsing import Busy, Parsing
from mediation.model.messages import Packaging

P = TypeVar("P", bound=asyncio.BaseProtocol)
ALONE = ClientLimits(exchange=40.0, body=2**20, connections=1)
"""Limits of a connection that no other request shares."""


class TransportByScheme:
    """Hands each request to the `Transport` for the scheme of its target.

    The options that the operator gave a consumer hold for all of them: how it reads attachments,
    where it is connected to, and how large a message it takes.

    Args:
        by_scheme: One for each scheme that targets may have.
        dialer: What they share; closed with them.
        patient: That of patient requests by HTTP, whose connections are not in the way of others.
        endpoints: That of requests to authorization servers, which the operator has named.
        parsing: Where messages are signed; without it, on the event loop.
        replies: Checks answers that consumers must sign.
    """

    def __init__(
        self,
        by_scheme: Mapping[str, Transport],
        dialer: Dialer,
        patient: Transport | None = None,
        *,
        endpoints: Transport | None = None,
        parsing: Parsing | None = None,
        replies: ReplyChecks | None = None,
    ) -> None:
        self._parsing = parsing
        self._replies = replies
        self._by_scheme = dict(by_scheme)
        self._patient = patient
        self._endpoints = endpoints
        self._posting = {
            scheme: one for scheme, one in by_scheme.items() if isinstance(one, Posting)
        }
        self._dialer = dialer

    async def send(self, request: Request) -> Answer:
        answer = await self._send(request)
        rule = self._dialer.options.of(request.target).replies
        if rule is not None and request.owner is not None and self._replies is not None:
            await self._replies.check(rule, request, answer)
        return answer

    async def _send(self, request: Request) -> Answer:
        scheme = request.target.scheme
        options = self._dialer.options.of(request.target)
        if options is not PLAIN:
            scheme = options.via.scheme if options.via else scheme
            request = _fitted(request, options, dime=scheme.startswith("soap.tcp"))
            if options.via:  # The operator has said where to.
                request = replace(request, admit=None)
        transport = self._by_scheme.get(scheme)
        if transport is None or (request.soap is None and not scheme.startswith("http")):
            # The others carry envelopes alone.
            raise SendFailed(FailureKind.FORBIDDEN, f"nothing sends this to {scheme}: addresses")
        if request.patient and self._patient is not None and scheme.startswith("http"):
            transport = self._patient
        authentication: SendingAsOurselves | None = options.authentication_for(request.owner)
        if request.shown is not None:
            authentication = request.shown.authentication
        if authentication is None:
            return await transport.send(request)
        goal = options.via or request.target
        return await self._send_as_ourselves(authentication, request, goal, transport)

    async def _send_as_ourselves(
        self,
        authentication: SendingAsOurselves,
        request: Request,
        goal: Target,
        transport: Transport,
    ) -> Answer:
        """Send *request* with what its consumer is shown."""
        endpoints, dropped = self._endpoints or transport, 0
        if goal.scheme.startswith("http"):  # What is signed is what the consumer reads.
            request, dropped = packaged(request)
        write = partial(self._write, request.owner or "")
        answer = await authentication.send(request, goal, transport.send, endpoints.send, write)
        return replace(answer, dropped=dropped) if dropped else answer

    async def _write(self, owner: str, octets: int, work: Callable[[], bytes]) -> bytes:
        """Run *work*, which parses and signs what is sent for *owner*."""
        if self._parsing is None:
            return work()
        try:
            return await self._parsing.run_writer(octets, work, owner=owner)
        except Busy as busy:
            raise SendFailed(FailureKind.TRANSPORT, "too many messages wait to be signed") from busy

    def lane(self, target: Target) -> Lane | None:
        posting = self._posting.get(target.scheme)
        if posting is None or self._dialer.options.of(target) is not PLAIN:
            return None
        return posting.lane(target)

    def alone(self) -> Transport:
        """A transport of one connection by HTTP to each destination, which no other request shares;
        whoever has it closes it."""
        return HttpTransport(self._dialer, limits=ALONE)

    async def connect(self, target: Target, deadline: float, factory: Callable[[], P]) -> P:
        """A connection for *target* by itself, as `Dialer.connect` makes it.

        Raises:
            SendFailed: There is none.
        """
        return await self._dialer.connect(target, deadline, factory)

    async def close(self) -> None:
        for transport in {id(one): one for one in self._by_scheme.values()}.values():
            await transport.close()
        for one in (self._patient, self._endpoints):
            if one is not None:
                await one.close()
        self._dialer.close()


def _fitted(request: Request, options: Options, *, dime: bool) -> Request:
    """*request* in the packaging that the consumer reads.

    Raises:
        SendFailed: It is larger than the consumer takes.
    """
    packaging = options.attachments or request.packaging
    packaging = Packaging.DIME if dime else packaging
    octets = len(request.body)
    if packaging is not Packaging.NONE:
        octets += sum(len(attachment.content) for attachment in request.attachments)
    if options.max_message is not None and octets > options.max_message:
        limit = options.max_message
        text = f"{octets} bytes: more than its row of [[consumers]] takes (max_message {limit})"
        raise SendFailed(FailureKind.TOO_LARGE, text)
    return request if packaging is request.packaging else replace(request, packaging=packaging)
