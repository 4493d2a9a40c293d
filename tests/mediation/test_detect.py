"""From octets to a request: what decides, where topics and ids come from, and that nothing that
anybody sends does more than be refused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from filters import Reason, Topic
from mediation.detect import MAX_HEADER_OCTETS, read
from mediation.faults import write_fault
from mediation.model.requests import (
    Destroy,
    GetProperties,
    GetStatus,
    Incoming,
    Operation,
    Pause,
    Publish,
    Rejected,
    Renew,
    Resume,
    Unsubscribe,
)
from mediation.model.versions import Soap, Version, Wsa
from mediation.notification.reading_notify import MAX_MESSAGES
from tests.rigs.cases import for_each
from tests.rigs.examples import examples
from tests.rigs.mediation import (
    ARRIVAL,
    CONCRETE,
    ENVELOPES,
    FULL,
    IBM_SIMPLE,
    NOW,
    SIMPLE,
    WSE,
    WSNT,
    WSRF_RL,
    WSRF_RP,
    canonical,
    clark,
    envelope,
    events,
    incoming,
    refused,
    topic,
)

EVENT = '<o:R xmlns:o="urn:o">1</o:R>'
BW = "http://docs.oasis-open.org/wsn/bw-2"
RPW, RLW = "http://docs.oasis-open.org/wsrf/rpw-2", "http://docs.oasis-open.org/wsrf/rlw-2"


def action(uri: str) -> str:
    return f"<wsa:Action>{uri}</wsa:Action>"


BODIES = [
    ("<wse:Renew/>", Version.WSE_2004_08, Renew()),
    ("<wse:GetStatus/>", Version.WSE_2004_08, GetStatus()),
    ("<wse:Unsubscribe/>", Version.WSE_2004_08, Unsubscribe()),
    ("<wsnt:Renew/>", Version.WSN_1_3, Renew()),
    ("<wsnt:Unsubscribe/>", Version.WSN_1_3, Unsubscribe()),
    ("<wsnt:PauseSubscription/>", Version.WSN_1_3, Pause()),
    ("<wsnt:ResumeSubscription/>", Version.WSN_1_3, Resume()),
    ("<wsnt:GetStatus/>", Version.WSN_1_3, GetStatus()),
    (f'<Unsubscribe xmlns="{WSNT}/"/>', Version.WSN_1_3, Unsubscribe()),
    ("<rl:Destroy/>", Version.WSN_1_3, Destroy()),
    ("<rp:GetResourcePropertyDocument/>", Version.WSN_1_3, GetProperties(None)),
]


@for_each("soap", Soap)
@for_each("said", ["", action(""), action("urn:wrong"), action(f"{BW}/x")])
@pytest.mark.parametrize(("body", "version", "request_"), BODIES)
def test_the_body_decides(
    body: str, version: Version, request_: object, said: str, soap: Soap
) -> None:
    read_ = incoming(envelope(body, said, soap=soap))
    assert (read_.context.version, read_.request) == (version, request_)


@pytest.mark.parametrize(
    ("uri", "request_"),
    [
        (f"{WSE}/Renew", Renew()),
        (f"{WSE}/GetStatus", GetStatus()),
        (f"{WSE}/GetStaus", GetStatus()),
        (f"{WSE}/Unsubscribe", Unsubscribe()),
        (f"{BW}/SubscriptionManager/UnsubscribeRequest", Unsubscribe()),
        (f"{BW}/PausableSubscriptionManager/UnsubscribeRequest", Unsubscribe()),
        (f"{BW}/PausableSubscriptionManager/PauseSubscriptionRequest", Pause()),
        (f"{RLW}/ImmediateResourceTermination/DestroyRequest", Destroy()),
        (
            f"{RPW}/GetResourcePropertyDocument/GetResourcePropertyDocumentRequest",
            GetProperties(None),
        ),
    ],
)
def test_the_action_decides_where_the_body_is_empty(uri: str, request_: object) -> None:
    assert incoming(envelope("", action(uri))).request == request_


@pytest.mark.parametrize(
    ("body", "said", "reason"),
    [
        ("", "", Reason.MESSAGE_INVALID),
        ("<!-- nothing -->", "", Reason.MESSAGE_INVALID),
        ("", action("http://schemas.xmlsoap.org/ws/2004/09/transfer/Put"),
         Reason.ACTION_UNSUPPORTED),
        ("", action("http://schemas.dmtf.org/wbem/wsman/1/wsman/Ack"), Reason.ACTION_UNSUPPORTED),
        ("<s:Fault/>", "", Reason.ACTION_UNSUPPORTED),
        ('<f:Fault xmlns:f="http://schemas.xmlsoap.org/soap/envelope/"/>', "",
         Reason.ACTION_UNSUPPORTED),
        ("<wse:SubscribeResponse/>", "", Reason.ACTION_UNSUPPORTED),
        ("<wse:Notify/>", "", Reason.ACTION_UNSUPPORTED),
        ("<wsnt:SubscribeResponse/>", "", Reason.ACTION_UNSUPPORTED),
        ("<wsnt:CreatePullPointResponse/>", "", Reason.ACTION_UNSUPPORTED),
        ("<wsnt:PullMessages/>", "", Reason.ACTION_UNSUPPORTED),
        ("<wsnt:subscribe/>", "", Reason.ACTION_UNSUPPORTED),
        ("<rp:SetResourceProperties/>", "", Reason.MESSAGE_INVALID),
        ("<rp:QueryResourceProperties/>", "", Reason.QUERY_INVALID),
        ("<rl:DestroyResponse/>", "", Reason.ACTION_UNSUPPORTED),
        ("<wsman:XmlFragment/>", "", Reason.ACTION_UNSUPPORTED),
        ('<Subscribe xmlns="http://schemas.xmlsoap.org/ws/2004/01/eventing"/>', "",
         Reason.ACTION_UNSUPPORTED),
        ('<Subscribe xmlns="http://www.w3.org/2009/09/ws-evt"/>', "", Reason.ACTION_UNSUPPORTED),
        ('<Subscribe xmlns="http://www.w3.org/2009/02/ws-evt"/>', "", Reason.ACTION_UNSUPPORTED),
        ('<CreateSequence xmlns="http://docs.oasis-open.org/ws-rx/wsrm/200702"/>', "",
         Reason.ACTION_UNSUPPORTED),
    ],
)  # fmt: skip
@for_each("soap", Soap)
def test_what_is_never_an_event(body: str, said: str, reason: Reason, soap: Soap) -> None:
    rejected = refused(envelope(body, said, soap=soap))
    assert rejected.refused.reason is reason


class TestBareEvents:
    def test_one(self) -> None:
        (event,) = events(
            envelope(EVENT, action("urn:a") + "<wsa:MessageID> urn:m </wsa:MessageID>")
        )
        assert (event.id, event.action, event.topic, event.headers) == ("urn:m", "urn:a", None, ())
        assert (event.source, event.time, event.producer) == ("publisher", NOW, None)
        assert canonical(event.payload) == canonical(EVENT.encode())

    def test_without_a_message_id(self) -> None:
        assert [event.id for event in events(envelope(EVENT))] == ["urn:uuid:fresh"]
        block = f'<wsnt:Topic Dialect="{FULL}">a | b | c</wsnt:Topic>'
        numbered = [event.id for event in events(envelope(EVENT, block))]
        assert numbered == [f"urn:uuid:fresh#{n}" for n in (1, 2, 3)]

    @pytest.mark.parametrize(
        "uri",
        [
            f"{BW}/NotificationConsumer/Notify",
            f"{BW}/PullPoint/Notify",
            "http://docs.oasis-open.org/wsn/brw-2/NotificationBroker/Notify",
        ],
    )
    def test_a_raw_notification_has_no_action_of_its_own(self, uri: str) -> None:
        assert [event.action for event in events(envelope(EVENT, action(uri)))] == [None]

    def test_the_http_header_is_the_last_hint(self) -> None:
        arrival = replace(ARRIVAL, http_action="urn:http")
        assert [event.action for event in events(envelope(EVENT), arrival)] == ["urn:http"]
        with_header = events(envelope(EVENT, action("urn:a")), arrival)
        assert [event.action for event in with_header] == ["urn:a"]

    @pytest.mark.parametrize(
        ("block", "found"),
        [
            pytest.param(f'<wsnt:Topic Dialect="{SIMPLE}">a</wsnt:Topic>', "a", id="1.3"),
            pytest.param(f'<t:Topic xmlns:t="{WSNT}/">a</t:Topic>', "a", id="openHAB's"),
            pytest.param(
                '<t:Topic xmlns:t="http://www.ibm.com/xmlns/stdwip/web-services/WS-BaseNotification"'
                f' Dialect="{IBM_SIMPLE}">x:a</t:Topic>',
                "a",
                id="IBM 1.0",
            ),
            pytest.param(
                '<t:Topic xmlns:t="http://docs.oasis-open.org/wsn/2004/06/'
                'wsn-WS-BaseNotification-1.2-draft-01.xsd">a</t:Topic>',
                "a",
                id="the 1.2 draft",
            ),
            pytest.param('<t:Topic xmlns:t="http://apache.org/aip">a/b</t:Topic>', "a/b", id="Synapse"),
            pytest.param(
                '<wsnt:Topic wsa:IsReferenceParameter="true">a</wsnt:Topic>',
                "a",
                id="an echoed parameter",
            ),
            pytest.param(
                f'<wsnt:Topic xmlns:q="urn:q" Dialect="{CONCRETE}"> q:a/b </wsnt:Topic>',
                "{urn:q}a/b",
                id="a prefix",
            ),
            pytest.param(
                f'<wsnt:Topic xmlns="urn:d" Dialect="{CONCRETE}">a</wsnt:Topic>',
                "a",
                id="the default namespace does not count",
            ),
            pytest.param('<wsnt:Topic Dialect="urn:unknown">a/b</wsnt:Topic>', "a/b", id="unknown"),
            pytest.param(f'<wsnt:Topic wsnt:Dialect="{CONCRETE}">a/b</wsnt:Topic>', "a/b", id="qualified"),
            pytest.param(f'<wsnt:Topic dialect="{CONCRETE}">a/b</wsnt:Topic>', "a/b", id="lower case"),
            pytest.param("<wsnt:Topic/>", "url", id="an empty one is none"),
            pytest.param(f'<wsnt:Topic Dialect="{IBM_SIMPLE}">x:</wsnt:Topic>', "url", id="IBM's empty"),
            pytest.param('<t:Topic xmlns:t="urn:other">a</t:Topic>', "url", id="somebody's Topic"),
            pytest.param("", "url", id="none"),
        ],
    )  # fmt: skip
    def test_topics(self, block: str, found: str) -> None:
        arrival = replace(ARRIVAL, url_topic=topic("url"))
        octets = envelope(EVENT, block)
        assert [clark(event.topic) for event in events(octets, arrival)] == [found]
        without = [clark(event.topic) for event in events(octets)]
        assert without == [None if found == "url" else found]

    def test_a_union_is_an_event_on_each(self) -> None:
        block = f'<wsnt:Topic Dialect="{FULL}">a | b//.</wsnt:Topic>'
        found = events(envelope(EVENT, block))
        assert [clark(event.topic) for event in found] == ["a", "b"]
        assert [event.id[-2:] for event in found] == ["#1", "#2"]

    @pytest.mark.parametrize("text", ["a/*", "*", "a//b", "a b", "/"])
    def test_topics_that_are_none(self, text: str) -> None:
        block = f'<wsnt:Topic Dialect="{FULL}">{text}</wsnt:Topic>'
        assert refused(envelope(EVENT, block)).refused.reason is Reason.TOPIC_INVALID

    def test_headers_of_the_application_travel_along(self) -> None:
        blocks = (
            action("urn:a")
            + '<x:One xmlns:x="urn:x" s:mustUnderstand="0" s:role="" x:kept="1">q</x:One>'
            "<wsse:Security xmlns:wsse='http://docs.oasis-open.org/wss/2004/01/"
            "oasis-200401-wss-wssecurity-secext-1.0.xsd'/>"
            "<wse:Identifier>mine</wse:Identifier>"
            '<x:Echo xmlns:x="urn:x" wsa:IsReferenceParameter="true"/>'
            "<wsman:Bookmark/><wsnt:Topic>a</wsnt:Topic>"
        )
        (event,) = events(envelope(EVENT, blocks))
        (kept,) = map(etree.fromstring, event.headers)
        assert kept.tag == "{urn:x}One" and kept.items() == [("{urn:x}kept", "1")]

    def test_a_proof_of_rights_is_for_the_gateway_alone(self) -> None:
        # With two signatures and their certificates it is longer than what travels with an event.
        proof = "x" * MAX_HEADER_OCTETS
        block = f'<t:Authorization xmlns:t="urn:dragoman:tdn:1">{proof}</t:Authorization>'
        (event,) = events(envelope(EVENT, block))
        assert event.headers == ()

    def test_headers_have_a_limit(self) -> None:
        block = f'<x:One xmlns:x="urn:x">{"x" * MAX_HEADER_OCTETS}</x:One>'
        assert refused(envelope(EVENT, block)).refused.reason is Reason.MESSAGE_INVALID

    def test_the_number_has_a_limit(self) -> None:
        union = "|".join(f"t{n}" for n in range(MAX_MESSAGES + 1))
        block = f'<wsnt:Topic Dialect="{FULL}">{union}</wsnt:Topic>'
        assert refused(envelope(EVENT, block)).refused.reason is Reason.TOPIC_INVALID


def message(inner: str, topic: str = "") -> str:
    return f"<wsnt:NotificationMessage>{topic}<wsnt:Message>{inner}</wsnt:Message></wsnt:NotificationMessage>"


class TestNotify:
    def test_one_event_a_message(self) -> None:
        body = "<wsnt:Notify>" + message(EVENT, "<wsnt:Topic>a</wsnt:Topic>") * 2
        found = events(envelope(body + "</wsnt:Notify>", "<wsa:MessageID>m</wsa:MessageID>"))
        assert [(event.id, clark(event.topic)) for event in found] == [("m#1", "a"), ("m#2", "a")]
        assert all(event.action is None for event in found)

    @pytest.mark.parametrize(
        ("inner", "payload"),
        [
            pytest.param(" <a/> ", b"<a/>", id="one element"),
            pytest.param("<a xmlns=''/>", b"<a/>", id="of no namespace"),
            pytest.param("text &lt; ", b'<data xmlns="urn:dragoman:data:1" '
                         b'content-type="text/plain">text &lt; </data>', id="text"),
            pytest.param("one<!-- c -->two", b'<data xmlns="urn:dragoman:data:1" '
                         b'content-type="text/plain">onetwo</data>', id="text and a comment"),
            pytest.param("<![CDATA[<a/>]]>", b'<data xmlns="urn:dragoman:data:1" '
                         b'content-type="text/plain">&lt;a/&gt;</data>', id="CDATA"),
            pytest.param("", b'<data xmlns="urn:dragoman:data:1" content-type="text/plain"></data>',
                         id="nothing"),
            pytest.param('<a/><b xmlns="urn:b"/>',
                         b'<d:data xmlns:d="urn:dragoman:data:1"><a/><b xmlns="urn:b"/></d:data>',
                         id="several"),
        ],
    )  # fmt: skip
    def test_what_a_message_holds(self, inner: str, payload: bytes) -> None:
        (event,) = events(envelope(f"<wsnt:Notify>{message(inner)}</wsnt:Notify>"))
        assert canonical(event.payload) == canonical(payload)

    @pytest.mark.parametrize(
        "body",
        [
            "<wsnt:Notify/>",
            "<wsnt:Notify>text</wsnt:Notify>",
            "<wsnt:Notify><wsnt:NotificationMessage/></wsnt:Notify>",
            f"<wsnt:Notify>{EVENT}</wsnt:Notify>",
            f"<wsnt:Notify>{message(EVENT) * (MAX_MESSAGES + 1)}</wsnt:Notify>",
        ],
    )
    def test_refused(self, body: str) -> None:
        rejected = refused(envelope(body))
        assert rejected.refused.reason is Reason.MESSAGE_INVALID
        assert rejected.context.operation is Operation.PUBLISH

    def test_topics_of_the_message_win(self) -> None:
        body = f"<wsnt:Notify>{message(EVENT, '<wsnt:Topic>own</wsnt:Topic>')}{message(EVENT)}"
        octets = envelope(body + "</wsnt:Notify>", "<wsnt:Topic>header</wsnt:Topic>")
        arrival = replace(ARRIVAL, url_topic=topic("url"))
        assert [clark(event.topic) for event in events(octets, arrival)] == ["own", "header"]
        octets = envelope(body + "</wsnt:Notify>")
        assert [clark(event.topic) for event in events(octets, arrival)] == ["own", "url"]
        assert [clark(event.topic) for event in events(octets)] == ["own", None]

    def test_unions_count(self) -> None:
        topic_ = f'<wsnt:Topic Dialect="{FULL}">' + "|".join(f"t{n}" for n in range(60))
        body = message(EVENT, topic_ + "</wsnt:Topic>") * 5
        rejected = refused(envelope(f"<wsnt:Notify>{body}</wsnt:Notify>"))
        assert rejected.refused.reason is Reason.MESSAGE_INVALID

    def test_a_broken_producer_is_left_out(self) -> None:
        broken = "<wsnt:ProducerReference><nothing/></wsnt:ProducerReference>"
        (event,) = events(envelope(f"<wsnt:Notify>{message(EVENT, broken)}</wsnt:Notify>"))
        assert event.producer is None


def test_prefixes_in_scope_stay_what_they_were() -> None:
    octets = (
        f'<s:Envelope xmlns:s="{Soap.V1_1.value}" xmlns:q="urn:q" xmlns="urn:default">'
        '<s:Body xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:w="urn:w">'
        '<R kind="q:name">w:value<n xmlns=""/></R></s:Body></s:Envelope>'
    ).encode()
    (event,) = events(octets)
    root = etree.fromstring(event.payload)
    assert root.tag == "{urn:default}R" and root[0].tag == "n"
    assert (root.nsmap["q"], root.nsmap["w"]) == ("urn:q", "urn:w")


def test_how_a_request_names_a_subscription() -> None:
    headers = (
        "<wsa:To> http://g/subscriptions/k </wsa:To><wse:Identifier> urn:uuid:k </wse:Identifier>"
        '<SubscriptionId xmlns="urn:any">7</SubscriptionId>'
    )
    body = (
        '<wsnt:Unsubscribe><wsnt:SubscriptionReference><a:Address xmlns:a="urn:any"> urn:b '
        "</a:Address></wsnt:SubscriptionReference></wsnt:Unsubscribe>"
    )
    named = incoming(envelope(body, headers)).named
    assert named.identifiers == ("urn:uuid:k", "7")
    assert (named.to, named.body) == ("http://g/subscriptions/k", "urn:b")
    inside = "<wse:Unsubscribe><wse:Identifier> urn:uuid:i </wse:Identifier></wse:Unsubscribe>"
    assert incoming(envelope(inside)).named.identifiers == ("urn:uuid:i",)


def test_rejections_know_what_was_known() -> None:
    context = refused(
        envelope("<wse:Subscribe/>", "<wsa:MessageID>urn:m</wsa:MessageID><wsman:X/>")
    ).context
    assert (context.version, context.operation) == (Version.WSE_2004_08, Operation.SUBSCRIBE)
    assert context.headers.message_id == "urn:m"
    assert "http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd" in context.header_namespaces
    assert refused(envelope("<wse:Nothing/>")).context.element == f"{{{WSE}}}Nothing"
    assert refused(envelope("<rp:Nothing/>")).context.element == f"{{{WSRF_RP}}}Nothing"
    assert refused(envelope("<rl:Nothing/>")).context.element == f"{{{WSRF_RL}}}Nothing"


SEEDS = [path.read_bytes() for path in sorted(ENVELOPES.glob("*.xml"))]


@settings(max_examples=examples(day=150, night=600))
@given(st.sampled_from(SEEDS), st.data())
def test_no_octets_do_more_than_be_refused(octets: bytes, data: st.DataObject) -> None:
    changed = bytearray(octets)
    for _ in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(changed) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "repeat", "insert"])):
            case "flip":
                changed[start] = data.draw(st.integers(0, 255))
            case "cut":
                del changed[start : start + data.draw(st.integers(1, 40))]
            case "repeat":
                changed[start:start] = changed[start : start + data.draw(st.integers(1, 40))]
            case _:
                changed[start:start] = data.draw(st.binary(max_size=8))
        if not changed:
            break
    _answered(bytes(changed))


@settings(max_examples=examples(day=150, night=600))
@given(st.sampled_from(SEEDS), st.data())
def test_no_shuffle_of_elements_does_more_than_be_refused(
    octets: bytes, data: st.DataObject
) -> None:
    root = etree.fromstring(octets)
    for _ in range(data.draw(st.integers(1, 5))):
        every = list(root.iter(etree.Element))
        one, other = data.draw(st.sampled_from(every)), data.draw(st.sampled_from(every))
        match data.draw(st.sampled_from(["move", "copy", "drop", "rename", "text", "attribute"])):
            case "move" if (
                one is not root and one not in other.iterancestors() and one is not other
            ):
                other.append(one)
            case "copy" if one is not root:
                other.append(etree.fromstring(etree.tostring(one, with_tail=False)))
            case "drop" if one is not root:
                parent = one.getparent()
                assert parent is not None
                parent.remove(one)
            case "rename":
                one.tag = other.tag
            case "text":
                one.text = data.draw(st.sampled_from(["", " ", "x", "q:x", "|", "-1", "PT", "//"]))
            case "attribute":
                for name, value in other.attrib.items():
                    one.set(name, value)
            case _:
                pass
    _answered(etree.tostring(root))


def _answered(octets: bytes) -> None:
    try:
        incoming_ = read(octets, ARRIVAL)
    except Rejected as rejected:
        _, _, answer = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:m")
        etree.fromstring(answer)
        return
    assert isinstance(incoming_, Incoming)
    if isinstance(incoming_.request, Publish):
        for event in incoming_.request.notifications:
            etree.fromstring(event.payload)
            assert isinstance(event.topic, Topic | None)
            assert event.id


@for_each("name", [path.stem for path in sorted(ENVELOPES.glob("*.xml"))])
def test_stored_envelopes_cut_anywhere(name: str) -> None:
    octets = (ENVELOPES / f"{name}.xml").read_bytes().rstrip()
    for end in range(0, len(octets), 3):
        assert refused(octets[:end]).refused.reason in (Reason.NOT_XML, Reason.ENCODING)


def test_learnt_names_are_those_of_the_document() -> None:
    learnt: set[str] = set()
    # An envelope that came before is not parsed again.
    octets = envelope(EVENT, '<t:Once xmlns:t="urn:once"/>')
    read(octets, ARRIVAL, learnt=learnt)
    assert {"{urn:o}R", "urn:o", "{urn:once}Once", Wsa.V2005_08.value} <= learnt
