"""Identifiers, and the topics that they have."""

from uuid import UUID

from filters import parse_clark
from mediation.discovery import (
    NODES,
    TOPICS,
    NodeDiscoveryRequest,
    Role,
    is_stranger,
    path_of,
    queries_of,
    read_as,
    role_of,
    stranger,
    topic_of,
    write,
)
from tests.rigs import discovery
from tests.rigs.discovery_keys import parties


def test_the_role_is_in_the_identifier() -> None:
    people = parties()
    assert role_of(people.producer_id) is Role.ENTITY
    assert role_of(people.node_id) is Role.NODE
    assert role_of("x-1") is None
    assert people.producer.identifier(Role.NODE) == "tdn-" + people.producer_id[2:]


def test_a_stranger_has_no_key() -> None:
    name = stranger(UUID("0b5ae7d4-9c1e-4d57-8a35-6b1f0c4f2e11"))
    assert name == "x-0b5ae7d49c1e4d578a356b1f0c4f2e11"
    assert is_stranger(name)
    assert not is_stranger(discovery.ENTITY)
    request = NodeDiscoveryRequest(discovery.head(name))
    assert read_as(NodeDiscoveryRequest, write(request)).value == request


def test_topics_are_in_the_namespace_of_discovery() -> None:
    node = discovery.NODE
    expected = {
        NODES: "Services/Discovery/TopicDiscoveryNode",
        TOPICS: "Services/Discovery/Topics",
        topic_of(node): f"Services/Discovery/TopicDiscoveryNode/{node}",
        queries_of(node): f"Services/Discovery/Topics/{node}",
        topic_of(discovery.ENTITY): f"Entity/{discovery.ENTITY}",
        topic_of("x-1"): "Entity/x-1",
    }
    for topic, path in expected.items():
        assert topic == parse_clark(f"{{urn:dragoman:tdn:1}}{path}")
        assert path_of(topic) == path
