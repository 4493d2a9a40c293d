"""What tests of Grid SOAP Events share: samples, the same in other spellings, and calls."""

from collections.abc import Callable, Mapping

from lxml import etree

from mediation.grid_events import Event, read_payload
from mediation.grid_events.rpc import read_call
from mediation.model.requests import Arrival, Publish, Subscribe
from tests.rigs.mediation import ARRIVAL, incoming, stored

XSD, XSI = "http://www.w3.org/2001/XMLSchema", "http://www.w3.org/2001/XMLSchema-instance"
ENCODING = "http://schemas.xmlsoap.org/soap/encoding/"
EVENTS = ("event", "derived", "by-reference", "untyped")
"""The samples that are calls of handleEvent."""


def sample(name: str) -> bytes:
    """A message of ``tests/envelopes/grid_events``."""
    return stored(f"grid_events/{name}")


def _older(year: str) -> Callable[[bytes], bytes]:
    def change(octets: bytes) -> bytes:
        octets = octets.replace(b"/2001/XMLSchema", f"/{year}/XMLSchema".encode())
        return octets.replace(b"xsi:nil", b"xsi:null")

    return change


def _fields_backwards(octets: bytes) -> bytes:
    """The fields of the first event in another order."""
    lines = octets.split(b"\n")
    at = [
        place
        for place, line in enumerate(lines)
        if line.startswith((b"<eventN", b"<eventT", b"<source", b"<timestamp", b"<seqNo"))
    ]
    for place, line in zip(at, [lines[place] for place in reversed(at)], strict=True):
        lines[place] = line
    return b"\n".join(lines)


SPELLINGS: Mapping[str, Callable[[bytes], bytes]] = {
    "as it is": lambda octets: octets,
    "1999": _older("1999"),
    "2000/10": _older("2000/10"),
    "double quotes": lambda octets: octets.replace(b"'", b'"'),
    "an XML declaration": lambda octets: b"<?xml version='1.0' encoding='UTF-8'?>" + octets,
    "white space": lambda octets: octets.replace(b"\n", b"\n\n\t  "),
    "no white space": lambda octets: octets.replace(b"\n", b""),
    "other prefixes": lambda octets: octets.replace(b"SOAP-ENV", b"S").replace(b"xsi", b"i"),
    "another order": _fields_backwards,
    "with a slash": lambda octets: octets.replace(b"soap/events/resdat/'", b"soap/events/resdat'"),
    "nonsense names": lambda octets: octets.replace(b"<p1", b"<x").replace(b"</p1", b"</x"),
    "names of the interface": lambda octets: octets.replace(b"<p1", b"<ev").replace(
        b"</p1", b"</ev"
    ),
    "CR LF": lambda octets: octets.replace(b"\n", b"\r\n"),
}


def event_in(octets: bytes, arrival: Arrival = ARRIVAL) -> Event:
    """The event of a call of handleEvent, as it is carried on; what was made of others' as it is
    in the call."""
    request = incoming(octets, arrival).request
    assert isinstance(request, Publish)
    (notification,) = request.notifications
    event = read_payload(notification.payload)
    if event is None:
        event = read_call(etree.fromstring(octets)[-1][0])
    return event


def lease_in(octets: bytes, arrival: Arrival = ARRIVAL) -> Subscribe:
    """The subscription that a call of subscribeLease asks for."""
    request = incoming(octets, arrival).request
    assert isinstance(request, Subscribe)
    return request


def call(method: str, content: str, *, header: str = "", behind: str = "") -> bytes:
    """A call, with the prefixes xsi, xsd, enc and ev."""
    head = f"<s:Header>{header}</s:Header>" if header else ""
    return (
        "<s:Envelope xmlns:s='http://schemas.xmlsoap.org/soap/envelope/' "
        f"xmlns:xsi='{XSI}' xmlns:xsd='{XSD}' xmlns:enc='{ENCODING}' "
        "xmlns:ev='http://www.extreme.indiana.edu/soap/events'>"
        f"{head}<s:Body><m:{method} xmlns:m='urn:m'>{content}</m:{method}>{behind}</s:Body>"
        "</s:Envelope>"
    ).encode()


def handle(fields: str, type_: str = "", *, header: str = "", behind: str = "") -> bytes:
    """A call of handleEvent."""
    said = f" xsi:type='{type_}'" if type_ else ""
    return call("handleEvent", f"<p1{said}>{fields}</p1>", header=header, behind=behind)


LOCATION = "http://desk.example.org:4561/listener"
PORT = (
    f"<endpoint><location>{LOCATION}</location><binding><name>urn:desk</name></binding></endpoint>"
)


def lease(
    *, port: str = PORT, pattern: str = "", milliseconds: str = "60000", handback: str = "h"
) -> bytes:
    """A call of subscribeLease with the names of the interface."""
    filter_ = f"<filter>{pattern}</filter>" if pattern else "<filter xsi:nil='1'/>"
    return call(
        "subscribeLease",
        f"<listener>{port}</listener>{filter_}<leaseDuration>{milliseconds}</leaseDuration>"
        f"<handback>{handback}</handback>",
    )
