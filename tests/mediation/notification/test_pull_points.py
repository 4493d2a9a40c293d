"""Pull points of WS-BaseNotification 1.3: what mailboxes keep, and what is told of it."""

import itertools
from pathlib import Path

import pytest
from lxml import etree

from filters import DEFAULT_TOPIC, FilterError, Reason
from mediation import names
from mediation.mailboxes.kept import (
    MAX_GROWTH,
    MAX_MOST,
    MAX_SPLIT_OCTETS,
    action,
    convert_envelope,
    message_id,
    notification_messages,
    payload_in,
    split_envelope,
)
from mediation.model.errors import MediationError
from mediation.model.messages import End, EndpointReference, Notification, Policy
from mediation.model.requests import (
    CreateMailbox,
    DestroyMailbox,
    Done,
    MailboxMade,
    Operation,
    Response,
    Take,
    Taken,
)
from mediation.model.versions import Soap, Version, Wsa
from mediation.rendering import delivery_id, prepare, render, shape_of, write_subscription_end
from mediation.responses import write_response
from tests.rigs.cases import for_each
from tests.rigs.mediation import (
    NOW,
    SIMPLE,
    WSE,
    WSNT,
    body,
    canonical,
    context,
    envelope,
    events,
    headers,
    incoming,
    part,
    parts,
    refused,
    scopes,
    subscription,
    text,
    topic,
)
from tests.rigs.schemas import Validator

BW = "http://docs.oasis-open.org/wsn/bw-2"
IBM = "http://www.ibm.com/xmlns/stdwip/web-services/WS-BaseNotification"
WSN_1_2 = "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BaseNotification-1.2-draft-01.xsd"
CONCRETE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete"
KEY = "22e8a584-0d18-4228-b2a8-3716fa2097fa"
READING = Notification(
    "urn:1",
    "publisher",
    b'<o:Reading xmlns:o="http://ocean.example.org/ns" xmlns="urn:d" xmlns:q="urn:q" k="q:n">'
    b"<Speed/>\n<!-- 65 --></o:Reading>",
    NOW,
    topic=topic("{http://example.org/weather}storms/tropical"),
    action="http://ocean.example.org/ns/Reading",
)
WAYS = [
    pytest.param(Version.WSN_1_3, False, id="wrapped"),
    pytest.param(Version.WSN_1_3, True, id="raw"),
    pytest.param(Version.WSE_2004_08, True, id="WS-Eventing"),
]


def delivered(
    notification: Notification, version: Version, raw: bool, soap: Soap, wsa: Wsa
) -> bytes:
    consumer = EndpointReference("http://gateway.example.org/pullpoints/1", Wsa.V2005_08)
    one = subscription(version, soap=soap, wsa=wsa, consumer=consumer, policy=Policy(raw=raw))
    rendering = render(notification, shape_of(one), "http://gateway.example.org/soap")
    return rendering.fill(prepare(one), delivery_id(notification, one.id))


def answer(response: Response, operation: Operation, **peer: object) -> tuple[str, bytes]:
    return write_response(response, context(operation, **peer), message_id="urn:m")  # type: ignore[arg-type]


def told(*envelopes: bytes) -> bytes:
    """A GetMessagesResponse."""
    return answer(Taken(envelopes, more=False, now=NOW), Operation.GET_MESSAGES)[1]


def as_published(messages: tuple[bytes, ...]) -> tuple[Notification, ...]:
    """The events in *messages*, read as any consumer reads them."""
    inner = b"".join(messages).decode()
    return events(envelope(f"<wsnt:Notify>{inner}</wsnt:Notify>"))


# What is kept.


@pytest.mark.parametrize(
    ("prefix", "encoding"),
    [
        ("", "utf-8"),
        ('<?xml version="1.0"?>', "utf-8"),
        ('<?xml version="1.0" encoding="utf-8"?>\n', "utf-8"),
        ('<?xml version="1.0" encoding="UTF-8"?>', "utf-8-sig"),
        ("\n  ", "utf-8"),
    ],
)
def test_an_envelope_is_kept_as_it_came(prefix: str, encoding: str) -> None:
    plain = envelope("<a  b='ü'><!-- ? -->&#233;<c></c></a>")
    assert convert_envelope((prefix + plain.decode()).encode(encoding)) == plain


@pytest.mark.parametrize("prefix", ["", '<?xml version="1.0" encoding="UTF-16"?>'])
def test_what_is_kept_is_in_utf_8(prefix: str) -> None:
    plain = envelope("<a b='ü'/>")
    octets = convert_envelope((prefix + plain.decode()).encode("utf-16"))
    assert octets.startswith(b"<s:Envelope") and "ü".encode() in octets
    assert canonical(octets) == canonical(plain)


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        (b"", Reason.NOT_XML),
        (b"<a/>", Reason.ENVELOPE),
        (b"<!DOCTYPE a><a/>", Reason.DTD),
        (b"<a>" * 300, Reason.TOO_COMPLEX),
        (envelope("<a/>").replace(b"a", b"\xfc"), Reason.NOT_XML),
    ],
)
def test_what_is_not_kept(octets: bytes, reason: Reason) -> None:
    with pytest.raises((FilterError, MediationError)) as caught:
        convert_envelope(octets)
    assert caught.value.reason is reason


# Events in it.


@pytest.mark.parametrize(("soap", "wsa"), list(itertools.product(Soap, Wsa)))
@pytest.mark.parametrize(("version", "raw"), WAYS)
def test_a_delivery_of_any_kind_is_a_notification_message(
    version: Version, raw: bool, soap: Soap, wsa: Wsa, validator: Validator
) -> None:
    octets = delivered(READING, version, raw, soap, wsa)
    messages = notification_messages(octets)
    (read,) = as_published(messages)
    assert canonical(read.payload) == canonical(READING.payload)
    ours, theirs = etree.fromstring(read.payload), etree.fromstring(READING.payload)
    for here, there in zip(scopes(ours), scopes(theirs), strict=True):
        assert there.items() <= here.items()
    if not raw or version is Version.WSE_2004_08:  # A raw one of WS-Notification says none.
        assert read.topic == READING.topic
    else:
        assert read.topic == DEFAULT_TOPIC
    validator.check(told(octets))
    assert message_id(octets) == delivery_id(READING, "public")
    assert action(octets) == (f"{BW}/NotificationConsumer/Notify" if not raw else READING.action)
    assert canonical(payload_in(octets)) == canonical(body(octets)[0])


def test_the_reference_and_the_producer_stay() -> None:
    octets = delivered(READING, Version.WSN_1_3, False, Soap.V1_1, Wsa.V2005_08)
    message = part(told(octets), "//wsnt:NotificationMessage")
    assert [etree.QName(child).localname for child in message] == [
        "SubscriptionReference", "Topic", "ProducerReference", "Message",
    ]  # fmt: skip


def test_events_come_in_their_order(validator: Validator) -> None:
    wrapped = envelope(
        '<wsnt:Notify xmlns:t="urn:t">'
        "<wsnt:NotificationMessage><wsnt:Topic Dialect='urn:d'>t:a</wsnt:Topic>"
        "<wsnt:Message><x>1</x></wsnt:Message></wsnt:NotificationMessage><!-- -->"
        "<wsnt:NotificationMessage><wsnt:Message><x>2</x></wsnt:Message>"
        "</wsnt:NotificationMessage></wsnt:Notify>"
    )
    bare = envelope("<x>3</x><x>4</x>")
    octets = told(wrapped, bare, envelope(""), wrapped)
    assert [x.text for x in parts(octets, "//x")] == ["1", "2", "3", "4", "1", "2"]
    (first, *_) = parts(octets, "//wsnt:Topic")
    assert (first.text, first.nsmap["t"]) == ("t:a", "urn:t")
    validator.check(octets)


@pytest.mark.parametrize("namespace", [f"{WSNT}/", WSN_1_2, IBM])
def test_drafts_are_told_in_the_names_of_1_3(namespace: str, validator: Validator) -> None:
    octets = envelope(
        f'<Notify xmlns="{namespace}" xmlns:t="urn:t" xmlns:old="{Wsa.V2003_03.value}">'
        "<NotificationMessage><Message><x xmlns=''/></Message>"
        "<ProducerReference><old:Address>urn:p</old:Address><old:ReferenceProperties>"
        "<k xmlns='urn:k'>7</k></old:ReferenceProperties></ProducerReference>"
        "<Topic dialect='http://docs.oasis-open.org/wsn/2004/06/TopicExpression/Concrete'>t:a/b"
        "</Topic><SubscriptionReference/></NotificationMessage></Notify>"
    )
    validator.check(told(octets))
    (read,) = as_published(notification_messages(octets))
    assert (str(read.topic), canonical(read.payload)) == ("{urn:t}a/b", b"<x></x>")
    assert read.producer is not None
    assert (read.producer.address, read.producer.wsa) == ("urn:p", Wsa.V2005_08)
    assert b">7<" in read.producer.parameters[0]


def test_the_topic_of_a_header_is_told_as_it_stands() -> None:
    header = f'<n:Topic xmlns:n="{IBM}" xmlns:w="urn:w" n:Dialect="{CONCRETE}"> w:a/b\n</n:Topic>'
    (read,) = as_published(notification_messages(envelope("<x/>", header)))
    assert str(read.topic) == "{urn:w}a/b"
    header = f'<ns0:Topic xmlns:ns0="{IBM}" xmlns:ns1="urn:w" xmlns="urn:d"> ns1:a\n</ns0:Topic>'
    octets = told(envelope("<x/>", header))
    topic = part(octets, "//wsnt:NotificationMessage/wsnt:Topic")
    assert (topic.text, topic.get("Dialect")) == ("ns1:a", SIMPLE)
    assert {"ns0": IBM, "ns1": "urn:w", None: "urn:d"}.items() <= topic.nsmap.items()
    bare = told(envelope("<x/>", "<wsnt:Topic> </wsnt:Topic>"))
    assert text(bare, "//wsnt:NotificationMessage/wsnt:Topic") == str(DEFAULT_TOPIC)


@pytest.mark.parametrize(
    "inner",
    [
        "",
        "<s:Fault/>",
        "<wse:SubscriptionEnd/>",
        "<wsnt:Subscribe/>",
        "<rp:GetResourceProperty/>",
        '<tev:PullMessages xmlns:tev="http://www.onvif.org/ver10/events/wsdl"/>',
        '<m:takeMessages xmlns:m="http://org.apache.airavata/ws-messenger/msgbox/2011/"/>',
    ],
)
def test_what_is_no_event(inner: str) -> None:
    assert notification_messages(envelope(inner)) == ()


def test_the_end_of_a_subscription_is_no_event() -> None:
    one = subscription(Version.WSE_2004_08, end_to=EndpointReference("urn:end", Wsa.V2004_08))
    _, octets = write_subscription_end(one, End.CANCELLING, message_id="urn:m", reason="")
    assert notification_messages(octets) == ()
    assert etree.QName(etree.fromstring(payload_in(octets))).namespace == WSE


def test_rendering_may_nest_a_message_deeper_than_strangers_may() -> None:
    payload = b"<a>" * 254 + b"</a>" * 254
    events(envelope(payload.decode()))  # It came in.
    octets = delivered(
        Notification("urn:1", "", payload, NOW), Version.WSN_1_3, False, Soap.V1_2, Wsa.V2005_08
    )
    (message,) = notification_messages(octets)
    assert message.count(b"<a") == 254


def test_what_is_told_does_not_grow_for_ever() -> None:
    scope = " ".join(f'xmlns:p{number}="urn:{"p" * 150}{number}"' for number in range(40))
    body = f"<s:Body {scope}>".encode()
    uses = "".join(f"<p{number}:y/>" for number in range(0, 40, 4))
    told = (
        f"<wsnt:NotificationMessage><wsnt:Message>{uses}</wsnt:Message></wsnt:NotificationMessage>"
    )
    octets = envelope(f"<wsnt:Notify>{told * 1000}</wsnt:Notify>").replace(b"<s:Body>", body)
    messages = notification_messages(convert_envelope(octets))
    assert 0 < len(messages) < 1000
    assert sum(map(len, messages)) <= MAX_GROWTH * len(octets)
    small = envelope(f"<wsnt:Notify>{'<wsnt:NotificationMessage/>' * 256}</wsnt:Notify>")
    assert len(notification_messages(convert_envelope(small))) == 256


# One each.


def three(header: str = "<wsa:MessageID> urn:m </wsa:MessageID>") -> bytes:
    messages = "".join(
        f"<wsnt:NotificationMessage><wsnt:Message><x>{number}</x></wsnt:Message>"
        "</wsnt:NotificationMessage>\n "
        for number in (1, 2, 3)
    )
    return envelope(f'<wsnt:Notify xmlns:q="urn:q"> {messages}</wsnt:Notify>', header)


def test_a_notify_is_split() -> None:
    made = split_envelope(three())
    assert [message_id(octets) for octets in made] == ["urn:m#1", "urn:m#2", "urn:m#3"]
    assert [part(octets, "//x").text for octets in made] == ["1", "2", "3"]
    for octets in made:
        assert part(octets, "//x").nsmap["q"] == "urn:q"
        assert (convert_envelope(octets), split_envelope(octets)) == (octets, (octets,))
    published = [event for octets in made for event in events(octets)]
    whole = events(three())
    assert [event.id for event in published] == [event.id.replace(" ", "") for event in whole]
    assert [event.payload for event in published] == [event.payload for event in whole]


def test_a_body_of_several_elements_is_one_event() -> None:
    octets = envelope("<x>1</x> <!-- --><x>2</x>", "<wsa:MessageID>urn:m</wsa:MessageID>")
    assert split_envelope(octets) == (octets,)
    (published,) = events(octets)
    (kept,) = as_published(notification_messages(octets))
    assert kept.payload == published.payload == payload_in(octets)
    assert published.payload.count(b"</x>") == 2


def test_without_an_id_there_is_none_to_count() -> None:
    assert [message_id(octets) for octets in split_envelope(three(""))] == [None] * 3
    assert [
        action(octets) for octets in split_envelope(three("<wsa:Action>urn:a</wsa:Action>"))
    ] == ["urn:a"] * 3


@pytest.mark.parametrize(
    "octets",
    [
        envelope("<x/>"),
        envelope(""),
        envelope("<wsnt:Notify><wsnt:NotificationMessage/> </wsnt:Notify>"),
        envelope("<wsnt:Notify/>"),
    ],
)
def test_anything_else_is_itself(octets: bytes) -> None:
    assert split_envelope(octets) == (octets,)


def test_a_header_is_not_repeated_for_ever() -> None:
    message = "<wsnt:NotificationMessage/>" * 256
    header = f"<x>{'a' * (MAX_SPLIT_OCTETS // 256)}</x>"
    octets = convert_envelope(envelope(f"<wsnt:Notify>{message}</wsnt:Notify>", header))
    with pytest.raises(MediationError) as caught:
        split_envelope(octets)
    assert caught.value.reason is Reason.MESSAGE_INVALID


def test_message_ids_of_any_version() -> None:
    for wsa, soap in itertools.product(Wsa, Soap):
        header = "<wsa:Action> urn:a </wsa:Action><wsa:MessageID>urn:m</wsa:MessageID>"
        octets = envelope("<x/>", header, soap=soap, wsa=wsa)
        assert (message_id(octets), action(octets)) == ("urn:m", "urn:a")
    assert (message_id(envelope("")), action(envelope("", "<wsa:Action/>"))) == (None, None)
    assert payload_in(envelope("")) == b""


# Requests and answers.


@for_each("namespace", [WSNT, f"{WSNT}/"])
@for_each(
    ("name", "inner", "request_"),
    [
        ("CreatePullPoint", "", CreateMailbox()),
        ("CreatePullPoint", "<x/>", CreateMailbox()),
        ("DestroyPullPoint", "<x/>", DestroyMailbox()),
        ("GetMessages", "", Take()),
        ("GetMessages", "<x/><MaximumNumber> 7 </MaximumNumber>", Take(7)),
        ("GetMessages", "<MaximumNumber>0</MaximumNumber>", Take()),
        ("GetMessages", "<MaximumNumber/>", Take()),
        ("GetMessages", "<MaximumNumber>+007</MaximumNumber>", Take(7)),
        ("GetMessages", "<MaximumNumber>99999999999</MaximumNumber>", Take(MAX_MOST)),
    ],
)
def test_requests(namespace: str, name: str, inner: str, request_: object) -> None:
    read = incoming(envelope(f'<{name} xmlns="{namespace}">{inner}</{name}>'))
    assert read.request == request_
    assert read.context.operation is Operation(name)


@pytest.mark.parametrize("number", ["-1", "a", "1.0", "9" * 21, "1e2", "٣"])
def test_what_is_no_number(number: str) -> None:
    inner = f"<wsnt:MaximumNumber>{number}</wsnt:MaximumNumber>"
    rejected = refused(envelope(f"<wsnt:GetMessages>{inner}</wsnt:GetMessages>"))
    assert rejected.refused.reason is Reason.MESSAGE_INVALID
    assert rejected.context.operation is Operation.GET_MESSAGES


@pytest.mark.parametrize(
    ("port_type", "name", "request_"),
    [
        ("CreatePullPoint", "CreatePullPoint", CreateMailbox()),
        ("PullPoint", "GetMessages", Take()),
        ("PullPoint", "DestroyPullPoint", DestroyMailbox()),
    ],
)
def test_an_action_says_it_where_the_body_is_empty(
    port_type: str, name: str, request_: object
) -> None:
    header = f"<wsa:Action>{BW}/{port_type}/{name}Request</wsa:Action>"
    assert incoming(envelope("", header)).request == request_


@pytest.mark.parametrize("soap", Soap)
def test_answers(soap: Soap, validator: Validator) -> None:
    reading = delivered(READING, Version.WSN_1_3, False, Soap.V1_1, Wsa.V2005_08)
    rows: list[tuple[Operation, Response, str, int]] = [
        (Operation.CREATE_PULL_POINT, MailboxMade(KEY, f"http://g.example.org/pullpoints/{KEY}"),
         "CreatePullPoint/CreatePullPointResponse", 1),
        (Operation.GET_MESSAGES, Taken((), more=False, now=NOW), "PullPoint/GetMessagesResponse", 0),
        (Operation.GET_MESSAGES, Taken((reading, reading), more=True, now=NOW),
         "PullPoint/GetMessagesResponse", 2),
        (Operation.DESTROY_PULL_POINT, Done(), "PullPoint/DestroyPullPointResponse", 0),
    ]  # fmt: skip
    for operation, response, suffix, children in rows:
        written, octets = answer(response, operation, soap=soap)
        assert written == text(octets, "//wsa:Action") == f"{BW}/{suffix}"
        assert text(octets, "//wsa:RelatesTo") == "urn:uuid:request"
        (element,) = body(octets)
        assert element.tag == f"{{{WSNT}}}{operation.value}Response"
        assert len(element) == children
        validator.check(octets)


@pytest.mark.parametrize("wsa", [None, Wsa.V2005_08, Wsa.V2004_08])
def test_a_pull_point_has_its_key_in_the_address_and_beside_it(wsa: Wsa | None) -> None:
    made = MailboxMade(KEY, f"http://g.example.org/pullpoints/{KEY}")
    _, octets = answer(made, Operation.CREATE_PULL_POINT, wsa=wsa)
    assert bool(headers(octets)) is (wsa is not None)
    epr = part(octets, "//wsnt:PullPoint")
    prefix = f"{{{(wsa or Wsa.V2005_08).value}}}"
    assert epr.findtext(f"{prefix}Address") == made.address
    namespace = WSE if wsa is Wsa.V2004_08 else names.DRAGOMAN_REFERENCE
    [parameter] = epr.findall(f"{prefix}ReferenceParameters/*")
    assert (parameter.tag, parameter.text) == (f"{{{namespace}}}Identifier", f"urn:uuid:{KEY}")


def test_the_samples_of_servicemix(material: Path) -> None:
    folder = material / "specs/schemas/wsn/samples"
    for path in [
        *folder.glob("servicemix-wsn-1.2-draft/*notify.xml"),
        folder / "servicemix-examples/wsn-message.xml",
    ]:
        root = etree.parse(path).getroot()
        octets = etree.tostring(root)
        if etree.QName(root).localname == "Notify":
            octets = envelope(octets.decode())
        (read,) = as_published(notification_messages(convert_envelope(octets)))
        assert read.topic is not None, path


def test_the_validator_knows_them(each_validator: Validator) -> None:
    with pytest.raises(AssertionError):
        each_validator.check(envelope("<wsnt:GetMessagesResponse>text</wsnt:GetMessagesResponse>"))
