"""The examples of the reference's page, whose twins are the samples of ``tests/envelopes``."""

import re
from pathlib import Path

import pytest

from mediation.grid_events import Event, filter_of, read_lease, read_port
from mediation.model.requests import Operation, Publish, Subscribe
from mediation.model.versions import Version
from mediation.soap.answers import fault_in
from tests.rigs.grid_events import SPELLINGS, event_in, lease_in
from tests.rigs.mediation import incoming

_BLOCK = re.compile(r"^```http\n(.*?)\n\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PORT = re.compile(r"^```xml\n(<Port>.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def page(shared: Path) -> str:
    return (shared / "specs" / "grid-soap-events.md").read_text("utf-8")


def messages(page: str, head: str) -> list[bytes]:
    return [body.encode() for first, body in _BLOCK.findall(page) if first.startswith(head)]


@pytest.mark.parametrize("spelling", sorted(SPELLINGS))
def test_calls(page: str, spelling: str) -> None:
    calls = messages(page, "POST")
    assert len(calls) == 4
    for octets in map(SPELLINGS[spelling], calls):
        read = incoming(octets)
        assert read.context.version is Version.GRID_EVENTS
        if read.context.operation is Operation.SUBSCRIBE:
            assert isinstance(read.request, Subscribe)
            assert read.request.consumer.address.startswith("http://192.168.1.7:4561/")
            wanted = Event(type="resdata.machine", source=".extreme.indiana.edu")
            assert lease_in(octets).filter == filter_of(wanted)
        else:
            assert isinstance(read.request, Publish)
            assert event_in(octets).source == "rainier.extreme.indiana.edu"
            assert event_in(octets).timestamp == 982862312897


def test_answers(page: str) -> None:
    done, lease = messages(page, "HTTP/1.0 200")
    assert fault_in(done) is None
    assert read_lease(lease) == 60000
    (fault,) = map(fault_in, messages(page, "HTTP/1.0 500"))
    assert fault is not None
    assert (fault.code, fault.permanent) == ("Client", True)


def test_the_reference(page: str) -> None:
    (port,) = _PORT.findall(page)
    assert read_port(port.encode()).address == "https://gateway.example/soap"
