"""Facts of an event that a message can say besides its payload."""

from enum import Enum


class Fact(Enum):
    """One thing that a publisher can say of an event; the value is what tables call it.

    The last two are of messages, not of events.
    """

    TOPIC = "topic"
    LEVELS = "the topic's levels"
    NAMESPACES = "the topic's namespaces"
    TOPIC_ELEMENT = "the topic's element as it was written"
    ACTION = "the event's action"
    PRODUCER = "the producer's address"
    PRODUCER_REFERENCE = "what else is in the producer's reference"
    HEADERS = "header blocks of the application"
    ATTACHMENTS = "attachments"
    ID = "the publisher's message id"
    TIME = "the time of acceptance"
    EXPIRY = "the event's expiry"
    PROPERTIES = "properties"
    SIGNATURE = "the event's signature"
    ATTRIBUTES = "attributes of a CloudEvent"
    SEVERAL = "several events in one message"
    SUBSCRIPTION = "the subscription that it is for"


TOPICS = frozenset({Fact.TOPIC, Fact.LEVELS, Fact.NAMESPACES})
"""All of a topic but the way in which it was written."""
BARE = TOPICS | {Fact.ACTION, Fact.HEADERS, Fact.ATTACHMENTS, Fact.EXPIRY, Fact.SIGNATURE}
"""What an envelope with the bare payload and a topic header says."""
WRAPPED = TOPICS | {
    Fact.PRODUCER,
    Fact.PRODUCER_REFERENCE,
    Fact.HEADERS,
    Fact.ATTACHMENTS,
    Fact.EXPIRY,
    Fact.SIGNATURE,
    Fact.SUBSCRIPTION,
}
"""What an envelope with a wrapped notification says."""
