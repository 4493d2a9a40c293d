"""Topics of tenants, by which the messaging system tells one tenant's events from another's.

    {http://w.example/}storms                            a topic of the default tenant
    {urn:dragoman:tenant}acme/{http://w.example/}storms  the same topic of the tenant acme
    {urn:dragoman:tenant}acme                            an event of acme without a topic

Publishers and subscribers of a tenant never see its name: it is put in front of a topic when an
event is published, and taken away when the event is matched against that tenant's filters alone.
"""

from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from filters import Expression, Step, Topic
from filters.dialects import TOPIC_FULL
from mediation.model.messages import Notification
from mediation.names import PUBLISHER

NAMESPACE = "urn:dragoman:tenant"
"""The namespace of the first step of all topics of tenants."""
OWNER = "tenant:"
"""What the names of owners in a tenant begin with; the tenant's name and a colon follow."""
SOURCES = f"{PUBLISHER}{OWNER}"
"""What the sources of the events of all tenants but the default one begin with."""


@lru_cache(maxsize=4096)
def topic_in(tenant: str, topic: Topic | None) -> Topic | None:
    """The topic by which the messaging system knows *topic* of *tenant*; None is no topic."""
    if not tenant:
        return topic
    return Topic((Step(NAMESPACE, tenant), *(topic.steps if topic is not None else ())))


def tenant_of_topic(topic: Topic | None) -> str:
    """The tenant whose topic this is; empty for the default tenant."""
    if topic is None:
        return ""
    first = topic.steps[0]
    return first.name if first.namespace == NAMESPACE else ""


@lru_cache(maxsize=4096)
def topic_without_tenant(topic: Topic) -> Topic | None:
    """The topic as its tenant knows it; None where its publisher named none."""
    if not tenant_of_topic(topic):
        return topic
    return Topic(topic.steps[1:]) if topic.steps[1:] else None


def source_in(tenant: str) -> str:
    """What the sources of all events of *tenant* begin with, another than the default one."""
    return f"{SOURCES}{tenant}:"


def tenant_of_event(notification: Notification) -> str:
    """The tenant whose event this is, as the messaging system knows it or as that tenant does."""
    return tenant_of_topic(notification.topic) or tenant_of_source(notification.source)


def tenant_of_source(source: str) -> str:
    """The tenant of the events with this source, as their tenants know them."""
    if not source.startswith(SOURCES):
        return ""
    return source.removeprefix(SOURCES).partition(":")[0]


EventKey: TypeAlias = str | tuple[str, str]


def event_key(notification: Notification) -> EventKey:
    """The id of an event, with the tenant of one that is not the default tenant's: two tenants may
    choose one id."""
    return key_in(tenant_of_event(notification), notification.id)


def key_in(tenant: str, id_: str) -> EventKey:
    """As `event_key`, of the event of *tenant* with an id."""
    return (tenant, id_) if tenant else id_


def all_topics_of(tenant: str) -> Expression:
    """The expression that covers all topics of *tenant*, and no others."""
    return Expression(f"t:{tenant}//.", TOPIC_FULL, (("t", NAMESPACE),))


def as_its_tenant_knows_it(notification: Notification) -> Notification:
    """The notification with the topic that its publisher named, and a source that no event of
    another tenant has: by source and id together the store tells messages apart."""
    topic, source = notification.topic, notification.source
    tenant = tenant_of_topic(topic)
    if not tenant and not source.startswith(SOURCES):
        return notification
    own = f"{SOURCES}{tenant}:" if tenant else PUBLISHER
    if not tenant or not source.startswith(own):
        # A program wrote to the messaging system itself, and may have written any source.
        source = f"{own}native#{source}"
    return replace(notification, source=source, topic=topic and topic_without_tenant(topic))
