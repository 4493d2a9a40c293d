"""Topics of tenants: in front of each the tenant, and no event that seems to be another tenant's."""

from datetime import UTC, datetime

import pytest

from filters import Step, Topic, parse_clark, parse_expression
from mediation.model.messages import Notification
from mediation.names import PUBLISHER
from mediation.tenants import (
    all_topics_of,
    as_its_tenant_knows_it,
    tenant_of_topic,
    topic_in,
    topic_without_tenant,
)

TOPICS = (
    None,
    Topic((Step(None, "storms"),)),
    Topic((Step("urn:w", "storms"), Step(None, "sea"), Step("urn:x", "north"))),
)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_in_a_tenant_and_back(topic: Topic | None) -> None:
    there = topic_in("acme", topic)
    assert there is not None
    assert parse_clark(str(there)) == there
    assert tenant_of_topic(there) == "acme"
    assert topic_without_tenant(there) == topic
    assert topic_in("", topic) == topic
    assert tenant_of_topic(topic) == ""
    assert parse_expression(all_topics_of("acme")).matches(there)
    for other in ("acm", "acme-2", "umbrella"):
        assert not parse_expression(all_topics_of(other)).matches(there)
    if topic is not None:
        assert not parse_expression(all_topics_of("acme")).matches(topic)


@pytest.mark.parametrize(
    ("tenant", "source", "known"),
    [
        ("", "urn:x", "urn:x"),
        ("", f"{PUBLISHER}user:a", f"{PUBLISHER}user:a"),
        ("acme", f"{PUBLISHER}tenant:acme:user:a#s", f"{PUBLISHER}tenant:acme:user:a#s"),
        # Forged by programs that publish at the broker.
        ("", f"{PUBLISHER}tenant:acme:user:a", f"native#{PUBLISHER}tenant:acme:user:a"),
        ("acme", "urn:x", "tenant:acme:native#urn:x"),
        ("acme", f"{PUBLISHER}user:a", f"tenant:acme:native#{PUBLISHER}user:a"),
        ("ac", f"{PUBLISHER}tenant:acme:u", f"tenant:ac:native#{PUBLISHER}tenant:acme:u"),
    ],
)
def test_no_source_is_that_of_another_tenant(tenant: str, source: str, known: str) -> None:
    topic = Topic((Step("urn:w", "storms"),))
    event = Notification("1", source, b"<a/>", datetime.now(UTC), topic_in(tenant, topic))
    found = as_its_tenant_knows_it(event)
    assert found.source == (known if known.startswith("urn:") else PUBLISHER + known)
    assert found.topic == topic
    assert (found is event) == (not tenant and found.source == source)
