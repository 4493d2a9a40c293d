"""Have nodes make topics."""

from collections.abc import Iterable
from contextlib import aclosing
from datetime import timedelta

from filters import Refused
from gateway.client.discovery.exchange import Exchange, OutgoingRequest, now
from gateway.client.discovery.node_search import Offer
from gateway.client.discovery.topic_search import refused
from gateway.client.errors import GatewayError
from mediation.discovery import (
    Created,
    Creator,
    Credentials,
    Descriptors,
    Refusal,
    Synopsis,
    TopicCreationRequest,
    Verifier,
    check_created,
    topic_of,
)
from mediation.model.expiry import Duration

CREATION_TIME = 5.0
"""Seconds to wait for a node to make a topic."""
MOST_NODES = 3
"""Nodes that are asked for a topic, one after the other."""


async def create_topic(
    exchange: Exchange,
    creator: Creator,
    descriptors: Descriptors,
    synopsis: Synopsis,
    lifetime: timedelta | None,
    offers: Iterable[Offer],
    wait: float,
    verifier: Verifier,
    credentials: Credentials,
    *,
    encrypted: bool,
) -> Created:
    """Ask the nodes of *offers* one after the other for a topic; see `Entity.create_topic`."""
    failed = GatewayError("no topic discovery node answered")
    for offer in list(offers)[:MOST_NODES]:
        request = TopicCreationRequest(
            exchange.head(offer.node),
            creator,
            descriptors,
            synopsis,
            None if lifetime is None else Duration(0, lifetime),
            encrypted,
        )
        asked = OutgoingRequest(request, topic_of(offer.node), offer.signer.certificate)
        answers = exchange.ask([asked], wait)
        async with aclosing(answers):
            async for answer in answers:
                if isinstance(answer.message, Refusal):
                    failed = refused(answer.message)
                    break
                try:
                    return check_created(request, answer, verifier, credentials, now=now())
                except Refused as wrong:
                    text = f"{offer.node} made another topic than the one requested: {wrong.text}"
                    failed = GatewayError(text)
    try:
        raise failed
    finally:
        del failed
