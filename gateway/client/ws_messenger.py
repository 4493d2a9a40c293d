"""Publishing and subscribing as WS-Messenger's clients do (Apache Airavata 0.11): WS-Eventing
2004/08 with leases in milliseconds, topics in header blocks of IBM's, and message boxes."""

from datetime import timedelta
from typing import Any

from filters import Refused, dialects
from gateway.client.calling import Answer, stranger
from gateway.client.errors import UnsupportedOperation
from gateway.client.messaging import Client, Subscription, fresh_id, read_topic
from mediation.client import (
    Received,
    read_made,
    read_taken,
    write_fetching,
    write_messenger_topic,
)
from mediation.model.requests import Operation
from mediation.model.versions import Soap, Spec, Version, Wsa

SPEC = Spec(Version.WSE_2004_08, Soap.V1_1, Wsa.V2005_08)
_IN_BOXES = Spec(Version.MESSAGE_BOX_2011, Soap.V1_1, Wsa.V2005_08)
_EVENTING, _BOXES = "EventingService", "MsgBoxService"


class MessengerClient(Client):
    """Speaks to the EventingService of one WS-Messenger, or of a gateway; arguments as `Client`."""

    _path = f"/axis2/services/{_EVENTING}"
    _topic_dialect = dialects.TOPIC_IBM_SIMPLE

    def __init__(self, url: str, version: Version | Spec = SPEC, **calling: Any) -> None:
        super().__init__(url, version, **calling)
        self._boxes = self._address.replace(_EVENTING, _BOXES)

    async def subscribe(self, consumer: str, **wanted: Any) -> Subscription:
        """Subscribe the consumer at an address; arguments as `Client.subscribe`.

        Raises:
            UnsupportedOperation: The topic has wildcards.
        """
        topic = wanted.get("topic") or ""
        if any(mark in topic for mark in ("*", "//", "|", "/.")):
            raise UnsupportedOperation("WS-Messenger compares whole topics; > is all of them")
        return await super().subscribe(consumer, **wanted)

    def _expires(self, lease: timedelta) -> str:
        return str(round(lease.total_seconds() * 1000))

    def _topic_block(self, topic: str | None) -> tuple[str | None, str]:
        named = read_topic(topic)
        if named is None:
            return None, ""
        return None, write_messenger_topic(named)

    async def _ask(self, operation: Operation, to: str) -> Answer:
        return await self._send(
            operation.value, to, write_fetching(_IN_BOXES, operation, to, message_id=fresh_id())
        )

    async def create_box(self) -> str:
        """Make a message box, which keeps what is sent there; its address."""
        key = read_made((await self._ask(Operation.CREATE_MESSAGE_BOX, self._boxes)).body)
        return key if "://" in key else f"{self._boxes}/clientid/{key}"

    async def take(self, box: str) -> list[Received]:
        """Take all that is in the message box at an address; it tells payloads alone."""
        answer = await self._ask(Operation.TAKE_MESSAGES, box)
        try:
            return list(read_taken(answer.body))
        except Refused as refused:
            raise stranger(box, answer) from refused

    async def destroy_box(self, box: str) -> None:
        """Remove a message box with all that is in it."""
        await self._ask(Operation.DESTROY_MESSAGE_BOX, box)
