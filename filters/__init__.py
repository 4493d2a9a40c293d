"""Topics, topic expressions, XPath content filters, and the set that matches one event against
all filters. Knows nothing of SOAP, brokers or the gateway."""

from filters.compiled import CompiledFilter, compile, content_dialects, topic_dialects
from filters.documents import DocumentLimits, parse_document
from filters.entries import Deferred, Matching
from filters.events import PAYLOAD, Event, View
from filters.filter import EVERYTHING, Expression, Filter, Namespaces
from filters.filterset import FilterSet
from filters.matching.engines import engine, engine_note
from filters.patterns import TopicPattern
from filters.reasons import FilterError, Reason, Refused, quoted
from filters.topic_expressions import KNOWN_PREFIXES, parse_expression, parse_topics
from filters.topics import DEFAULT_TOPIC, Step, Topic, parse_clark, topic_text
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
