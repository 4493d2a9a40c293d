"""The topics that were published on: bounded by number and bytes; their document is made once."""

import asyncio
from datetime import UTC, datetime

from filters import parse_clark
from gateway.parsing import Parsing
from gateway.publishing.resources import Producer
from gateway.publishing.topics import TopicsSeen
from mediation.model.messages import Notification
from mediation.model.versions import Version
from mediation.tenants import topic_in


def on(topic: str, payload: bytes = b"<a/>") -> Notification:
    return Notification("urn:1", "urn:s", payload, datetime.now(UTC), topic=parse_clark(topic))


def test_names_are_bounded_by_their_bytes() -> None:
    topics = TopicsSeen(names=10_000)
    for number in range(100):
        topics.see([on(f"{{urn:{'n' * 300}}}t{number}")])
    known = [str(topic) for topic in topics.known()]
    assert sum(map(len, known)) <= 10_000
    assert known[-1].endswith("t99"), "the newest went first"
    topics.see([on(f"{{urn:{'n' * 20_000}}}t")])
    assert len(topics.known()) == 1, "one topic is always known"


def test_nobody_names_a_topic_as_the_messaging_system_knows_it() -> None:
    """In the default tenant, neither: whoever may read there would have what is of all tenants."""
    topics, storms = TopicsSeen(), parse_clark("storms")
    theirs = topic_in("acme", storms)
    assert theirs is not None
    topics.see([on(str(theirs))])
    found = topics.current(storms, "acme")
    assert found is not None
    assert found.topic == storms
    for tenant in ("", "acme", "umbrella"):
        assert topics.current(theirs, tenant) is None


async def test_the_document_is_made_once_for_all() -> None:
    topics, parsing = TopicsSeen(), Parsing()
    topics.see([on(f"t{number}") for number in range(2000)])
    producer = Producer(topics, parsing)
    now = datetime.now(UTC)
    ask = [producer.properties(Version.WSN_1_3, now) for _ in range(20)]
    first, *others = await asyncio.gather(*ask)
    assert all(other is first for other in others)
    topics.see([on("one-more")])
    changed = await producer.properties(Version.WSN_1_3, now)
    assert changed is not first
    assert b"one-more" in b"".join(changed[1].values())
    parsing.close()
