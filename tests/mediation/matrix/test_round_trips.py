"""From one dialect to another and back: payload and topic are what they were, for every pair."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filters import Topic
from mediation.matrix import NOTIFIED, Dialect, Fact
from mediation.model.messages import Notification
from tests.rigs.cases import for_each
from tests.rigs.examples import examples
from tests.rigs.matrix import decoded, delivered
from tests.rigs.mediation import NOW, canonical, topic
from tests.rigs.payloads import elements

PAIRS = [
    pytest.param(one, other, id=f"{one.name} and {other.name}")
    for one in NOTIFIED
    for other in NOTIFIED
]
PAYLOAD = "urn:example:event"
NAMES = st.text("abcäz_", min_size=1, max_size=5)
TOPICS = st.builds(
    lambda namespace, names: topic(f"{{{namespace}}}" * bool(namespace) + "/".join(names)),
    st.sampled_from(["", "urn:weather", "http://www.onvif.org/ver10/topics", "urn:x&y"]),
    st.lists(NAMES, min_size=1, max_size=3),
)


def told(event: Notification, dialect: Dialect, form: int) -> Notification:
    """The event as a relay reads it that subscribes in *dialect*, and then publishes it. A topic
    that the message has no place for is in the address that it came to."""
    read = decoded(delivered(event, dialect, dialect.forms[form]), dialect).notification
    if Fact.TOPIC not in dialect.tells:
        assert read.topic is None
        return replace(read, topic=event.topic)
    return read


def as_told(one: Topic, *dialects: Dialect) -> Topic:
    """The topic, as far as all of *dialects* tell it."""
    tells = frozenset(Fact).intersection(*(d.tells for d in dialects if Fact.TOPIC in d.tells))
    text = str(one)
    if Fact.NAMESPACES not in tells:
        text = "/".join(step.name for step in one.steps)
    if Fact.LEVELS not in tells:
        return Topic((replace(one.steps[0], namespace=None, name=text),))
    return topic(text)


@for_each(("one", "other"), PAIRS)
@settings(max_examples=examples(day=2, night=6))
@given(
    inner=elements(),
    name=TOPICS,
    form=st.sampled_from([0, -1]),
    other_form=st.sampled_from([0, -1]),
)
def test_payload_and_topic_come_back(
    one: Dialect, other: Dialect, inner: str, name: Topic, form: int, other_form: int
) -> None:
    payload = f'<e:event xmlns:e="{PAYLOAD}">{inner}</e:event>'.encode()
    event = Notification("urn:uuid:1", "publisher", payload, NOW, name)
    there = told(event, one, form)
    back = told(told(there, other, other_form), one, form)
    for read in (there, back):
        assert canonical(read.payload) == canonical(payload)
    assert there.topic == as_told(name, one)
    # A name with a slash in it, as of a topic that was read without its levels, has levels again.
    assert back.topic is not None
    assert _text(back.topic) == _text(as_told(name, one, other))


def _text(one: Topic) -> str:
    return "/".join(f"{{{step.namespace}}}{step.name}" for step in one.steps).replace("{None}", "")
