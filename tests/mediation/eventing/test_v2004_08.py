"""WS-Eventing 2004/08: Subscribe in all its forms, the answers, SubscriptionEnd."""

import itertools
from datetime import timedelta

import pytest
from lxml import etree

from filters import Reason
from mediation.model.expiry import NEVER, UNSPECIFIED
from mediation.model.messages import End, EndpointReference, Lease
from mediation.model.requests import Done, Operation, Renew, Subscribe, Subscribed
from mediation.model.versions import Soap, Version, Wsa
from mediation.names import DRAGOMAN_REFERENCE
from mediation.rendering import write_subscription_end
from mediation.responses import write_response
from tests.rigs.cases import for_each
from tests.rigs.mediation import (
    NOW,
    WSE,
    body,
    canonical,
    context,
    envelope,
    headers,
    incoming,
    part,
    parts,
    refused,
    subscription,
    text,
)
from tests.rigs.schemas import Validator

WSE_VERSION = Version.WSE_2004_08
KEY = "22e8a584-0d18-4228-b2a8-3716fa2097fa"
END_TO = "<wse:EndTo><wsa:Address>urn:end</wsa:Address></wse:EndTo>"
DELIVERY = (
    "<wse:Delivery><wse:NotifyTo><wsa:Address>urn:sink</wsa:Address></wse:NotifyTo></wse:Delivery>"
)
EXPIRES = "<wse:Expires> PT1H </wse:Expires>"
FILTER = "<wse:Filter>//a</wse:Filter>"
EXTENSION = '<x:Bookmark xmlns:x="urn:x"/>'


def subscribe(inner: str) -> Subscribe:
    request = incoming(envelope(f"<wse:Subscribe>{inner}</wse:Subscribe>")).request
    assert isinstance(request, Subscribe)
    return request


@for_each("children", list(itertools.permutations((END_TO, DELIVERY, EXPIRES, FILTER, EXTENSION))))
def test_children_in_any_order(children: tuple[str, ...]) -> None:
    request = subscribe("\n  <!-- -->".join(children))
    assert request.consumer.address == "urn:sink" and request.raw
    assert request.end_to is not None and request.end_to.address == "urn:end"
    assert request.expires.duration is not None and len(request.filter.contents) == 1


def test_the_least() -> None:
    request = subscribe(DELIVERY)
    assert (request.end_to, request.expires, request.dialect) == (None, UNSPECIFIED, None)


@pytest.mark.parametrize(
    "mode", ["", " ", f"{WSE}/DeliveryModes/Push", f" {WSE}/DeliveryModes/Push\n"]
)
def test_push(mode: str) -> None:
    subscribe(DELIVERY.replace("<wse:Delivery>", f'<wse:Delivery Mode="{mode}">'))


@pytest.mark.parametrize(
    "mode",
    [
        f"{WSE}/DeliveryModes/Wrap",
        f"{WSE}/DeliveryModes/Pull",
        "http://schemas.xmlsoap.org/ws/2005/06/management/PushWithAck",
        "urn:none",
    ],
)
def test_other_modes(mode: str) -> None:
    delivery = DELIVERY.replace("<wse:Delivery>", f'<wse:Delivery Mode="{mode}">')
    rejected = refused(envelope(f"<wse:Subscribe>{delivery}</wse:Subscribe>"))
    assert rejected.refused.reason is Reason.DELIVERY_MODE
    assert rejected.refused.names[:2] == (
        f"{WSE}/DeliveryModes/Push",
        "http://schemas.dmtf.org/wbem/wsman/1/wsman/PushWithAck",
    )


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ("", Reason.MESSAGE_INVALID),
        ("<wse:Delivery/>", Reason.MESSAGE_INVALID),
        ("<Delivery><NotifyTo/></Delivery>", Reason.MESSAGE_INVALID),
        (DELIVERY.replace("</wse:Delivery>", "<wse:NotifyTo/></wse:Delivery>"), Reason.MESSAGE_INVALID),
        ("<wse:Delivery><wse:NotifyTo/></wse:Delivery>", Reason.EPR_INVALID),
        (DELIVERY + "<wse:EndTo/>", Reason.EPR_INVALID),
        (DELIVERY + "<wse:Expires>soon</wse:Expires>", Reason.EXPIRY_INVALID),
        (DELIVERY + FILTER * 2, Reason.MESSAGE_INVALID),
    ],
)  # fmt: skip
def test_refused(inner: str, reason: Reason) -> None:
    rejected = refused(envelope(f"<wse:Subscribe>{inner}</wse:Subscribe>"))
    assert rejected.refused.reason is reason
    assert rejected.context.version is WSE_VERSION


@pytest.mark.parametrize(
    ("inner", "expires"),
    [
        ("", UNSPECIFIED),
        ("<wse:Expires/>", UNSPECIFIED),
        ("<wse:Expires> </wse:Expires>", UNSPECIFIED),
    ],
)
def test_renew_without_a_time(inner: str, expires: object) -> None:
    assert incoming(envelope(f"<wse:Renew>{inner}</wse:Renew>")).request == Renew(expires)  # type: ignore[arg-type]


def test_renew_for_ever() -> None:
    for text_ in ("*", "-1"):
        request = incoming(
            envelope(f"<wse:Renew><wse:Expires>{text_}</wse:Expires></wse:Renew>")
        ).request
        assert isinstance(request, Renew) and request.expires.never
        assert request.expires != NEVER and not request.expires.as_duration


VERSIONS = list(itertools.product(Soap, Wsa))


@pytest.mark.parametrize(("soap", "wsa"), VERSIONS)
@pytest.mark.parametrize("epr", [Wsa.V2004_08, Wsa.V2005_08])
def test_subscribe_response(soap: Soap, wsa: Wsa, epr: Wsa, validator: Validator) -> None:
    granted = subscription(
        WSE_VERSION, soap=soap, wsa=wsa, consumer=EndpointReference("urn:sink", epr)
    )
    spoken = context(Operation.SUBSCRIBE, WSE_VERSION, soap=soap, wsa=wsa)
    action, octets = write_response(Subscribed(granted, NOW), spoken, message_id="urn:m")
    assert action == f"{WSE}/SubscribeResponse" == text(octets, "//wsa:Action")
    assert text(octets, "//s:Header/wsa:RelatesTo") == "urn:uuid:request"
    assert text(octets, "//s:Header/wsa:To") == wsa.anonymous
    assert [etree.QName(block).localname for block in headers(octets)] == [
        "Action", "MessageID", "To", "RelatesTo",
    ]  # fmt: skip
    manager, expires = body(octets)[0]
    assert [child.tag for child in manager] == [
        f"{{{epr.value}}}Address",
        f"{{{epr.value}}}ReferenceParameters",
    ]
    assert manager[0].text == f"http://gateway.example.org/subscriptions/{KEY}"
    (identifier,) = manager[1]
    namespace = DRAGOMAN_REFERENCE if epr is Wsa.V2005_08 else WSE
    assert (identifier.tag, identifier.text) == (f"{{{namespace}}}Identifier", f"urn:uuid:{KEY}")
    assert (expires.tag, expires.text) == (f"{{{WSE}}}Expires", "PT1H")
    assert b"> <" not in octets and b">\n" not in octets
    validator.check(octets)


@pytest.mark.parametrize(
    ("lease", "expected"),
    [
        (Lease(NOW, NOW + timedelta(hours=26, seconds=1)), "PT26H1S"),
        (Lease(NOW, NOW + timedelta(hours=1), as_duration=False), "2026-01-31T11:00:00.000Z"),
        (Lease(NOW, NOW - timedelta(seconds=1)), "PT0S"),
    ],
)
@pytest.mark.parametrize("operation", [Operation.SUBSCRIBE, Operation.RENEW, Operation.GET_STATUS])
def test_expires_is_always_said_as_it_was_asked(
    operation: Operation, lease: Lease, expected: str, validator: Validator
) -> None:
    granted = subscription(WSE_VERSION, wsa=Wsa.V2004_08, lease=lease)
    spoken = context(operation, WSE_VERSION, wsa=Wsa.V2004_08)
    action, octets = write_response(Subscribed(granted, NOW), spoken, message_id="urn:m")
    assert action == f"{WSE}/{operation.value}Response"
    assert text(octets, f"//wse:{operation.value}Response/wse:Expires") == expected
    validator.check(octets)


@pytest.mark.parametrize(("soap", "wsa"), VERSIONS)
def test_unsubscribe_response_has_an_empty_body(soap: Soap, wsa: Wsa, validator: Validator) -> None:
    spoken = context(Operation.UNSUBSCRIBE, WSE_VERSION, soap=soap, wsa=wsa)
    action, octets = write_response(Done(), spoken, message_id="urn:m")
    assert action == f"{WSE}/UnsubscribeResponse"
    assert body(octets) == []
    validator.check(octets)


def test_without_addressing_headers_the_answer_has_none() -> None:
    spoken = context(Operation.UNSUBSCRIBE, WSE_VERSION, wsa=None)
    _, octets = write_response(Done(), spoken, message_id="urn:m")
    assert headers(octets) == []


@pytest.mark.parametrize(("soap", "wsa"), VERSIONS)
@pytest.mark.parametrize("end", End)
def test_subscription_end(end: End, soap: Soap, wsa: Wsa, validator: Validator) -> None:
    key = b'<my:Key xmlns:my="http://sink.example.com/ns">2597</my:Key>'
    end_to = EndpointReference("http://sink.example.com/end", Wsa.V2004_08, (key,))
    ended = subscription(
        WSE_VERSION, soap=soap, wsa=wsa, end_to=end_to,
        consumer=EndpointReference("urn:sink", Wsa.V2004_08),
    )  # fmt: skip
    action, octets = write_subscription_end(ended, end, message_id="urn:m", reason="a < b")
    assert action == f"{WSE}/SubscriptionEnd" == text(octets, "//wsa:Action")
    assert text(octets, "//s:Header/wsa:To") == "http://sink.example.com/end"
    (echoed,) = [block for block in headers(octets) if etree.QName(block).localname == "Key"]
    assert echoed.get(f"{{{wsa.value}}}IsReferenceParameter") == (
        "true" if wsa is Wsa.V2005_08 else None
    )
    if wsa is not Wsa.V2005_08:
        assert canonical(echoed) == canonical(key)
    (element,) = body(octets)
    assert [etree.QName(child).localname for child in element] == [
        "SubscriptionManager", "Status", "Reason",
    ]  # fmt: skip
    assert element[1].text == f"{WSE}/{end.value}" and element[2].text == "a < b"
    assert text(octets, "//wse:Identifier") == f"urn:uuid:{KEY}"
    assert parts(octets, "//wsa:ReplyTo") == []
    validator.check(octets)


def test_the_status_is_spelt_as_the_schema_spells_it() -> None:
    assert End.CANCELLING.value == "SourceCancelling"


def test_nobody_is_told_who_did_not_ask() -> None:
    with pytest.raises(ValueError, match="SubscriptionEnd"):
        write_subscription_end(
            subscription(WSE_VERSION), End.CANCELLING, message_id="urn:m", reason=""
        )


def test_replies_go_where_they_are_wanted() -> None:
    block = "<wsa:ReplyTo><wsa:Address>http://a.example.org/</wsa:Address></wsa:ReplyTo>"
    spoken = incoming(envelope("<wse:Unsubscribe/>", block)).context
    _, octets = write_response(
        Done(), spoken, message_id="urn:m", reply_headers='<k xmlns="urn:k"/>'
    )
    assert text(octets, "//wsa:To") == "http://a.example.org/"
    assert part(octets, "//s:Header/*[local-name() = 'k']").tag == "{urn:k}k"
