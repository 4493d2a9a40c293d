"""Topics, topic expressions, XPath content filters, and the set that matches one event against
all filters. Knows nothing of SOAP, brokers or the gateway."""

from filters.compiled import CompiledFilter, compile
from filters.documents import DocumentLimits, parse_document
from filters.events import PAYLOAD, Event, View
from filters.filter import EVERYTHING, Expression, Filter, Namespaces
from filters.filterset import FilterSet
from filters.reasons import FilterError, Reason, Refused
from filters.topics import DEFAULT_TOPIC, Step, Topic, TopicPattern, parse_clark, parse_topics
from filters.xpath import names_payload_root

__all__ = [
    "DEFAULT_TOPIC",
    "EVERYTHING",
    "PAYLOAD",
    "CompiledFilter",
    "DocumentLimits",
    "Event",
    "Expression",
    "Filter",
    "FilterError",
    "FilterSet",
    "Namespaces",
    "Reason",
    "Refused",
    "Step",
    "Topic",
    "TopicPattern",
    "View",
    "compile",
    "names_payload_root",
    "parse_clark",
    "parse_document",
    "parse_topics",
]
