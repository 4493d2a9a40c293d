"""Queries over described things: words, regular expressions, conditions over properties, XPath and
XQuery, of one thing or of a hundred thousand.

Knows what a description is, and nothing of who describes what, and of the messages that queries
come in. `filters.queries.selectors` is a door too: the conditions alone, over any properties.
"""

from filters.queries.budget import SecondsLeft, Spent, seconds, unlimited
from filters.queries.catalogue import Catalogue, Found, Search
from filters.queries.descriptions import ANYTHING, Conditions, Described
from filters.queries.query import Query, compile_query, query_dialects
from filters.queries.selector_syntax import Value
from filters.queries.trees import document_text
from filters.queries.xquery import XQueryWorker

__all__ = [
    "ANYTHING",
    "Catalogue",
    "Conditions",
    "Described",
    "Found",
    "Query",
    "Search",
    "SecondsLeft",
    "Spent",
    "Value",
    "XQueryWorker",
    "compile_query",
    "document_text",
    "query_dialects",
    "seconds",
    "unlimited",
]
