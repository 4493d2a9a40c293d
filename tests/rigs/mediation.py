"""What the tests of this floor share: arrivals, envelopes, subscriptions, canonical forms."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lxml import etree

from filters import EVERYTHING, Filter, Topic, parse_clark
from mediation.detect import read
from mediation.model.messages import (
    EndpointReference,
    Lease,
    MessageHeaders,
    Notification,
    Policy,
    Subscription,
)
from mediation.model.requests import Arrival, Context, Incoming, Operation, Publish, Rejected
from mediation.model.versions import Soap, Spec, Version, Wsa

NOW = datetime(2026, 1, 31, 10, 0, tzinfo=UTC)
ARRIVAL = Arrival(source="publisher", time=NOW, fresh_id="urn:uuid:fresh")
ENVELOPES = Path(__file__).parents[1] / "envelopes"

WSE = "http://schemas.xmlsoap.org/ws/2004/08/eventing"
WSE11 = "http://www.w3.org/2011/03/ws-evt"
WSNT = "http://docs.oasis-open.org/wsn/b-2"
WSRF_RP = "http://docs.oasis-open.org/wsrf/rp-2"
WSRF_RL = "http://docs.oasis-open.org/wsrf/rl-2"
WSMAN = "http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
SIMPLE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple"
CONCRETE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete"
FULL = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Full"
CONCRETE_SET = "http://www.onvif.org/ver10/tev/topicExpression/ConcreteSet"
IBM_SIMPLE = "http://www.ibm.com/xmlns/stdwip/web-services/WS-Topics/TopicExpression/simple"
XPATH = "http://www.w3.org/TR/1999/REC-xpath-19991116"

PREFIXES = (
    f'xmlns:wse="{WSE}" xmlns:wse11="{WSE11}" xmlns:wsnt="{WSNT}" xmlns:rp="{WSRF_RP}" xmlns:rl="{WSRF_RL}" '
    f'xmlns:xsi="{XSI}" xmlns:wsman="{WSMAN}"'
)


def envelope(
    body: str, headers: str = "", *, soap: Soap = Soap.V1_2, wsa: Wsa = Wsa.V2005_08
) -> bytes:
    """An envelope whose prefixes are those of `PREFIXES`, ``s`` and ``wsa``."""
    return (
        f'<s:Envelope xmlns:s="{soap.value}" xmlns:wsa="{wsa.value}" {PREFIXES}>'
        f"<s:Header>{headers}</s:Header><s:Body>{body}</s:Body></s:Envelope>"
    ).encode()


def stored(name: str) -> bytes:
    """An envelope of ``tests/envelopes``."""
    return (ENVELOPES / f"{name}.xml").read_bytes()


def incoming(octets: bytes, arrival: Arrival = ARRIVAL) -> Incoming:
    return read(octets, arrival)


def refused(octets: bytes, arrival: Arrival = ARRIVAL) -> Rejected:
    with pytest.raises(Rejected) as caught:
        read(octets, arrival)
    return caught.value


def events(octets: bytes, arrival: Arrival = ARRIVAL) -> tuple[Notification, ...]:
    request = read(octets, arrival).request
    assert isinstance(request, Publish)
    return request.notifications


def topic(text: str) -> Topic:
    return parse_clark(text)


def clark(topic: Topic | None) -> str | None:
    return None if topic is None else str(topic)


def canonical(element: etree._Element | bytes) -> bytes:
    """Exclusive canonical form: equal for equal elements, whatever is in scope around them."""
    if isinstance(element, bytes):
        element = etree.fromstring(element)
    return etree.tostring(element, method="c14n", exclusive=True, with_tail=False)


def scopes(root: etree._Element) -> list[Mapping[str | None, str]]:
    """What each prefix means at each element of a tree, in document order."""
    return [element.nsmap for element in root.iter(etree.Element)]


def part(octets: bytes, path: str) -> etree._Element:
    """The one element on *path*, whose prefixes are ours and the envelope's."""
    root = etree.fromstring(octets)
    found = parts(octets, path)
    assert len(found) == 1, f"{path} in {etree.tostring(root).decode()}"
    return found[0]


def parts(octets: bytes, path: str) -> list[etree._Element]:
    root = etree.fromstring(octets)
    prefixes = {
        "s": etree.QName(root).namespace,
        "wse": WSE,
        "wse11": WSE11,
        "wsnt": WSNT,
        "rp": WSRF_RP,
        "rl": WSRF_RL,
        "r": "http://docs.oasis-open.org/wsrf/r-2",
        "bf": "http://docs.oasis-open.org/wsrf/bf-2",
        "br": "http://docs.oasis-open.org/wsn/br-2",
        "wstop": "http://docs.oasis-open.org/wsn/t-1",
        "wsa": root.nsmap.get("wsa", "urn:none"),
    }
    found = root.xpath(path, namespaces={name: uri for name, uri in prefixes.items() if uri})
    assert isinstance(found, list)
    return [element for element in found if isinstance(element, etree._Element)]


def text(octets: bytes, path: str) -> str:
    return part(octets, path).text or ""


def body(octets: bytes) -> list[etree._Element]:
    return parts(octets, "/s:Envelope/s:Body/*")


def headers(octets: bytes) -> list[etree._Element]:
    return parts(octets, "/s:Envelope/s:Header/*")


def epr(address: str = "http://sink.example.com/x", wsa: Wsa = Wsa.V2005_08) -> EndpointReference:
    return EndpointReference(address, wsa)


def subscription(
    version: Version = Version.WSN_1_3,
    *,
    soap: Soap = Soap.V1_2,
    wsa: Wsa | None = Wsa.V2005_08,
    consumer: EndpointReference | None = None,
    end_to: EndpointReference | None = None,
    lease: Lease | None = None,
    filter: Filter = EVERYTHING,
    policy: Policy | None = None,
) -> Subscription:
    return Subscription(
        key="22e8a584-0d18-4228-b2a8-3716fa2097fa",
        id="public",
        owner="anonymous",
        spec=Spec(version, soap, wsa),
        consumer=consumer or epr(wsa=wsa or Wsa.V2005_08),
        lease=lease or Lease(NOW, NOW + timedelta(hours=1)),
        filter=filter,
        end_to=end_to,
        policy=policy or Policy(raw=version is Version.WSE_2004_08),
        manager="http://gateway.example.org/subscriptions/22e8a584-0d18-4228-b2a8-3716fa2097fa",
    )


def context(
    operation: Operation | None = Operation.SUBSCRIBE,
    version: Version | None = Version.WSN_1_3,
    *,
    soap: Soap = Soap.V1_2,
    wsa: Wsa | None = Wsa.V2005_08,
    message_id: str | None = "urn:uuid:request",
    action: str | None = "urn:example:action",
    header_namespaces: frozenset[str] = frozenset(),
) -> Context:
    message = MessageHeaders(wsa, action, None, message_id) if wsa else MessageHeaders()
    return Context(soap, message, version, operation, "", header_namespaces)
