"""What is read by a mould is what it would be read as a whole, whatever the message."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filters import parse_clark
from mediation.detect import read
from mediation.matrix import PUBLISHING, Dialect, write_publication
from mediation.model.messages import Notification
from mediation.model.requests import EndpointRules, Incoming, Publish, Sequences
from mediation.model.versions import Version
from mediation.profiles import TOPIC_SIGNS
from mediation.soap.recurring import Moulds, _place_of
from tests.rigs.cases import for_each
from tests.rigs.matrix import SOURCES
from tests.rigs.mediation import ARRIVAL, ENVELOPES, NOW, WSE, WSNT, envelope
from tests.rigs.moulds import outcome, same, taught, teach, untaught, whole
from tests.rigs.payloads import elements

GATEWAY = "http://gateway.example.org/soap"
ID = "urn:uuid:6e2d0f0b-5d0a-41c1-a912-36674836804f"
EVENT = '<o:R xmlns:o="urn:o">1</o:R>'
OTHER = '<p:S xmlns:p="urn:p" a="x">two &amp; <p:T/></p:S>'
WINDOWS = "http://schemas.microsoft.com/win/2004/08/events/event"
SPOKEN = [
    pytest.param(dialect, id=dialect.name)
    for dialect in PUBLISHING
    if dialect.in_soap and dialect.name != "grid-events"
]


def published(dialect: Dialect, payload: str, id: str = ID) -> bytes:
    event = Notification(
        id, "publisher", payload.encode(), NOW, parse_clark("storms"), "urn:o/Changed"
    )
    return write_publication(dialect, event, GATEWAY).octets


@pytest.mark.parametrize("dialect", SPOKEN)
def test_the_next_message_of_a_publisher_is_read_by_a_mould(dialect: Dialect) -> None:
    moulds = taught(published(dialect, EVENT))
    later = replace(ARRIVAL, source="another", fresh_id="urn:uuid:2", url_topic=parse_clark("u"))
    for payload in (EVENT, OTHER, "<o:R xmlns:o='urn:o' >3<b></b></o:R>", "<plain/>"):
        assert same(moulds, published(dialect, payload, "urn:uuid:2"), later)


def test_three_times_make_a_mould() -> None:
    octets = published(PUBLISHING[0], EVENT)
    moulds = untaught()
    for known in (False, False, False, True, True):
        assert same(moulds, octets) is known
        teach(moulds, octets)


@pytest.mark.parametrize("dialect", SPOKEN)
@settings(max_examples=25)
@given(payload=elements(), around=st.sampled_from(["", " ", "<!-- -->", "x", "<b/>"]))
def test_any_event_is_what_it_is_as_a_whole(dialect: Dialect, payload: str, around: str) -> None:
    moulds = _taught_once(dialect)
    octets = published(dialect, EVENT).replace(EVENT.encode(), (payload + around).encode())
    same(moulds, octets)
    assert outcome(lambda: read(octets, ARRIVAL)) == whole(octets)


@pytest.mark.parametrize("dialect", SPOKEN)
@settings(max_examples=50)
@given(data=st.data())
def test_any_message_is_what_it_is_as_a_whole(dialect: Dialect, data: st.DataObject) -> None:
    octets = published(dialect, OTHER)
    at = data.draw(st.integers(0, len(octets)))
    cut = data.draw(st.integers(0, 12))
    put = data.draw(
        st.one_of(
            st.binary(max_size=3),
            st.text("<>/&;'\"=: \r\n\x00x", max_size=4).map(str.encode),
            st.sampled_from([b"<a>", b"</a>", b"<!--", b"<![CDATA[", b"]]>", b"<?p?>", b"&#65;"]),
        )
    )
    changed = octets[:at] + put + octets[at + cut :]
    moulds = _taught_once(dialect)
    same(moulds, changed)
    teach(moulds, octets)


_known: dict[str, Moulds] = {}


def _taught_once(dialect: Dialect) -> Moulds:
    if dialect.name not in _known:
        _known[dialect.name] = taught(published(dialect, EVENT))
    return _known[dialect.name]


IDS = ["", " ", "urn:a b", "urn:a&amp;b", "urn:&lt;", "a]]>b", "\r\nurn:x", "ä", "x" * 251, "<b/>"]


@pytest.mark.parametrize("id", [*IDS, "<!--c-->urn:x", "x" * 5000])
def test_ids_that_are_no_plain_ones_are_read_as_a_whole(id: str) -> None:
    octets = published(PUBLISHING[0], EVENT)
    assert not same(taught(octets), octets.replace(ID.encode(), id.encode()))


@pytest.mark.parametrize(
    "payload",
    [
        "<s:Fault/>",
        '<R xmlns="urn:r"><s:b xmlns:s="urn:own"/></R>',
        "<o:R a=' xmlns:s=' xmlns:o='urn:o'>s:name</o:R>",
        "<o:R xmlns:o='urn:o'>s:name</o:R>",
        "<o:R xmlns:o='urn:o' a='wsa:name'/>",
        f'<e:Renew xmlns:e="{WSE}"/>',
        f'<n:Nothing xmlns:n="{WSNT}"/>',
        "<handleEvent/>",
        '<h:handleEvent xmlns:h="urn:h"/>',
        '<s:Fault xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"/>',
        f'<Event xmlns="{WINDOWS}"><System><Channel>Some/Where</Channel></System></Event>',
        "<o:R xmlns:o='urn:o'>PrefixList</o:R>",
        "<o:R xmlns:o='urn:o'><!-- --></o:R>",
        "<o:R xmlns:o='urn:o'><?p?></o:R>",
        "<a>" * 253 + "</a>" * 253,
        "<a>" * 300 + "</a>" * 300,
        "<R " + " ".join(f'a{number}=""' for number in range(129)) + "/>",
        "<R>" + " = " * 128 + "</R>",
        "<R",
        "R/>",
        "",
        " ",
    ],
)
@for_each("dialect", SPOKEN)
def test_what_may_mean_more_where_it_stands_is_read_as_a_whole(
    dialect: Dialect, payload: str
) -> None:
    octets = published(dialect, EVENT)
    changed = octets.replace(EVENT.encode(), payload.encode())
    assert not same(taught(octets), changed)
    assert outcome(lambda: read(changed, ARRIVAL)) == whole(changed)


def message(head: str, body: str) -> bytes:
    return envelope(body, head)


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("<o:Block xmlns:o='urn:o'><!-- <wsa:MessageID>urn:1</wsa:MessageID> --></o:Block>", ""),
        ("<o:Block xmlns:o='urn:o'><MessageID>urn:1</MessageID></o:Block>", ""),
        ("", "<o:R xmlns:o='urn:o'>1</o:R>"),
        ("", "<!-- -->"),
        ("<wsa:RelatesTo>urn:uuid:9</wsa:RelatesTo>", ""),
    ],
)
def test_what_looks_like_the_places_of_an_envelope(before: str, behind: str) -> None:
    """Wherever a mould is made of it, it reads as all would be read."""

    def made(id: str, event: str) -> bytes:
        head = f"{before}<wsa:Action>urn:o/R</wsa:Action><wsa:MessageID>{id}</wsa:MessageID>"
        return message(head, event + behind)

    moulds = taught(made("urn:uuid:1", EVENT))
    for id, event in (("urn:uuid:2", OTHER), ("urn:uuid:1", "<R/>"), ("urn:3", EVENT * 2)):
        same(moulds, made(id, event))
        same(moulds, made(id, event).replace(b"urn:1", b"urn:2"))


def test_messages_in_sequences_and_with_attachments_have_no_moulds() -> None:
    octets = published(PUBLISHING[0], EVENT)
    rules = EndpointRules(sequences=Sequences.OFFERED)
    assert not same(taught(octets, replace(ARRIVAL, rules=rules)), octets)
    assert not same(taught(octets), octets, replace(ARRIVAL, rules=rules))


def test_what_the_address_decides_is_part_of_a_mould() -> None:
    octets = published(PUBLISHING[0], EVENT)
    moulds = taught(octets)
    rules = EndpointRules(answers=Version.MESSENGER)
    assert not same(moulds, octets, replace(ARRIVAL, rules=rules))
    assert not same(moulds, octets, replace(ARRIVAL, http_action="urn:another"))
    for _ in range(3):
        teach(moulds, octets, replace(ARRIVAL, rules=rules))
    assert same(moulds, octets, replace(ARRIVAL, rules=rules))
    assert same(moulds, octets)


def test_a_topic_that_nobody_names_is_looked_for_in_the_event() -> None:
    def notify(event: str) -> bytes:
        return message(
            "",
            f'<wsnt:Notify xmlns:wsnt="{WSNT}"><wsnt:NotificationMessage><wsnt:Message>{event}'
            "</wsnt:Message></wsnt:NotificationMessage></wsnt:Notify>",
        )

    (sign, *_) = (name for name in TOPIC_SIGNS if name.startswith("{"))
    namespace, _, local = sign[1:].partition("}")
    moulds = taught(notify(EVENT), replace(ARRIVAL, url_topic=None))
    for url_topic in (None, parse_clark("a/b")):
        arrival = replace(ARRIVAL, url_topic=url_topic)
        assert same(moulds, notify(OTHER), arrival)
        assert not same(moulds, notify(f'<m:{local} xmlns:m="{namespace}"/>'), arrival)


@pytest.mark.parametrize(
    "payload",
    [
        '<R xmlns="urn:r" xmlns:s="urn:own"><s:b>s:c</s:b></R>',
        '<R xmlns="urn:r"><b xmlns="">1</b></R>',
        '<R xmlns=""><b/></R>',
    ],
)
def test_an_event_that_declares_itself_what_its_envelope_does(payload: str) -> None:
    body = (
        f'<Notify xmlns="{WSNT}"><NotificationMessage><Topic>a</Topic><Message>{EVENT}</Message>'
        "</NotificationMessage></Notify>"
    )
    octets = message("<wsa:MessageID>urn:1</wsa:MessageID>", body)
    changed = octets.replace(EVENT.encode(), payload.encode())
    assert same(taught(octets), changed)
    assert same(taught(changed), octets)


def test_a_publisher_whose_events_use_its_envelope_has_no_mould() -> None:
    octets = published(PUBLISHING[0], "<o:R xmlns:o='urn:o'>s:name</o:R>")
    assert not same(taught(octets), octets.replace(b"s:name", b"name"))


def test_a_mould_that_fails_again_and_again_is_not_tried_any_more() -> None:
    octets = published(PUBLISHING[0], EVENT)
    bad = octets.replace(EVENT.encode(), b"<o:R xmlns:o='urn:o'>s:name</o:R>")
    moulds = taught(octets)
    for times in (15, 15):
        for _ in range(times):
            assert not same(moulds, bad)
        assert same(moulds, octets)
    for _ in range(16):
        assert not same(moulds, bad)
    assert not same(moulds, octets)


def test_an_event_whose_name_begins_another() -> None:
    head = "<wsa:MessageID>urn:1</wsa:MessageID><o:RR xmlns:o='urn:o'/>"
    octets = message(head, EVENT)
    assert same(taught(octets), octets.replace(EVENT.encode(), OTHER.encode()))


def test_what_is_kept_is_bounded() -> None:
    moulds = untaught()
    for number in range(300):
        octets = published(PUBLISHING[0], EVENT).replace(b"urn:o/", b"urn:%d/" % number)
        for _ in range(3):
            teach(moulds, octets)
        assert same(moulds, octets)
    assert len(moulds._moulds) <= 128
    assert len(moulds._seen) <= 4096


def test_long_messages_have_no_moulds() -> None:
    octets = published(PUBLISHING[0], "<R>" + "x" * 17_000 + "</R>")
    assert not same(taught(octets), octets)


def test_a_message_of_one_publisher_tells_nothing_of_another() -> None:
    octets = published(PUBLISHING[0], EVENT)
    moulds = taught(octets)
    found = moulds.read(octets, replace(ARRIVAL, source="somebody"), None)
    assert found is not None
    assert isinstance(found.request, Publish)
    assert [event.source for event in found.request.notifications] == ["somebody"]


def test_names_are_told_to_who_counts_them() -> None:
    octets = published(PUBLISHING[0], EVENT)
    learnt = set[str]()
    assert taught(octets).read(octets, ARRIVAL, learnt) is not None
    assert "{urn:o}R" in learnt


STORED = sorted({*ENVELOPES.rglob("*.xml"), *SOURCES.rglob("*.xml")})


@for_each("path", [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in STORED])
def test_nothing_else_is_read_in_the_events_of_stored_messages(path: Path) -> None:
    """What is read of a message because of its event is read with an envelope that is known, too:
    such events are no plain ones."""
    octets = path.read_bytes()
    for arrival in (ARRIVAL, replace(ARRIVAL, url_topic=parse_clark("a/b"))):
        read_ = whole(octets, arrival)
        request = read_.request if isinstance(read_, Incoming) else None
        if not isinstance(request, Publish):
            return
        for event in request.notifications:
            place = _place_of(event.payload, octets, 0)
            if place is not None:
                start, stop = place
                other = octets[:start] + EVENT.encode() + octets[stop:]
                if isinstance(whole(other, arrival), Incoming):
                    same(taught(other, arrival), octets, arrival)
