"""The gateway itself, as producer and broker, as a WS-Resource."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from filters import Topic, topic_dialects
from gateway.parsing import Parsing
from gateway.publishing.topics import TopicsSeen
from gateway.resources import Resource, ResourceUnknown
from gateway.security.authorise import sees_all_topics, sees_topic
from gateway.security.principals import Principal
from mediation.model.expiry import Expiry
from mediation.model.specification import PropertyDocument
from mediation.model.versions import Version
from mediation.specifications import properties_in

OCTETS_OF_TOPIC = 256
"""Bytes of an answer for each topic that it tells of, about."""


class Producer:
    """The producer, which has no end.

    Args:
        parsing: Makes answers that tell of many topics.
        requires_registration: Whether publishers must register.
    """

    def __init__(
        self, topics: TopicsSeen, parsing: Parsing, *, requires_registration: bool = False
    ) -> None:
        self._requires_registration = requires_registration
        self._topics = topics
        self._parsing = parsing
        self._made: dict[Version, tuple[Sequence[Topic], asyncio.Future[PropertyDocument]]] = {}

    async def properties(self, version: Version, now: datetime) -> PropertyDocument:
        """As `Resource.properties`; made once, for all who ask, until there are other topics."""
        known = self._topics.known()
        made = self._made.get(version)
        if made is None or made[0] != known or _has_failed(made[1]):
            octets = OCTETS_OF_TOPIC * len(known)
            making = self._parsing.run_off_loop(octets, self.describe(version))
            made = self._made[version] = known, asyncio.ensure_future(making)
        return await asyncio.shield(made[1])  # One that gives up does not end it for the others.

    def seen_by(self, principal: Principal) -> Resource:
        """The producer, with the topics of which *principal* may be told."""
        return self if sees_all_topics(principal) else _PartOfProducer(self, principal)

    def describe(
        self, version: Version, *, only: Callable[[Topic], bool] | None = None
    ) -> Callable[[], PropertyDocument]:
        """What makes the properties that the producer has now, in any thread, with all topics or
        those for which *only* holds."""
        known = self._topics.known()
        return lambda: properties_in(version).of_producer(
            known if only is None else tuple(filter(only, known)),
            topic_dialects(),
            requires_registration=self._requires_registration,
            fixed=self._topics.namespaces.fixed,
        )

    async def set_termination_time(
        self, expires: Expiry, principal: Principal, now: datetime
    ) -> datetime | None:
        raise ResourceUnknown

    async def destroy(self) -> None:
        raise ResourceUnknown


class _PartOfProducer:
    """The producer as a principal sees it that may not be told of all topics."""

    def __init__(self, producer: Producer, principal: Principal) -> None:
        self._producer = producer
        self._principal = principal

    async def properties(self, version: Version, now: datetime) -> PropertyDocument:
        """As `Resource.properties`."""
        only = partial(sees_topic, self._principal)
        return await asyncio.to_thread(self._producer.describe(version, only=only))

    async def set_termination_time(
        self, expires: Expiry, principal: Principal, now: datetime
    ) -> datetime | None:
        raise ResourceUnknown

    async def destroy(self) -> None:
        raise ResourceUnknown


def _has_failed(made: "asyncio.Future[PropertyDocument]") -> bool:
    return made.done() and (made.cancelled() or made.exception() is not None)
