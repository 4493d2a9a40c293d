"""The room of SOAP: the service that dispatches requests, and its ways in over HTTP and TCP."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from adapters.tenant_admission import TenantAdmission
from gateway.channels.room import ChannelRoom
from gateway.exchange import Handlers
from gateway.http import ConnectionGate, HttpLimits, HttpSettings
from gateway.mailboxes.room import MailboxRoom
from gateway.observing.samples import Sample
from gateway.parsing import Parsing
from gateway.rooms import Room, Work
from gateway.routes import Routes
from gateway.security.audit import Audit
from gateway.security.identify import Identification
from gateway.security.intake import Intake
from gateway.security.resource_addresses import ResourceKind
from gateway.sequences.room import SequenceRoom
from gateway.settings.settings import Settings
from gateway.soap.endpoint_rules import rules_at, with_calls, with_sequences
from gateway.soap.http import SoapEndpoint, soap_routes
from gateway.soap.listeners import SoapTcpListeners
from gateway.soap.registry import Registry
from gateway.soap.reliable import SequenceStep
from gateway.soap.replies import Replies
from gateway.soap.service import SoapService
from mediation.grid_events import NO_TYPES, DeclaredTypes
from mediation.model.requests import EndpointRules, Sequences
from mediation.model.requests.context import TopicRules

if TYPE_CHECKING:
    from gateway.soap.answer_security import AnswerSecurity
    from gateway.soap.message_security import MessageSecurity
    from gateway.soap.receipts import Receipts

Rules = Callable[[str], EndpointRules]
"""Tells the rules of the endpoint at a path."""


class SoapRoom(Room):
    """The SOAP service, its endpoint over HTTP, and its listeners of SOAP.TCP.

    Args:
        registry: The handlers of all rooms.
        topics: Tells how topics are read, of who sends from an address.
        base: The gateway's own URL.
    """

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        parsing: Parsing,
        intake: Intake,
        identification: Identification,
        mailboxes: MailboxRoom,
        channels: ChannelRoom,
        sequences: SequenceRoom | None,
        replies: Replies,
        *,
        topics: Callable[[str], TopicRules],
        http: HttpSettings,
        limits: HttpLimits,
        gate: ConnectionGate,
        base: str,
        audit: Audit,
        security: "MessageSecurity | None",
        receipts: "Receipts | None",
        answer_security: "AnswerSecurity | None",
        event_types: DeclaredTypes,
        admission: TenantAdmission,
    ) -> None:
        self._drain = settings.drain
        self._security = security
        rules = endpoint_rules(settings, event_types)
        step = None
        if sequences is not None:
            modes = {settings.wsrm, *settings.wsrm_at.values()}
            required = Sequences.REQUIRED.value in modes
            step = SequenceStep(sequences.sequences, rules, required=required)
        self.service = SoapService(
            registry,
            parsing,
            mailboxes.deposits,
            replies,
            reliable=step,
            rules=rules,
            limits=settings.documents,
            topics=topics,
            audit=audit,
            security=security,
            receipts=receipts,
            answer_security=answer_security,
            admission=admission,
            bound=settings.bound_sequences,
        )
        self.listeners = SoapTcpListeners(
            settings,
            self.service,
            parsing,
            gate,
            identification,
            base=base,
            documents=settings.documents,
            admit_body=intake.check_body,
        )
        self.endpoint = SoapEndpoint(
            self.service,
            limits=limits,
            settings=http,
            identification=identification,
            is_channel=channels.channels.is_known,
            admit_body=intake.check_body,
            event_types=event_types,
        )

    def public_routes(self) -> Routes:
        return soap_routes(self.endpoint)

    def works(self) -> Iterable[Work]:
        if self._security is not None:
            yield from self._security.works()
        if self.service.receipts is not None:
            yield self.service.receipts.signer.watch

    def metrics(self) -> Iterable[Sample]:
        yield from self.service.metrics()
        yield from self.listeners.metrics()

    def drain(self) -> None:
        self.listeners.drain()  # First: what came before is still answered.
        self.service.draining = True

    async def close(self) -> None:
        await self.listeners.close(self._drain)


def registry_of(
    rooms: Iterable[Room], *, sources: Handlers, sequences: Handlers, channels: Handlers
) -> Registry:
    """The registry of all handlers.

    Args:
        sources: The handlers of what is sent to the address of a source, and nothing else is.
        sequences: The same of the address for acknowledgements of a sequence to a subscriber.
        channels: The handlers at the address of a channel, instead of those of *rooms*.
    """
    return Registry(
        *(room.handlers() for room in rooms),
        at={ResourceKind.SOURCE: sources, ResourceKind.SEQUENCE: sequences},
        instead={ResourceKind.CHANNEL: channels},
    )


def endpoint_rules(settings: Settings, event_types: DeclaredTypes = NO_TYPES) -> Rules:
    """What tells the rules of the endpoint at a path."""
    named = partial(rules_at, lexical_names=settings.messenger_lexical_names)
    calls = replace(settings.grid_events.rules, declared_types=event_types.names)
    rules = with_calls(named, calls)
    if not settings.takes_sequences:
        return rules
    at = {path: Sequences(mode) for path, mode in settings.wsrm_at.items()}
    return with_sequences(rules, Sequences(settings.wsrm), at)
