"""Real messages through every pair of dialects: the payload is the same, the topic is right, and
the loss report exact."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from mediation.matrix import NOTIFIED, PUBLISHING
from mediation.model.messages import Notification
from tests.mediation.matrix.test_losses import check
from tests.rigs import corpus
from tests.rigs.examples import examples
from tests.rigs.matrix import decoded, delivered
from tests.rigs.mediation import NOW, canonical, topic
from tests.rigs.schemas import Validator

SEED = 20260131
A_FAMILY = examples(day=1, night=6)
"""Messages of each family."""
TOPIC = topic("{urn:example:corpus}family/message")


def through_every_pair(payload: bytes, validator: Validator | None) -> None:
    """Publish *payload* in every dialect, and deliver each publication in every dialect."""
    event = Notification("urn:uuid:1", "publisher", payload, NOW, TOPIC)
    wanted = canonical(payload)
    for origin in PUBLISHING:
        if not origin.notified:
            continue
        read = decoded(delivered(event, origin, origin.forms[-1]), origin).notification
        assert canonical(read.payload) == wanted
        for target in NOTIFIED:
            check(replace(read, time=NOW), target, target.forms[-1])
            if validator is not None and target.fetching is None and target.in_soap:
                # Not the payload: of an xsi:type no schema here knows the type.
                octets = delivered(read, target, target.forms[-1]).octets
                validator.check(octets.replace(read.payload, b"<payload/>"))


@pytest.mark.hypothesis  # At night with more of them.
def test_a_sample_goes_through_every_pair(material: Path, validator: Validator) -> None:
    chosen = random.Random(SEED)
    for family in corpus.families(material):
        messages = list(corpus.messages(material, family))
        for payload in chosen.sample(messages, min(A_FAMILY, len(messages))):
            through_every_pair(payload, validator)


@pytest.mark.release
def test_every_message_goes_through_every_pair(material: Path) -> None:
    for family in corpus.families(material):
        for payload in corpus.messages(material, family):
            through_every_pair(payload, None)
