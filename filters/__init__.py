"""Topics, topic expressions, XPath content filters, and the set that matches one event against
all filters. Knows nothing of SOAP, brokers or the gateway."""

from filters.compiling.compiled import CompiledFilter, compile, content_dialects, topic_dialects
from filters.compiling.topic_expressions import KNOWN_PREFIXES, parse_expression, parse_topics
from filters.documents import DocumentLimits, parse_document
from filters.events import PAYLOAD, Event, View
from filters.filter import EVERYTHING, Expression, Filter, Namespaces
from filters.filterset.entries import Deferred, Matching
from filters.filterset.filterset import FilterSet
from filters.matching.engines.choice import engine, engine_note
from filters.reasons import FilterError, Reason, Refused, quoted
from filters.topics.patterns import TopicPattern
from filters.topics.topics import DEFAULT_TOPIC, Step, Topic, parse_clark, topic_text
from filters.xpath import names_payload_root

__all__ = [
    "DEFAULT_TOPIC",
    "EVERYTHING",
    "KNOWN_PREFIXES",
    "PAYLOAD",
    "CompiledFilter",
    "Deferred",
    "DocumentLimits",
    "Event",
    "Expression",
    "Filter",
    "FilterError",
    "FilterSet",
    "Matching",
    "Namespaces",
    "Reason",
    "Refused",
    "Step",
    "Topic",
    "TopicPattern",
    "View",
    "compile",
    "content_dialects",
    "engine",
    "engine_note",
    "names_payload_root",
    "parse_clark",
    "parse_document",
    "parse_expression",
    "parse_topics",
    "quoted",
    "topic_dialects",
    "topic_text",
]
