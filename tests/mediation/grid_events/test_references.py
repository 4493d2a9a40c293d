"""Ports in their three spellings, as endpoint references, and back."""

import pytest
from lxml import etree

from filters import Reason, Refused
from mediation.grid_events import (
    CHANNEL,
    Port,
    channel_reference,
    port_of,
    port_reference,
    read_port,
    write_port,
)
from mediation.grid_events.encoding import Generation
from mediation.grid_events.references import write_typed_port
from mediation.names import SOAPRMI_PORT_TYPES
from tests.rigs.grid_events import LOCATION, PORT, XSI, lease, lease_in, sample
from tests.rigs.mediation import canonical, refused

DESK = Port(LOCATION, "urn:desk", "desk")
NOBODY = ("", "")
EXPLICIT = "http://www.extreme.indiana.edu/soap/rmi/port/v10/"
"""The namespace of the explicit mapping of later XSOAP; ports are told by their local names."""


def test_plain() -> None:
    octets = (
        f"<Port>{PORT}<name>desk</name><portType><uri>{SOAPRMI_PORT_TYPES}</uri>"
        "<name>soaprmi.events.EventListener</name></portType><userName/></Port>"
    ).encode()
    reference = read_port(octets)
    assert reference.address == LOCATION
    assert canonical(write_port(reference)) == canonical(octets), "as it came"
    assert port_of(reference) == DESK
    assert port_of(read_port(f"<Port>{PORT}</Port>".encode())) == Port(
        LOCATION, "urn:desk", port_type=NOBODY
    )


def test_the_explicit_mapping() -> None:
    octets = (
        f"<p:port xmlns:p='{EXPLICIT}'><p:port-type><p:name>listener</p:name><p:uri>urn:u"
        f"</p:uri></p:port-type><p:endpoint><p:location> {LOCATION}\n</p:location><p:binding>"
        "<p:name>urn:desk</p:name></p:binding></p:endpoint></p:port>"
    ).encode()
    reference = read_port(octets)
    assert port_of(reference) == Port(LOCATION, "urn:desk", port_type=("urn:u", "listener"))
    assert etree.fromstring(write_port(reference)).tag == f"{{{EXPLICIT}}}port"


@pytest.mark.parametrize("generation", Generation)
def test_a_typed_struct(generation: Generation) -> None:
    for port in (DESK, Port(LOCATION)):
        written = write_typed_port(port, "p1", generation).replace(
            "<p1 ", f"<p1 xmlns:xsi='{generation.xsi}' xmlns:xsd='{generation.xsd}' ", 1
        )
        reference = read_port(written.encode())
        assert port_of(reference) == port
        assert port_of(read_port(write_port(reference))) == port, "plain, in directories"


def test_in_a_call() -> None:
    reference = lease_in(sample("subscribe-lease")).consumer
    expected = "http://desk.example.org:4561/urn:example:listener"
    assert reference.address == expected
    assert port_of(reference) == Port(expected, "urn:example:listener")
    shared = lease(port=PORT.replace("<endpoint>", "<endpoint id='e'>"))
    shared = shared.replace(b"<endpoint id='e'>", b"<endpoint href='#e'/><x><endpoint id='e'>")
    shared = shared.replace(b"</endpoint>", b"</endpoint></x>")
    assert port_of(lease_in(shared).consumer).binding == "urn:desk"


def test_our_own() -> None:
    reference = channel_reference("https://gateway.example.org/soap")
    assert port_of(read_port(write_port(reference))) == Port(
        "https://gateway.example.org/soap",
        CHANNEL,
        port_type=(SOAPRMI_PORT_TYPES, "soaprmi.events.LeasingFilteredEventChannel"),
    )


@pytest.mark.parametrize(
    "port",
    [
        "<endpoint/>",
        "<name>desk</name>",
        "<endpoint><location/></endpoint>",
        f"<endpoint><location xmlns:xsi='{XSI}' xsi:nil='1'/></endpoint>",
        f"<endpoint><location>http://a.example.org/{'a' * 4096}</location></endpoint>",
        PORT + f"<userName>{'a' * 17_000}</userName>",
    ],
)
def test_ports_that_cannot_be_used(port: str) -> None:
    with pytest.raises(Refused) as caught:
        read_port(f"<Port>{port}</Port>".encode())
    assert caught.value.reason is Reason.EPR_INVALID
    assert refused(lease(port=port)).refused.reason is Reason.EPR_INVALID


def test_strangers_ports() -> None:
    with pytest.raises(Refused) as caught:
        read_port(b"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><Port>&b;</Port>")
    assert caught.value.reason is Reason.DTD
    assert port_of(port_reference(Port("http://a/<&>", "urn:a&b"))).binding == "urn:a&b"
