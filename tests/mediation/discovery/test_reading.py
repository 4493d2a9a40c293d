"""Messages of topic discovery, read: what the schema allows, and what is refused."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from lxml import etree

from filters import Refused
from mediation.discovery import (
    MAX_DESCRIPTORS,
    MAX_MESSAGE,
    MAX_RESULTS,
    Descriptors,
    Element,
    Malformed,
    Property,
    PropertyType,
    SignedTopicAdvertisement,
    TopicAdvertisement,
    TopicDiscoveryRequest,
    TopicDiscoveryResponse,
    TopicWithdrawal,
    read,
    read_advertisement,
    read_as,
    write,
)
from tests.rigs import discovery, discovery_strategies
from tests.rigs.cases import for_each
from tests.rigs.discovery import ELEMENTS

SCHEMA = etree.XMLSchema(
    etree.fromstring((files("mediation") / "schemas" / "tdn-1.xsd").read_bytes())
)
ADDED = (
    "Encrypted",
    "CreatedBefore",
    "ExpiresAfter",
    "ExpiresBefore",
    "ValidityAtLeast",
    "ValidityAtMost",
    "Schema",
    "EventSigners",
)
NAMES = [type(element).__name__ for element in ELEMENTS]


def of(name: str) -> bytes:
    return write(ELEMENTS[NAMES.index(name)])


def readable(octets: bytes) -> bool:
    """Whether it, and all that it carries, can be read."""
    try:
        value = read(octets).value
        for field in ("advertisement", "possession", "delegation"):
            if inside := getattr(value, field, None):
                read(inside)
        for signed in getattr(value, "advertisements", ()):
            read_advertisement(read_as(SignedTopicAdvertisement, signed).value.advertisement)
    except Refused:
        return False
    return True


@pytest.mark.parametrize("value", ELEMENTS, ids=NAMES)
def test_what_is_written_is_read(value: Element) -> None:
    octets = write(value)
    SCHEMA.assertValid(etree.fromstring(octets))
    received = read(octets)
    assert received.value == value
    assert received.octets == octets
    assert received.signature is None
    if not hasattr(value, "possession"):
        assert received.id == etree.fromstring(octets).get("ID")


@given(discovery_strategies.elements)
def test_writing_is_the_inverse_of_reading(value: Element) -> None:
    octets = write(value)
    assert SCHEMA.validate(etree.fromstring(octets)), SCHEMA.error_log
    assert read(octets).value == value


@pytest.mark.parametrize("value", ELEMENTS, ids=NAMES)
def test_what_the_schema_refuses_is_not_read(value: Element) -> None:
    """Every element is left out, doubled, renamed, given text, an attribute, a wrong value."""
    octets = write(value)
    refused = 0
    for place in range(1, len(list(etree.fromstring(octets).iter()))):
        for change in ("gone", "twice", "renamed", "text", "tail", "attribute", "value", "child"):
            root = etree.fromstring(octets)
            element = list(root.iter())[place]
            parent = element.getparent()
            assert parent is not None
            match change:
                case "gone":
                    parent.remove(element)
                case "twice":
                    parent.insert(parent.index(element), etree.fromstring(etree.tostring(element)))
                case "renamed":
                    element.tag = "{urn:dragoman:tdn:1}Other"
                case "text":
                    parent.text = (parent.text or "") + "word"
                case "tail":
                    element.tail = "word"
                case "attribute":
                    element.set("other", "1")
                case "value":
                    element.text = "\N{SNOWMAN}"
                case "child":
                    etree.SubElement(element, "{urn:dragoman:tdn:1}Other")
            changed = etree.tostring(root)
            if not SCHEMA.validate(etree.fromstring(changed)):
                refused += 1
                assert not readable(changed), (change, changed)
    assert refused > 0


@for_each(
    ("name", "before", "after"),
    [
        ("TopicWithdrawal", "urn:uuid:0b5ae7d4", "urn:uuid:0B5AE7D4"),
        ("TopicWithdrawal", "<tdn:From>e-", "<tdn:From>f-"),
        ("TopicWithdrawal", "07Z</tdn:Issued>", "07</tdn:Issued>"),
        ("TopicWithdrawal", "07Z</tdn:Issued>", "07+01:00</tdn:Issued>"),
        ("TopicWithdrawal", "2027-03-04T05:06:07Z</tdn:Issued>", "2027-02-30T05:06:07Z</tdn:Issued>"),
        ("TopicWithdrawal", ' ID="m-', ' ID="adv-'),
        ("TopicWithdrawal", ' ID="m-', ' ID="m-:'),
        ("TopicWithdrawal", re.compile(' ID="[^"]*"'), ""),
        ("TopicAdvertisement", 'type="long">12', 'type="long">1.2'),
        ("TopicAdvertisement", 'type="long">12', 'type="long">9223372036854775808'),
        ("TopicAdvertisement", 'type="long">12', 'type="boolean">12'),
        ("TopicAdvertisement", 'type="long">12', 'type="double">twelve'),
        ("TopicAdvertisement", 'type="long"', 'type="short"'),
        ("TopicAdvertisement", 'name="gauge"', f'name="{"g" * 81}"'),
        ("TopicAdvertisement", 'name="gauge"', 'name="1"'),
        ("TopicAdvertisement", 'type="path"', 'type="tags"'),
        ("TopicAdvertisement", re.compile("<tdn:Descriptors>.*</tdn:Descriptors>"), "<tdn:Descriptors/>"),
        ("TopicAdvertisement", "</gauge>", "</gauge><second/>"),
        ("TopicDiscoveryRequest", ">17<", ">0<"),
        ("TopicDiscoveryRequest", ">17<", ">-1<"),
        ("TopicDiscoveryRequest", ">PT3600S<", ">-PT3600S<"),
        ("TopicDiscoveryRequest", re.compile(' dialect="[^"]*"'), ""),
        ("Delegation", "<tdn:Right>", "<tdn:Right>publish</tdn:Right><tdn:Right>"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused(name: str, before: str | re.Pattern[str], after: str) -> None:
    octets = of(name).decode()
    changed = re.sub(before, after, octets, count=1)
    assert changed != octets
    with pytest.raises(Malformed):
        read(changed.encode())


def test_a_document_type_and_an_instruction_are_refused() -> None:
    for intruder in (b"<!DOCTYPE a>", b"<?a b?>"):
        with pytest.raises(Refused):
            read(intruder + of("TopicWithdrawal"))
    with pytest.raises(Refused):
        read(of("TopicWithdrawal").replace(b"<tdn:TopicId>", b"<?a b?><tdn:TopicId>"))


def test_another_encoding_is_refused() -> None:
    octets = of("TopicWithdrawal").decode()
    assert read(f'<?xml version="1.0" encoding="UTF-8"?>{octets}'.encode()).id
    with pytest.raises(Refused):
        read(octets.encode("utf-16"))


def test_another_element_is_refused() -> None:
    for other in (b"<a/>", b'<tdn:Head xmlns:tdn="urn:dragoman:tdn:1"/>'):
        with pytest.raises(Malformed):
            read(other)
    with pytest.raises(Malformed):
        read_as(TopicDiscoveryRequest, of("TopicWithdrawal"))
    with pytest.raises(Malformed):
        read_advertisement(of("TopicWithdrawal"))


def test_a_relative_namespace_is_refused() -> None:
    """What has no canonical form can neither be signed nor checked."""
    octets = of("TopicAdvertisement").replace(b"http://harbour.example.net/tide", b"tide")
    with pytest.raises(Malformed, match="canonical"):
        read(octets)


def test_a_comment_hides_nothing() -> None:
    """A text with a comment in it is the text that is signed: without the comment."""
    octets = of("TopicWithdrawal").replace(b"<tdn:From>e-01", b"<tdn:From>e-0<!-- -->1")
    received = read_as(TopicWithdrawal, octets)
    assert received.value.head.sender == discovery.ENTITY
    assert b"<!--" not in received.signed


def test_a_large_message_is_refused() -> None:
    big = b"<!--" + b"." * MAX_MESSAGE + b"--></tdn:Head>"
    with pytest.raises(Malformed, match="larger"):
        read(of("TopicWithdrawal").replace(b"</tdn:Head>", big))
    # An answer to a query may be larger, but not without bound.
    assert read(of("TopicDiscoveryResponse").replace(b"</tdn:Head>", big)).id
    with pytest.raises(Refused):
        read(of("TopicDiscoveryResponse").replace(b"</tdn:Head>", big * 17))


def test_large_descriptors_are_refused() -> None:
    octets = of("TopicAdvertisement")
    within = octets.replace(b"Height", b"H" * (MAX_DESCRIPTORS - 1000))
    assert read(within).id
    with pytest.raises(Malformed, match="Descriptors"):
        read(octets.replace(b"Height", b"H" * MAX_DESCRIPTORS))


def test_more_results_than_there_can_be_mean_the_most() -> None:
    octets = of("TopicDiscoveryRequest").replace(b">17<", b">100000<")
    assert read_as(TopicDiscoveryRequest, octets).value.max_results == MAX_RESULTS
    value = read_as(TopicDiscoveryRequest, octets).value
    for wrong in (0, MAX_RESULTS + 1):
        object.__setattr__(value, "max_results", wrong)
        with pytest.raises(ValueError, match="max_results"):
            write(value)


@for_each("attribute", ["ID", "Id", "id", "xml:id"])
@for_each("word", ["adv-1", "m-x", "sadv-", "dlg-2", "rev-4", " pos-3"])
def test_a_document_has_no_attribute_that_looks_like_an_id(attribute: str, word: str) -> None:
    octets = of("TopicAdvertisement").replace(
        b"<metres>", f'<metres {attribute}="{word}">'.encode()
    )
    with pytest.raises(Refused):
        read(octets)


def test_a_document_may_have_other_ids() -> None:
    octets = of("TopicAdvertisement").replace(b"<metres>", b'<metres id="16622" Id="a">')
    received = read_as(TopicAdvertisement, octets)
    assert b'id="16622"' in received.value.descriptors.documents[0]


def test_a_signed_element_within_a_document_is_refused() -> None:
    hidden = of("TopicWithdrawal")
    octets = of("TopicAdvertisement").replace(discovery.TIDE, b"<a>" + hidden + b"</a>")
    with pytest.raises(Malformed, match="ID"):
        read(octets)


def test_an_advertisement_stands_twice_in_no_response() -> None:
    once = write(discovery.SIGNED)
    assert read(write(TopicDiscoveryResponse(discovery.head(), (once,)))).id
    with pytest.raises(Malformed, match="ID"):
        read(write(TopicDiscoveryResponse(discovery.head(), (once, once))))


def test_a_response_with_too_many_advertisements_is_refused() -> None:
    octets = of("TopicDiscoveryResponse")
    once = octets[octets.index(b"<tdn:Signed") : octets.index(b"</tdn:TopicDiscoveryResponse>")]
    for many in (MAX_RESULTS, MAX_RESULTS + 1):
        found = b"".join(
            b'<tdn:SignedTopicAdvertisement ID="sadv-%d"/>' % number for number in range(many)
        )
        changed = octets.replace(once, found)
        if many > MAX_RESULTS:
            with pytest.raises(Malformed, match="more than"):
                read(changed)
        else:
            assert len(read_as(TopicDiscoveryResponse, changed).value.advertisements) == many


def test_a_carried_element_means_the_same_alone() -> None:
    """One that leans on a declaration of its carrier takes it along."""
    octets = of("TopicDiscoveryResponse")
    assert octets.count(b"xmlns:tdn") == 1
    [inside] = read_as(TopicDiscoveryResponse, octets).value.advertisements
    assert inside == write(discovery.SIGNED)


def test_defaults_are_also_what_empty_elements_mean() -> None:
    octets = of("TopicDiscoveryRequest").replace(b">entities<", b"><")
    assert read_as(TopicDiscoveryRequest, octets).value.scope.value == "nodes"
    octets = of("TopicDiscoveryResponse").replace(b"<tdn:More>true</tdn:More>", b"<tdn:More/>")
    assert not read_as(TopicDiscoveryResponse, octets).value.more


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (PropertyType.STRING, " a ", " a "),
        (PropertyType.LONG, " +12 ", 12),
        (PropertyType.LONG, "-9223372036854775808", -(2**63)),
        (PropertyType.DOUBLE, "-.5e1", -5.0),
        (PropertyType.DOUBLE, "-INF", float("-inf")),
        (PropertyType.BOOLEAN, "1", True),
        (PropertyType.BOOLEAN, " false", False),
    ],
)
def test_a_property_is_read_as_its_type_says(kind: PropertyType, text: str, value: object) -> None:
    assert Property("p", text, kind).typed == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (PropertyType.LONG, "1_000"),
        (PropertyType.LONG, "\N{ARABIC-INDIC DIGIT ONE}"),
        (PropertyType.LONG, "9" * 41),
        (PropertyType.DOUBLE, "inf"),
        (PropertyType.DOUBLE, "nan"),
        (PropertyType.DOUBLE, "1e"),
        (PropertyType.BOOLEAN, "True"),
    ],
)
def test_a_wrong_property_has_no_value(kind: PropertyType, text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        _ = Property("p", text, kind).typed


def test_the_published_examples_are_read(shared: Path) -> None:
    """They keep the schema, and mean the same after writing."""
    found = sorted((shared / "specs/schemas/tdn/examples").glob("*.xml"))
    assert len(found) == 12
    for path in found[:11]:
        octets = path.read_bytes()
        SCHEMA.assertValid(etree.fromstring(octets))
        received = read(octets)
        assert received.signature is not None
        assert read(write(received.value)).value == received.value


def test_the_published_schema_means_the_same(shared: Path) -> None:
    """What has none of our additions is valid by both schemas, or by neither."""
    published = etree.XMLSchema(file=str(shared / "specs/schemas/tdn/tdn-1.xsd"))
    compared = [0, 0]
    for octets in map(write, ELEMENTS):
        if etree.QName(etree.fromstring(octets)).localname == "DelegationRevocation":
            continue
        for place in range(len(list(etree.fromstring(octets).iter()))):
            for change in (
                "none",
                "gone",
                "twice",
                "renamed",
                "text",
                "attribute",
                "value",
                "child",
            ):
                root = etree.fromstring(octets)
                for name in ADDED:
                    for extra in list(root.iter(f"{{urn:dragoman:tdn:1}}{name}")):
                        if (around := extra.getparent()) is not None:
                            around.remove(extra)
                elements = list(root.iter())
                if place >= len(elements):
                    continue
                element = elements[place]
                parent = element.getparent()
                match change:
                    case "gone" if parent is not None:
                        parent.remove(element)
                    case "twice" if parent is not None:
                        parent.append(etree.fromstring(etree.tostring(element)))
                    case "renamed":
                        element.tag = "{urn:dragoman:tdn:1}Other"
                    case "text":
                        element.text = (element.text or "") + "word"
                    case "attribute":
                        element.set("other", "1")
                    case "value":
                        element.text = " "
                    case "child":
                        etree.SubElement(element, "{urn:dragoman:tdn:1}Text")
                changed = etree.tostring(root)
                if b"Encrypted" in changed:
                    continue
                again = etree.fromstring(changed)
                if again.tag.endswith("}Authorization") and again.find("{*}Possession") is None:
                    continue  # Ours: the certificate of a client may stand for it.
                compared[published.validate(again)] += 1
                assert published.validate(again) == SCHEMA.validate(again), changed
    assert min(compared) > 100


def test_descriptors_are_kept_by_kind() -> None:
    octets = of("TopicAdvertisement").replace(
        b"<tdn:Descriptors>", b"<tdn:Descriptors><tdn:Keyword>first</tdn:Keyword>"
    )
    found: Descriptors = read_as(TopicAdvertisement, octets).value.descriptors
    assert found.keywords == ("first", "tide", "height")


def test_prefixes_are_anybodys_choice() -> None:
    octets = of("TopicDiscoveryResponse")
    plain = (
        octets.replace(b"xmlns:tdn=", b"xmlns=").replace(b"<tdn:", b"<").replace(b"</tdn:", b"</")
    )
    value = read_as(TopicDiscoveryResponse, plain).value
    [inside] = value.advertisements
    assert read_as(SignedTopicAdvertisement, inside).value.topic_id == discovery.TOPIC_ID
    assert value.head == read_as(TopicDiscoveryResponse, octets).value.head
