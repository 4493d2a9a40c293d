"""Find nodes: `find_nodes` asks, and each node answers with an `Offer`."""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gateway.client.discovery.exchange import Exchange, OutgoingRequest
from mediation.discovery import (
    NODES,
    NodeDiscoveryRequest,
    NodeDiscoveryResponse,
    Purpose,
    Signer,
)

OFFERS_TIME = 1.0
"""Seconds to wait for offers."""
AGAIN_AFTER = (1.0, 2.0, 4.0)
"""Seconds between requests that no node answers."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The offer of a node, and who signed it."""

    offered: NodeDiscoveryResponse
    signer: Signer

    @property
    def node(self) -> str:
        return self.signer.identifier

    @property
    def issuer(self) -> str:
        """The name of the authority that certified it."""
        return self.signer.certificate.issuer.rfc4514_string()


async def find_nodes(
    exchange: Exchange,
    purposes: tuple[Purpose, ...],
    institution: str | None,
    issuer: str | None,
    nodes: Collection[str] | None,
    enough: int | None,
    wait: float,
    again_after: Iterable[float],
) -> tuple[Offer, ...]:
    """Return the nodes that offer themselves; see `Entity.find_nodes`."""
    for pause in (0.0, *again_after):
        await asyncio.sleep(pause)
        request = NodeDiscoveryRequest(exchange.head(), purposes, institution)
        offers: dict[str, Offer] = {}
        async for answer in exchange.ask([OutgoingRequest(request, NODES)], wait):
            if isinstance(answer.message, NodeDiscoveryResponse) and answer.signer is not None:
                offer = Offer(answer.message, answer.signer)
                if (nodes is None or offer.node in nodes) and (issuer or "") in offer.issuer:
                    offers.setdefault(offer.node, offer)
            if enough is not None and len(offers) >= enough:
                break
        if offers:
            return tuple(offers.values())
    return ()
