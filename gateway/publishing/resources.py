"""The gateway itself, as producer and broker, as a WS-Resource."""

from collections.abc import Mapping
from datetime import datetime

from filters import topic_dialects
from gateway.parsing import Parsing
from gateway.publishing.topics import TopicsSeen
from gateway.resources import ResourceUnknown
from gateway.security.principals import Principal
from mediation import PRODUCER_DOCUMENT, Expiry, producer_properties

OCTETS_OF_TOPIC = 256
"""Bytes of an answer for each topic that it tells of, about."""


class Producer:
    """The producer, which has no end.

    Args:
        parsing: Makes answers that tell of many topics.
    """

    document = PRODUCER_DOCUMENT

    def __init__(self, topics: TopicsSeen, parsing: Parsing) -> None:
        self._topics = topics
        self._parsing = parsing

    async def properties(self, now: datetime) -> Mapping[str, bytes]:
        topics = self._topics.topics()
        return await self._parsing.run_off_loop(
            OCTETS_OF_TOPIC * len(topics),
            lambda: producer_properties(topics, topic_dialects()),
        )

    async def set_termination_time(
        self, expires: Expiry, principal: Principal, now: datetime
    ) -> datetime | None:
        raise ResourceUnknown

    async def destroy(self) -> None:
        raise ResourceUnknown
