"""The topics that were published on: bounded by number and bytes; their document is made once."""

import asyncio
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from filters import Topic, parse_clark
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


SIZES = st.tuples(st.sampled_from(["", "acme", "zeta"]), st.integers(0, 30), st.integers(1, 200))


@given(st.lists(SIZES, max_size=80))
def test_a_tenant_keeps_its_equal_part(published: list[tuple[str, int, int]]) -> None:
    """Whatever others publish: what a tenant has is driven out only by what makes it more than a
    third of a bound. All bounds hold together, always."""
    topics = TopicsSeen(topics=30, octets=3000, names=900)
    expected: dict[str, dict[Topic, int]] = {"": {}, "acme": {}, "zeta": {}}
    for tenant, number, size in published:
        named = parse_clark("n" * (size // 10) + f"t{number}")
        topic = topic_in(tenant, named) or named
        topics.see([on(str(topic), b"x" * size)])
        expected[tenant][topic] = size
        everything = [one for each in expected for one in topics.latest(each)]
        assert len(everything) == len(topics.topics()) <= 30
        assert sum(len(one.payload) for one in everything) <= 3000
        assert sum(len(str(each).encode()) for each in topics.topics()) <= 900
        for each, its in expected.items():
            names = sum(len(str(one).encode()) for one in its)
            if len(its) <= 10 and sum(its.values()) <= 1000 and names <= 300:
                assert len(topics.latest(each)) == len(its)


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
