"""Topics that the node of the tests made, without a node at work."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from mediation.discovery import (
    Creator,
    SignedTopicAdvertisement,
    TopicAdvertisement,
    place_uuid,
)
from mediation.discovery.signing import sign
from tests.rigs.discovery import ADVERTISEMENT, PATH
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties


def made_topic(owner: Speaker, *, text: str = "") -> bytes:
    """A topic that *owner* advertises, as it is sent."""
    created = datetime.now(UTC) - timedelta(seconds=1)
    topic_id = uuid4()
    descriptors = ADVERTISEMENT.descriptors
    if text:
        descriptors = replace(descriptors, texts=(text,))
    topic = TopicAdvertisement(
        topic_id,
        parties().node_id,
        Creator(owner.id, "North mole", "Harbour Office"),
        created,
        created + timedelta(days=30),
        descriptors,
        place_uuid(PATH, topic_id),
    )
    assert owner.credentials is not None
    signed = SignedTopicAdvertisement(created, topic_id, sign(topic, parties().node))
    return sign(signed, owner.credentials)
