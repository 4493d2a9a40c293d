"""What the events of a topic are marked with, where that is no topic of the messaging system."""

from collections.abc import Mapping

from filters import parse_document
from gateway.client.errors import GatewayError
from mediation.discovery import SynopsisType, TopicAdvertisement
from mediation.names import TDN

UUID_NAME = "uuid"
"""The mark that has the UUID, which tells the topic from all others."""


def marks_of(topic: TopicAdvertisement) -> Mapping[str, str] | None:
    """The tags or properties of a topic's events; None where they are told by what they hold."""
    synopsis = topic.synopsis
    if synopsis.type is SynopsisType.PROPERTIES:
        return {one.name: one.value for one in synopsis.properties}
    if synopsis.type is SynopsisType.TAGS:
        pairs = (pair.partition("=") for pair in synopsis.text.split(","))
        return {name: value for name, _, value in pairs}
    return None


def check_marked(payload: bytes, topic: TopicAdvertisement) -> None:
    """Check that an event holds the id of its topic.

    Raises:
        GatewayError: It does not.
        Refused: *payload* is not one acceptable XML element.
    """
    wanted = f"urn:uuid:{topic.topic_id}"
    found = parse_document(payload).iter(f"{{{TDN}}}TopicId")
    if not any(one.text == wanted for one in found):
        raise GatewayError(f"an event of the topic holds the element TopicId of {TDN}: {wanted}")
