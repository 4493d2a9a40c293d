"""A node in a process of its own, on the first core, and entities that speak to it."""

import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from benchmarks.discovery.relay import relay
from benchmarks.rig import Running, gateway
from gateway.client import Client, Consumer
from gateway.client.discovery import Entity, entity
from gateway.client.messaging import Exchange
from mediation.discovery import (
    Creator,
    Credentials,
    Descriptors,
    Property,
    PropertyType,
    Role,
    SignedTopicAdvertisement,
    Synopsis,
    SynopsisType,
    TopicAdvertisement,
    place_uuid,
)
from mediation.discovery.signing import sign
from tests.rigs.discovery_keys import Parties, parties
from tests.rigs.discovery_nodes import node_settings
from tests.rigs.postgresql import fresh_database

NAMESPACE = "http://harbour.example.net"
PLACEHOLDERS: Mapping[SynopsisType, Synopsis] = {
    SynopsisType.PATH: Synopsis(SynopsisType.PATH, "Harbour/Wind/{uuid}", NAMESPACE),
    SynopsisType.INTEGER: Synopsis(SynopsisType.INTEGER),
    SynopsisType.TAGS: Synopsis(SynopsisType.TAGS, "place=harbour,kind=wind"),
    SynopsisType.PROPERTIES: Synopsis(
        SynopsisType.PROPERTIES, properties=(Property("kind", "wind"),)
    ),
    SynopsisType.XML: Synopsis(
        SynopsisType.XML, document=f'<wind xmlns="{NAMESPACE}"><place>mole</place></wind>'.encode()
    ),
}
LIFE = timedelta(days=30)
_PLENTY = str(10**9)


@contextmanager
def node(*, folder: str = ".", url: str = "", **settings: object) -> Iterator[Running]:
    """A gateway that is a node, without the limits that keep one entity from asking for all that it
    has. *url* is its store's; *settings* are those of ``[discovery]``."""
    with tempfile.TemporaryDirectory(prefix=".benchmark-", dir=folder) as keys:
        files = node_settings(Path(keys))["discovery"]
        known = {
            "creations_per_minute": _PLENTY,
            "queries_per_second": _PLENTY,
            "advertisements_per_creator": _PLENTY,
        }
        environment = {
            f"DRAGOMAN_DISCOVERY__{name.upper()}": str(value)
            for name, value in {**known, **files, **settings}.items()
        }
        options = ("--discovery-node", *(("--store", url) if url else ()))
        with gateway(*options, folder=folder, environment=environment) as running:
            yield running


@contextmanager
def store(kind: str) -> Iterator[str]:
    """The URL of an empty store, empty for SQLite's in the data folder. PostgreSQL is a server of
    our own that flushes nothing."""
    if kind == "sqlite":
        yield ""
        return
    with fresh_database() as url:
        yield url


@dataclass
class Spoken:
    """An entity, and when each of its requests was answered by the gateway."""

    entity: Entity
    answered: list[float]


@asynccontextmanager
async def speaking(
    running: Running, credentials: Credentials, *, away: float = 0.0
) -> AsyncIterator[Spoken]:
    """An entity of *credentials*; *away* is how many seconds everything takes in each direction."""
    answered: list[float] = []

    def watch(_: Exchange) -> None:
        answered.append(time.perf_counter())

    async with Consumer(waiting=4096) as inbox:
        with _far(running.url, away) as url, _far(inbox.address, away) as address:
            inbox.address = address
            async with (
                Client(url, watch=watch) as client,
                entity(client, inbox, credentials, parties().trust, name="North mole") as one,
            ):
                yield Spoken(one, answered)


@contextmanager
def _far(url: str, seconds: float) -> Iterator[str]:
    """*url* as it is when it is *seconds* away."""
    if not seconds:
        yield url
        return
    before, _, rest = url.rpartition(":")
    port, slash, path = rest.partition("/")
    with relay(int(port), seconds) as other:
        yield f"{before}:{other}{slash}{path}"


def make_advertisement(
    descriptors: Descriptors,
    kind: SynopsisType,
    topic_id: UUID,
    *,
    creator: Credentials | None = None,
    name: str = "North mole",
    known: Parties | None = None,
) -> bytes:
    """What a creator publishes once its node has made the topic: with both signatures."""
    known = known or parties()
    own = creator or known.producer
    now = datetime.now(UTC).replace(microsecond=0)
    topic = TopicAdvertisement(
        topic_id,
        known.node_id,
        Creator(own.identifier(Role.ENTITY), name, "Harbour Office"),
        now,
        now + LIFE,
        descriptors,
        place_uuid(PLACEHOLDERS[kind], topic_id),
    )
    return sign(SignedTopicAdvertisement(now, topic_id, sign(topic, known.node)), own)


def wind(number: int, *keywords: str) -> Descriptors:
    """What is said of a topic."""
    return Descriptors(
        paths=("Harbour/Mole/Wind",),
        texts=("Speed and direction of the wind at the mole, every ten seconds",),
        keywords=("wind", *keywords),
        properties=(Property("station", str(number), PropertyType.LONG), Property("unit", "m/s")),
        documents=(
            f'<mole xmlns="{NAMESPACE}"><id>{number}</id><height>12</height></mole>'.encode(),
        ),
    )
