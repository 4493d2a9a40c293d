"""ONVIF's device service: five operations that only read, valid by its own schemas."""

from datetime import timedelta
from pathlib import Path

import pytest
from lxml import etree

from filters import Reason
from mediation.faults import write_fault
from mediation.model.requests import DescribeDevice, Device, Events, Operation
from mediation.model.versions import Soap, Version, Wsa
from mediation.names import ONVIF_DEVICE, ONVIF_ERRORS, ONVIF_EVENTS, ONVIF_SCHEMA
from mediation.responses import write_response
from tests.rigs.mediation import NOW, body, context, envelope, incoming, refused, text

TDS, TT = f"{{{ONVIF_DEVICE}}}", f"{{{ONVIF_SCHEMA}}}"
XSD = "{http://www.w3.org/2001/XMLSchema}"
OPERATIONS = (
    Operation.GET_SYSTEM_DATE_AND_TIME,
    Operation.GET_SERVICES,
    Operation.GET_CAPABILITIES,
    Operation.GET_DEVICE_INFORMATION,
    Operation.GET_SERVICE_CAPABILITIES,
)


def device(request: DescribeDevice) -> Device:
    events = Events((), (), 100, timedelta(hours=1))
    return Device(request, "1.2", "serial", "http://g.example.org/x?a&b", NOW, events)


def answer(operation: Operation, inner: str = "", wsa: Wsa | None = None) -> etree._Element:
    asked = incoming(
        envelope(f'<d:{operation.value} xmlns:d="{ONVIF_DEVICE}">{inner}</d:{operation.value}>')
    )
    assert asked.context.version is Version.ONVIF_DEVICE
    assert isinstance(asked.request, DescribeDevice)
    spoken = context(operation, Version.ONVIF_DEVICE, wsa=wsa)
    action, octets = write_response(device(asked.request), spoken, message_id="urn:m")
    assert action == f"{ONVIF_DEVICE}/{operation.value}Response"
    [response] = body(octets)
    assert response.tag == f"{TDS}{operation.value}Response"
    return response


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> etree.XMLSchema:
    """The schemas that onvif-zeep-async brings along; of the device service they are in its
    WSDL."""
    onvif = pytest.importorskip("onvif", reason="needs onvif-zeep-async")
    folder = Path(onvif.__file__).parent / "wsdl"
    [types] = etree.parse(folder / "devicemgmt.wsdl").iter(f"{XSD}schema")
    for one in types.iter(f"{XSD}import", f"{XSD}include"):
        place = (folder / (one.get("schemaLocation") or "")).resolve()
        one.set("schemaLocation", place.as_uri())
    path = tmp_path_factory.mktemp("onvif") / "device.xsd"
    path.write_bytes(etree.tostring(types))
    return etree.XMLSchema(file=str(path))


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("inner", ["", "<d:IncludeCapability>true</d:IncludeCapability>"])
def test_answers_are_valid(operation: Operation, inner: str, schema: etree.XMLSchema) -> None:
    schema.assertValid(etree.fromstring(etree.tostring(answer(operation, inner))))


@pytest.mark.parametrize("wsa", [None, *Wsa])
def test_it_says_where_the_services_are(wsa: Wsa | None) -> None:
    services = answer(Operation.GET_SERVICES, wsa=wsa)
    assert [(one.findtext(f"{TDS}Namespace"), one.findtext(f"{TDS}XAddr")) for one in services] == [
        (ONVIF_DEVICE, "http://g.example.org/x?a&b/onvif/device_service"),
        (ONVIF_EVENTS, "http://g.example.org/x?a&b/soap"),
    ]
    assert not list(services.iter(f"{TDS}Capabilities"))


@pytest.mark.parametrize(
    ("categories", "told"),
    [
        ([], ["Device", "Events"]),
        (["All"], ["Device", "Events"]),
        (["Events"], ["Events"]),
        (["Media", "Device"], ["Device"]),
    ],
)
def test_capabilities(categories: list[str], told: list[str]) -> None:
    inner = "".join(f"<d:Category>{one}</d:Category>" for one in categories)
    [capabilities] = answer(Operation.GET_CAPABILITIES, inner)
    assert [etree.QName(one).localname for one in capabilities] == told


@pytest.mark.parametrize(
    "asked",
    [
        "<d:GetCapabilities><d:Category>Media</d:Category></d:GetCapabilities>",
        "<d:GetNetworkInterfaces/>",
        "<d:SystemReboot/>",
    ],
)
@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("wsa", [None, Wsa.V2005_08])
def test_all_else_is_not_implemented(asked: str, soap: Soap, wsa: Wsa | None) -> None:
    headers = "<wsa:Action>urn:x</wsa:Action>" if wsa else ""
    octets = envelope(asked, headers, soap=soap)
    octets = octets.replace(b"<s:Body>", f'<s:Body xmlns:d="{ONVIF_DEVICE}">'.encode())
    rejected = refused(octets)
    assert rejected.refused.reason is Reason.ACTION_UNSUPPORTED
    status, _, fault = write_fault(rejected.refused, rejected.context, now=NOW, message_id="urn:m")
    assert status == 500
    value = text(fault, "//s:Subcode/s:Value" if soap is Soap.V1_2 else "//faultcode")
    assert value == "f:ActionNotSupported" and ONVIF_ERRORS.encode() in fault
    assert b"Optional Action Not Implemented" in fault
