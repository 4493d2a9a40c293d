"""Queries: an XPath 1.0 expression over one small document, for its value rather than its truth.

A query is admitted as a filter is (`filters.xpath.check`), and what libxml2 would take for it is
known before (`filters.matching.fallback.cost`), for libxml2 cannot be interrupted.
"""

from typing import Any
from xml.sax.saxutils import escape

from lxml import etree

from filters.documents import parse_own
from filters.filter import Expression
from filters.matching.fallback.cost import DocumentSize, bound
from filters.reasons import FilterError, Reason
from filters.xpath import compile_value
from filters.xpath.parser import parse_text

MAX_VISITS = 2_000_000
"""The most visits of nodes: about 20 ms."""
MAX_RESULT = 2**20
"""Bytes of a result, at most: of nested elements each would be written as often as it is deep."""


def evaluate_query(
    document: bytes,
    query: Expression,
    *,
    max_result: int = MAX_RESULT,
) -> str:
    """Evaluate *query* over *document*, its root element the context node.

    Returns the result as XML content: elements one after another, each with all namespaces that are
    in scope of it; strings, numbers, booleans and the values of other nodes as text, with a space
    between two. An empty node-set is empty.

    Raises:
        FilterError: ``FILTER_INVALID`` and ``FILTER_COSTLY`` for what `filters.xpath.check` says of
            the text; ``QUERY_FAILED``: it takes too long on this document, its result is too long,
            or the evaluation fails.
    """
    tree = parse_text(query.text, query.namespaces)
    value, string = compile_value(query.text, query.namespaces)
    root = parse_own(document)
    if bound(tree, DocumentSize.of(root)) > MAX_VISITS:
        raise _failed("the query takes too long on this document")
    try:
        result: Any = [root] if query.text.strip() == "/" else value(root)
        if not isinstance(result, list):
            text = escape(str(string(root)))
            if len(text) > max_result:
                raise _too_long()
            return text
    except etree.XPathError as error:
        raise _failed("the query cannot be evaluated") from error
    written, texts = list[str](), 0
    for node in result:
        element = isinstance(node, etree._Element)
        shown = _shown(node)
        written.append(shown if element or not written else f" {shown}")
        texts += len(shown)
        if texts > max_result:
            raise _too_long()
    return "".join(written)


def _shown(node: Any) -> str:
    match node:
        case etree._Element():
            return etree.tostring(node, encoding="unicode", with_tail=False)
        case (_, str(uri)):  # A namespace.
            return escape(uri)
        case _:
            return escape(str(node))


def _too_long() -> FilterError:
    return _failed("the result of the query is too long")


def _failed(text: str) -> FilterError:
    return FilterError(Reason.QUERY_FAILED, text)
