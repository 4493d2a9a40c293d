"""ONVIF's device service (Core Specification, "Device management"; devicemgmt.wsdl), as far as a
client needs it to find the event service: five operations that only read, without authentication.
"""

from collections.abc import Mapping
from datetime import datetime

from lxml import etree

from filters import Reason
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.requests import (
    Arrival,
    Context,
    DescribeDevice,
    Device,
    Operation,
    Request,
    Response,
)
from mediation.model.specification import Answer, Code, Fault, Specification
from mediation.model.versions import Family, Version
from mediation.notification.onvif import write_event_capabilities
from mediation.soap.envelopes import elements, local_name, text_of, xml_text

MANUFACTURER = MODEL = "Dragoman"
_TDS, _TT = names.ONVIF_DEVICE, names.ONVIF_SCHEMA
_OURS = frozenset({"All", "Device", "Events"})
"""The categories of capabilities that are offered."""
_VERSION = "<tt:Major>2</tt:Major><tt:Minor>60</tt:Minor>"
"""The version of ONVIF's specifications."""
_CAPABILITIES = (
    "<tds:Capabilities><tds:Network/>"
    '<tds:Security UsernameToken="false" HttpDigest="false"/>'
    '<tds:System DiscoveryResolve="false" DiscoveryBye="false" RemoteDiscovery="false"'
    ' SystemBackup="false" SystemLogging="false" FirmwareUpgrade="false"/></tds:Capabilities>'
)


class DeviceRequests:
    """The requests of the device service, and their answers."""

    namespaces = frozenset({_TDS})
    elements: Mapping[str, Operation] = {
        f"{{{_TDS}}}{operation.value}": operation
        for operation in (
            Operation.GET_SYSTEM_DATE_AND_TIME,
            Operation.GET_SERVICES,
            Operation.GET_CAPABILITIES,
            Operation.GET_DEVICE_INFORMATION,
            Operation.GET_SERVICE_CAPABILITIES,
        )
    }
    actions: Mapping[str, Operation] = {}

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        said = [(local_name(child), text_of(child)) for child in elements(element)]
        categories = frozenset(text for name, text in said if name == "Category" and text)
        if categories and categories.isdisjoint(_OURS):
            raise MediationError(
                Reason.ACTION_UNSUPPORTED, "There are the device and the event service alone."
            )
        detailed = any(name == "IncludeCapability" and text in ("1", "true") for name, text in said)
        return DescribeDevice(categories, detailed)

    def write(self, response: Response, context: Context) -> Answer:
        operation = context.operation or Operation.GET_SERVICE_CAPABILITIES
        inner = _write(response, operation) if isinstance(response, Device) else ""
        name = f"{operation.value}Response"
        declared = f'xmlns:tds="{_TDS}" xmlns:tt="{_TT}"'
        return Answer(f"{_TDS}/{name}", f"<tds:{name} {declared}>{inner}</tds:{name}>")


def _write(device: Device, operation: Operation) -> str:
    match operation:
        case Operation.GET_SYSTEM_DATE_AND_TIME:
            return _write_time(device.now)
        case Operation.GET_SERVICES:
            return _write_services(device)
        case Operation.GET_CAPABILITIES:
            return _write_capabilities(device)
        case Operation.GET_DEVICE_INFORMATION:
            return _write_information(device)
        case _:
            return _CAPABILITIES


def _write_time(now: datetime) -> str:
    return (
        "<tds:SystemDateAndTime><tt:DateTimeType>NTP</tt:DateTimeType>"
        "<tt:DaylightSavings>false</tt:DaylightSavings><tt:TimeZone><tt:TZ>UTC0</tt:TZ>"
        "</tt:TimeZone><tt:UTCDateTime>"
        f"<tt:Time><tt:Hour>{now.hour}</tt:Hour><tt:Minute>{now.minute}</tt:Minute>"
        f"<tt:Second>{now.second}</tt:Second></tt:Time>"
        f"<tt:Date><tt:Year>{now.year}</tt:Year><tt:Month>{now.month}</tt:Month>"
        f"<tt:Day>{now.day}</tt:Day></tt:Date></tt:UTCDateTime></tds:SystemDateAndTime>"
    )


def _addresses(device: Device) -> tuple[str, str]:
    """The addresses of the device and the event service."""
    base = xml_text(device.address)
    return f"{base}/onvif/device_service", f"{base}/soap"


def _write_services(device: Device) -> str:
    capabilities = (_CAPABILITIES, write_event_capabilities(device.events))
    parts = []
    for namespace, address, capability in zip(
        (_TDS, names.ONVIF_EVENTS), _addresses(device), capabilities, strict=True
    ):
        detail = f"<tds:Capabilities>{capability}</tds:Capabilities>"
        parts.append(
            f"<tds:Service><tds:Namespace>{namespace}</tds:Namespace>"
            f"<tds:XAddr>{address}</tds:XAddr>{detail if device.request.detailed else ''}"
            f"<tds:Version>{_VERSION}</tds:Version></tds:Service>"
        )
    return "".join(parts)


def _write_capabilities(device: Device) -> str:
    asked, (own, events) = device.request.categories, _addresses(device)
    parts = []
    if not asked or asked & {"All", "Device"}:
        parts.append(f"<tt:Device><tt:XAddr>{own}</tt:XAddr></tt:Device>")
    if not asked or asked & {"All", "Events"}:
        parts.append(
            f"<tt:Events><tt:XAddr>{events}</tt:XAddr>"
            "<tt:WSSubscriptionPolicySupport>true</tt:WSSubscriptionPolicySupport>"
            "<tt:WSPullPointSupport>true</tt:WSPullPointSupport>"
            "<tt:WSPausableSubscriptionManagerInterfaceSupport>true"
            "</tt:WSPausableSubscriptionManagerInterfaceSupport></tt:Events>"
        )
    return f"<tds:Capabilities>{''.join(parts)}</tds:Capabilities>"


def _write_information(device: Device) -> str:
    return "".join(
        f"<tds:{name}>{xml_text(text)}</tds:{name}>"
        for name, text in (
            ("Manufacturer", MANUFACTURER),
            ("Model", MODEL),
            ("FirmwareVersion", device.release),
            ("SerialNumber", device.serial),
            ("HardwareId", MODEL),
        )
    )


SPECIFICATION = Specification(
    Version.ONVIF_DEVICE,
    Family.DEVICE,
    "ONVIF's device service",
    requests=DeviceRequests(),
    faults={
        # ONVIF Core, "Generic faults".
        (Reason.ACTION_UNSUPPORTED, None): Fault(
            Code.RECEIVER,
            f"{{{names.ONVIF_ERRORS}}}ActionNotSupported",
            text="Optional Action Not Implemented.",
            soap_action=True,
        )
    },
)
