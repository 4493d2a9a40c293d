"""What sources of WS-Management hand over when they are pulled from."""

from datetime import UTC, datetime, timedelta

import pytest
from lxml import etree

from filters import Refused, Step, Topic
from mediation.client import read_granted, read_pulled, write_pull
from mediation.client.reading import AnsweredFault
from mediation.eventing.management import PulledEvent
from mediation.eventing.management.publications import MOST_EVENTS
from mediation.eventing.management.values import MOST_GIVEN_BACK
from mediation.model.delivery_modes import SourceOptions
from mediation.model.messages import EndpointReference
from mediation.model.requests import Context, Operation, Take, Taken
from mediation.model.versions import Soap, Spec, Version, Wsa
from mediation.names import WINDOWS_EVENTS, WSE_2004_08, WSEN, WSMAN, WSMAN_DROPPED_EVENTS
from mediation.responses import write_response
from tests.rigs.mediation import incoming

SPEC = Spec(Version.WSE_2004_08, Soap.V1_2, Wsa.V2004_08)
TO = EndpointReference("http://source.example.org/wsman", Wsa.V2004_08)
OPTIONS = SourceOptions("urn:resource", timedelta(seconds=20))
CONTEXT = f'<n:EnumerationContext xmlns:n="{WSEN}">c1</n:EnumerationContext>'
EVENT = '<o:e xmlns:o="urn:o">1</o:e>'


def envelope(body: str, headers: str = "") -> bytes:
    return (
        f'<s:Envelope xmlns:s="{Soap.V1_2.value}" xmlns:n="{WSEN}" xmlns:w="{WSMAN}">'
        f"<s:Header>{headers}</s:Header><s:Body>{body}</s:Body></s:Envelope>"
    ).encode()


def response(items: str, more: str = "", headers: str = "") -> bytes:
    return envelope(f"<n:PullResponse>{more}<n:Items>{items}</n:Items></n:PullResponse>", headers)


def test_what_is_written_is_read_as_a_pull() -> None:
    action, octets = write_pull(
        SPEC,
        TO,
        CONTEXT.encode(),
        message_id="urn:1",
        source=OPTIONS,
        wait=timedelta(seconds=15),
        most=64,
    )
    read = incoming(octets)
    assert isinstance(read.request, Take)
    assert (read.context.operation, action) == (Operation.PULL, f"{WSEN}/Pull")
    assert (read.request.most, read.request.wait) == (64, 15.0)
    assert read.named.identifiers == ("c1",)


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (EVENT, PulledEvent(EVENT.encode())),
        (f'<w:Event Action="urn:a">{EVENT}</w:Event>', PulledEvent(EVENT.encode(), "urn:a")),
        (f'<w:Event w:Action="urn:a">{EVENT}</w:Event>', PulledEvent(EVENT.encode(), "urn:a")),
        (f"<w:Event><![CDATA[{EVENT}]]></w:Event>", PulledEvent(EVENT.encode())),
        (f"<w:Events><w:Event>{EVENT}</w:Event></w:Events>", PulledEvent(EVENT.encode())),
    ],
)
def test_an_item_stands_for_an_event(item: str, told: PulledEvent) -> None:
    assert read_pulled(response(item)).events == (told,)


def test_dropped_events_are_an_event() -> None:
    [event] = read_pulled(response('<w:DroppedEvents Action="urn:a">3</w:DroppedEvents>')).events
    assert event.action == WSMAN_DROPPED_EVENTS
    assert etree.fromstring(event.payload).text == "3"


def test_a_windows_event_has_the_topic_of_its_channel() -> None:
    log = f'<Event xmlns="{WINDOWS_EVENTS}"><System><Channel>Security</Channel></System></Event>'
    for item in (log, f"<w:Event><![CDATA[{log}]]></w:Event>"):
        [event] = read_pulled(response(item)).events
        assert event.topic == Topic((Step(None, "Security"),))


def test_what_is_told_beside_events() -> None:
    mark = '<w:Bookmark><at xmlns="urn:m">9</at></w:Bookmark>'
    pulled = read_pulled(response("", f"{CONTEXT}<n:EndOfSequence/>", mark))
    assert (pulled.events, pulled.over) == ((), True)
    for octets, text in ((pulled.context, "c1"), (pulled.bookmark, "9")):
        assert octets is not None
        assert "".join(map(str, etree.fromstring(octets).itertext())) == text
    bare = read_pulled(response(""))
    assert (bare.context, bare.over, bare.bookmark) == (None, False, None)


def test_a_context_may_be_an_element() -> None:
    inside = '<x:token xmlns:x="urn:x" at="1"/>'
    pulled = read_pulled(response("", f"<n:EnumerationContext>{inside}</n:EnumerationContext>"))
    assert pulled.context is not None
    [token] = etree.fromstring(pulled.context)
    assert (token.tag, token.get("at")) == ("{urn:x}token", "1")
    granted = read_granted(
        envelope(f'<e:SubscribeResponse xmlns:e="{WSE_2004_08}">{CONTEXT}</e:SubscribeResponse>')
    )
    assert granted.context == CONTEXT.encode()


def test_an_answer_that_is_the_message_of_an_event() -> None:
    """openwsman's, whose action is a block of WS-Management."""
    pulled = read_pulled(envelope(EVENT, "<w:Action>urn:a</w:Action>"))
    assert pulled.events == (PulledEvent(EVENT.encode(), "urn:a"),)
    assert read_pulled(envelope("")).events == ()


def test_what_cannot_be_taken() -> None:
    large = f"<n:EnumerationContext>{'c' * MOST_GIVEN_BACK}</n:EnumerationContext>"
    for octets in (response("", large), response("<e/>" * (MOST_EVENTS + 1))):
        with pytest.raises(Refused):
            read_pulled(octets)
    with pytest.raises(AnsweredFault):
        read_pulled(envelope("<s:Fault><s:Code><s:Value>s:Sender</s:Value></s:Code></s:Fault>"))


KEPT = (
    f'<s:Envelope xmlns:s="{Soap.V1_2.value}" xmlns:a="{Wsa.V2004_08.value}"><s:Header>'
    "<a:Action>urn:action</a:Action><a:MessageID>urn:uuid:7</a:MessageID>"
    '<t:Topic xmlns:t="http://docs.oasis-open.org/wsn/b-2" xmlns:x="urn:x" Dialect='
    '"http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete">x:a/b</t:Topic>'
    '<w:Bookmark xmlns:w="{}"><at>7</at></w:Bookmark>'
    '<d:passed xmlns:d="urn:dragoman:data:1" hops="2" origin="o.1" via="http://a.example/soap"/>'
    '<p:Expires xmlns:p="urn:dragoman:policy:1">2037-01-01T00:00:00Z</p:Expires>'
    "</s:Header><s:Body>{}</s:Body></s:Envelope>"
)


def test_two_gateways_tell_each_other_all_of_an_event() -> None:
    """Their answers have what the elements of events do not have room for."""
    kept = KEPT.format(WSMAN, EVENT).encode()
    plain = (
        f'<s:Envelope xmlns:s="{Soap.V1_2.value}"><s:Body><plain/></s:Body></s:Envelope>'.encode()
    )
    context = Context(Soap.V1_2, version=Version.MANAGEMENT, operation=Operation.PULL)
    taken = Taken((plain, kept), more=False, now=datetime.now(UTC), key="k")
    _, octets = write_response(taken, context, message_id="urn:2")
    pulled = read_pulled(octets)
    first, second = pulled.events
    assert first == PulledEvent(b"<plain/>")
    topic = Topic((Step("urn:x", "a"), Step(None, "b")))
    passed = ("2", "o.1", "http://a.example/soap", datetime(2037, 1, 1, tzinfo=UTC))
    assert second == PulledEvent(EVENT.encode(), "urn:action", topic, "urn:uuid:7", *passed)
    assert pulled.bookmark is not None and b"7" in pulled.bookmark


def test_what_is_told_of_other_events_is_not_believed() -> None:
    told = '<d:pulled xmlns:d="urn:dragoman:data:1"><d:event id="urn:1" hops="1"/></d:pulled>'
    pulled = read_pulled(response("<a/><b/>", headers=told))
    assert [one.id for one in pulled.events] == [None, None]
