"""Each peculiarity of the table is dealt with as its row says: one test a row, by its name."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from lxml import etree

from filters import KNOWN_PREFIXES, Reason, dialects
from mediation import names
from mediation.client import SPECS, write_subscribe
from mediation.model.expiry import parse_date_time
from mediation.model.messages import (
    EndpointReference,
    Lease,
    Notification,
    Packaging,
    Policy,
    Subscription,
)
from mediation.model.requests import Publish, Rejected, Subscribe
from mediation.model.versions import Soap, Spec, Version, Wsa
from mediation.profiles import PRODUCERS, PROFILES, SENDING, profiles_of
from mediation.rendering import prepare, render, shape_of
from mediation.soap.addressing import is_anonymous
from tests.rigs.cases import for_each
from tests.rigs.document_metadata import FOLDER, SUBMISSION_SET, RegistryObject, submission
from tests.rigs.mediation import (
    ARRIVAL,
    NOW,
    body,
    clark,
    envelope,
    events,
    incoming,
    stored,
    subscription,
    text,
    topic,
)

CHECKS: dict[str, Callable[[], None]] = {}


def row(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def kept(check: Callable[[], None]) -> Callable[[], None]:
        CHECKS[name] = check
        return check

    return kept


def test_every_row_has_its_test() -> None:
    assert set(CHECKS) == set(PROFILES)


@for_each("name", PROFILES)
def test_a_peculiarity_is_dealt_with(name: str) -> None:
    CHECKS[name]()


@for_each("name", PROFILES)
def test_a_row_reads_well(name: str) -> None:
    one = PROFILES[name]
    assert one.peers and one.does and one.done and one.case
    assert not any(said.endswith(".") or "|" in said for said in (one.peers, one.does, one.done))
    assert {dialects.SPELLINGS[spelled] for spelled in one.dialects} == set(one.dialects.values())


def test_every_misspelling_of_a_dialect_is_in_a_row() -> None:
    known = set[str]().union(*(one.dialects for one in PROFILES.values()))
    own = {uri for uri in vars(dialects).values() if isinstance(uri, str)}
    assert set(dialects.SPELLINGS) - own == known


def subscribed(name: str) -> tuple[Subscribe, Subscription]:
    """A stored Subscribe, and the subscription that comes of it."""
    read = incoming(stored(name))
    request, context = read.request, read.context
    assert isinstance(request, Subscribe) and context.version is not None
    until = request.expires.at(NOW)
    one = subscription(
        context.version,
        consumer=request.consumer,
        lease=Lease(NOW, until, request.expires.as_duration),
        policy=Policy(raw=request.raw, dialect=request.dialect),
    )
    return request, replace(one, spec=Spec(context.version, context.soap, context.wsa))


def delivered_to(one: Subscription, event: Notification) -> bytes:
    rendering = render(event, shape_of(one), "http://gateway.example.org/soap")
    return rendering.fill(prepare(one), "urn:uuid:1")


STORM = Notification("urn:1", "p", b"<a/>", NOW, topic("storms"))


@row("ws-messenger")
def _messenger() -> None:
    _, one = subscribed("ws-messenger-wse-2004-08-subscribe")
    assert "ws-messenger" in profiles_of(one)
    header = etree.fromstring(delivered_to(one, STORM)).find(f".//{{{names.WSN_IBM}}}Topic")
    assert header is not None and header.get("Dialect") == dialects.TOPIC_IBM_SIMPLE


@row("mixed-addressing")
def _mixed() -> None:
    _, one = subscribed("savan-c-wse-2004-08-subscribe")
    assert (one.spec.wsa, one.consumer.wsa) == (Wsa.V2005_08, Wsa.V2004_08)
    assert "mixed-addressing" in profiles_of(one)
    assert "mixed-addressing" not in profiles_of(subscription())


@row("onvif-dialect")
def _onvif() -> None:
    one = subscription(policy=Policy(dialect=dialects.TOPIC_CONCRETE_SET))
    assert list(profiles_of(one)) == ["onvif-dialect"]
    assert dialects.TOPIC_CONCRETE_SET.encode() in delivered_to(one, STORM)


@row("absolute-times")
def _absolute() -> None:
    one = subscription(lease=Lease(NOW, NOW, as_duration=False))
    assert list(profiles_of(one)) == ["absolute-times"]


@row("no-addressing")
def _no_addressing() -> None:
    _, one = subscribed("cxf-wsn-1.3-subscribe")
    assert "no-addressing" in profiles_of(one)
    assert text(delivered_to(one, STORM), "//s:Header/wsa:To") == one.consumer.address


@row("no-dialect")
def _no_dialect() -> None:
    request, _ = subscribed("cxf-wsn-1.3-subscribe")
    assert request.filter.topics[0].dialect == dialects.TOPIC_SIMPLE


@row("misspelt-dialect")
def _misspelt_dialect() -> None:
    request, _ = subscribed("tukdsub-wsn-1.3-subscribe")
    assert request.filter.topics[0].dialect == dialects.TOPIC_SIMPLE


@row("wrong-namespace")
def _wrong_namespace() -> None:
    request, _ = subscribed("openhab-wsn-1.3-subscribe")
    assert request.consumer.address.startswith("http://192.0.2.5:8080/")


@row("address-of-base-faults")
def _base_faults() -> None:
    named = incoming(stored("servicemix-wsn-1.3-unsubscribe")).named
    assert named.body


@row("misspelt-anonymous")
def _anonymous() -> None:
    assert is_anonymous("http://www.w3.org/2005/08/addressing/role/anonymous")


@row("body-reference")
def _body_reference() -> None:
    assert incoming(stored("oscars-wsn-1.3-renew")).named.body


@row("to-alone")
def _to_alone() -> None:
    named = incoming(stored("reolink-wsn-1.3-renew")).named
    assert named.to and not named.identifiers and not named.body


@row("bare-path")
def _bare_path() -> None:
    to = "<wsa:To>/subscriptions/22e8a584</wsa:To>"
    assert incoming(envelope("<wsnt:Unsubscribe/>", to)).named.to == "/subscriptions/22e8a584"


@row("header-names")
def _header_names() -> None:
    for name in PROFILES["header-names"].identifiers:
        block = f'<x:{name} xmlns:x="urn:x" s:mustUnderstand="true"> key </x:{name}>'
        named = incoming(envelope("<wsnt:Unsubscribe/>", block)).named
        assert named.identifiers == ("key",)


@row("unqualified-attributes")
def _unqualified() -> None:
    request, _ = subscribed(
        "agsh-wsn-1.3-subscribe"
    )  # Its wsa:To has one, of a block that is known.
    assert request.consumer.address
    for attribute, refused in (("mustUnderstand", False), ("s:mustUnderstand", True)):
        block = f'<x:Key xmlns:x="urn:x" {attribute}="1"/>'
        octets = envelope("<w:Storm xmlns:w='urn:w'/>", block)
        if refused:
            with pytest.raises(Rejected) as rejected:
                incoming(octets)
            assert rejected.value.refused.reason is Reason.NOT_UNDERSTOOD
        else:
            assert isinstance(incoming(octets).request, Publish)


@row("nested-reference")
def _nested() -> None:
    request, _ = subscribed("layer7-wsn-1.3-subscribe")
    assert request.consumer.address.startswith("http")


@row("padded-texts")
def _padded() -> None:
    request, _ = subscribed("servicemix-wsn-1.3-subscribe")
    assert request.consumer.address == request.consumer.address.strip()
    assert request.filter.topics[0].text == "npex:SomeTopic"


@row("undeclared-prefix")
def _undeclared() -> None:
    prefixes = PROFILES["undeclared-prefix"].prefixes
    assert prefixes == KNOWN_PREFIXES
    for prefix, namespace in prefixes.items():
        block = f'<wsnt:Topic Dialect="{dialects.TOPIC_SIMPLE}">{prefix}:x</wsnt:Topic>'
        (event,) = events(envelope("<x/>", block))
        assert clark(event.topic) == f"{{{namespace}}}x"


@row("action-of-management")
def _management() -> None:
    context = incoming(stored("openwsman-wse-2004-08-delivery")).context
    assert context.headers.action


@row("misspelt-action")
def _misspelt_action() -> None:
    read = incoming(stored("openwsman-wse-2004-08-getstatus"))
    assert read.context.operation is not None
    for spelled, meant in PROFILES["misspelt-action"].actions.items():
        assert spelled.rpartition("/")[2][:4] == meant.rpartition("/")[2][:4]


@row("forbidden-characters")
def _forbidden_characters() -> None:
    for name in PROFILES["forbidden-characters"].mended:
        block = f"<m:{name.rpartition('}')[2]} xmlns:m='{names.WSMAN}'>"
        block += f"<m:Event>\x01</m:Event></m:{name.rpartition('}')[2]}>"
        event = "<a/>" if name.endswith("AckRequested") else ""
        octets = envelope(event or block, block if event else "")
        assert isinstance(incoming(octets).request, Publish)


@row("answered-publications")
def _answered() -> None:
    request = incoming(stored("ws-messenger-wse-2004-08-publish")).request
    assert isinstance(request, Publish) and request.answered


@row("blank-is-content")
def _no_blanks() -> None:
    for version, spec in SPECS.items():
        if version is Version.CLOUDEVENTS:
            continue
        consumer = EndpointReference("http://c.example.org/", spec.wsa or Wsa.V2005_08)
        _, octets = write_subscribe(
            spec, to="http://p.example.org/", consumer=consumer, message_id="urn:1"
        )
        (subscribe,) = body(octets)
        assert not any((one.tail or "").isspace() for one in subscribe.iter())


@row("no-zone")
def _no_zone() -> None:
    assert parse_date_time("2026-01-31T10:00:00") == NOW


@row("topic-union")
def _union() -> None:
    block = f'<wsnt:Topic Dialect="{dialects.TOPIC_FULL}">a|b</wsnt:Topic>'
    assert [clark(one.topic) for one in events(envelope("<x/>", block))] == ["a", "b"]


@row("unsaid-topic")
def _unsaid() -> None:
    document = RegistryObject("d1", {})
    submission_set = RegistryObject("s1", {}, node=SUBMISSION_SET, element="RegistryPackage")
    folder = RegistryObject("f1", {}, node=FOLDER, element="RegistryPackage")
    told: dict[str, list[str | None]] = {
        submission(document): ["FullDocumentEntry"],
        submission(submission_set): ["SubmissionSetMetadata"],
        submission(folder): ["FolderMetadata"],
        submission(folder, submission_set, document): [
            "FullDocumentEntry",
            "SubmissionSetMetadata",
            "FolderMetadata",
        ],
        submission(): [None],
    }
    for payload, topics in told.items():
        expected = [one and f"{{urn:ihe:iti:dsub:2009}}{one}" for one in topics]
        published = events(envelope(notify(payload)))
        assert [clark(one.topic) for one in published] == expected
        assert len({one.id for one in published}) == len(published)
        assert len({one.payload for one in published}) == 1
    # Neither in other content, nor where anybody says a topic.
    (other,) = events(envelope(notify(f"<a>{submission(document)}</a>")))
    assert other.topic is None
    said = f'<wsnt:Topic Dialect="{dialects.TOPIC_SIMPLE}">other</wsnt:Topic>'
    (one,) = events(envelope(notify(submission(document), said)))
    assert clark(one.topic) == "other"
    (one,) = events(
        envelope(notify(submission(document))), replace(ARRIVAL, url_topic=topic("storms"))
    )
    assert clark(one.topic) == "storms"


def notify(payload: str, said: str = "") -> str:
    """A publication in the form of ITI-54: a producer, and no topic but what is *said*."""
    producer = "<wsnt:ProducerReference><wsa:Address>urn:p</wsa:Address></wsnt:ProducerReference>"
    return (
        f"<wsnt:Notify><wsnt:NotificationMessage>{said}{producer}<wsnt:Message>{payload}"
        "</wsnt:Message></wsnt:NotificationMessage></wsnt:Notify>"
    )


@row("http-1.0")
def _http() -> None:
    assert SENDING["http-1.0"].http == "1.0"


@row("no-attachments")
def _attachments() -> None:
    assert SENDING["no-attachments"].attachments is Packaging.NONE


@row("soap-1.1")
def _() -> None:
    assert PRODUCERS["soap-1.1"].soap is Soap.V1_1


@row("cxf")
def _() -> None:
    cxf = PRODUCERS["cxf"]
    assert not (cxf.addressing or cxf.pauses or cxf.checks) and cxf.soap is Soap.V1_1


@row("dpws")
def _() -> None:
    assert PRODUCERS["dpws"].wsa is Wsa.V2005_08 and not PRODUCERS["dpws"].pauses


@row("dpws-1.0")
def _() -> None:
    assert PRODUCERS["dpws-1.0"].wsa is Wsa.V2004_08 and not PRODUCERS["dpws-1.0"].pauses


@row("wsman")
def _() -> None:
    wsman = PRODUCERS["wsman"]
    assert wsman.management and wsman.version is Version.WSE_2004_08 and not wsman.checks


@row("onvif")
def _() -> None:
    camera = PRODUCERS["onvif"]
    assert camera.device and camera.username_token and camera.version is Version.WSN_1_3


def test_a_producer_without_a_peculiarity_has_a_name() -> None:
    assert next(iter(PRODUCERS)) == "standard" and "standard" not in PROFILES
