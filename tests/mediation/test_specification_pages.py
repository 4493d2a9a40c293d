"""The examples of the specifications' pages: requests are read as they are meant, and responses
are refused as requests.

Those of ``tests/rigs/sample_messages.py`` always, those of the reference material where it is.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

from filters import Reason
from mediation.client import AnsweredFault, Ended, read_granted, read_received
from mediation.detect import read
from mediation.model.requests import (
    CreateMailbox,
    DestroyMailbox,
    EndOfSubscription,
    GetCurrentMessage,
    GetProperties,
    GetStatus,
    Operation,
    Publish,
    RegisterPublisher,
    Rejected,
    Renew,
    Subscribe,
    SubscribePulling,
    Take,
    Unsubscribe,
)
from mediation.names import KNOWN_ELSEWHERE
from mediation.soap.answers import fault_in
from tests.rigs.mediation import ARRIVAL

PAGES = ("ws-eventing.md", "ws-notification.md", "ws-messenger.md")
_BLOCK = re.compile(r"^```xml\n(.*?)^```", re.DOTALL | re.MULTILINE)
OFFERED = (
    "http://schemas.xmlsoap.org/ws/2004/08/eventing",
    "http://www.w3.org/2011/03/ws-evt",
    "http://docs.oasis-open.org/wsn/b-2",
    "http://docs.oasis-open.org/wsn/br-2",
    "http://www.onvif.org/ver10/events/wsdl",
)
WSRF = ("http://docs.oasis-open.org/wsrf/rp-2", "http://docs.oasis-open.org/wsrf/rl-2")
MEANT = {
    "Subscribe": Subscribe,
    "Renew": Renew,
    "GetStatus": GetStatus,
    "Unsubscribe": Unsubscribe,
    "GetCurrentMessage": GetCurrentMessage,
    "GetResourceProperty": GetProperties,
    "Notify": Publish,
    "CreatePullPoint": CreateMailbox,
    "GetMessages": Take,
    "DestroyPullPoint": DestroyMailbox,
    "CreatePullPointSubscription": SubscribePulling,
    "PullMessages": Take,
    "SubscriptionEnd": EndOfSubscription,
    "RegisterPublisher": RegisterPublisher,
}


def examples(material: Path) -> Iterator[tuple[str, bytes, etree._Element]]:
    for page in PAGES:
        text = (material / "specs" / page).read_text()
        for number, block in enumerate(_BLOCK.findall(text)):
            if "Envelope" in block:
                root = etree.fromstring(block.encode())
                yield f"{page}, example {number}", block.encode(), root


def first_child(root: etree._Element) -> etree._Element | None:
    body = root.find("{*}Body")
    assert body is not None
    return body[0] if len(body) else None


def test_examples(material: Path) -> None:
    read_as: dict[str, int] = {}
    for where, octets, root in examples(material):
        element = first_child(root)
        if element is None:
            continue
        name = etree.QName(element)
        outcome: object
        try:
            outcome = read(octets, ARRIVAL).request
        except Rejected as rejected:
            outcome = rejected.refused.reason
        offered = name.namespace in OFFERED + WSRF
        if name.localname.endswith("Response") and (offered or name.namespace in KNOWN_ELSEWHERE):
            assert outcome is Reason.ACTION_UNSUPPORTED, where
        elif name.localname == "Fault":
            assert outcome is Reason.ACTION_UNSUPPORTED, where
            assert fault_in(octets) is not None, where
            with pytest.raises(AnsweredFault):
                read_granted(octets)
        elif offered and name.localname in MEANT:
            mandatory = outcome is Reason.NOT_UNDERSTOOD
            meant = (MEANT[name.localname], SubscribePulling)  # WS-Management's mode Pull
            assert isinstance(outcome, meant) or mandatory, where
        read_as[name.localname] = read_as.get(name.localname, 0) + 1
    assert sum(read_as.values()) > 60
    assert set(MEANT) <= set(read_as)


def test_responses_are_read_by_clients(material: Path) -> None:
    seen = 0
    for where, octets, root in examples(material):
        element = first_child(root)
        if element is None or etree.QName(element).namespace not in OFFERED:
            continue
        match etree.QName(element).localname:
            case "SubscribeResponse":
                assert read_granted(octets).manager is not None, where
            case "RenewResponse" | "GetStatusResponse":
                assert read_granted(octets).expires is not None, where
            case "SubscriptionEnd":
                status, reason = (element.findtext(f"{{*}}{one}") for one in ("Status", "Reason"))
                assert status and reason, where
                assert read_received(octets) == Ended(status.rpartition("/")[2], reason), where
            case "Notify":
                received = read_received(octets)
                assert isinstance(received, tuple) and received, where
            case _:
                continue
        seen += 1
    assert seen >= 8


def test_savan_samples(material: Path) -> None:
    folder = material / "specs/schemas/ws-eventing/samples"
    found = {path.name: read(path.read_bytes(), ARRIVAL) for path in sorted(folder.rglob("*.xml"))}
    operations = {name: incoming.context.operation for name, incoming in found.items()}
    assert operations == {
        "eventing-renew-datetime.xml": Operation.RENEW,
        "eventing-renew-duration.xml": Operation.RENEW,
        "eventing-subscription.xml": Operation.SUBSCRIBE,
        "esb_subscribe.xml": Operation.SUBSCRIBE,
        "renew.xml": Operation.RENEW,
        "savanc_subscribe.xml": Operation.SUBSCRIBE,
    }
    assert found["renew.xml"].named.identifiers
