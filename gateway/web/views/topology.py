"""What flows: publishers, topics, the messaging system, the hosts of subscribers."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gateway.model.moments import moment_of
from gateway.web.topology import Rest, Topology
from gateway.web.views.overview import BrokerView, broker_view


class PublisherGroupView(BaseModel, extra="forbid"):
    """The publishers of one dialect."""

    dialect: str = Field(
        description="As `--spec` names it; `event` of plain events, `sequence` of what comes in "
        "sequences, `elsewhere` of what the messaging system or another gateway had."
    )
    rate: float | None = Field(description="Messages a second; null: not known.")
    publishers: list[str] = Field(description="The hosts or names of at most five.")
    more: int = Field(description="Publishers beside these.")


class TopicFlowView(BaseModel, extra="forbid"):
    """A topic."""

    topic: str = Field(description="Empty: messages without one.")
    rate: float = Field(description="Messages a second that were accepted here.")


class FlowView(BaseModel, extra="forbid"):
    """Messages of one dialect on one topic."""

    dialect: str
    topic: str | None = Field(description="null: all topics that are not named.")
    rate: float


class ConsumerHostView(BaseModel, extra="forbid"):
    """A host that subscribers are at."""

    host: str = Field(description="Scheme, name and port; of mailboxes the scheme alone.")
    consumers: str = Field(description="Pass it as `consumer` to list the subscriptions.")
    subscriptions: int
    failing: int
    waiting: int = Field(description="Deliveries that wait for them at this gateway.")
    rate: float = Field(
        description="Attempts a second; of a subscription with more than 50 in the time, the rate "
        "of its last 50."
    )


class RestView(BaseModel, extra="forbid"):
    """What is not named."""

    number: int
    rate: float


_EXAMPLE: dict[str, JsonValue] = {
    "at": "2026-11-27T05:51:08Z",
    "seconds": 300.0,
    "publishers": [
        {"dialect": "wsn-1.3", "rate": 12.5, "publishers": ["10.0.3.2", "10.0.3.3"], "more": 0},
        {"dialect": "event", "rate": 0.5, "publishers": ["10.0.8.17"], "more": 0},
    ],
    "topics": [{"topic": "storms/coast", "rate": 12.0}, {"topic": "tides", "rate": 0.6}],
    "more_topics": {"number": 118, "rate": 0.4},
    "flows": [
        {"dialect": "wsn-1.3", "topic": "storms/coast", "rate": 12.0},
        {"dialect": "wsn-1.3", "topic": None, "rate": 0.4},
        {"dialect": "event", "topic": "tides", "rate": 0.5},
    ],
    "broker": {
        "adapter": "amqp", "connected": True, "blocked": False, "since": "2026-11-27T03:00:00Z",
        "last_error": None, "last_error_at": None, "stopped_by": None, "queues_gone": [],
    },
    "queues": ["dragoman.00", "dragoman.01"],
    "unsettled": 3,
    "consumers": [
        {
            "host": "http://line3.plant:80", "consumers": "http://line3.plant/*",
            "subscriptions": 6, "failing": 1, "waiting": 31, "rate": 71.5,
        }
    ],
    "more_consumers": {"number": 9970, "rate": 3.25},
    "subscriptions": 9976,
}  # fmt: skip


class TopologyView(BaseModel):
    """What flowed through the gateway that answers in the last minutes: rates are means of the last
    `seconds`. Dialects of which nothing came, and topics on which nothing came, are left out."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _EXAMPLE})

    at: datetime
    seconds: float
    publishers: list[PublisherGroupView]
    topics: list[TopicFlowView] = Field(description="Those with the most messages, first.")
    more_topics: RestView
    flows: list[FlowView]
    broker: BrokerView
    queues: list[str] = Field(description="Of the messaging system, where it has any.")
    unsettled: int = Field(description="Messages of it that are under way here.")
    consumers: list[ConsumerHostView] = Field(description="Those that are sent the most, first.")
    more_consumers: RestView
    subscriptions: int


def topology_view(topology: Topology) -> TopologyView:
    """The view of *topology*."""
    return TopologyView(
        at=moment_of(topology.at),
        seconds=round(topology.seconds, 1),
        publishers=[
            PublisherGroupView(
                dialect=one.dialect,
                rate=None if one.rate is None else round(one.rate, 3),
                publishers=list(one.publishers),
                more=one.more,
            )
            for one in topology.publishers
        ],
        topics=[TopicFlowView(topic=one.topic, rate=round(one.rate, 3)) for one in topology.topics],
        more_topics=_rest(topology.more_topics),
        flows=[
            FlowView(dialect=one.dialect, topic=one.topic, rate=round(one.rate, 3))
            for one in topology.edges
        ],
        broker=broker_view(topology.ready),
        queues=list(topology.queues),
        unsettled=topology.unsettled,
        consumers=[
            ConsumerHostView(
                host=one.host,
                consumers=one.consumers,
                subscriptions=one.subscriptions,
                failing=one.failing,
                waiting=one.waiting,
                rate=round(one.rate, 3),
            )
            for one in topology.hosts
        ],
        more_consumers=_rest(topology.more_hosts),
        subscriptions=topology.subscriptions,
    )


def _rest(rest: Rest) -> RestView:
    return RestView(number=rest.number, rate=round(rest.rate, 3))
