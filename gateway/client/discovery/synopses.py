"""Mark events as the synopsis of their topic says, where it does not name a topic of the messaging
system."""

from collections.abc import Mapping

from filters import parse_document
from gateway.client.errors import GatewayError
from mediation.discovery import SynopsisType, TopicAdvertisement
from mediation.names import TDN

UUID_NAME = "uuid"
"""The attribute with the UUID, which tells the topic from all others."""


def synopsis_attributes(topic: TopicAdvertisement) -> Mapping[str, str] | None:
    """Return the tags or properties of a topic's events; None if their content tells the topic."""
    synopsis = topic.synopsis
    if synopsis.type is SynopsisType.PROPERTIES:
        return {one.name: one.value for one in synopsis.properties}
    if synopsis.type is SynopsisType.TAGS:
        pairs = (pair.partition("=") for pair in synopsis.text.split(","))
        return {name: value for name, _, value in pairs}
    return None


def check_content(payload: bytes, topic: TopicAdvertisement) -> None:
    """Check that the content of an event has the id of its topic.

    Raises:
        GatewayError: It does not.
        Refused: *payload* is not one acceptable XML element.
    """
    wanted = f"urn:uuid:{topic.topic_id}"
    found = parse_document(payload).iter(f"{{{TDN}}}TopicId")
    if not any(one.text == wanted for one in found):
        raise GatewayError(
            f"the payload lacks the topic's id: add an element TopicId of {TDN} with {wanted}"
        )
