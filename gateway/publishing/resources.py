"""The gateway itself, as producer and broker, as a WS-Resource."""

from collections.abc import Callable
from datetime import datetime
from functools import partial

from filters import topic_dialects
from gateway.parsing import Parsing
from gateway.publishing.topics import TopicsSeen
from gateway.resources import ResourceUnknown
from gateway.security.principals import Principal
from mediation import Expiry, PropertyDocument, Version, properties_in

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

    async def properties(self, version: Version, now: datetime) -> PropertyDocument:
        octets = OCTETS_OF_TOPIC * len(self._topics.known())
        return await self._parsing.run_off_loop(octets, self.describe(version))

    def describe(self, version: Version) -> Callable[[], PropertyDocument]:
        """What makes the properties that the producer has now, in any thread."""
        return partial(
            properties_in(version).of_producer,
            self._topics.known(),
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
