"""Topics, patterns of topics, and the index that finds the patterns a topic matches."""

from filters.topics.index import TopicIndex
from filters.topics.patterns import PathStep, TopicPath, TopicPattern
from filters.topics.topics import DEFAULT_TOPIC, Step, Topic, is_namespace, parse_clark, topic_text

__all__ = [
    "DEFAULT_TOPIC",
    "PathStep",
    "Step",
    "Topic",
    "TopicIndex",
    "TopicPath",
    "TopicPattern",
    "is_namespace",
    "parse_clark",
    "topic_text",
]
