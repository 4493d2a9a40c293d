"""Topic discovery for programs: create topics that are provably one's own, make them known, find
those of others, and use them. docs/discovery-clients.md has the dozen lines.

An `Entity` speaks through a client, in whatever this speaks, and hears in an inbox of its own, a
`Consumer` or `PulledMailbox`, that nothing else reads.
"""

from gateway.client.discovery.entity import Entity, entity
from gateway.client.discovery.exchange import LIFE, WAITING, Inbox
from gateway.client.discovery.found import Found
from gateway.client.discovery.offers import AGAIN_AFTER, OFFERS_TIME, Offer
from gateway.client.discovery.own import QUERY_TIME, RETRY_EVERY
from gateway.client.discovery.searching import ANSWERS_TIME, Search
from gateway.client.discovery.topics import CREATION_TIME, MOST_NODES
from gateway.client.discovery.words import read_query

__all__ = [
    "AGAIN_AFTER",
    "ANSWERS_TIME",
    "CREATION_TIME",
    "LIFE",
    "MOST_NODES",
    "OFFERS_TIME",
    "QUERY_TIME",
    "RETRY_EVERY",
    "WAITING",
    "Entity",
    "Found",
    "Inbox",
    "Offer",
    "Search",
    "entity",
    "read_query",
]
