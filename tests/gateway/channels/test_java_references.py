"""References in directories: written, read, and refused."""

import contextlib
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import Refused
from gateway.channels.java_references import read_attributes, write_attributes
from mediation.grid_events import Port, channel_reference, port_of, port_reference
from tests.rigs.cases import for_each

LOCATION = "https://gateway.example/soap"
PORT = f"<Port><endpoint><location>{LOCATION}</location></endpoint></Port>".encode()


def entry(*addresses: bytes, **others: bytes) -> Mapping[str, list[bytes]]:
    return {
        "javaClassName": [b"soaprmi.port.Port"],
        "javaReferenceAddress": list(addresses),
        **{name: [value] for name, value in others.items()},
    }


@pytest.mark.parametrize("name", ["urn:x", "a#b", "#|", "&#<|!"])
def test_written_and_read_it_is_the_same(name: str) -> None:
    port = Port(LOCATION, "urn:x", name)
    attributes = write_attributes(port_reference(port))
    (address,) = attributes["javaReferenceAddress"]
    assert address.count(address[0]) == 3, "the delimiter is in the content, too"
    found = port_of(read_attributes({k: [v.encode() for v in vs] for k, vs in attributes.items()}))
    assert (found, found.name) == (port, name)


def test_the_entry_of_a_channel() -> None:
    assert write_attributes(channel_reference(LOCATION)) == {
        "javaClassName": ["soaprmi.port.Port"],
        "javaReferenceAddress": [
            "#0#soaprmiport#<Port><endpoint><location>https://gateway.example/soap</location>"
            "<binding><name>urn:dragoman:grid-events:channel</name></binding></endpoint>"
            "<name>urn:dragoman:grid-events:channel</name><portType>"
            "<uri>urn:soaprmi-v11:temp-java-port-type</uri>"
            "<name>soaprmi.events.LeasingFilteredEventChannel</name></portType>"
            "<userName></userName></Port>"
        ],
    }


HREF = (
    b"<Port><endpoint href='#id1'/><e id='id1'><location>"
    + LOCATION.encode()
    + b"</location></e></Port>"
)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(entry(b"#0#soaprmiport#" + PORT), id="the usual"),
        pytest.param(entry(b"|7|soaprmiport|" + PORT), id="another delimiter"),
        pytest.param(entry(b"#0#soaprmiport#" + HREF), id="the delimiter in the content"),
        pytest.param(entry(b"#0#other#x", b"#1#soaprmiport#" + PORT), id="behind another address"),
        pytest.param(
            {k.lower(): v for k, v in entry(b"#0#soaprmiport#" + PORT).items()}, id="other case"
        ),
    ],
)
def test_what_is_read(found: Mapping[str, list[bytes]]) -> None:
    assert read_attributes(found).address == LOCATION


GOOD = b"#0#soaprmiport#" + PORT


@for_each(
    "found",
    [
        pytest.param(entry(GOOD, javaSerializedData=b"\xac\xed\0\5"), id="serialized"),
        pytest.param(entry(GOOD, JAVACODEBASE=b"http://evil.example/"), id="code elsewhere"),
        pytest.param(entry(GOOD, javaFactory=b"org.evil.Factory"), id="a factory"),
        pytest.param(entry(GOOD, javaRemoteLocation=b"rmi://evil"), id="a remote object"),
        pytest.param(entry(b"#0#soaprmiport##rO0ABXA="), id="a doubled delimiter"),
        pytest.param({**entry(GOOD), "javaClassName": [b"org.evil.Bean"]}, id="another class"),
        pytest.param({"javaReferenceAddress": [GOOD]}, id="no class"),
        pytest.param(entry(), id="no address"),
        pytest.param(entry(b""), id="an empty address"),
        pytest.param(entry(b"#"), id="a delimiter alone"),
        pytest.param(entry(b"#x#soaprmiport#" + PORT), id="no position"),
        pytest.param(entry(b"#0#other#" + PORT), id="another type"),
        pytest.param(entry(b"#0#soaprmiport#<Port/>"), id="no location"),
        pytest.param(entry(b"#0#soaprmiport#not XML"), id="no XML"),
        pytest.param(entry(b"#0#soaprmiport#\xff\xfe<"), id="no text"),
        pytest.param(entry(b'#0#soaprmiport#<!DOCTYPE a [<!ENTITY b "c">]>' + PORT), id="a DTD"),
        pytest.param(entry(b"#0#soaprmiport#" + PORT + b" " * 16384), id="too long"),
        pytest.param(entry(*[b"#0#other#x"] * 16, GOOD), id="too many addresses"),
    ],
)
def test_what_is_refused(found: Mapping[str, list[bytes]]) -> None:
    with pytest.raises(Refused):
        read_attributes(found)


@given(st.binary(max_size=60))
def test_whatever_stands_there_is_read_or_refused(octets: bytes) -> None:
    with contextlib.suppress(Refused):
        read_attributes(entry(octets))
