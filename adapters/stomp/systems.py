"""What the brokers that speak STOMP have of their own: where to publish and consume, in headers.

                publish to                consume from
    activemq    /topic/VirtualTopic.a.b   /queue/Consumer.dragoman.VirtualTopic.a.>
                /topic/orders.new         /topic/orders.>, a durable subscription: mapped ones
    artemis     a.b, multicast            a.#, a durable subscription
    rabbitmq    /topic/a.b                /topic/a.#, a durable queue

The queue of a virtual topic keeps what is published while nobody consumes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from adapters.destinations import JMS, Destination

PLAIN = "/topic/"
"""The exchange of destinations that are no virtual topics."""

MESSAGE_TYPE, TEXT = "amq-msg-type", "text"
"""What ActiveMQ makes of a message, and of what it was made."""

Headers = dict[str, str]


class System(Protocol):
    """One kind of broker."""

    server: str
    """How it begins to call itself (CONNECTED, ``server``)."""

    transactional: bool
    """It writes a transaction to its disk as one. Else every message has a receipt."""

    id: str
    """The header of a message that is the same when the message comes again."""

    java: bool
    """The text of text messages is Java's."""

    def publishing(self, destination: Destination, *, text: bool) -> Headers:
        """What a SEND to *destination* has, beside what the message says."""

    def consuming(self, pattern: Destination, prefetch: int) -> Headers:
        """What a SUBSCRIBE has that keeps messages while we are away."""

    def subscription(self, pattern: Destination) -> str | None:
        """The name of its durable subscription, where it is one."""

    def origins(self, headers: Mapping[str, str]) -> tuple[Destination, ...]:
        """Where a message was published: one of these."""


@dataclass(frozen=True, slots=True)
class ActiveMQ:
    """ActiveMQ Classic. ``virtual`` are the first words of the virtual topics."""

    name: str
    virtual: str = "VirtualTopic"
    server = "ActiveMQ/"
    transactional = True
    id = "message-id"
    java = True

    def publishing(self, destination: Destination, *, text: bool) -> Headers:
        headers = {"destination": self._topic(destination)}
        # Without it, what has a content-length is a bytes message.
        return {**headers, MESSAGE_TYPE: TEXT} if text else headers

    def consuming(self, pattern: Destination, prefetch: int) -> Headers:
        headers = {"activemq.prefetchSize": str(prefetch)}
        name = self.subscription(pattern)
        if name is not None:
            topic = self._topic(pattern)
            return {**headers, "destination": topic, "activemq.subscriptionName": name}
        queue = f"/queue/Consumer.{self.name}.{self.virtual}.{pattern.name}"
        return {**headers, "destination": queue, "activemq.exclusive": "true"}

    def selecting(self, pattern: Destination, name: str, selector: str, prefetch: int) -> Headers:
        """What a SUBSCRIBE has for the messages that *selector* selects."""
        return {
            "destination": self._topic(pattern),
            "activemq.subscriptionName": name,
            "activemq.prefetchSize": str(prefetch),
            "selector": selector,
        }

    def subscription(self, pattern: Destination) -> str | None:
        return f"{self.name}.{pattern.name}" if pattern.exchange == PLAIN else None

    def origins(self, headers: Mapping[str, str]) -> tuple[Destination, ...]:
        text = headers.get("original-destination") or headers.get("destination", "")
        virtual = f"{PLAIN}{self.virtual}."
        if text.startswith(virtual):
            return (Destination(text.removeprefix(virtual)),)
        if text.startswith(PLAIN):
            return (Destination(text.removeprefix(PLAIN), PLAIN),)
        return ()

    def _topic(self, destination: Destination) -> str:
        virtual = "" if destination.exchange == PLAIN else f"{self.virtual}."
        return f"{PLAIN}{virtual}{destination.name}"


@dataclass(frozen=True, slots=True)
class Artemis:
    """ActiveMQ Artemis."""

    name: str
    server = "ActiveMQ-Artemis/"
    transactional = True
    id = "message-id"
    java = False

    def publishing(self, destination: Destination, *, text: bool) -> Headers:
        return {"destination": destination.name, "destination-type": "MULTICAST"}

    def consuming(self, pattern: Destination, prefetch: int) -> Headers:
        return {
            "destination": _amqp(pattern),
            "subscription-type": "MULTICAST",
            "durable-subscription-name": f"{self.name}.{pattern.name}",
        }

    def subscription(self, pattern: Destination) -> str | None:
        return f"{self.name}.{pattern.name}"

    def origins(self, headers: Mapping[str, str]) -> tuple[Destination, ...]:
        return _either(headers.get("destination", ""))


@dataclass(frozen=True, slots=True)
class RabbitMQ:
    """RabbitMQ's plug-in; it publishes to ``amq.topic``."""

    name: str
    server = "RabbitMQ/"
    transactional = False
    id = "amqp-message-id"
    java = False

    def publishing(self, destination: Destination, *, text: bool) -> Headers:
        return {"destination": f"{PLAIN}{destination.name}"}

    def consuming(self, pattern: Destination, prefetch: int) -> Headers:
        return {
            "destination": f"{PLAIN}{_amqp(pattern)}",
            "durable": "true",
            "auto-delete": "false",
            "x-queue-name": f"{self.name}.{pattern.name}",
            "prefetch-count": str(prefetch),
        }

    def subscription(self, pattern: Destination) -> str | None:
        return None

    def origins(self, headers: Mapping[str, str]) -> tuple[Destination, ...]:
        return _either(headers.get("destination", "").removeprefix(PLAIN))


def _amqp(pattern: Destination) -> str:
    return pattern.name.replace(JMS.any, "#")


def _either(name: str) -> tuple[Destination, ...]:
    return Destination(name), Destination(name, PLAIN)
