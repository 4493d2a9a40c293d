"""The JSON administration, ``/api/v1``: the overview, subscriptions, replays, mailboxes, sources,
channels, links, relays, sequences, dead letters, the spool, destinations, messages, the tap,
tenants, users, keys, rights, topics and the topology."""

from fastapi import APIRouter

from gateway.web.api import (
    channels,
    dead_letters,
    destinations,
    keys,
    links,
    mailboxes,
    messages,
    overview,
    recipients,
    relays,
    replays,
    rights,
    sequences,
    sources,
    spool,
    subscriptions,
    tap,
    tenants,
    topics,
    topology,
    users,
)
from gateway.web.refusals import REFUSALS

__all__ = ["router"]

router = APIRouter(prefix="/api/v1", responses=dict(REFUSALS))
for _part in (
    overview,
    subscriptions,
    replays,
    mailboxes,
    sources,
    channels,
    links,
    relays,
    sequences,
    dead_letters,
    spool,
    destinations,
    messages,
    recipients,
    tap,
    tenants,
    users,
    keys,
    rights,
    topics,
    topology,
):
    router.include_router(_part.router)
