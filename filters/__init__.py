"""Topics, topic expressions, XPath content filters, and the set that matches one event against
all filters. Knows nothing of SOAP, brokers or the gateway.

The doors for other packages: the names here, and of the rooms `archive`, `archive_positions`,
`archive_ranges`, `charsets`, `compiling`, `dialects`, `documents`, `explaining`, `extras`,
`queries`, `spark`, `topics`, `workloads` and `xpath` what their ``__init__``, or the module itself,
has. All other modules are insides (a contract in pyproject.toml keeps them so).
"""

from filters.charsets import in_utf_8
from filters.compiling import (
    KNOWN_PREFIXES,
    CompiledFilter,
    asks_for_minimal,
    compile,
    content_dialects,
    parse_expression,
    parse_topics,
    topic_dialects,
)
from filters.documents import DocumentLimits, parse_document
from filters.events import ATTRIBUTES, PAYLOAD, Event, View
from filters.filter import EVERYTHING, Expression, Filter, Namespaces
from filters.filterset import Deferred, FilterSet, Matching
from filters.matching.engines.choice import check_engine, engine, engine_note, use_engine
from filters.matching.fallback.worker import Question, Worker, evaluate_questions
from filters.querying import evaluate_query
from filters.reasons import FilterError, Reason, Refused, one_line, quoted
from filters.topics import DEFAULT_TOPIC, Step, Topic, TopicPattern, parse_clark, topic_text
from filters.topics.ncname import NCNAME
from filters.xpath import is_false, names_payload_root, prefixes_in

__all__ = [
    "ATTRIBUTES",
    "DEFAULT_TOPIC",
    "EVERYTHING",
    "KNOWN_PREFIXES",
    "NCNAME",
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
    "Question",
    "Reason",
    "Refused",
    "Step",
    "Topic",
    "TopicPattern",
    "View",
    "Worker",
    "asks_for_minimal",
    "check_engine",
    "compile",
    "content_dialects",
    "engine",
    "engine_note",
    "evaluate_query",
    "evaluate_questions",
    "in_utf_8",
    "is_false",
    "names_payload_root",
    "one_line",
    "parse_clark",
    "parse_document",
    "parse_expression",
    "parse_topics",
    "prefixes_in",
    "quoted",
    "topic_dialects",
    "topic_text",
    "use_engine",
]
