"""Filters as subscribers write them: dialects, contexts, what is refused."""

import pytest
from lxml import etree

from filters import (
    EVERYTHING,
    PAYLOAD,
    Expression,
    Filter,
    FilterSet,
    Reason,
    Refused,
    View,
    compile,
)
from filters.dialects import (
    ACTION_DPWS_1_0,
    ACTION_DPWS_1_1,
    EBRIM_QUERY,
    TOPIC_CONCRETE,
    TOPIC_FULL,
    TOPIC_IBM_SIMPLE,
    TOPIC_SIMPLE,
    XPATH_1_0,
)
from mediation.filtering import ENVELOPE_VIEWS, envelope_view
from mediation.model.messages import Notification
from mediation.model.requests import Arrival, Subscribe
from mediation.model.versions import Soap, Wsa
from mediation.rendering import filter_event_of
from tests.rigs.cases import for_each
from tests.rigs.mediation import (
    ARRIVAL,
    CONCRETE,
    FULL,
    IBM_SIMPLE,
    NOW,
    SIMPLE,
    XPATH,
    envelope,
    incoming,
    refused,
    topic,
)

PUSH = (
    "<wse:Delivery><wse:NotifyTo><wsa:Address>urn:sink</wsa:Address></wse:NotifyTo></wse:Delivery>"
)
CONSUMER = "<wsnt:ConsumerReference><wsa:Address>urn:sink</wsa:Address></wsnt:ConsumerReference>"


def wse(
    filter_: str, headers: str = "", *, soap: Soap = Soap.V1_2, wsa: Wsa = Wsa.V2004_08,
    arrival: Arrival = ARRIVAL,
) -> Filter:  # fmt: skip
    body = f"<wse:Subscribe>{PUSH}{filter_}</wse:Subscribe>"
    request = incoming(envelope(body, headers, soap=soap, wsa=wsa), arrival).request
    assert isinstance(request, Subscribe)
    return request.filter


def wsn(filter_: str) -> Filter:
    body = f"<wsnt:Subscribe>{CONSUMER}<wsnt:Filter>{filter_}</wsnt:Filter></wsnt:Subscribe>"
    request = incoming(envelope(body)).request
    assert isinstance(request, Subscribe)
    return request.filter


ENVELOPE = envelope_view(Soap.V1_2, Wsa.V2004_08)


@pytest.mark.parametrize(
    ("text", "view"),
    [
        pytest.param("*[local-name()='Body']/o:Reading", ENVELOPE, id="the specification's"),
        pytest.param("s:Body/o:Reading", ENVELOPE, id="relative"),
        pytest.param("//o:Reading", ENVELOPE, id="anywhere"),
        pytest.param("/*/*/o:Reading", ENVELOPE, id="by position"),
        pytest.param("/s:Envelope/s:Body/o:Reading", ENVELOPE, id="from Envelope"),
        pytest.param("not(//o:Reading)", ENVELOPE, id="negated"),
        pytest.param("/", ENVELOPE, id="Savan's test"),
        pytest.param("true()", ENVELOPE, id="no path"),
        pytest.param("/c/b/a", PAYLOAD, id="WS-Messenger's"),
        pytest.param("/o:Reading/o:Speed &gt; 50", PAYLOAD, id="an absolute path to the payload"),
        pytest.param("not(/o:Reading)", PAYLOAD, id="negated, absolute"),
        pytest.param("//x or /o:Reading", PAYLOAD, id="one of two"),
    ],
)
def test_the_context_is_chosen_once(text: str, view: View) -> None:
    (expression,) = wse(f'<wse:Filter xmlns:o="urn:o">{text}</wse:Filter>').contents
    assert expression.view == view
    assert ("o", "urn:o") in expression.namespaces


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("wsa", Wsa)
def test_the_envelope_is_that_of_the_subscriber(soap: Soap, wsa: Wsa) -> None:
    headers = "<wsa:Action>urn:a</wsa:Action>"
    (expression,) = wse("<wse:Filter>//a</wse:Filter>", headers, soap=soap, wsa=wsa).contents
    assert ENVELOPE_VIEWS[expression.view] == (soap, wsa)


def test_ws_management_means_the_payload() -> None:
    by_header = wse("<wse:Filter>//a</wse:Filter>", "<wsman:ResourceURI/>")
    by_element = wse("<wsman:Filter>//a</wsman:Filter>")
    assert [f.contents[0].view for f in (by_header, by_element)] == [PAYLOAD, PAYLOAD]
    both = f"<wse:Subscribe>{PUSH}<wse:Filter>a</wse:Filter><wsman:Filter>a</wsman:Filter></wse:Subscribe>"
    assert refused(envelope(both)).refused.reason is Reason.MESSAGE_INVALID


def test_dialects_of_ws_eventing() -> None:
    assert wse("") == EVERYTHING
    (default,) = wse("<wse:Filter> a </wse:Filter>").contents
    assert (default.text, default.dialect) == ("a", XPATH_1_0)
    for dialect in (SIMPLE, CONCRETE, FULL, IBM_SIMPLE):
        (topic_,) = wse(f'<wse:Filter Dialect=" {dialect} ">p:a</wse:Filter>').topics
        assert (topic_.text, topic_.dialect) == ("p:a", dialect)
    (action,) = wse(f'<wse:Filter Dialect="{ACTION_DPWS_1_1}">urn:a\n urn:b</wse:Filter>').others
    assert action.text == "urn:a\n urn:b"
    (unknown,) = wse('<wse:Filter Dialect="urn:unknown"><q>1</q></wse:Filter>').contents
    with pytest.raises(Refused) as caught:
        compile(Filter(contents=(unknown,)))
    assert caught.value.reason is Reason.FILTER_DIALECT and XPATH_1_0 in caught.value.names


NO_ACTIONS = [
    pytest.param("", "lists no action", id="empty"),
    pytest.param(" <!-- urn:a --> ", "lists no action", id="a comment alone"),
    pytest.param("<x/>", "has an element", id="an element"),
    pytest.param("urn:a<x/>", "has an element", id="an element behind an action"),
    pytest.param("urn:a {bad uri", '"{bad" in the filter is not an action', id="no URI"),
    pytest.param("http://example.org/a|b", "is not a URI", id="a bar"),
]


@pytest.mark.parametrize("dialect", [ACTION_DPWS_1_0, ACTION_DPWS_1_1])
@pytest.mark.parametrize(("content", "why"), NO_ACTIONS)
def test_what_is_no_list_of_actions(content: str, why: str, dialect: str) -> None:
    subscribe = f'{PUSH}<wse:Filter Dialect="{dialect}">{content}</wse:Filter>'
    rejected = refused(envelope(f"<wse:Subscribe>{subscribe}</wse:Subscribe>"))
    assert rejected.refused.reason is Reason.FILTER_ACTIONS
    assert rejected.refused.names == (dialect,) and why in rejected.refused.text


@pytest.mark.parametrize(
    "content", ["urn:a<!-- c -->:b", "Alarm", "http://example.org/é?a=%20&amp;b#c"]
)
def test_what_may_be_an_action(content: str) -> None:
    (found,) = wse(f'<wse:Filter Dialect="{ACTION_DPWS_1_0}">{content}</wse:Filter>').others
    assert found.text == content.replace("<!-- c -->", "").replace("&amp;", "&")


def test_topics_in_the_url_of_a_subscribe() -> None:
    arrival = Arrival("p", NOW, "urn:f", url_topic=topic("{urn:t}a/b"))
    added = wse("<wse:Filter>//a</wse:Filter>", arrival=arrival)
    (expression,) = added.topics
    assert (expression.text, expression.dialect) == ("t0:a/b", TOPIC_CONCRETE)
    assert expression.namespaces == (("t0", "urn:t"),) and len(added.contents) == 1
    own = wse(f'<wse:Filter Dialect="{SIMPLE}">c</wse:Filter>', arrival=arrival)
    assert [topic_.text for topic_ in own.topics] == ["c"]


@pytest.mark.parametrize(
    "namespace",
    [
        "http://docs.oasis-open.org/wsn/b-2",
        "http://www.ibm.com/xmlns/stdwip/web-services/WS-BaseNotification",
    ],
)
def test_the_combined_dialect(namespace: str) -> None:
    combined = wse(
        f'<wse:Filter Dialect="http://docs.oasis-open.org/wsn"><n:TopicExpression xmlns:n="{namespace}"'
        f' Dialect="{IBM_SIMPLE}">x:a</n:TopicExpression><n:MessageContent xmlns:n="{namespace}"'
        f' Dialect="{XPATH}">//b</n:MessageContent></wse:Filter>'
    )
    assert [(e.text, e.dialect) for e in combined.topics] == [("x:a", TOPIC_IBM_SIMPLE)]
    assert [(e.text, e.view) for e in combined.contents] == [("//b", PAYLOAD)]


def test_children_of_a_ws_notification_filter() -> None:
    found = wsn(
        "<wsnt:TopicExpression> a </wsnt:TopicExpression>"
        f'<wsnt:MessageContent Dialect="{XPATH}" xmlns:o="urn:o">//o:a</wsnt:MessageContent>'
        f'<wsnt:TopicExpression Dialect="{FULL}">b//.</wsnt:TopicExpression>'
        "<wsnt:MessageContent>//c</wsnt:MessageContent>"
    )
    assert [(e.text, e.dialect) for e in found.topics] == [
        ("a", TOPIC_SIMPLE),
        ("b//.", TOPIC_FULL),
    ]
    assert [(e.text, e.view) for e in found.contents] == [("//o:a", PAYLOAD), ("//c", PAYLOAD)]
    assert wsn("") == EVERYTHING


def test_a_query_of_ebrim_is_a_filter_as_it_is_written() -> None:
    query = '<r:AdhocQuery xmlns:r="urn:oasis:names:tc:ebxml-regrep:xsd:rim:3.0" id="urn:uuid:1"/>'
    [content] = wsn(f"{query}<!-- --><wsnt:MessageContent>//c</wsnt:MessageContent>").contents[:1]
    assert content.dialect == EBRIM_QUERY
    assert etree.fromstring(content.text).get("id") == "urn:uuid:1"


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ('<x:Geo xmlns:x="urn:x"/>', Reason.FILTER_UNKNOWN),
        ("<wsnt:Selector>//a</wsnt:Selector>", Reason.FILTER_UNKNOWN),
        ("<TopicExpression>a</TopicExpression>", Reason.FILTER_UNKNOWN),
        ("<wsnt:ProducerProperties>true(</wsnt:ProducerProperties>", Reason.PRODUCER_PROPERTIES),
    ],
)
def test_refused_children(inner: str, reason: Reason) -> None:
    body = f"<wsnt:Subscribe>{CONSUMER}<wsnt:Filter>{inner}</wsnt:Filter></wsnt:Subscribe>"
    assert refused(envelope(body)).refused.reason is reason


def test_changed_only_is_a_filter() -> None:
    body = (
        f"<wsnt:Subscribe>{CONSUMER}<wsnt:SubscriptionPolicy>"
        '<tev:ChangedOnly xmlns:tev="http://www.onvif.org/ver10/events/wsdl">true</tev:ChangedOnly>'
        "</wsnt:SubscriptionPolicy></wsnt:Subscribe>"
    )
    request = incoming(envelope(body)).request
    assert isinstance(request, Subscribe) and not request.raw
    compiled = compile(request.filter)
    for operation, passes in (("Changed", True), ("Initialized", False), ("Deleted", False)):
        payload = (
            '<tt:Message xmlns:tt="http://www.onvif.org/ver10/schema" '
            f'PropertyOperation="{operation}"/>'
        )
        assert (
            compiled.matches(filter_event_of(Notification("i", "s", payload.encode(), NOW)))
            is passes
        )


READING = Notification(
    "urn:1",
    "publisher",
    b'<o:Reading xmlns:o="urn:o"><o:Speed>65</o:Speed></o:Reading>',
    NOW,
    topic=topic("{urn:t}storms/tropical"),
    action="urn:o/Reading",
    headers=(b'<x:Trace xmlns:x="urn:x">7</x:Trace>',),
)


@for_each("soap", Soap)
@for_each("wsa", Wsa)
@for_each(
    ("text", "matches"),
    [
        ("s:Body/o:Reading", True),
        ("s:Body/o:Reading[o:Speed > 50]", True),
        ("s:Body/o:Reading[o:Speed > 65]", False),
        ("//o:Speed", True),
        ("/*/*/o:Reading", True),
        ("/s:Envelope/s:Body/o:Reading", True),
        ("o:Reading", False),
        ("not(//o:Speed)", False),
        ("self::s:Envelope", True),
        ("/", True),
        ("s:Header/wsa:Action = 'urn:o/Reading'", True),
        ("s:Header/x:Trace = 7", True),
        ("contains(s:Header/wsnt:Topic, 'storms/tropical')", True),
        ("s:Header/wsa:To", False),
        ("/o:Reading/o:Speed = 65", True),
    ],
)
def test_filters_see_what_a_sink_would_receive(
    text: str, matches: bool, soap: Soap, wsa: Wsa
) -> None:
    escaped = text.replace(">", "&gt;")
    headers = "<wsa:Action>urn:a</wsa:Action>"
    filter_ = wse(
        f'<wse:Filter xmlns:o="urn:o" xmlns:x="urn:x">{escaped}</wse:Filter>',
        headers, soap=soap, wsa=wsa,
    )  # fmt: skip
    assert compile(filter_).matches(filter_event_of(READING)) is matches
    together: FilterSet[str] = FilterSet()
    together.add("key", filter_)
    assert list(together.match(filter_event_of(READING))) == (["key"] if matches else [])


def test_an_event_without_topic_or_action_has_both_in_the_envelope() -> None:
    bare = Notification("urn:1", "publisher", b'<R xmlns="urn:o"/>', NOW)
    namespaces = (("wsa", Wsa.V2005_08.value), ("wsnt", "http://docs.oasis-open.org/wsn/b-2"))
    view = envelope_view(Soap.V1_1, Wsa.V2005_08)
    for text in ("//wsa:Action = 'urn:o/R'", "//wsnt:Topic = 'wseTopic'"):
        filter_ = Filter(contents=(Expression(text, namespaces=namespaces, view=view),))
        assert compile(filter_).matches(filter_event_of(bare))
