"""The differences between brokers that speak STOMP: where to publish and consume, in headers.

                publish to                consume from
    activemq    /topic/VirtualTopic.a.b   /queue/Consumer.dragoman.VirtualTopic.a.>
                /topic/orders.new         /topic/orders.>, a durable subscription: mapped ones
    artemis     a.b, multicast            a.#, a durable subscription
    rabbitmq    /topic/a.b                /topic/a.#, a durable queue

The queue of a virtual topic keeps what is published while nobody consumes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from adapters.broker.destinations import JMS, Destination
from filters.dialects import JMS_SELECTOR

PLAIN = "/topic/"
"""The exchange of destinations that are not virtual topics."""

MESSAGE_TYPE, TEXT = "amq-msg-type", "text"
"""The header that says which kind of message ActiveMQ makes or has made, and its value for text."""

WINDOW = "consumer-window-size"
"""Bytes that Artemis sends ahead of acknowledgements; by default 10 KiB, a handful of messages."""

MESSAGE = 16 * 2**10
"""Bytes of that for each message that may be unsettled."""

LONGEST = 2**32 - 1
"""Milliseconds of the longest expiration that RabbitMQ takes."""

SELECTORS: tuple[str, ...] = (JMS_SELECTOR,)
NO_DIALECTS: tuple[str, ...] = ()

JAVA_REFUSALS = (
    "SecurityException",
    "stomp.ProtocolException",
    "InvalidDestinationException",
    "MessageFormatException",
    "MaxFrameSizeExceededException",
)
"""Exceptions of a broker that are about the message."""
AMQP_REFUSALS = ("access_refused", "not_found", "precondition_failed")
"""What RabbitMQ's errors begin with that are about the message; the first two name its exchange."""

_VERSION = re.compile(r"ActiveMQ/(\d{1,4})\.(\d{1,4})")

Headers = dict[str, str]


class System(Protocol):
    """One kind of broker."""

    server: str
    """The beginning of its name (CONNECTED, ``server``)."""

    dialects: tuple[str, ...]
    """The filter dialects that it evaluates."""

    sized: bool
    """True if a text message has a ``content-length``, too."""

    tells_repeats: bool
    """True if ``redelivered`` is set on all messages that were sent before; else the time of a
    message tells."""

    forgives: bool
    """True if a selector that it cannot read does not make it end the connection."""

    transactional: bool
    """True if it writes a transaction to its disk as one; else every message has a receipt."""

    id: str
    """The header of a message that is the same when the message comes again."""

    java: bool
    """True if the text of text messages may be Java's, and properties lose characters beyond
    U+FFFF."""

    def publishing(self, destination: Destination, *, text: bool) -> Headers:
        """Return the headers of a SEND to *destination*, beside those of the message."""

    def expiring(self, milliseconds: int, left: int) -> Headers:
        """Return the headers of a SEND of what expires at so many *milliseconds* since 1970, which
        are *left* from now."""

    def consuming(self, pattern: Destination, prefetch: int) -> Headers:
        """Return the headers of a SUBSCRIBE that keeps messages while the gateway is away."""

    def subscription(self, pattern: Destination) -> str | None:
        """Return the name of its durable subscription, None if it is a queue."""

    def origins(self, headers: Mapping[str, str]) -> tuple[Destination, ...]:
        """Return the destinations that a message may have been published to: one of these."""

    def refuses(self, kind: str, words: str) -> bool:
        """Return True if an ERROR, of the *kind* and with the *words* of `Declined`, says that a
        message will never be taken. A broker that is full, or stops, does not say that."""

    def forbids(self, words: str) -> bool:
        """Return True if *words* say that nothing may be published to the destination."""


@dataclass(frozen=True, slots=True)
class ActiveMQ:
    """ActiveMQ Classic. ``virtual`` are the first words of the virtual topics."""

    name: str
    virtual: str = "VirtualTopic"
    server = "ActiveMQ/"
    dialects = SELECTORS
    sized = True
    tells_repeats = True
    forgives = True
    transactional = True
    id = "message-id"
    java = True

    def publishing(self, destination: Destination, *, text: bool) -> Headers:
        headers = {"destination": self._topic(destination)}
        # Without it, what has a content-length is a bytes message.
        return {**headers, MESSAGE_TYPE: TEXT} if text else headers

    def expiring(self, milliseconds: int, left: int) -> Headers:
        return {"expires": str(milliseconds)}

    def consuming(self, pattern: Destination, prefetch: int) -> Headers:
        headers = {"activemq.prefetchSize": str(prefetch)}
        name = self.subscription(pattern)
        if name is not None:
            topic = self._topic(pattern)
            return {**headers, "destination": topic, "activemq.subscriptionName": name}
        queue = f"/queue/Consumer.{self.name}.{self.virtual}.{pattern.name}"
        return {**headers, "destination": queue, "activemq.exclusive": "true"}

    def selecting(self, pattern: Destination, name: str, selector: str, prefetch: int) -> Headers:
        """Return the headers of a SUBSCRIBE for the messages that *selector* selects."""
        return {
            "destination": self._topic(pattern),
            "activemq.subscriptionName": name,
            "activemq.prefetchSize": str(prefetch),
            "selector": selector,
        }

    def subscription(self, pattern: Destination) -> str | None:
        return f"{self.name}.{pattern.name}" if pattern.exchange == PLAIN else None

    def refuses(self, kind: str, words: str) -> bool:
        return self.forbids(words) or kind.endswith(JAVA_REFUSALS)

    def forbids(self, words: str) -> bool:
        return "not authorized" in words

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
    """ActiveMQ Artemis. It makes a bytes message of what has a content-length."""

    name: str
    server = "ActiveMQ-Artemis/"
    dialects = SELECTORS
    sized = False
    tells_repeats = False
    forgives = False
    transactional = True
    id = "message-id"
    java = False

    def publishing(self, destination: Destination, *, text: bool) -> Headers:
        return {"destination": destination.name, "destination-type": "MULTICAST"}

    def expiring(self, milliseconds: int, left: int) -> Headers:
        return {"expires": str(milliseconds)}

    def consuming(self, pattern: Destination, prefetch: int) -> Headers:
        return {
            "destination": _amqp(pattern),
            "subscription-type": "MULTICAST",
            "durable-subscription-name": f"{self.name}.{pattern.name}",
            WINDOW: str(prefetch * MESSAGE),
        }

    def selecting(self, pattern: Destination, name: str, selector: str, prefetch: int) -> Headers:
        """As `ActiveMQ.selecting`. All properties are texts here, too."""
        return {
            **self.consuming(pattern, prefetch),
            "durable-subscription-name": name,
            "selector": f"convert_string_expressions:{selector}",
        }

    def subscription(self, pattern: Destination) -> str | None:
        return f"{self.name}.{pattern.name}"

    def refuses(self, kind: str, words: str) -> bool:
        return self.forbids(words) or kind.endswith(JAVA_REFUSALS)

    def forbids(self, words: str) -> bool:
        return "does not have permission" in words

    def origins(self, headers: Mapping[str, str]) -> tuple[Destination, ...]:
        return _either(headers.get("destination", ""))


@dataclass(frozen=True, slots=True)
class RabbitMQ:
    """RabbitMQ's plug-in; it publishes to ``amq.topic``."""

    name: str
    server = "RabbitMQ/"
    dialects = NO_DIALECTS
    sized = True
    tells_repeats = True
    forgives = True
    transactional = False
    id = "amqp-message-id"
    java = False

    def publishing(self, destination: Destination, *, text: bool) -> Headers:
        return {"destination": f"{PLAIN}{destination.name}"}

    def expiring(self, milliseconds: int, left: int) -> Headers:
        return {"expiration": str(left)} if left <= LONGEST else {}

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

    def refuses(self, kind: str, words: str) -> bool:
        return f"{kind} {words}".lower().startswith(AMQP_REFUSALS)

    def forbids(self, words: str) -> bool:
        return words.lower().startswith(AMQP_REFUSALS[:2])

    def origins(self, headers: Mapping[str, str]) -> tuple[Destination, ...]:
        return _either(headers.get("destination", "").removeprefix(PLAIN))


def reads_java(server: str) -> bool:
    """Return True if the text of a text message has to be Java's for the broker with the name
    *server*: ActiveMQ Classic before 5.18 hands its bytes on to JMS programs, later ones read
    UTF-8."""
    found = _VERSION.match(server)
    return found is not None and (int(found[1]), int(found[2])) < (5, 18)


def _amqp(pattern: Destination) -> str:
    return pattern.name.replace(JMS.any, "#")


def _either(name: str) -> tuple[Destination, ...]:
    return Destination(name), Destination(name, PLAIN)
