"""Topic discovery for programs: create topics that are provably one's own, advertise them, find
those of others, and use them. docs/discovery-clients.md has an example of a dozen lines.

An `Entity` sends through a client of any specification, and receives in an inbox of its own, a
`Consumer` or `PulledMailbox`, that nothing else reads.
"""

from gateway.client.discovery.entity import Entity, entity
from gateway.client.discovery.exchange import LIFE, WAITING, Inbox
from gateway.client.discovery.node_search import AGAIN_AFTER, OFFERS_TIME, Offer
from gateway.client.discovery.query_syntax import read_query
from gateway.client.discovery.search_results import Found
from gateway.client.discovery.topic_advertising import QUERY_TIME, RETRY_EVERY
from gateway.client.discovery.topic_creation import CREATION_TIME, MOST_NODES
from gateway.client.discovery.topic_search import ANSWERS_TIME, Search

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
