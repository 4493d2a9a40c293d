"""A filter dialect: the payload's root element has one of the names that the filter lists.

    <wse:Filter xmlns="http://example.org/weather" xmlns:t="http://example.org/tides"
                Dialect="https://dragoman.example/filters/payload-names">
      Storm Fog t:Flood
    </wse:Filter>

A name without a prefix is in the default namespace, as that of an element would be.
"""

from collections.abc import Callable

from filters import PAYLOAD, Event, Expression, FilterError, Reason, parse_document

PAYLOAD_NAMES = "https://dragoman.example/filters/payload-names"
XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"
MAX_NAMES = 100


def payload_names(expression: Expression) -> Callable[[Event], bool]:
    """Compile a white-space separated list of qualified names.

    Raises:
        FilterError: ``FILTER_INVALID`` for an empty list or an undeclared prefix, and
            ``FILTER_COSTLY`` for a long list. The subscriber gets it as a fault.
    """
    words = expression.text.split()
    if not words:
        raise FilterError(Reason.FILTER_INVALID, "the filter lists no name")
    if len(words) > MAX_NAMES:
        raise FilterError(Reason.FILTER_COSTLY, "the filter lists too many names")
    namespaces = {"": "", **dict(expression.namespaces), "xml": XML_NAMESPACE}
    wanted = frozenset(_expanded(word, namespaces) for word in words)

    def condition(event: Event) -> bool:
        # Whatever is raised here counts as false: the event is no XML, say.
        return parse_document(event.view(PAYLOAD)).tag in wanted

    return condition


def _expanded(name: str, namespaces: dict[str, str]) -> str:
    """*name* in Clark notation, which is what lxml calls an element."""
    prefix, _, local = name.rpartition(":")
    if prefix not in namespaces or not local:
        raise FilterError(Reason.FILTER_INVALID, "the filter has an undeclared prefix")
    uri = namespaces[prefix]
    return f"{{{uri}}}{local}" if uri else local


DIALECTS = {PAYLOAD_NAMES: payload_names}
