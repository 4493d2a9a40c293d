"""WS-Eventing 2011/03: Subscribe in all its forms, leases as asked, wrapped notifications, the
answers, SubscriptionEnd, faults."""

import itertools
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from filters import (
    DEFAULT_TOPIC,
    PAYLOAD,
    Expression,
    Filter,
    Reason,
    Refused,
    dialects,
    topic_dialects,
)
from mediation.client import (
    SPECS,
    Ended,
    Granted,
    Received,
    read_granted,
    read_received,
    write_subscribe,
)
from mediation.faults import write_fault
from mediation.model.expiry import UNSPECIFIED, Expiry
from mediation.model.messages import End, EndpointReference, Lease, Notification, Policy
from mediation.model.requests import (
    Done,
    GetStatus,
    Operation,
    Publish,
    Renew,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from mediation.model.versions import Soap, Version, Wsa
from mediation.rendering import delivery_id, prepare, render, shape_of, write_subscription_end
from mediation.responses import write_response
from mediation.specifications import SPECIFICATIONS
from tests.rigs.cases import for_each
from tests.rigs.mediation import (
    NOW,
    WSE,
    WSE11,
    body,
    canonical,
    clark,
    context,
    envelope,
    events,
    headers,
    incoming,
    part,
    parts,
    refused,
    subscription,
    text,
    topic,
)
from tests.rigs.schemas import Validator

VERSION = Version.WSE_2011_03
KEY = "22e8a584-0d18-4228-b2a8-3716fa2097fa"
UNWRAP, WRAP = f"{WSE11}/DeliveryFormats/Unwrap", f"{WSE11}/DeliveryFormats/Wrap"
XPATH_10, XPATH_20 = f"{WSE11}/Dialects/XPath10", f"{WSE11}/Dialects/XPath20"
NOTIFY_ACTION = f"{WSE11}/WrappedSinkPortType/NotifyEvent"
END_TO = "<wse11:EndTo><wsa:Address>urn:end</wsa:Address></wse11:EndTo>"
NOTIFY_TO = "<wse11:NotifyTo><wsa:Address>urn:sink</wsa:Address></wse11:NotifyTo>"
DELIVERY = f"<wse11:Delivery>{NOTIFY_TO}</wse11:Delivery>"
FORMAT = f'<wse11:Format Name="{WRAP}"/>'
EXPIRES = "<wse11:Expires> PT1H </wse11:Expires>"
FILTER = "<wse11:Filter>//a</wse11:Filter>"
EXTENSION = '<x:Bookmark xmlns:x="urn:x"/>'
BOTH = [(soap, Wsa.V2005_08) for soap in Soap]


def asking(inner: str) -> bytes:
    return envelope(f"<wse11:Subscribe>{inner}</wse11:Subscribe>")


def subscribe(inner: str) -> Subscribe:
    request = incoming(asking(inner)).request
    assert isinstance(request, Subscribe)
    return request


def filtered(inner: str, dialect: str | None = None) -> Filter:
    said = "" if dialect is None else f' Dialect="{dialect}"'
    return subscribe(f"{DELIVERY}<wse11:Filter{said}>{inner}</wse11:Filter>").filter


class TestSubscribe:
    @for_each("children", list(itertools.permutations((END_TO, DELIVERY, FORMAT, EXPIRES, FILTER))))
    def test_children_in_any_order(self, children: tuple[str, ...]) -> None:
        request = subscribe("\n  <!-- -->".join((*children, EXTENSION)))
        assert request.consumer.address == "urn:sink" and not request.raw
        assert request.end_to is not None and request.end_to.address == "urn:end"
        assert request.expires.duration is not None and len(request.filter.contents) == 1

    def test_the_least(self) -> None:
        request = subscribe(DELIVERY)
        assert (request.end_to, request.expires, request.dialect) == (None, UNSPECIFIED, None)
        assert request.raw

    def test_blanks_in_delivery_mean_nothing(self) -> None:
        spaced = subscribe(f"<wse11:Delivery>\n  {NOTIFY_TO}\n  {EXTENSION}\n</wse11:Delivery>")
        assert spaced.consumer == subscribe(DELIVERY).consumer

    @pytest.mark.parametrize(
        ("format_", "raw"),
        [
            ("<wse11:Format/>", True),
            ('<wse11:Format Name=" "/>', True),
            (f'<wse11:Format Name=" {UNWRAP}&#10;"/>', True),
            (f'<wse11:Format Name="{WRAP}"> <x:e xmlns:x="urn:x"/> </wse11:Format>', False),
        ],
    )
    def test_formats(self, format_: str, raw: bool) -> None:
        assert subscribe(DELIVERY + format_).raw is raw

    @pytest.mark.parametrize(
        ("inner", "reason"),
        [
            ("", Reason.MESSAGE_INVALID),
            ("<Delivery><NotifyTo/></Delivery>", Reason.MESSAGE_INVALID),
            ("<wse11:Delivery/>", Reason.DELIVERY_MISSING),
            (f"<wse11:Delivery>{EXTENSION}</wse11:Delivery>", Reason.DELIVERY_MISSING),
            (f"<wse11:Delivery>{NOTIFY_TO * 2}</wse11:Delivery>", Reason.MESSAGE_INVALID),
            ("<wse11:Delivery><wse11:NotifyTo/></wse11:Delivery>", Reason.EPR_INVALID),
            (f"{DELIVERY}<wse11:EndTo/>", Reason.EPR_INVALID),
            (f'{DELIVERY}<wse11:Format Name="urn:zip"/>', Reason.DELIVERY_MODE),
            (f"{DELIVERY}<wse11:Expires>soon</wse11:Expires>", Reason.EXPIRY_INVALID),
            (f"{DELIVERY}<wse11:Expires>3600000</wse11:Expires>", Reason.EXPIRY_INVALID),
            (f"{DELIVERY}<wse11:Expires>*</wse11:Expires>", Reason.EXPIRY_INVALID),
            (f"{DELIVERY}<wse11:Expires>-PT1H</wse11:Expires>", Reason.EXPIRY_IN_THE_PAST),
            (
                f'{DELIVERY}<wse11:Expires BestEffort="maybe">PT1H</wse11:Expires>',
                Reason.MESSAGE_INVALID,
            ),
            (DELIVERY + FILTER * 2, Reason.MESSAGE_INVALID),
            (f"{DELIVERY}<wse11:Filter> false() </wse11:Filter>", Reason.FILTER_EMPTY),
            (f"{DELIVERY}<wse11:Filter>1 = 2 or not(true())</wse11:Filter>", Reason.FILTER_EMPTY),
        ],
    )
    def test_refused(self, inner: str, reason: Reason) -> None:
        rejected = refused(asking(inner))
        assert rejected.refused.reason is reason
        assert rejected.context.version is VERSION

    def test_the_formats_are_named_where_another_is_asked_for(self) -> None:
        rejected = refused(asking(f'{DELIVERY}<wse11:Format Name="urn:zip"/>'))
        assert rejected.refused.names == (UNWRAP, WRAP)

    @pytest.mark.parametrize("written", ["true", "1", " true ", "false", "0", None])
    def test_best_effort(self, written: str | None) -> None:
        said = "" if written is None else f' BestEffort="{written}"'
        for element in ("Subscribe", "Renew"):
            inner = f"<wse11:Expires{said}>PT1H</wse11:Expires>"
            inner = DELIVERY + inner if element == "Subscribe" else inner
            request = incoming(envelope(f"<wse11:{element}>{inner}</wse11:{element}>")).request
            assert isinstance(request, Subscribe | Renew)
            assert request.expires.best_effort is ((written or "").strip() in ("true", "1"))

    @pytest.mark.parametrize("zero", ["PT0S", "P0D", "P0Y0M0DT0H0M0S", "PT0.000S"])
    def test_no_time_is_no_end(self, zero: str) -> None:
        assert subscribe(f"{DELIVERY}<wse11:Expires>{zero}</wse11:Expires>").expires == Expiry(
            never=True
        )

    def test_a_date_time(self) -> None:
        asked = subscribe(f"{DELIVERY}<wse11:Expires>2027-01-01T00:00:00+01:00</wse11:Expires>")
        assert asked.expires.instant is not None and not asked.expires.as_duration


class TestFilters:
    """The context is the event's root, whatever the expression looks like."""

    @for_each("dialect", [None, "", XPATH_10, f" {XPATH_10}\n", dialects.XPATH_1_0])
    @for_each("path", ["self::a", "/a", "//a", "a/b", "not(/a)"])
    def test_xpath(self, dialect: str | None, path: str) -> None:
        (expression,) = filtered(f"\n {path} ", dialect).contents
        assert (expression.text, expression.dialect) == (path, dialects.XPATH_1_0)
        assert expression.view is PAYLOAD

    @pytest.mark.parametrize(
        "path", ["true()", "string()", "position() = 2", "lang('en')", "a and"]
    )
    def test_a_filter_is_empty_only_where_that_is_plain(self, path: str) -> None:
        assert filtered(path).contents[0].text == path

    def test_dialects_of_2004_08(self) -> None:
        assert filtered("storms", dialects.TOPIC_SIMPLE).topics[0].text == "storms"
        assert filtered("urn:a urn:b", dialects.ACTION_DPWS_1_1).others[0].text == "urn:a urn:b"
        # Refused where the messaging system is asked whether it knows them.
        assert filtered("a", XPATH_20).contents[0].dialect == XPATH_20
        assert filtered("a", "urn:none").contents[0].dialect == "urn:none"

    def test_in_2004_08_the_dialect_means_the_payload_too(self) -> None:
        inner = f'{DELIVERY}<wse11:Filter Dialect="{XPATH_10}">a</wse11:Filter>'
        request = incoming(
            envelope(f"<wse:Subscribe>{inner.replace('wse11:', 'wse:')}</wse:Subscribe>")
        ).request
        assert isinstance(request, Subscribe) and request.filter.contents[0].view is PAYLOAD


def test_requests_to_the_manager() -> None:
    assert incoming(envelope("<wse11:GetStatus/>")).request == GetStatus()
    assert incoming(envelope("<wse11:Unsubscribe/>")).request == Unsubscribe()
    assert incoming(envelope("<wse11:Renew/>")).request == Renew(UNSPECIFIED)
    renew = incoming(envelope("<wse11:Renew><wse11:Expires>PT0S</wse11:Expires></wse11:Renew>"))
    assert renew.request == Renew(Expiry(never=True))


# Answers.


@pytest.mark.parametrize(("soap", "wsa"), list(itertools.product(Soap, Wsa)))
@pytest.mark.parametrize("epr", [Wsa.V2004_08, Wsa.V2005_08])
def test_subscribe_response(soap: Soap, wsa: Wsa, epr: Wsa, validator: Validator) -> None:
    granted = subscription(VERSION, soap=soap, wsa=wsa, consumer=EndpointReference("urn:s", epr))
    spoken = context(Operation.SUBSCRIBE, VERSION, soap=soap, wsa=wsa)
    action, octets = write_response(Subscribed(granted, NOW), spoken, message_id="urn:m")
    assert action == f"{WSE11}/SubscribeResponse" == text(octets, "//wsa:Action")
    assert text(octets, "//s:Header/wsa:RelatesTo") == "urn:uuid:request"
    manager, expires = body(octets)[0]
    final = Wsa.V2005_08.value
    assert [each.tag for each in manager] == [
        f"{{{final}}}Address",
        f"{{{final}}}ReferenceParameters",
    ]
    assert manager[0].text == f"http://gateway.example.org/subscriptions/{KEY}"
    assert (expires.tag, expires.text) == (f"{{{WSE11}}}GrantedExpires", "PT1H")
    assert b"> <" not in octets and b">\n" not in octets
    validator.check(octets)
    manager_ = read_granted(octets).manager
    assert manager_ is not None and manager_.address.endswith(KEY)


@pytest.mark.parametrize(
    ("lease", "expected"),
    [
        (Lease(NOW, NOW + timedelta(hours=26, seconds=1)), "PT26H1S"),
        (Lease(NOW, NOW + timedelta(hours=1), as_duration=False), "2026-01-31T11:00:00.000Z"),
        (
            Lease(NOW, NOW + timedelta(microseconds=3600000001), as_duration=False),
            "2026-01-31T11:00:00.000001Z",
        ),
        (Lease(NOW, None), "PT0S"),
        (Lease(NOW, None, as_duration=False), "PT0S"),
    ],
)
@pytest.mark.parametrize("operation", [Operation.SUBSCRIBE, Operation.RENEW, Operation.GET_STATUS])
def test_granted_expires(
    operation: Operation, lease: Lease, expected: str, validator: Validator
) -> None:
    granted = subscription(VERSION, lease=lease)
    action, octets = write_response(
        Subscribed(granted, NOW), context(operation, VERSION), message_id="urn:m"
    )
    assert action == f"{WSE11}/{operation.value}Response"
    assert text(octets, f"//wse11:{operation.value}Response/wse11:GrantedExpires") == expected
    validator.check(octets)


@pytest.mark.parametrize(
    ("left", "operation", "expected"),
    [
        (90.25, Operation.SUBSCRIBE, "PT1M30.25S"),
        (90.25, Operation.RENEW, "PT1M30.25S"),
        (90.25, Operation.GET_STATUS, "PT1M30S"),
        (0.25, Operation.SUBSCRIBE, "PT0.25S"),
        (0.25, Operation.GET_STATUS, "PT1S"),
        (-1, Operation.RENEW, "PT0.000001S"),
        (-1, Operation.GET_STATUS, "PT1S"),
    ],
)
def test_what_is_left_is_told_in_whole_seconds(
    left: float, operation: Operation, expected: str
) -> None:
    """And never as PT0S, which means that there is no end."""
    lease = Lease(NOW, NOW + timedelta(seconds=left))
    granted = Subscribed(subscription(VERSION, lease=lease), NOW)
    _, octets = write_response(granted, context(operation, VERSION), message_id="urn:m")
    assert text(octets, "//wse11:GrantedExpires") == expected


@given(st.integers(1, 10**15), st.booleans())
def test_what_is_granted_is_what_was_asked_for(microseconds: int, as_duration: bool) -> None:
    """Asked for, granted, told and read again, a lease is the same to the microsecond."""
    until = NOW + timedelta(microseconds=microseconds)
    granted = subscription(VERSION, lease=Lease(NOW, until, as_duration))
    _, octets = write_response(
        Subscribed(granted, NOW), context(Operation.SUBSCRIBE, VERSION), message_id="urn:m"
    )
    told = read_granted(octets).expires
    asked = subscribe(f"{DELIVERY}<wse11:Expires>{told}</wse11:Expires>").expires
    assert (asked.at(NOW), asked.as_duration, asked.never) == (until, as_duration, False)


def test_a_lease_without_end_is_told_as_none() -> None:
    granted = subscription(VERSION, lease=Lease(NOW, None))
    _, octets = write_response(
        Subscribed(granted, NOW), context(Operation.RENEW, VERSION), message_id="urn:m"
    )
    assert read_granted(octets) == Granted(None, None)
    of_2004 = envelope("<wse:RenewResponse><wse:Expires>PT0S</wse:Expires></wse:RenewResponse>")
    assert read_granted(of_2004) == Granted(None, "PT0S")


@pytest.mark.parametrize(("soap", "wsa"), BOTH)
def test_unsubscribe_response_is_an_element(soap: Soap, wsa: Wsa, validator: Validator) -> None:
    spoken = context(Operation.UNSUBSCRIBE, VERSION, soap=soap, wsa=wsa)
    action, octets = write_response(Done(), spoken, message_id="urn:m")
    assert action == f"{WSE11}/UnsubscribeResponse"
    assert [each.tag for each in body(octets)] == [f"{{{WSE11}}}UnsubscribeResponse"]
    validator.check(octets)


@pytest.mark.parametrize(("soap", "wsa"), BOTH)
@pytest.mark.parametrize("end", End)
def test_subscription_end(end: End, soap: Soap, wsa: Wsa, validator: Validator) -> None:
    key = b'<my:Key xmlns:my="http://sink.example.com/ns">2597</my:Key>'
    end_to = EndpointReference("http://sink.example.com/end", Wsa.V2005_08, (), (key,))
    ended = subscription(VERSION, soap=soap, wsa=wsa, end_to=end_to)
    action, octets = write_subscription_end(ended, end, message_id="urn:m", reason="a < b")
    assert action == f"{WSE11}/SubscriptionEnd" == text(octets, "//wsa:Action")
    (echoed,) = [block for block in headers(octets) if etree.QName(block).localname == "Key"]
    assert echoed.get(f"{{{wsa.value}}}IsReferenceParameter") == "true"
    (element,) = body(octets)
    assert [etree.QName(each).localname for each in element] == ["Status", "Reason"]
    assert element[0].text == f"{WSE11}/{end.value}" and element[1].text == "a < b"
    validator.check(octets)


# Notifications.

EVENT = Notification(
    "urn:1", "p", b'<o:R xmlns:o="urn:o">1</o:R>', NOW, topic=topic("{urn:w}a/b"), action="urn:a&b"
)


def delivered(event: Notification, raw: bool, soap: Soap = Soap.V1_1) -> bytes:
    one = subscription(VERSION, soap=soap, policy=Policy(raw=raw))
    return render(event, shape_of(one), "urn:g").fill(prepare(one), delivery_id(event, one.id))


@pytest.mark.parametrize("soap", Soap)
def test_unwrapped(soap: Soap, validator: Validator) -> None:
    octets = delivered(EVENT, True, soap)
    assert [canonical(each) for each in body(octets)] == [canonical(EVENT.payload)]
    assert text(octets, "//s:Header/wsa:Action") == "urn:a&b"
    assert text(octets, "//wsnt:Topic").endswith("a/b")
    validator.check(octets)


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("action", ["urn:a&b", None])
def test_wrapped(soap: Soap, action: str | None, validator: Validator) -> None:
    event = Notification("urn:1", "p", EVENT.payload, NOW, topic=EVENT.topic, action=action)
    octets = delivered(event, False, soap)
    assert text(octets, "//s:Header/wsa:Action") == NOTIFY_ACTION
    (notify,) = body(octets)
    assert (notify.tag, notify.get("actionURI")) == (f"{{{WSE11}}}Notify", action or "urn:o/R")
    assert [canonical(each) for each in notify] == [canonical(EVENT.payload)]
    assert text(octets, "//wsnt:Topic").endswith("a/b")
    validator.check(octets)


@pytest.mark.parametrize("raw", [False, True])
def test_a_consumer_reads_both(raw: bool) -> None:
    assert read_received(delivered(EVENT, raw)) == (
        Received(EVENT.topic, EVENT.payload, "urn:a&b", delivery_id(EVENT, "public"), None),
    )


def test_frames_are_not_shared_by_actions() -> None:
    other = Notification("urn:2", "p", EVENT.payload, NOW, topic=EVENT.topic, action="urn:c")
    seen = [part(delivered(each, False), "//wse11:Notify") for each in (EVENT, other, EVENT)]
    assert [each.get("actionURI") for each in seen] == ["urn:a&b", "urn:c", "urn:a&b"]


def notify(inner: str, attributes: str = "", header: str = "") -> bytes:
    return envelope(
        f"<wse11:Notify {attributes}>{inner}</wse11:Notify>",
        f"<wsa:Action>{NOTIFY_ACTION}</wsa:Action><wsa:MessageID>urn:m</wsa:MessageID>{header}",
    )


class TestPublications:
    def test_one(self) -> None:
        (event,) = events(
            notify(
                '<o:R xmlns:o="urn:o"/>', 'actionURI=" urn:a "', "<wsnt:Topic>storms</wsnt:Topic>"
            )
        )
        assert (event.id, event.action, clark(event.topic)) == ("urn:m", "urn:a", "storms")
        assert event.payload == b'<o:R xmlns:o="urn:o"/>'

    def test_several(self) -> None:
        found = events(notify("\n <a/> <!-- --> <b/>\n", 'actionURI="urn:a"'))
        assert [(each.id, each.payload, each.action) for each in found] == [
            ("urn:m#1", b"<a/>", "urn:a"),
            ("urn:m#2", b"<b/>", "urn:a"),
        ]

    def test_without_an_action(self) -> None:
        (event,) = events(notify("<a/>"))
        assert event.action is None
        own = envelope("<wse11:Notify><a/></wse11:Notify>", "<wsa:Action>urn:own</wsa:Action>")
        assert events(own)[0].action == "urn:own"

    def test_text(self) -> None:
        (event,) = events(notify("3 &lt; 4"))
        assert b"3 &lt; 4" in event.payload

    @pytest.mark.parametrize(
        "octets",
        [
            notify(""),
            notify(" \n<!-- -->"),
            notify("<a/>", f'actionURI="urn:{"a" * 5000}"'),
            notify("<a/>" * 300),
        ],
    )
    def test_refused(self, octets: bytes) -> None:
        assert refused(octets).refused.reason is Reason.MESSAGE_INVALID

    def test_it_is_not_answered(self) -> None:
        request = incoming(notify("<a/>")).request
        assert isinstance(request, Publish) and not request.answered


# Faults.

FAULTS = [
    (Reason.DELIVERY_MISSING, "NoDeliveryMechanismEstablished", None),
    (Reason.DELIVERY_MODE, "DeliveryFormatRequestedUnavailable", "SupportedDeliveryFormat"),
    (Reason.EPR_INVALID, "UnusableEPR", None),
    (Reason.CONSUMER_ADDRESS, "UnusableEPR", None),
    (Reason.SUBSCRIPTION_UNKNOWN, "UnknownSubscription", None),
    (Reason.EXPIRY_INVALID, "UnsupportedExpirationType", None),
    (Reason.EXPIRY_IN_THE_PAST, "UnsupportedExpirationValue", None),
    (Reason.EXPIRY_TOO_LONG, "UnsupportedExpirationValue", None),
    (Reason.FILTER_DIALECT, "FilteringRequestedUnavailable", "SupportedDialect"),
    (Reason.TOPIC_DIALECT, "FilteringRequestedUnavailable", "SupportedDialect"),
    (Reason.FILTER_INVALID, "CannotProcessFilter", None),
    (Reason.FILTER_COSTLY, "CannotProcessFilter", None),
    (Reason.TOPIC_INVALID, "CannotProcessFilter", None),
    (Reason.FILTER_EMPTY, "EmptyFilter", None),
]


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize(("reason", "subcode", "detail"), FAULTS)
def test_faults(
    reason: Reason, subcode: str, detail: str | None, soap: Soap, validator: Validator
) -> None:
    error = Refused(reason, "What was wrong.", names=("urn:one", "urn:two"))
    spoken = context(Operation.SUBSCRIBE, VERSION, soap=soap)
    status, _, octets = write_fault(error, spoken, now=NOW, message_id="urn:m")
    assert status == (500 if soap is Soap.V1_1 else 400)
    assert text(octets, "//s:Header/wsa:Action") == f"{WSE11}/fault"
    said = "//faultcode" if soap is Soap.V1_1 else "//s:Subcode/s:Value"
    assert text(octets, said) == f"wse:{subcode}" and part(octets, said).nsmap["wse"] == WSE11
    if soap is Soap.V1_2:
        assert text(octets, "//s:Code/s:Value") == "s:Sender"
    inside = parts(octets, "//detail/*" if soap is Soap.V1_1 else "//s:Detail/*")
    offered = ["urn:one", "urn:two"] if detail else []
    if detail == "SupportedDialect":
        topics = topic_dialects() if reason is Reason.FILTER_DIALECT else ()
        offered[:0] = [XPATH_10, *topics]
    assert [(each.tag, each.text) for each in inside] == [
        (f"{{{WSE11}}}{detail}", uri) for uri in offered
    ]
    assert "What was wrong" in text(
        octets, "//faultstring" if soap is Soap.V1_1 else "//s:Reason/s:Text"
    )
    validator.check(octets)


@pytest.mark.parametrize("soap", Soap)
def test_what_has_no_fault_is_a_plain_one(soap: Soap) -> None:
    rejected = refused(envelope("<wse11:Subscribe/>", soap=soap))
    _, _, octets = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:m")
    if soap is Soap.V1_1:
        assert text(octets, "//faultcode") == "s:Client"
    else:
        assert parts(octets, "//s:Subcode") == []


# Our own side.


@pytest.mark.parametrize("raw", [False, True])
def test_our_subscribe(raw: bool, validator: Validator) -> None:
    consumer = EndpointReference("http://sink.example.com/", Wsa.V2005_08)
    _, octets = write_subscribe(
        SPECS[VERSION], to="urn:to", consumer=consumer, message_id="urn:m", xpath="/o:R",
        namespaces={"o": "urn:o"}, expires="PT1H", end_to=consumer, raw=raw,
    )  # fmt: skip
    validator.check(octets)
    (element,) = body(octets)
    names = [etree.QName(each).localname for each in element]
    assert names == ["EndTo", "Delivery", *([] if raw else ["Format"]), "Expires", "Filter"]
    assert element.findtext(f"{{{WSE11}}}Filter") == "/o:R"
    assert b"> <" not in octets and b">\n" not in octets, "CXF takes blanks for content"
    request = incoming(octets).request
    assert isinstance(request, Subscribe)
    assert request.raw is raw and request.expires.best_effort
    assert request.filter.contents == (
        Expression("/o:R", dialects.XPATH_1_0, request.filter.contents[0].namespaces),
    )


@given(
    st.sampled_from(["/o:R", "o:v > 1 and o:v < '&'", 'not(//p:x[@a = "\'"])', "self::o:R"]),
    st.dictionaries(
        st.sampled_from(["o", "p", "wse", "wsa", "s"]), st.sampled_from(["urn:a", "urn:b&c"])
    ),
    st.sampled_from([None, "storms", "o:a/b", "{urn:n}a//."]),
)
def test_what_we_ask_for_is_what_is_read(
    xpath: str, namespaces: dict[str, str], topic_: str | None
) -> None:
    """A filter is the same when it has been written and read, whatever its prefixes are."""
    scope = {"o": "urn:o", "p": "urn:p", **namespaces}
    consumer = EndpointReference("http://sink.example.com/", Wsa.V2005_08)
    _, octets = write_subscribe(
        SPECS[VERSION], to="urn:to", consumer=consumer, message_id="urn:m", topic=topic_,
        xpath=xpath, namespaces=scope,
    )  # fmt: skip
    request = incoming(octets).request
    assert isinstance(request, Subscribe)
    [content] = request.filter.contents
    assert (content.text, content.dialect) == (xpath, dialects.XPATH_1_0)
    read = dict(content.namespaces)
    assert {prefix: read[prefix] for prefix in scope} == scope
    assert content.view is PAYLOAD
    assert len(request.filter.topics) == (topic_ is not None)


def test_a_wrapped_event_of_cxf_has_no_action_of_its_own() -> None:
    octets = notify("<a/>")
    assert read_received(octets) == (Received(None, b"<a/>", NOTIFY_ACTION, "urn:m"),)


def test_leases_are_granted_as_asked_for() -> None:
    rules = SPECIFICATIONS[VERSION].leases
    assert (rules.shortens, rules.endless, rules.unasked_endless) == (False, True, True)


def test_2004_01_is_told_of_2004_08() -> None:
    octets = envelope('<Subscribe xmlns="http://schemas.xmlsoap.org/ws/2004/01/eventing"/>')
    rejected = refused(octets)
    assert rejected.refused.reason is Reason.ACTION_UNSUPPORTED
    assert rejected.refused.text.startswith("WS-Eventing 2004/01 is not offered")
    assert "WS-Eventing 2004/08" in rejected.refused.text
    assert WSE not in rejected.refused.text


def test_the_end_as_cxf_sends_it() -> None:
    """Its element has the names that JAX-WS makes of its Java interface."""
    octets = envelope(
        '<n:subscriptionEnd xmlns:n="http://client.eventing.ws.cxf.apache.org/">'
        f"<wse11:Status>{WSE11}/SourceShuttingDown</wse11:Status>"
        '<wse11:Reason xml:lang="en-US">bye</wse11:Reason></n:subscriptionEnd>',
        f"<wsa:Action>{WSE11}/SubscriptionEnd</wsa:Action>",
    )
    assert read_received(octets) == Ended("SourceShuttingDown", "bye")
    assert incoming(octets).context.operation is Operation.SUBSCRIPTION_END


# The cases that peers stumble over first.


@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("pretty", [False, True])
def test_the_minimal_subscribe_and_its_exact_answer(soap: Soap, pretty: bool) -> None:
    inner = (
        f"<wsa:Action>{WSE11}/Subscribe</wsa:Action><wsa:MessageID>urn:uuid:1</wsa:MessageID>"
        f"<wsa:To>http://gateway.example.org/soap</wsa:To>"
    )
    octets = envelope(
        f"<wse11:Subscribe>{DELIVERY}</wse11:Subscribe>", inner, soap=soap, wsa=Wsa.V2005_08
    )
    if pretty:
        octets = octets.replace(b"><", b">\n    <")
        octets = octets.replace(b">urn:sink<", b">\n      urn:sink\n    <")
    read = incoming(octets)
    assert read.request == Subscribe(EndpointReference("urn:sink", Wsa.V2005_08), raw=True)
    granted = subscription(VERSION, soap=soap, lease=Lease(NOW, None))
    _, answer = write_response(Subscribed(granted, NOW), read.context, message_id="urn:uuid:2")
    wsa = Wsa.V2005_08.value
    address = f"http://gateway.example.org/subscriptions/{KEY}"
    assert answer.decode() == (
        f'<s:Envelope xmlns:s="{soap.value}" xmlns:wsa="{wsa}"><s:Header>'
        f"<wsa:Action>{WSE11}/SubscribeResponse</wsa:Action>"
        f"<wsa:MessageID>urn:uuid:2</wsa:MessageID><wsa:To>{wsa}/anonymous</wsa:To>"
        "<wsa:RelatesTo>urn:uuid:1</wsa:RelatesTo></s:Header><s:Body>"
        f'<wse:SubscribeResponse xmlns:wse="{WSE11}"><wse:SubscriptionManager>'
        f'<wsa:Address xmlns:wsa="{wsa}">{address}</wsa:Address>'
        f'<wsa:ReferenceParameters xmlns:wsa="{wsa}">'
        f'<k:Identifier xmlns:k="urn:dragoman:reference:1">urn:uuid:{KEY}</k:Identifier>'
        "</wsa:ReferenceParameters></wse:SubscriptionManager>"
        "<wse:GrantedExpires>PT0S</wse:GrantedExpires></wse:SubscribeResponse>"
        "</s:Body></s:Envelope>"
    )


@pytest.mark.parametrize("soap", Soap)
def test_the_exact_wrapped_notification(soap: Soap) -> None:
    event = Notification("urn:1", "p", b'<o:R xmlns:o="urn:o">1</o:R>', NOW, action="urn:act")
    octets = delivered(event, False, soap)
    wsa = Wsa.V2005_08.value
    assert octets.decode() == (
        f'<s:Envelope xmlns:s="{soap.value}" xmlns:wsa="{wsa}"><s:Header>'
        f"<wsa:Action>{NOTIFY_ACTION}</wsa:Action>"
        f"<wsa:MessageID>{delivery_id(event, 'public')}</wsa:MessageID>"
        "<wsa:To>http://sink.example.com/x</wsa:To>"
        '<wsnt:Topic xmlns:wsnt="http://docs.oasis-open.org/wsn/b-2" '
        f'Dialect="{dialects.TOPIC_SIMPLE}">{DEFAULT_TOPIC}</wsnt:Topic></s:Header><s:Body>'
        f'<wse:Notify xmlns:wse="{WSE11}" actionURI="urn:act">'
        '<o:R xmlns:o="urn:o">1</o:R></wse:Notify></s:Body></s:Envelope>'
    )
