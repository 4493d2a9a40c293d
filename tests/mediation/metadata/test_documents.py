"""Metadata documents: the policy of the event source, and the descriptions of events."""

from datetime import timedelta
from pathlib import Path

import pytest
from lxml import etree

from filters import content_dialects, topic_dialects
from mediation import names
from mediation.metadata import write_event_descriptions, write_policy
from mediation.metadata.documents import LOOKED_AT, MAX_EVENT_TYPES
from mediation.model.messages import Notification
from tests.rigs.mediation import NOW, WSE11
from tests.rigs.schemas import Validator

EVD = "{http://www.w3.org/2011/03/ws-evd}"


def event(payload: str, action: str | None = None) -> Notification:
    return Notification("1", "p", payload.encode(), NOW, action=action)


@pytest.mark.parametrize("namespace", [names.POLICY_1_5, names.POLICY_2004_09])
@pytest.mark.parametrize("longest", [None, timedelta(days=3)])
def test_policy(namespace: str, longest: timedelta | None, validator: Validator) -> None:
    policy = etree.fromstring(write_policy(namespace, longest_lease=longest))
    assert policy.tag == f"{{{namespace}}}Policy"
    [source] = policy
    assert source.tag == f"{{{WSE11}}}EventSource"
    offered = {
        name: [each.get("URI") for each in source.findall(f"{{{WSE11}}}{name}")]
        for name in ("FilterDialect", "FormatName")
    }
    assert offered["FilterDialect"][0] == f"{WSE11}/Dialects/XPath10"
    assert {*topic_dialects(), *content_dialects()} < set(offered["FilterDialect"])
    assert offered["FormatName"] == [f"{WSE11}/DeliveryFormats/{n}" for n in ("Unwrap", "Wrap")]
    expires = source.find(f"{{{WSE11}}}Expires")
    assert (None if expires is None else expires.get("max")) == ("PT72H" if longest else None)
    rest = [etree.QName(each).localname for each in source if not each.get("URI")]
    assert rest == ["DateTimeSupported", *(["Expires"] if longest else []), "EndToSupported"]
    validator.check_element(etree.tostring(source))


def test_event_descriptions() -> None:
    octets = write_event_descriptions(
        [
            event('<o:Reading xmlns:o="urn:o&amp;p"/>', "urn:act?a&b"),
            event('<o:Reading xmlns:o="urn:o&amp;p">7</o:Reading>', "urn:act?a&b"),
            event('<Reading xmlns="urn:o"/>'),
            event("<plain/>"),
            event("no XML"),
            event(""),
        ]
    )
    assert octets is not None
    root = etree.fromstring(octets)
    assert root.tag == f"{EVD}EventDescriptions" and root.get("targetNamespace")
    types, *described = root
    assert (types.tag, len(types)) == (f"{EVD}types", 0)
    read = []
    for one in described:
        assert one.tag == f"{EVD}eventType"
        prefix, _, local = (one.get("element") or "").rpartition(":")
        read.append((one.nsmap.get(prefix, "") if prefix else "", local, one.get("actionURI")))
    assert read == [
        ("urn:o&p", "Reading", "urn:act?a&b"),
        ("urn:o", "Reading", "urn:o/Reading"),
        ("", "plain", "urn:dragoman:event:plain"),
    ]
    assert len({one.get("id") for one in described}) == 3


def test_without_events_there_is_no_description() -> None:
    assert write_event_descriptions([]) is None
    assert write_event_descriptions([event("no XML")]) is None


def test_few_are_described() -> None:
    many = [event(f"<e{number}/>") for number in range(LOOKED_AT + 1)]
    octets = write_event_descriptions(many)
    assert octets is not None
    assert octets.count(b"<evd:eventType") == MAX_EVENT_TYPES
    late = [event("<same/>")] * LOOKED_AT + [event("<late/>")]
    octets = write_event_descriptions(late)
    assert octets is not None and b"late" not in octets


def test_it_is_valid(shared: Path) -> None:
    schema = etree.XMLSchema(
        file=str(shared / "specs/schemas/ws-eventing/eventdescriptions-2011-03.xsd")
    )
    octets = write_event_descriptions([event('<o:R xmlns:o="urn:o"/>'), event("<plain/>")])
    assert octets is not None
    schema.assertValid(etree.fromstring(octets))
