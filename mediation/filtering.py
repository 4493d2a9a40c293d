"""Filters as elements: read into `filters.Filter`, and written as subscribers do."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from lxml import etree

from filters import (
    Expression,
    Filter,
    FilterError,
    Reason,
    Topic,
    View,
    compile,
    dialects,
    names_payload_root,
    quoted,
    topic_dialects,
    topic_text,
)
from filters.xpath import as_lexical
from mediation import names, profiles
from mediation.model.errors import MediationError
from mediation.model.messages import EndpointReference
from mediation.model.requests import EndpointRules
from mediation.model.versions import Soap, Version, Wsa
from mediation.soap.envelopes import (
    attributes_of,
    elements,
    local_name,
    namespace_of,
    namespaces_of,
    octets_of,
    text_of,
    xml_attribute,
    xml_text,
)

_EVENT_ROOTS = frozenset({dialects.XPATH_1_0_EVENT, dialects.EVENT_ROOT_XPATH})
"""Dialects that are XPath over the event, whatever else the request has."""
_ACTION_DIALECTS = frozenset({dialects.ACTION_DPWS_1_0, dialects.ACTION_DPWS_1_1})
_CONDITION_DIALECTS = frozenset({dialects.XPATH_1_0, dialects.XPATH_LEXICAL})
"""Those of conditions over the producer's properties."""
_NO_URI = re.compile(r"[<>\"{}|\\^`\x00-\x20\x7f]")
"""A character that no URI or IRI has (RFC 3986, RFC 3987)."""
_CLARK = re.compile(r"\{([^{}]*)\}")
_SEPARATORS = frozenset(":/")
"""Characters that the name of a topic cannot hold in a path."""

FILTER_ELEMENTS: Mapping[str, str] = {
    f"{{{dialects.EBRIM_QUERY}}}AdhocQuery": dialects.EBRIM_QUERY,
}
"""Elements beside those of WS-BaseNotification that a filter may have, and the dialects of their
text, which is the element."""

CHANGED_ONLY = Expression(
    "not(/tt:Message[@PropertyOperation='Initialized' or @PropertyOperation='Deleted'])",
    namespaces=(("tt", names.ONVIF_SCHEMA),),
)
"""ONVIF's policy ``ChangedOnly``, as the content filter that it is."""


def envelope_view(soap: Soap, wsa: Wsa) -> View:
    """The name of the envelope, in these versions, that a WS-Eventing 2004/08 filter sees."""
    return View(f"envelope {soap.name} {wsa.name}")


ENVELOPE_VIEWS = {envelope_view(soap, wsa): (soap, wsa) for soap in Soap for wsa in Wsa}

PAYLOAD_PATHS = {
    view: (f"{{{soap.value}}}Envelope", f"{{{soap.value}}}Body")
    for view, (soap, _) in ENVELOPE_VIEWS.items()
}
"""The elements around the payload in these views, for `filters.FilterSet`."""


def producer_view(version: Version) -> View:
    """The name of the resource properties of the producer, as *version* of WS-Notification names
    them, that conditions of its subscribers see."""
    return View(f"producer properties {version.value}")


PRODUCER_VIEWS: Mapping[View, Version] = {
    producer_view(version): version
    for version in (Version.WSN_1_3, Version.WSN_1_2, Version.WSN_1_0)
}
"""Views of the producer, not of an event."""


def of_producer(expression: Expression) -> bool:
    """Return whether *expression* is a condition over the producer's properties:
    ``ProducerProperties`` of WS-BaseNotification 1.3, ``Precondition`` of its drafts."""
    return expression.view in PRODUCER_VIEWS


def dialect_of(element: etree._Element) -> str | None:
    """The meaning of the ``Dialect`` attribute, in any spelling that peers use; None without
    one."""
    return _dialect_in(attributes_of(element))


def _dialect_in(attributes: Iterable[tuple[str, str]]) -> str | None:
    text = _written_dialect(attributes)
    return dialects.SPELLINGS.get(text, text) or None


def _written_dialect(attributes: Iterable[tuple[str, str]]) -> str:
    for name, value in attributes:
        if name.rpartition("}")[2].lower() == "dialect":
            return value.strip()
    return ""


def topic_dialect_of(element: etree._Element) -> str:
    """The dialect of a topic or a topic expression; without one it is Simple (Apache CXF sends
    none), in the namespace of WS-BaseNotification 1.0 that of its own drafts."""
    return topic_dialect_in(namespace_of(element), attributes_of(element))


def topic_dialect_in(namespace: str, attributes: Iterable[tuple[str, str]]) -> str:
    """As `topic_dialect_of`, of an element of *namespace* with *attributes*."""
    own = namespace == names.WSN_IBM
    return _dialect_in(attributes) or (dialects.TOPIC_IBM_SIMPLE if own else dialects.TOPIC_SIMPLE)


def read_topic_expression(element: etree._Element) -> Expression:
    """Read a topic expression."""
    return Expression(text_of(element), topic_dialect_of(element), namespaces_of(element))


def topic_expression(topic: Topic, dialect: str | None = None) -> Expression:
    """The expression that selects exactly *topic*, in *dialect* where that is IBM's for one
    name."""
    first = topic.steps[0]
    one_name = len(topic.steps) == 1 and not first.namespace
    ibm = dialect == dialects.TOPIC_IBM_SIMPLE or not _SEPARATORS.isdisjoint(first.name)
    if one_name and ibm:
        # A name with separators, of WS-Messenger or a broker, is not a path. IBM's dialect cuts at
        # the first colon.
        return Expression(f":{first.name}", dialects.TOPIC_IBM_SIMPLE)
    uris = sorted({step.namespace for step in topic.steps if step.namespace})
    prefixes = {uri: f"t{number}" for number, uri in enumerate(uris)}
    return Expression(
        topic_text(topic, prefixes),
        dialects.TOPIC_CONCRETE,
        tuple(sorted((prefix, uri) for uri, prefix in prefixes.items())),
    )


def read_wsn_filter(element: etree._Element) -> Filter:
    """Read the children of ``wsnt:Filter`` (WS-BaseNotification 1.3, section 4.2).

    Raises:
        MediationError: ``FILTER_UNKNOWN`` naming the element; ``PRODUCER_PROPERTIES``: a condition
            over the producer's properties cannot be evaluated.
    """
    topics, contents = [], []
    unknown = []
    for child in elements(element):
        kind = local_name(child) if namespace_of(child) in profiles.WSN_1_3_SPELLINGS else ""
        if kind == "TopicExpression":
            topics.append(read_topic_expression(child))
        elif kind == "MessageContent":
            contents.append(read_content(child))
        elif kind == "ProducerProperties":
            contents.append(read_producer_condition(child, Version.WSN_1_3))
        elif child.tag in FILTER_ELEMENTS:
            contents.append(Expression(octets_of(child).decode(), FILTER_ELEMENTS[child.tag]))
        else:
            unknown.append(str(child.tag))
    if unknown:
        raise MediationError(
            Reason.FILTER_UNKNOWN,
            "The filter has an element that is not offered.",
            names=tuple(unknown),
        )
    filter_ = Filter(tuple(topics), tuple(contents))
    check_producer_conditions(filter_)
    return filter_


def read_producer_condition(element: etree._Element, version: Version) -> Expression:
    """Read a condition over the producer's properties, whose names are those of *version*. Without
    a dialect it is XPath 1.0."""
    return replace(read_content(element), view=producer_view(version))


def check_producer_conditions(filter_: Filter) -> None:
    """Refuse conditions over the producer's properties that cannot be evaluated.

    Raises:
        MediationError: ``PRODUCER_PROPERTIES``: one is not XPath 1.0, or takes too long.
    """
    for expression in filter(of_producer, filter_.contents):
        if expression.dialect not in _CONDITION_DIALECTS:
            raise MediationError(
                Reason.PRODUCER_PROPERTIES,
                "Conditions over the producer's properties are in XPath 1.0.",
                value=expression.dialect[:100],
            )
        try:
            compile(Filter(contents=(expression,)))
        except FilterError as error:
            raise MediationError(
                Reason.PRODUCER_PROPERTIES, error.text, value=expression.text[:100]
            ) from error


def read_content(element: etree._Element) -> Expression:
    """Read a filter of the payload; without a dialect it is XPath 1.0."""
    children = elements(element)
    text = b"".join(map(octets_of, children)).decode() if children else text_of(element)
    return Expression(text, dialect_of(element) or dialects.XPATH_1_0, namespaces_of(element))


def by_rules(filter_: Filter, rules: EndpointRules) -> Filter:
    """*filter_* as the endpoint that it came to means it."""
    if not rules.lexical_names:
        return filter_
    return replace(filter_, contents=tuple(map(as_lexical, filter_.contents)))


def topic_by_rules(expression: Expression, rules: EndpointRules) -> Expression:
    """*expression*, of a topic, as the endpoint that it came to means it."""
    if rules.topics is None or expression.dialect in topic_dialects():
        return expression
    return replace(expression, dialect=rules.topics)


def reference_by_rules(
    reference: EndpointReference, wsa: Wsa | None, rules: EndpointRules
) -> EndpointReference:
    """*reference* of a consumer as the endpoint that it came to means it, in a message with headers
    of *wsa*."""
    if wsa is None or not rules.one_addressing:
        return reference
    return replace(reference, wsa=wsa)


def read_wse_filter(element: etree._Element, soap: Soap, wsa: Wsa, *, payload: bool) -> Filter:
    """Read ``wse:Filter`` (WS-Eventing 2004/08, section 3.1): a topic, an action or a content
    filter, by its dialect; XPath 1.0 by default.

    Args:
        soap: The versions of the envelope that the subscriber will get.
        payload: The context of XPath is the payload, as WS-Management and WS-Eventing 2011/03 say,
            not the envelope.

    Raises:
        MediationError: ``FILTER_ACTIONS``.
    """
    payload = payload or _written_dialect(attributes_of(element)) in _EVENT_ROOTS
    dialect = dialect_of(element) or dialects.XPATH_1_0
    if dialect == names.WSE_FILTER_COMBINED:
        return _combined(element)
    if dialect in topic_dialects():
        return Filter(topics=(read_topic_expression(element),))
    if dialect in _ACTION_DIALECTS:
        return Filter(others=(_read_actions(element, dialect),))
    expression = read_content(element)
    if not expression.text and dialect == dialects.XPATH_1_0:
        raise MediationError(Reason.FILTER_INVALID, "The filter is empty.", missing="expression")
    if dialect == dialects.XPATH_1_0 and not payload and not names_payload_root(expression.text):
        view = envelope_view(soap, wsa)
        expression = Expression(expression.text, dialect, expression.namespaces, view)
    return Filter(contents=(expression,))


def _read_actions(element: etree._Element, dialect: str) -> Expression:
    """Read a list of actions. Which there will be is not known here: any URI may be one.

    Raises:
        MediationError: ``FILTER_ACTIONS`` naming the dialect.
    """
    text = text_of(element)
    actions = text.split()
    strange = next((action for action in actions if _NO_URI.search(action)), None)
    if elements(element):
        why = "The filter has an element in place of a list of actions."
    elif not actions:
        why = "The filter lists no action."
    elif strange is not None:
        why = f"{quoted(strange)} in the filter is not an action, because it is not a URI."
    else:
        return Expression(text, dialect, namespaces_of(element))
    raise MediationError(Reason.FILTER_ACTIONS, why, value=text[:200], names=(dialect,))


def _combined(element: etree._Element) -> Filter:
    """Read WS-Messenger's topic and content filter in one; both see the payload. Its broker looks
    at no dialect of its own children, which are those of WS-BaseNotification 1.0."""
    topics, contents = [], []
    for child in elements(element):
        if namespace_of(child) not in profiles.TOPIC_HEADERS:
            continue
        its_own = namespace_of(child) == names.WSN_IBM
        if local_name(child) == "TopicExpression":
            expression = read_topic_expression(child)
            topic = replace(expression, dialect=dialects.TOPIC_IBM_SIMPLE)
            topics.append(topic if its_own else expression)
        elif local_name(child) in ("MessageContent", "Selector") and text_of(child):
            expression = read_content(child)
            content = replace(expression, dialect=dialects.XPATH_1_0)
            contents.append(content if its_own else expression)
    return Filter(tuple(topics), tuple(contents))


def write_kept_expression(
    namespace: str, name: str, expression: Expression, *, dialect: str | None = None
) -> str:
    """Write *expression* as it was read, with the namespaces of its prefixes, as the element *name*
    of *namespace*; *dialect* where it is called otherwise there."""
    declared = {prefix: uri for prefix, uri in expression.namespaces if prefix != "xml"}
    own = _fresh("n", declared)
    scope = "".join(
        f" xmlns{':' + prefix if prefix else ''}={xml_attribute(uri)}"
        for prefix, uri in declared.items()
    )
    usual = (
        dialects.XPATH_1_0 if expression.dialect == dialects.XPATH_LEXICAL else expression.dialect
    )
    return (
        f'<{own}:{name} xmlns:{own}="{namespace}"{scope} Dialect={xml_attribute(dialect or usual)}>'
        f"{xml_text(expression.text)}</{own}:{name}>"
    )


def write_expression(
    uri: str,
    name: str,
    text: str,
    dialect: str,
    namespaces: Mapping[str, str],
) -> str:
    """Write an element whose text uses the prefixes *namespaces*.

    Args:
        uri: The namespace of the element.
        name: The element's name with the prefix that it gets, unless the text uses that.
    """
    wanted, _, local = name.partition(":")
    prefix = _fresh(wanted, namespaces)
    scope = {**namespaces, prefix: uri}
    declared = "".join(f" xmlns:{key}={xml_attribute(value)}" for key, value in scope.items())
    return (
        f"<{prefix}:{local}{declared} Dialect={xml_attribute(dialect)}>{xml_text(text)}"
        f"</{prefix}:{local}>"
    )


def _fresh(prefix: str, taken: Mapping[str, str]) -> str:
    while prefix in taken:
        prefix += "_"
    return prefix


def write_topic_expression(
    uri: str,
    name: str,
    topic: str,
    namespaces: Mapping[str, str] | None = None,
    spelled: Mapping[str, str] = MappingProxyType({}),
    dialect: str | None = None,
) -> str:
    """Write a topic as a person says it: `spoken_topic`, or in this *dialect*. *spelled* are the
    URIs of dialects that differ from those of 1.3."""
    said = spoken_topic(topic, namespaces)
    dialect = dialect or spelled.get(said.dialect, said.dialect)
    return write_expression(uri, name, said.text, dialect, dict(said.namespaces))


def spoken_topic(topic: str, namespaces: Mapping[str, str] | None = None) -> Expression:
    """The expression of a topic as a person says it, in the narrowest dialect that has its form.
    Namespaces in braces, as in Clark notation, become prefixes."""
    scope = dict(namespaces or {})

    def prefixed(found: re.Match[str]) -> str:
        for prefix, known in scope.items():
            if known == found[1]:
                return f"{prefix}:"
        prefix = _fresh(f"t{len(scope)}", scope)
        scope[prefix] = found[1]
        return f"{prefix}:"

    text = _CLARK.sub(prefixed, topic)
    if any(mark in text for mark in ("*", "//", "|", "/.")):
        dialect = dialects.TOPIC_FULL
    else:
        dialect = dialects.TOPIC_CONCRETE if "/" in text else dialects.TOPIC_SIMPLE
    return Expression(text, dialect, tuple(sorted(scope.items())))
