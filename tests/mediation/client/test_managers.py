"""Where the manager of a subscription is asked, by the address that its producer gave."""

import pytest

from mediation.client import manager_at
from mediation.model.messages import EndpointReference
from mediation.model.versions import Wsa
from tests.rigs.cases import for_each

PRODUCER = "http://10.0.0.7:8000/onvif/events?x=1"
ANONYMOUS = "http://www.w3.org/2005/08/addressing/anonymous"
ANONYMOUS_2004 = "http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous"

RESOLVED = {
    "": PRODUCER,
    "  ": PRODUCER,
    ANONYMOUS: PRODUCER,
    ANONYMOUS_2004: PRODUCER,
    "http://www.w3.org/2005/08/addressing/none": PRODUCER,
    "http:": PRODUCER,
    "http://": PRODUCER,
    "/onvif/sub/7": "http://10.0.0.7:8000/onvif/sub/7",
    "sub/7": "http://10.0.0.7:8000/onvif/sub/7",
    "?id=7": "http://10.0.0.7:8000/onvif/events?id=7",
    "//10.0.0.8/sub": "http://10.0.0.8/sub",
    "http:///onvif/sub/7": "http://10.0.0.7:8000/onvif/sub/7",
    "http:/onvif/sub/7": "http://10.0.0.7:8000/onvif/sub/7",
    "http://:9000/sub": "http://10.0.0.7:9000/sub",
    "http://0.0.0.0/sub": "http://10.0.0.7:8000/sub",
    "http://0.0.0.0:9000/sub": "http://10.0.0.7:9000/sub",
    "http://[::]:9000/sub": "http://10.0.0.7:9000/sub",
    "https:10.0.0.7/sub": "https://10.0.0.7/sub",
    " http://10.0.0.7/sub ": "http://10.0.0.7/sub",
}
"""Of these the message is to the address that they are sent to."""
NAMES = [
    "urn:uuid:5f5a69c2-e0ae-504f-829b-28f366d8f9a2",
    "uuid:5f5a69c2",
    "urn:vendor:subscription:7",
    "tag:example.org,2026:7",
    "mailto:nobody@example.org",
]
"""Of these it is to the name."""
KEPT = [
    "http://10.0.0.8:9000/sub?Idx=7",
    "https://camera.example.org/",
    "HTTP://camera.example.org/sub",
    "http://[fe80::1]:80/sub",
    "http://localhost/sub",
    "soap.tcp://10.0.0.7:8000/sub",
]


def manager(address: str) -> EndpointReference:
    return EndpointReference(address, Wsa.V2005_08, parameters=(b'<x xmlns="urn:x">7</x>',))


@for_each("address", RESOLVED)
def test_what_leads_nowhere_is_resolved(address: str) -> None:
    to, url = manager_at(manager(address), PRODUCER)
    assert (to.address, url) == (RESOLVED[address], RESOLVED[address])
    assert to.parameters == manager("").parameters


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_still_who_it_is_to(name: str) -> None:
    assert manager_at(manager(name), PRODUCER) == (manager(name), PRODUCER)


@pytest.mark.parametrize("address", KEPT)
def test_what_can_be_called_is_called(address: str) -> None:
    assert manager_at(manager(address), PRODUCER) == (manager(address), address)


@for_each("address", [*RESOLVED, *NAMES, *KEPT])
def test_it_is_resolved_once(address: str) -> None:
    to, url = manager_at(manager(address), PRODUCER)
    assert manager_at(to, PRODUCER)[1] == url


def test_a_producer_of_soap_tcp() -> None:
    _, url = manager_at(manager("/sub/7"), "soap.tcp://10.0.0.7:8000/events")
    assert url == "soap.tcp://10.0.0.7:8000/sub/7"
