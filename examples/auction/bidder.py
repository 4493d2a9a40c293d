"""A client of Globus Toolkit 4: it subscribes with WS-Notification 1.2, and listens in a container
of its own, which finds the service by ``wsa:To`` and the resource by a key in the header."""

import queue
import uuid
from xml.etree import ElementTree

from peers import (
    AUCTION,
    CORE,
    SIMPLE,
    WSA,
    WSNT,
    WSNT_ACTIONS,
    WSRL,
    WSRL_ACTIONS,
    Message,
    Reference,
    Service,
    local,
    send,
)

CONSUMER_SERVICE = "/wsrf/services/NotificationConsumerService"


class Bidder(Service):
    """Told of the highest bid; what came is in ``bids``."""

    def __init__(self) -> None:
        super().__init__()
        self._key = uuid.uuid4().hex
        self.bids: queue.Queue[int] = queue.Queue()

    @property
    def reference(self) -> Reference:
        """Where it listens: the address of the service, and the key of the resource."""
        key = f'<k:NotificationConsumerKey xmlns:k="{CORE}">{self._key}</k:NotificationConsumerKey>'
        return Reference(self.url + CONSUMER_SERVICE, (key,))

    def subscribe(self, producer: str) -> Reference:
        """Subscribe to the highest bid at the producer's address; the subscription's reference."""
        answer = send(
            Reference(producer),
            f"{WSNT_ACTIONS}Subscribe",
            f'<Subscribe xmlns="{WSNT}"><ConsumerReference>{self.reference.written()}'
            f'</ConsumerReference><TopicExpression xmlns:a="{AUCTION}" Dialect="{SIMPLE}">'
            "a:highestBid</TopicExpression><UseNotify>true</UseNotify></Subscribe>",
        )
        assert answer is not None and answer.body is not None
        return Reference.read(answer.body[0])

    def destroy(self, subscription: Reference) -> None:
        """End a subscription."""
        send(subscription, f"{WSRL_ACTIONS}Destroy", f'<Destroy xmlns="{WSRL}"/>')

    def answer(self, message: Message) -> tuple[int, bytes]:
        """Take a Notify as the container does: what is not for this service and this resource is
        refused."""
        to = message.header(f"{{{WSA}}}To")
        if to != self.reference.address:
            return 500, b""
        if message.header(f"{{{CORE}}}NotificationConsumerKey") != self._key:
            return 500, b""
        if message.body is None or message.body.tag != f"{{{WSNT}}}Notify":
            return 500, b""
        for notification in message.body:
            parts = {local(part): part for part in notification}
            topic = (parts["Topic"].text or "").rpartition(":")[2]
            if topic == "highestBid":
                self.bids.put(new_value(parts["Message"]))
        return 202, b""


def new_value(message: ElementTree.Element) -> int:
    """The new value in a change of the property ``highestBid``."""
    for value in message.iter():
        if local(value) == "NewValue":
            return int(value[0].text or "")
    raise ValueError("the message tells of no change")
