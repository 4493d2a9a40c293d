"""What several answers bring: each topic once, and a forged one keeps no other out."""

from dataclasses import replace
from uuid import uuid4

import pytest

from filters import Refused
from gateway.client.discovery.search_results import SearchResults
from mediation.discovery import SignedTopicAdvertisement, TopicDiscoveryResponse
from mediation.discovery.signing import sign
from tests.rigs.discovery import head
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_topics import made_topic

OWNER = Speaker(parties().producer)


def response(octets: bytes, sender: str = "") -> TopicDiscoveryResponse:
    return TopicDiscoveryResponse(head(sender or parties().node_id), (octets,))


def test_a_double_is_dropped_and_a_forged_one_keeps_none_out() -> None:
    genuine = made_topic(OWNER)
    forged = genuine.replace(b"north mole", b"south mole")
    results = SearchResults(parties().verifier())
    found = [
        list(results.new(response(octets, node)))
        for octets, node in (
            (forged, ""),
            (forged, "tdn-" + "0" * 32),
            (genuine, ""),
            (genuine, "tdn-" + "0" * 32),
            (forged, ""),
        )
    ]
    assert [len(each) for each in found] == [1, 0, 1, 0, 0]
    assert len(results) == 1
    with pytest.raises(Refused):
        found[0][0].check()
    assert found[2][0].is_genuine
    assert not replace(found[2][0], octets=forged, _checked=None).is_genuine


def test_creators_answer_for_their_own_topics_alone() -> None:
    results, topic = SearchResults(parties().verifier()), made_topic(OWNER)
    assert list(results.new(response(topic, parties().consumer_id))) == []
    assert len(list(results.new(response(topic, OWNER.id)))) == 1


def test_what_cannot_be_read_is_passed_over() -> None:
    results = SearchResults(parties().verifier())
    assert list(results.new(response(b"<nothing/>"))) == []
    empty = SignedTopicAdvertisement(head().issued, uuid4(), b"<nothing/>")
    assert list(results.new(response(sign(empty, parties().producer)))) == []
