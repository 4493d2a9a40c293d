"""WS-BaseNotification 1.0 as WS-Messenger's clients speak it."""

import pytest
from lxml import etree

from filters import Reason, Topic, parse_clark
from filters.dialects import TOPIC_CONCRETE, TOPIC_IBM_CONCRETE, TOPIC_IBM_SIMPLE, XPATH_1_0
from filters.topics import Step
from mediation.client import read_granted
from mediation.model.expiry import NEVER
from mediation.model.messages import EndpointReference, Notification, Policy
from mediation.model.requests import (
    Destroy,
    Done,
    GetCurrentMessage,
    Pause,
    Publish,
    Published,
    Request,
    Resume,
    SetTerminationTime,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from mediation.model.versions import Soap, Version, Wsa
from mediation.names import MESSENGER_TEXT, WSN_IBM, WSRF_RL_IBM
from mediation.notification.reading_notify import _written_again, written_topic_header
from mediation.rendering import prepare, render
from mediation.responses import write_response
from mediation.soap.payloads import payload_of
from tests.rigs.mediation import (
    NOW,
    body,
    canonical,
    envelope,
    events,
    headers,
    incoming,
    refused,
    subscription,
    text,
)
from tests.rigs.schemas import Validator

S11 = Soap.V1_1
TOPIC = (
    f'<n:Topic xmlns:n="{WSN_IBM}" xmlns:widget="http://widgets.com" Dialect="{TOPIC_IBM_SIMPLE}">'
    "widget:stormTopic</n:Topic>"
)
EVENT = "<c><b>1</b></c>"
CONSUMER = (
    "<n:ConsumerReference><wsa:Address>http://192.0.2.10:19999/axis2/services/ConsumerService"
    "</wsa:Address></n:ConsumerReference>"
)


def ibm(name: str, inner: str = "", headers: str = "", *, soap: Soap = S11) -> bytes:
    return envelope(f'<n:{name} xmlns:n="{WSN_IBM}">{inner}</n:{name}>', headers, soap=soap)


def notify(*messages: str) -> bytes:
    inner = "".join(f"<n:NotificationMessage>{one}</n:NotificationMessage>" for one in messages)
    return ibm("Notify", inner, "<wsa:MessageID>urn:uuid:m</wsa:MessageID>")


def subscribe(inner: str) -> Subscribe:
    request = incoming(ibm("SubscribeRequest", inner)).request
    assert isinstance(request, Subscribe)
    return request


# Requests.


def test_subscribe_as_its_clients_write_it() -> None:
    """Qualified ``Dialect`` at the topic, plain at the selector; the reference comes last."""
    request = subscribe(
        '<n:TopicExpression xmlns:widget="http://widgets.com" '
        f'n:Dialect="{TOPIC_IBM_SIMPLE}">widget:/WsntRoundTripTestTopic</n:TopicExpression>'
        f'<n:Selector Dialect="{XPATH_1_0}">/foo/bar</n:Selector>'
        f"<n:UseNotify>true</n:UseNotify>{CONSUMER}"
    )
    assert request.consumer.address == "http://192.0.2.10:19999/axis2/services/ConsumerService"
    assert request.consumer.wsa is Wsa.V2005_08
    [topic] = request.filter.topics
    assert (topic.text, topic.dialect) == ("widget:/WsntRoundTripTestTopic", TOPIC_IBM_SIMPLE)
    assert [(each.text, each.dialect) for each in request.filter.contents] == [
        ("/foo/bar", XPATH_1_0)
    ]
    assert not request.raw
    assert request.expires.never and request.expires.best_effort


def test_the_topic_dialect_of_1_0_is_the_default() -> None:
    [topic] = subscribe(f"<n:TopicExpression>w:&gt;</n:TopicExpression>{CONSUMER}").filter.topics
    assert (topic.text, topic.dialect) == ("w:>", TOPIC_IBM_SIMPLE)


@pytest.mark.parametrize(
    ("word", "raw"),
    [("true", False), ("TRUE", False), ("1", False), ("", False), ("false", True), ("0", True)],
)
def test_use_notify(word: str, raw: bool) -> None:
    assert subscribe(f"<n:UseNotify> {word} </n:UseNotify>{CONSUMER}").raw is raw


@pytest.mark.parametrize(
    ("name", "meant", "action"),
    [
        ("PauseSubsriptionRequest", Pause(), "PauseSubscriptionResponse"),
        ("PauseSubscriptionRequest", Pause(), "PauseSubscriptionResponse"),
        ("PauseSubscription", Pause(), "PauseSubscriptionResponse"),
        ("ResumeSubsriptionRequest", Resume(), "ResumeSubscriptionResponse"),
        ("ResumeSubscriptionRequest", Resume(), "ResumeSubscriptionResponse"),
        ("ResumeSubscription", Resume(), "ResumeSubscriptionResponse"),
        ("UnsubsribeRequest", Unsubscribe(), "UnsubscribeResponse"),
        ("UnsubscribeRequest", Unsubscribe(), "UnsubscribeResponse"),
        ("Unsubscribe", Unsubscribe(), "UnsubscribeResponse"),
    ],
)
def test_every_spelling_of_a_request(name: str, meant: Request, action: str) -> None:
    """By its element, or by its action alone; the answer's body is empty."""
    named = f'<n:Identifier xmlns:n="{WSN_IBM}">urn:uuid:k</n:Identifier>'
    by_element = incoming(ibm(name, headers=named))
    by_action = incoming(
        envelope("", f"<wsa:Action>{WSN_IBM}/{name}</wsa:Action>{named}", soap=S11)
    )
    for read in (by_element, by_action):
        assert read.request == meant
        assert read.named.identifiers == ("urn:uuid:k",)
    answered, octets = write_response(Done(), by_action.context, message_id="urn:r")
    assert answered == f"{WSN_IBM}/{action}" == text(octets, "//wsa:Action")
    assert body(octets) == []


@pytest.mark.parametrize("name", ["GetCurrentMessageRequest", "GetCurrentMessage"])
def test_get_current_message(name: str) -> None:
    request = incoming(ibm(name, TOPIC)).request
    assert request == GetCurrentMessage(Topic((Step(None, "stormTopic"),)))


@pytest.mark.parametrize("name", ["SubscribeResponse", "NotifyResponse", "Renew"])
def test_the_rest_is_refused_by_name(name: str) -> None:
    rejected = refused(ibm(name))
    assert rejected.refused.reason is Reason.ACTION_UNSUPPORTED
    assert rejected.refused.text == (
        f'"{name}" is not implemented: no request of WS-BaseNotification 1.0.'
    )


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ("", Reason.MESSAGE_INVALID),
        ("<n:ConsumerReference/>", Reason.EPR_INVALID),
        (f"{CONSUMER}<n:UseNotify>perhaps</n:UseNotify>", Reason.MESSAGE_INVALID),
        (f"{CONSUMER}<n:Precondition>/a[</n:Precondition>", Reason.PRODUCER_PROPERTIES),
    ],
)
def test_what_cannot_be_subscribed(inner: str, reason: Reason) -> None:
    rejected = refused(ibm("SubscribeRequest", inner))
    assert (rejected.refused.reason, rejected.context.version) == (reason, Version.WSN_1_0)


@pytest.mark.parametrize("empty", ["Precondition", "Selector", "TopicExpression"])
def test_what_is_empty_is_not_there(empty: str) -> None:
    assert not subscribe(f"<n:{empty}/>{CONSUMER}").filter.expressions


def test_the_stubs_of_its_clients() -> None:
    """Of WS-ResourceLifetime; never is an attribute that nobody else has."""
    xsd = "http://www.w3.org/2001/XMLSchema"
    never = incoming(
        envelope(
            f'<l:SetTerminationTime xmlns:l="{WSRF_RL_IBM}"><l:RequestedTerminationTime '
            f'xmlns:x="{xsd}" x:nill="true"/></l:SetTerminationTime>',
            soap=S11,
        )
    )
    assert never.request == SetTerminationTime(NEVER)
    destroy = incoming(envelope(f'<l:Destroy xmlns:l="{WSRF_RL_IBM}"/>', soap=S11))
    assert destroy.request == Destroy()
    action, octets = write_response(Done(), destroy.context, message_id="urn:r")
    assert action == f"{WSRF_RL_IBM}/DestroyResponse"
    assert [each.tag for each in body(octets)] == [f"{{{WSRF_RL_IBM}}}DestroyResponse"]


# Answers.


@pytest.mark.parametrize("wsa", Wsa)
def test_the_subscription_is_named_by_its_identifier(wsa: Wsa) -> None:
    granted = subscription(Version.WSN_1_0, soap=S11, consumer=EndpointReference("http://c", wsa))
    headers = "<wsa:MessageID>urn:m</wsa:MessageID>"
    context = incoming(ibm("SubscribeRequest", CONSUMER, headers)).context
    action, octets = write_response(Subscribed(granted, NOW), context, message_id="urn:r")
    assert action == f"{WSN_IBM}/SubscribeRequestResponse" == text(octets, "//wsa:Action")
    assert text(octets, "//wsa:RelatesTo") == "urn:m"
    [response] = body(octets)
    assert response.tag == f"{{{WSN_IBM}}}SubscribeResponse"
    [identifier] = response.iter(f"{{{WSN_IBM}}}Identifier")
    assert identifier.text == f"urn:uuid:{granted.key}"
    manager = read_granted(octets).manager
    assert manager is not None and (manager.address, manager.wsa) == (granted.manager, wsa)


# Notify.


def test_notify(validator: Validator) -> None:
    first, second = events(
        octets := notify(
            f"{TOPIC}<n:ProducerReference><wsa:Address>http://p</wsa:Address>"
            f"</n:ProducerReference><n:Message>{EVENT}</n:Message>",
            f"<n:Message>{EVENT}</n:Message>",
        )
    )
    assert first.topic == Topic((Step(None, "stormTopic"),)) and second.topic is None
    assert first.producer is not None and first.producer.address == "http://p"
    assert second.producer is None and second.topic_header is None
    assert first.topic_header is not None
    assert canonical(first.topic_header) == canonical(TOPIC.encode())
    read = incoming(octets)
    assert isinstance(read.request, Publish) and read.request.answered
    action, answer = write_response(Published("urn:<1>"), read.context, message_id="urn:r")
    assert action == f"{WSN_IBM}/NotifyResponse"
    [response] = body(answer)
    assert (response.tag, response.get("trackId")) == (f"{{{WSN_IBM}}}NotifyResponse", "urn:<1>")
    validator.check(answer)


def test_text_is_wrapped_as_its_publishers_do() -> None:
    [event] = events(notify("<n:Message>hi &lt;foo/&gt;</n:Message>"))
    payload = etree.fromstring(event.payload)
    assert (payload.tag, payload.text) == (f"{{{MESSENGER_TEXT}}}plainTextWrapper", "hi <foo/>")


def delivered(
    notification: Notification, *, raw: bool = False, dialect: str | None = None
) -> bytes:
    recipient = prepare(
        subscription(Version.WSN_1_0, soap=S11, policy=Policy(raw=raw, dialect=dialect))
    )
    return render(notification, recipient.shape, "http://g").fill(recipient, "urn:m")


def topic_in(octets: bytes) -> etree._Element:
    [notify] = body(octets)
    [topic] = notify.iter(f"{{{WSN_IBM}}}Topic")
    return topic


def test_a_topic_of_its_publishers_passes_as_it_is() -> None:
    [event] = events(notify(f"{TOPIC}<n:Message>{EVENT}</n:Message>"))
    octets = delivered(event)
    assert canonical(topic_in(octets)) == canonical(TOPIC.encode())
    assert text(octets, "//wsa:Action") == f"{WSN_IBM}/Notify"
    assert [etree.QName(each).localname for each in headers(octets)] == [
        "Action",
        "MessageID",
        "To",
    ]
    [again] = events(octets)
    assert (again.topic, canonical(again.payload)) == (event.topic, canonical(event.payload))


@pytest.mark.parametrize(
    ("topic", "dialect", "said", "spelled"),
    [
        (None, None, "ns2:wseTopic", TOPIC_IBM_SIMPLE),
        (None, TOPIC_IBM_SIMPLE, "ns2:wseTopic", TOPIC_IBM_SIMPLE),
        (Topic((Step("urn:t", "a"),)), TOPIC_IBM_SIMPLE, "t0:a", TOPIC_IBM_SIMPLE),
        (
            Topic((Step("urn:t", "a"), Step(None, "b"))),
            TOPIC_CONCRETE,
            "t0:a/b",
            TOPIC_IBM_CONCRETE,
        ),
    ],
)
def test_a_topic_of_others(
    topic: Topic | None, dialect: str | None, said: str, spelled: str
) -> None:
    octets = delivered(Notification("urn:1", "p", b"<a/>", NOW, topic=topic), dialect=dialect)
    found = topic_in(octets)
    assert (found.text, found.get("Dialect")) == (said, spelled)
    assert said.partition(":")[0] in found.nsmap


@pytest.mark.parametrize("action", [None, "urn:own"])
def test_raw_notifications_have_the_action_of_notify(action: str | None) -> None:
    event = Notification("urn:1", "p", b"<a/>", NOW, action=action)
    octets = delivered(event, raw=True)
    assert [each.tag for each in body(octets)] == ["a"]
    assert text(octets, "//wsa:Action") == f"{WSN_IBM}/Notify"
    assert incoming(octets).context.version is None


@pytest.mark.parametrize(
    "attributes",
    [
        f'Dialect="urn:d" note="{"x" * 5000}"',
        'Dialect="urn:d" ' + " ".join(f'xmlns:p{n}="urn:{n}:{"x" * 40}"' for n in range(100)),
    ],
    ids=["an attribute", "namespaces"],
)
def test_a_large_topic_is_not_remembered(attributes: str) -> None:
    """What publishers write there has no other bound than the message's."""
    written = f'<w:Topic xmlns:w="{WSN_IBM}" {attributes}>storms</w:Topic>'
    root = etree.fromstring(f"<a>{written}</a>")
    before = _written_again.cache_info()
    topics = (parse_clark("storms"),)
    octets = written_topic_header(root[0], topics)
    assert octets is not None and etree.fromstring(octets).text == "storms"
    assert _written_again.cache_info() == before
    small = etree.fromstring(f'<a><w:Topic xmlns:w="{WSN_IBM}">storms</w:Topic></a>')
    assert written_topic_header(small[0], topics) == payload_of(small[0])
    assert _written_again.cache_info() != before
