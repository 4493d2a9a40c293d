"""Topics that nodes make."""

from collections.abc import Iterable
from contextlib import aclosing
from datetime import timedelta

from filters import Refused
from gateway.client.discovery.exchange import Asked, Exchange, now
from gateway.client.discovery.offers import Offer
from gateway.client.discovery.searching import refused
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
"""Seconds for a node to make a topic."""
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
    """Have the first of *offers* that does so make a topic; see `Entity.create_topic`."""
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
        asked = Asked(request, topic_of(offer.node), offer.signer.certificate)
        answers = exchange.ask([asked], wait)
        async with aclosing(answers):
            async for answer in answers:
                if isinstance(answer.message, Refusal):
                    failed = refused(answer.message)
                    break
                try:
                    return check_created(request, answer, verifier, credentials, now=now())
                except Refused as wrong:
                    text = f"{offer.node} made another topic than asked for: {wrong.text}"
                    failed = GatewayError(text)
    try:
        raise failed
    finally:
        del failed
