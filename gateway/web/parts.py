"""The parts of the gateway that the routes use, and how a route gets them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Request
from starlette.types import ASGIApp

from adapters import AdapterUnavailable
from gateway.channels.channels import Channels
from gateway.channels.links import Links
from gateway.channels.relay_tokens import RelayTokens
from gateway.delivery.failures import FailureCounts
from gateway.http import HttpSettings, client_address
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.removal import MailboxRemoval
from gateway.parsing import Parsing
from gateway.publishing.spool import Spool
from gateway.security.identify import Identification
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate
from gateway.sequences.sequences import Sequences
from gateway.soap.service import SoapService
from gateway.sources.sources import Sources
from gateway.subscriptions.dead_letters import DeadLetters
from gateway.subscriptions.explaining import Explainer
from gateway.subscriptions.lifecycle import Lifecycle
from gateway.subscriptions.mailbox_feeds import MailboxFeeds
from gateway.subscriptions.management import SubscriptionManagement
from gateway.subscriptions.renewal import Renewal
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.reports import SubscriptionReports
from gateway.subscriptions.sequences import SubscriberSequences
from gateway.subscriptions.table import SubscriptionTable
from gateway.subscriptions.tracing import MessageTracing
from gateway.subscriptions.webhooks import WebHooks
from gateway.web.catalogue import TopicCatalogue
from gateway.web.mailbox_streams import Streams
from gateway.web.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Web:
    """The parts.

    Attributes:
        base: The gateway's public URL, without a slash at its end, for those who may ask at another
            listener than the public one.
        soap: The SOAP endpoint.
        events: The endpoint that takes CloudEvents.
        relays: The ways to listeners behind a firewall; `relay_tokens` are those that there are.
        sequences: Those of publishers; None where no endpoint takes any.
        subscriber_sequences: Those to subscribers.
        service: Carries out what stands for a request in SOAP.
        web_hooks: Takes the consents of consumers of CloudEvents.
        topics: Those that are known here.
        readiness: The state that ``/readyz`` shows.
        draining: Whether the gateway stops.
        failures: Failed attempts by destination.
        tracing: What became of messages.
        making: Limits how many mailboxes a stranger makes.
    """

    http: HttpSettings
    base: str
    identification: Identification
    soap: ASGIApp
    events: ASGIApp
    relays: ASGIApp
    relay_tokens: RelayTokens
    topics: TopicCatalogue
    readiness: Callable[[], Mapping[str, Any]]
    metrics: Metrics
    subscriptions: SubscriptionTable
    lifecycle: Lifecycle
    renewal: Renewal
    replication: Replication
    feeds: MailboxFeeds
    removal: MailboxRemoval
    reports: SubscriptionReports
    management: SubscriptionManagement
    explainer: Explainer
    dead_letters: DeadLetters
    spool: Spool
    failures: FailureCounts
    tracing: MessageTracing
    mailboxes: Mailboxes
    sources: Sources
    channels: Channels
    links: Links
    sequences: Sequences | None
    subscriber_sequences: SubscriberSequences
    service: SoapService
    web_hooks: WebHooks
    parsing: Parsing
    streams: Streams
    making: PrincipalRate
    draining: Callable[[], bool]


async def _parts(request: Request) -> Web:
    return cast(Web, request.app.state.web)


Parts = Annotated[Web, Depends(_parts)]
"""A parameter of a route: the parts of the application that it is a route of."""


async def refuse_when_stopping(web: Parts) -> None:
    """Refuse what begins something, where the gateway stops.

    Raises:
        AdapterUnavailable: It does.
    """
    if web.draining():
        raise AdapterUnavailable("The gateway is stopping.")


def principal_of(web: Web, request: Request) -> Principal:
    """Who sends *request*."""
    return web.identification.identify(client_address(request.scope, web.http))
