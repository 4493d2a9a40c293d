"""Step "reliable": between a message that was read and all that it leads to.

What comes in a sequence (WS-ReliableMessaging) is carried out once, in order, and acknowledged when
that is done. Everything else goes on at once.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol, TypeAlias

from filters import Reason, Refused
from gateway.exchange import ACCEPTED, Inbound, Reply
from gateway.security.authorise import authorise
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate
from gateway.security.resource_addresses import addressed
from gateway.security.rights import Right
from gateway.sequences.bindings import proofs_of
from gateway.sequences.operations import (
    PublishInSequence,
    acknowledgement,
    parts_of,
)
from gateway.sequences.sequences import Acknowledged, Sequences
from gateway.sequences.turns import passes
from gateway.soap.endpoint_rules import endpoint_named
from mediation.model.requests import Context, EndpointRules, Incoming, Publish
from mediation.model.requests import Sequences as Mode
from mediation.reliable_messaging import (
    AckRequestedAlone,
    FaultName,
    LastMessage,
    ReliableMessage,
    RmFault,
    RmRefused,
    with_blocks,
)

Proceed: TypeAlias = Callable[[Inbound, Incoming], Awaitable[Reply]]
"""The steps that follow."""
UNKNOWN_EVERY = 1.0
"""Seconds after which a stranger is told again that it names no sequence."""
MOST_ASKED = 8
"""AckRequested headers of one message that are answered, beside that of its own sequence."""


class ReliableStep(Protocol):
    """What keeps sequences apart. It may let a message go on later, or not at all (one that came
    twice), and add to the reply."""

    def __call__(self, inbound: Inbound, incoming: Incoming, proceed: Proceed) -> Awaitable[Reply]:
        """The reply to *incoming*."""

    def suppresses(self, principal: Principal, refused: Refused) -> bool:
        """Whether to drop this refusal, because *principal* got the same one a moment ago."""

    def refused(
        self, inbound: Inbound, context: Context, refused: Refused, reply: Reply
    ) -> Awaitable[Reply]:
        """The reply to a message with parts of sequences that was *refused*, as *reply* says."""


class PassOn:
    """The step where there are no sequences: every message goes on at once."""

    def __call__(self, inbound: Inbound, incoming: Incoming, proceed: Proceed) -> Awaitable[Reply]:
        return proceed(inbound, incoming)  # Not awaited here: a coroutine less for each event.

    def suppresses(self, principal: Principal, refused: Refused) -> bool:
        return False

    async def refused(
        self, inbound: Inbound, context: Context, refused: Refused, reply: Reply
    ) -> Reply:
        return reply


class SequenceStep:
    """The step where there are sequences.

    Args:
        rules: Tells those of the endpoint at a path.
        required: Some endpoint takes events in sequences alone.
    """

    def __init__(
        self,
        sequences: Sequences,
        rules: Callable[[str], EndpointRules],
        *,
        required: bool,
    ) -> None:
        self._sequences = sequences
        self._rules = rules
        self._required = required
        self._unknown = PrincipalRate(1 / UNKNOWN_EVERY, 1.0, "Unknown sequences.")

    def __call__(self, inbound: Inbound, incoming: Incoming, proceed: Proceed) -> Awaitable[Reply]:
        if incoming.context.reliable is None and not self._required:
            return proceed(inbound, incoming)
        return self._keep_apart(inbound, incoming, proceed)

    async def _keep_apart(self, inbound: Inbound, incoming: Incoming, proceed: Proceed) -> Reply:
        said = parts_of(incoming)
        if said is None or said.sequence is None:
            if self._is_missed(inbound, incoming):
                raise RmRefused(RmFault(FaultName.WSRM_REQUIRED))
            reply = await proceed(inbound, incoming)
            return await self._asked(inbound, said, reply)
        request = incoming.request
        if addressed(inbound.path, incoming.context.headers.to) is not None:
            raise Refused(
                Reason.ACTION_UNSUPPORTED, "Sequences are taken at the endpoint, and nowhere else."
            )
        if isinstance(said.body, LastMessage):
            authorise(inbound.principal, Right.PUBLISH)
            proofs = proofs_of(inbound)
            told = await self._sequences.take(said, b"", inbound.principal, proofs)
            accepted = _with(told, ACCEPTED[incoming.context.soap])
            return await self._asked(inbound, said, accepted)
        if not isinstance(request, Publish):
            raise Refused(
                Reason.ACTION_UNSUPPORTED,
                "Only events are taken in sequences; send other requests without one.",
            )
        events = PublishInSequence(
            request.notifications, request.answered, request.acknowledged, request.set_aside
        )
        reply = await proceed(inbound, replace(incoming, request=events))
        for told in events.told:
            reply = _with(told, reply)
        return await self._asked(inbound, said, reply)

    def _is_missed(self, inbound: Inbound, incoming: Incoming) -> bool:
        """Whether a message ought to have come in a sequence."""
        if not self._required or not isinstance(incoming.request, Publish):
            return False
        path = inbound.path or endpoint_named(incoming.context.headers.to)
        if self._rules(path).sequences is not Mode.REQUIRED:
            return False
        return addressed(inbound.path, incoming.context.headers.to) is None

    async def _asked(self, inbound: Inbound, said: ReliableMessage | None, reply: Reply) -> Reply:
        """*reply* with acknowledgements of the sequences that a message asks about besides."""
        if said is None or not isinstance(said.body, AckRequestedAlone | None):
            return reply
        own = said.sequence.identifier if said.sequence is not None else ""
        if isinstance(said.body, AckRequestedAlone) and said.ack_requested:
            own = said.ack_requested[0].identifier  # It is answered already.
        for asked in said.ack_requested[:MOST_ASKED]:
            if asked.identifier != own:
                try:
                    told = await self._sequences.ask(
                        asked.identifier, inbound.principal, proofs_of(inbound)
                    )
                except Refused:
                    continue  # It must not replace what answers the message.
                reply = _with(told, reply)
        return reply

    async def refused(
        self, inbound: Inbound, context: Context, refused: Refused, reply: Reply
    ) -> Reply:
        """A message that is refused for good has had its turn: no other waits for it."""
        said = context.reliable
        if isinstance(refused, RmRefused):
            return reply
        if not isinstance(said, ReliableMessage) or said.sequence is None:
            return reply
        if passes(refused.reason):
            return reply
        try:
            told = await self._sequences.take(said, b"", inbound.principal, proofs_of(inbound))
        except Refused:
            return reply
        return _with(told, reply)

    def suppresses(self, principal: Principal, refused: Refused) -> bool:
        # A stranger that guesses identifiers of sequences learns little: it is told now and then.
        if isinstance(refused, RmRefused) and refused.fault.name is FaultName.UNKNOWN_SEQUENCE:
            try:
                self._unknown.take(principal)
            except Refused:
                return True
        return False


def _with(told: Acknowledged, reply: Reply) -> Reply:
    """*reply* with an acknowledgement, where that goes on the connection."""
    answer = acknowledgement(told)
    if answer is None:
        return reply
    if reply.body:
        return replace(reply, body=with_blocks(reply.body, [told.block]))
    soap = told.sequence.wire.soap if told.sequence is not None else reply.soap
    return replace(reply, status=200, soap=soap, action=answer.action, body=answer.envelope)
