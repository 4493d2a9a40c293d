"""Messages of a Notify whose topics cannot be read: which they are, in every version, and that they
can be read later."""

from dataclasses import replace

import pytest
from lxml import etree

from filters import Reason, Refused
from mediation import names
from mediation.model.messages import Attachment
from mediation.model.requests import Publish, TopicRules
from mediation.notification.reading_notify import read_set_aside
from tests.rigs.cases import for_each
from tests.rigs.mediation import ARRIVAL, CONCRETE, clark, envelope, events, incoming, refused

VERSIONS = [
    pytest.param(names.WSN_1_3, id="1.3"),
    pytest.param(names.WSN_2004_06, id="1.2"),
    pytest.param(names.WSN_IBM, id="1.0"),
]
BAD = ["v:alarm", "t:video/v:alarm", "a b", "t:*", "a//b", ":a", "x" * 5000]
SETTING_ASIDE = replace(ARRIVAL, topics=TopicRules(set_aside=True))
VENDOR = (("v", "urn:vendor"),)
SCOPE = 'xmlns:t="urn:t" xmlns:far="urn:far"'


def message(topic: str, payload: str = "<e/>", further: str = "") -> str:
    return (
        f'<n:NotificationMessage><n:Topic Dialect="{CONCRETE}">{topic}</n:Topic>{further}'
        f"<n:Message>{payload}</n:Message></n:NotificationMessage>"
    )


def notify(*messages: str, namespace: str = names.WSN_1_3) -> bytes:
    return envelope(f'<n:Notify xmlns:n="{namespace}" {SCOPE}>{"".join(messages)}</n:Notify>')


def read(octets: bytes, prefixes: tuple[tuple[str, str], ...] = ()) -> Publish:
    rules = TopicRules(prefixes, set_aside=True)
    request = incoming(octets, replace(ARRIVAL, topics=rules)).request
    assert isinstance(request, Publish)
    return request


@for_each("bad", BAD, ids=range(len(BAD)))
@for_each("namespace", VERSIONS)
def test_only_what_cannot_be_read_is_set_aside(namespace: str, bad: str) -> None:
    octets = notify(
        message("t:good", "<a/>"), message(bad, "<b/>"), message("last", "<c/>"),
        namespace=namespace,
    )  # fmt: skip
    publish = read(octets)
    assert [(one.id, clark(one.topic), one.payload) for one in publish.notifications] == [
        ("urn:uuid:fresh#1", "{urn:t}good", b"<a/>"),
        ("urn:uuid:fresh#3", "last", b"<c/>"),
    ]
    [aside] = publish.set_aside
    assert (aside.notification.id, aside.notification.topic) == ("urn:uuid:fresh#2", None)
    assert aside.why
    kept = etree.fromstring(aside.notification.payload)
    assert kept.tag == f"{{{namespace}}}NotificationMessage"
    assert kept.nsmap["far"] == "urn:far"
    assert refused(octets).refused.reason is Reason.TOPIC_INVALID


@pytest.mark.parametrize("namespace", VERSIONS)
def test_nothing_needs_to_be_readable(namespace: str) -> None:
    publish = read(notify(message("v:a"), message("v:b"), namespace=namespace))
    assert publish.notifications == ()
    assert [one.why for one in publish.set_aside] == [
        'the prefix "v" of the topic expression is not declared'
    ] * 2
    assert publish.first_id == "urn:uuid:fresh#1"


@pytest.mark.parametrize("namespace", VERSIONS)
def test_it_is_read_later_as_it_would_have_been(namespace: str) -> None:
    """Whatever else the message says, and the attachments and headers that came with it."""
    bad = message("v:alarm|t:other", '<far:e at="far:x"/>', '<far:also xmlns:far="urn:far"/>')
    octets = notify(message("t:good"), bad, namespace=namespace)
    part = Attachment("cid:1", "text/plain", b"hello")
    came = replace(SETTING_ASIDE, attachments=(part,))
    request = incoming(octets, came).request
    assert isinstance(request, Publish)
    [aside] = request.set_aside
    later = read_set_aside(aside.notification, VENDOR)
    at_once = events(octets, replace(came, topics=TopicRules(VENDOR)))[1:]
    assert [clark(one.topic) for one in later] == ["{urn:vendor}alarm", "{urn:t}other"]
    assert [one.id for one in later] == ["urn:uuid:fresh#2#1", "urn:uuid:fresh#2#2"]
    assert [replace(one, id="") for one in later] == [replace(one, id="") for one in at_once]
    with pytest.raises(Refused, match='prefix "v"'):
        read_set_aside(aside.notification, ())


@pytest.mark.parametrize(
    ("declared", "topic"), [("", "{urn:vendor}a"), ('xmlns:v="urn:own"', "{urn:own}a")]
)
def test_a_known_prefix_is_read_at_once_unless_it_is_declared(declared: str, topic: str) -> None:
    octets = notify(message("v:a").replace("<n:Topic ", f"<n:Topic {declared} "))
    publish = read(octets, VENDOR)
    assert [clark(one.topic) for one in publish.notifications] == [topic]
    assert publish.set_aside == ()
    bare = envelope("<e/>", f'<n:Topic xmlns:n="{names.WSN_1_3}" {declared}>v:a</n:Topic>')
    [event] = events(bare, replace(ARRIVAL, topics=TopicRules(VENDOR)))
    assert clark(event.topic) == topic


def test_what_is_wrong_besides_the_topic_is_refused() -> None:
    broken = "<n:NotificationMessage/>"
    for octets in (notify(message("v:a"), broken), notify(*[message("v:a")] * 257)):
        assert refused(octets, SETTING_ASIDE).refused.reason is Reason.MESSAGE_INVALID
