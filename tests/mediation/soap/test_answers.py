"""Faults in what peers answer, and what they mean for who sent."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediation.model.versions import Soap
from mediation.soap.answers import MAX_OCTETS, PeerFault, fault_in
from tests.rigs.cases import for_each
from tests.rigs.mediation import WSE

S11, S12 = Soap.V1_1.value, Soap.V1_2.value


def soap11(code: str, reason: str = "why", extra: str = "") -> bytes:
    return (
        f'<e:Envelope xmlns:e="{S11}"><e:Body><e:Fault><faultcode {extra}>{code}</faultcode>'
        f"<faultstring>{reason}</faultstring></e:Fault></e:Body></e:Envelope>"
    ).encode()


def soap12(code: str, *subcodes: str, reason: str = "why") -> bytes:
    inner = ""
    for subcode in reversed(subcodes):
        inner = f"<e:Subcode><e:Value>{subcode}</e:Value>{inner}</e:Subcode>"
    return (
        f'<e:Envelope xmlns:e="{S12}" xmlns:wse="{WSE}"><e:Header/><e:Body><e:Fault>'
        f"<e:Code><e:Value>{code}</e:Value>{inner}</e:Code>"
        f'<e:Reason><e:Text xml:lang="en">{reason}</e:Text></e:Reason>'
        "</e:Fault></e:Body></e:Envelope>"
    ).encode()


FAULTS = [
    pytest.param(soap11("e:Client"), PeerFault("Client", None, "why", True), id="Client"),
    pytest.param(soap11("e:Server"), PeerFault("Server", None, "why", False), id="Server"),
    pytest.param(
        soap11("e:MustUnderstand"), PeerFault("MustUnderstand", None, "why", True), id="must 1.1"
    ),
    pytest.param(
        soap11("e:VersionMismatch"), PeerFault("VersionMismatch", None, "why", True), id="version"
    ),
    pytest.param(
        soap11("e:Client.Authentication"), PeerFault("Client", None, "why", True), id="dotted"
    ),
    pytest.param(
        soap11("wse:InvalidMessage"), PeerFault("InvalidMessage", None, "why", False), id="unbound"
    ),
    pytest.param(
        soap11("wse:DeliveryModeRequestedUnavailable."),
        PeerFault("DeliveryModeRequestedUnavailable", None, "why", False),
        id="Savan's full stop",
    ),
    pytest.param(
        soap11("wsman:DeliveryRefused"),
        PeerFault("DeliveryRefused", None, "why", True),
        id="refused 1.1",
    ),
    pytest.param(soap11("Client"), PeerFault("Client", None, "why", True), id="no prefix"),
    pytest.param(
        soap11("e:Server", extra='xml:lang="en"'),
        PeerFault("Server", None, "why", False),
        id="lang",
    ),
    pytest.param(soap12("e:Sender"), PeerFault("Sender", None, "why", True), id="Sender"),
    pytest.param(soap12("e:Receiver"), PeerFault("Receiver", None, "why", False), id="Receiver"),
    pytest.param(
        soap12("e:DataEncodingUnknown"),
        PeerFault("DataEncodingUnknown", None, "why", False),
        id="encoding",
    ),
    pytest.param(
        soap12("e:Receiver", "wse:EventSourceUnableToProcess"),
        PeerFault("Receiver", "EventSourceUnableToProcess", "why", False),
        id="a subcode",
    ),
    pytest.param(
        soap12("e:Receiver", "x:DestinationUnreachable"),
        PeerFault("Receiver", "DestinationUnreachable", "why", True),
        id="unreachable, whoever is to blame",
    ),
    pytest.param(
        soap12("e:Receiver", "x:ActionNotSupported"),
        PeerFault("Receiver", "ActionNotSupported", "why", True),
        id="no such action",
    ),
    pytest.param(
        soap12("e:Sender", "wsa:InvalidAddressingHeader", "wsa:InvalidCardinality"),
        PeerFault("Sender", "InvalidAddressingHeader", "why", True),
        id="two subcodes",
    ),
    pytest.param(
        soap12("{http://www.w3.org/2003/05/soap-envelope}Sender"),
        PeerFault("Sender", None, "why", True),
        id="Clark notation",
    ),
    pytest.param(
        soap12("e:Sender", reason="x" * 5000), PeerFault("Sender", None, "x" * 300, True), id="long"
    ),
    pytest.param(
        soap11(" e:Client ").decode().encode("utf-16"),
        PeerFault("Client", None, "why", True),
        id="UTF-16",
    ),
    pytest.param(
        b'<e:Envelope xmlns:e="urn:soap-of-2001"><e:Body><e:Fault><faultcode>e:Client</faultcode>'
        b"</e:Fault></e:Body></e:Envelope>",
        PeerFault("Client", None, "", True),
        id="another SOAP",
    ),
    pytest.param(
        f'<e:Envelope xmlns:e="{S12}"><e:Body><e:Fault/></e:Body></e:Envelope>'.encode(),
        PeerFault("", None, "", False),
        id="an empty fault",
    ),
]


@for_each(("octets", "fault"), FAULTS)
def test_faults(octets: bytes, fault: PeerFault) -> None:
    assert fault_in(octets) == fault
    for end in range(0, len(octets), 7):
        assert fault_in(octets[:end]) is None


@pytest.mark.parametrize(
    "octets",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"<html>Fault</html>", id="HTML"),
        pytest.param(b"Fault", id="text"),
        pytest.param(b"<!DOCTYPE a []>" + soap12("e:Sender"), id="a document type"),
        pytest.param(soap12("e:Sender") + b" " * MAX_OCTETS, id="too long"),
        pytest.param(
            f'<e:Envelope xmlns:e="{S12}"><e:Body><Ack>Fault</Ack></e:Body></e:Envelope>'.encode(),
            id="a word",
        ),
        pytest.param(
            f'<e:Envelope xmlns:e="{S12}"><e:Body><Fault xmlns="urn:app"/></e:Body></e:Envelope>'.encode(),
            id="an application's Fault",
        ),
        pytest.param(
            f'<e:Envelope xmlns:e="{S12}"><e:Header><e:Fault/></e:Header><e:Body/></e:Envelope>'.encode(),
            id="in the header",
        ),
        pytest.param(b"<Fault/>", id="no envelope"),
        pytest.param(b'<?xml version="1.0"?>' + b"<Fault>" * 400, id="deep"),
    ],
)
def test_what_is_no_fault(octets: bytes) -> None:
    assert fault_in(octets) is None


@given(
    st.sampled_from([soap11("e:Client"), soap12("e:Sender", "wse:InvalidMessage")]),
    st.data(),
)
def test_no_octets_raise(octets: bytes, data: st.DataObject) -> None:
    changed = bytearray(octets)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    fault_in(bytes(changed))


def test_faults_of_axis2(material: Path) -> None:
    folder = material / "specs/schemas/ws-addressing/samples/axis2/fault-messages"
    found = {
        path.relative_to(folder).as_posix(): fault_in(path.read_bytes())
        for path in folder.rglob("*.xml")
    }
    assert len(found) == 4
    for name, fault in found.items():
        assert fault is not None, name
        assert fault.permanent is name.startswith("soap12")
        assert fault.reason
