"""A creator's own topics: when they are advertised, and who is answered where no node is."""

from datetime import timedelta
from uuid import uuid4

import pytest

from filters.queries import unlimited
from gateway.discovery.node_messages import MessageDropped
from gateway.discovery.own_topics import DELAY, OwnTopics
from mediation.discovery import (
    Created,
    Dialect,
    Scope,
    SignedTopicAdvertisement,
    Synopsis,
    SynopsisType,
    TopicAdvertisement,
    TopicDiscoveryResponse,
    TopicWithdrawal,
    check_advertisement,
    encrypt_advertisement,
    read_as,
)
from mediation.discovery.signing import sign
from tests.rigs.discovery import DESCRIPTORS, NOW
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties

CREATOR = Speaker(parties().producer)
SEEKER = Speaker(parties().consumer)


def made(days: float = 3, *, encrypted: bool = False) -> Created:
    id_ = uuid4()
    topic = TopicAdvertisement(
        id_, parties().node_id, CREATOR.creation(NOW).creator, NOW, NOW + timedelta(days=days),
        DESCRIPTORS, Synopsis(SynopsisType.PATH, f"Tide/u-{id_}"),
    )  # fmt: skip
    signed = sign(topic, parties().node)
    if encrypted:
        hidden = encrypt_advertisement(topic, signed, parties().producer.certificate)
        signed = sign(hidden, parties().node)
    return Created(signed, topic)


def own() -> OwnTopics:
    return OwnTopics(
        parties().producer, parties().verifier(), sign=sign, new_uuid=uuid4, chance=lambda: 0.5
    )


def why(topics: OwnTopics, octets: bytes) -> str:
    with pytest.raises(MessageDropped) as dropped:
        topics.answer(octets, seconds_left=unlimited, now=NOW)
    return dropped.value.why


@pytest.mark.parametrize(("days", "hours"), [(3, 12), (300, 24)])
def test_every_sixth_of_the_lifetime_and_daily(days: float, hours: float) -> None:
    topics, created = own(), made(days)
    check_advertisement(topics.advertise(created, now=NOW), parties().verifier(), now=NOW)
    later = NOW + timedelta(hours=hours)
    assert topics.next() == later
    assert topics.due(now=later - timedelta(seconds=1)) == []
    [again] = topics.due(now=later)
    assert read_as(SignedTopicAdvertisement, again).value.issued == later
    assert topics.due(now=later) == []
    assert topics.due(now=created.advertisement.expires) == []
    assert topics.next() is None


def test_a_query_to_creators() -> None:
    topics, created = own(), made()
    advertisement = topics.advertise(created, now=NOW)
    query = SEEKER.query(NOW, "mole", scope=Scope.ENTITIES)
    after, answer = topics.answer(query, seconds_left=unlimited, now=NOW)
    assert (after, answer.receiver) == (DELAY / 2, SEEKER.id)
    read = SEEKER.read(answer.octets, NOW)
    assert read.encrypted
    assert isinstance(response := read.message, TopicDiscoveryResponse)
    assert response.advertisements == (advertisement,)
    assert response.head.sender == CREATOR.id
    assert why(topics, query) == "message-invalid", "one answer a request"


def test_who_is_not_answered() -> None:
    topics = own()
    topics.advertise(made(), now=NOW)
    assert why(topics, SEEKER.query(NOW, "mole")) == "for-nodes"
    assert why(topics, SEEKER.query(NOW, "x", scope=Scope.ENTITIES)) == "nothing-found"
    stranger = Speaker(None).query(NOW, "mole", scope=Scope.ENTITIES)
    assert why(topics, stranger) == "unauthenticated"
    invalid = SEEKER.query(NOW, "a <", "urn:dragoman:tdn:1:query:sql", scope=Scope.ENTITIES)
    assert why(topics, invalid) == "query-invalid"


def test_what_is_withdrawn_is_neither_advertised_nor_found() -> None:
    topics, created = own(), made()
    topics.advertise(created, now=NOW)
    topic_id = created.advertisement.topic_id
    withdrawal = read_as(TopicWithdrawal, topics.withdraw(topic_id, now=NOW)).value
    assert withdrawal.topic_id == topic_id
    assert topics.next() is None
    query = SEEKER.query(NOW, "mole", scope=Scope.ENTITIES)
    assert why(topics, query) == "nothing-found"


def test_queries_tell_nothing_of_what_is_encrypted() -> None:
    topics, created = own(), made(encrypted=True)
    advertisement = topics.advertise(created, now=NOW)
    text = "starts-with(//*[local-name()='Text'], 'Height')"
    for query in (
        SEEKER.query(NOW, "mole", scope=Scope.ENTITIES),
        SEEKER.query(NOW, text, Dialect.XPATH, scope=Scope.ENTITIES),
        SEEKER.query(NOW, "gauge = 12", Dialect.SQL, scope=Scope.ENTITIES),
        SEEKER.query(NOW, "Tide", Dialect.REGEX, scope=Scope.ENTITIES),
    ):
        assert why(topics, query) == "nothing-found"
    id_ = f"*[local-name()='TopicId'] = 'urn:uuid:{created.advertisement.topic_id}'"
    query = SEEKER.query(NOW, id_, Dialect.XPATH, scope=Scope.ENTITIES)
    _, answer = topics.answer(query, seconds_left=unlimited, now=NOW)
    assert isinstance(response := SEEKER.read(answer.octets, NOW).message, TopicDiscoveryResponse)
    assert response.advertisements == (advertisement,)


def test_an_answer_that_would_be_too_large_is_cut_and_says_so() -> None:
    topics = own()
    for _ in range(200):
        topics.advertise(made(), now=NOW)
    query = SEEKER.query(NOW, "mole", scope=Scope.ENTITIES, most=1000)
    _, answer = topics.answer(query, seconds_left=unlimited, now=NOW)
    assert isinstance(response := SEEKER.read(answer.octets, NOW).message, TopicDiscoveryResponse)
    assert response.more
    assert 50 < len(response.advertisements) < 200
