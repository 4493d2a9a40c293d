"""Topics, patterns of topics, and the index that finds the patterns a topic matches."""

from filters.topics.forms import IHE, MINIMAL_FORMS, are_minimal, with_full_forms
from filters.topics.index import TopicIndex
from filters.topics.ncname import FURTHER as NAME_FURTHER
from filters.topics.ncname import START as NAME_START
from filters.topics.patterns import PathStep, TopicPath, TopicPattern
from filters.topics.topics import DEFAULT_TOPIC, Step, Topic, is_namespace, parse_clark, topic_text

__all__ = [
    "DEFAULT_TOPIC",
    "IHE",
    "MINIMAL_FORMS",
    "NAME_FURTHER",
    "NAME_START",
    "PathStep",
    "Step",
    "Topic",
    "TopicIndex",
    "TopicPath",
    "TopicPattern",
    "are_minimal",
    "is_namespace",
    "parse_clark",
    "topic_text",
    "with_full_forms",
]
