"""Checks a filter and compiles its expressions, each in its dialect."""

from filters.compiling.compiled import (
    ENTRY_POINT_GROUP,
    CompiledFilter,
    compile,
    content_dialects,
    topic_dialects,
)
from filters.compiling.ebrim import document_query_id
from filters.compiling.topic_expressions import (
    KNOWN_PREFIXES,
    asks_for_minimal,
    parse_expression,
    parse_topics,
)

__all__ = [
    "ENTRY_POINT_GROUP",
    "KNOWN_PREFIXES",
    "CompiledFilter",
    "asks_for_minimal",
    "compile",
    "content_dialects",
    "document_query_id",
    "parse_expression",
    "parse_topics",
    "topic_dialects",
]
