"""Requests of a client of ONVIF's devices, and their answers: the clock and the services of a
device, pull points, the synchronization point (Core Specification, "Device management" and
"Event handling"; devicemgmt.wsdl, event.wsdl)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lxml import etree

from filters import dialects
from mediation import names
from mediation.client.reading import read_whole
from mediation.client.writing import write_request
from mediation.eventing.management import Pulled, PulledEvent
from mediation.filtering import write_expression, write_topic_expression
from mediation.model.expiry import format_duration
from mediation.model.messages import EndpointReference
from mediation.model.specification import RequestParts
from mediation.model.versions import Soap, Spec, Version
from mediation.notification.reading_notify import unwrapped_events
from mediation.soap.envelopes import elements, local_name, text_of, xml_text

DEVICE_SPEC = Spec(Version.WSN_1_3, Soap.V1_2, None)
"""How a device service is asked: its description has no headers of WS-Addressing."""
_TDS, _TEV, _WSNT = names.ONVIF_DEVICE, names.ONVIF_EVENTS, names.WSN_1_3
_PULL_POINT, _EVENTS = f"{_TEV}/PullPointSubscription", f"{_TEV}/EventPortType"
_PULL_RESPONSE = f"{{{_TEV}}}PullMessagesResponse"


@dataclass(frozen=True, slots=True)
class EventService:
    """The event service of a device, as the device describes it.

    Attributes:
        address: Where it says that it is.
        pull_points: Whether it says that it has pull points; None where it says nothing.
    """

    address: str
    pull_points: bool | None = None


def write_device_request(to: str, operation: str, inner: str = "") -> tuple[str, bytes]:
    """Write a request to the device service: the action and the envelope."""
    body = f'<d:{operation} xmlns:d="{_TDS}">{inner}</d:{operation}>'
    return write_request(DEVICE_SPEC, to, RequestParts(f"{_TDS}/{operation}", body), "")


def write_get_time(to: str) -> tuple[str, bytes]:
    """Write GetSystemDateAndTime, which devices answer before anybody has logged in."""
    return write_device_request(to, "GetSystemDateAndTime")


def read_time(octets: bytes) -> datetime | None:
    """Read the time of a device; None where it does not say it in UTC, or says no date.

    Raises:
        AnsweredFault: It is a fault.
        Refused: It cannot be read.
    """
    for element in _body(octets).iter("{*}UTCDateTime"):
        numbers = [
            text_of(part)
            for name in ("Year", "Month", "Day", "Hour", "Minute", "Second")
            for part in list(element.iter(f"{{*}}{name}"))[:1]
        ]
        try:
            year, month, day, hour, minute, second = map(int, numbers)
            # 60 is a leap second.
            return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        except ValueError:
            return None
    return None


def write_get_services(to: str) -> tuple[str, bytes]:
    """Write GetServices, of which older devices know nothing."""
    inner = "<d:IncludeCapability>true</d:IncludeCapability>"
    return write_device_request(to, "GetServices", inner)


def write_get_capabilities(to: str) -> tuple[str, bytes]:
    """Write GetCapabilities, which `write_get_services` has taken the place of."""
    return write_device_request(to, "GetCapabilities", "<d:Category>All</d:Category>")


def read_event_service(octets: bytes) -> EventService | None:
    """Read the event service in the answer to GetServices or GetCapabilities; None: there is none.

    Raises:
        AnsweredFault: It is a fault.
        Refused: It cannot be read.
    """
    for element in _body(octets).iter(f"{{{_TDS}}}Service", f"{{{names.ONVIF_SCHEMA}}}Events"):
        said = {local_name(one): text_of(one) for one in elements(element)}
        ours = local_name(element) == "Events" or said.get("Namespace") == _TEV
        if ours and said.get("XAddr"):
            return EventService(said["XAddr"], _pull_points(element, said))
    return None


def _pull_points(element: etree._Element, said: Mapping[str, str]) -> bool | None:
    for capabilities in element.iter(f"{{{_TEV}}}Capabilities"):
        most = capabilities.get("MaxPullPoints", "")
        return int(most) > 0 if most.isdecimal() else None
    offered = said.get("WSPullPointSupport")
    return None if offered is None else offered in ("true", "1")


def write_create_pull_point(
    spec: Spec,
    to: str,
    *,
    message_id: str,
    topic: str | None = None,
    xpath: str | None = None,
    namespaces: Mapping[str, str] | None = None,
    expires: str | None = None,
) -> tuple[str, bytes]:
    """Write CreatePullPointSubscription; arguments as of `write_subscribe`."""
    filters = ""
    if topic:
        dialect = dialects.TOPIC_CONCRETE_SET
        filters += write_topic_expression(
            _WSNT, "wsnt:TopicExpression", topic, namespaces, dialect=dialect
        )
    if xpath:
        filters += write_expression(
            _WSNT, "wsnt:MessageContent", xpath, dialects.XPATH_1_0, namespaces or {}
        )
    inner = f"<tev:Filter>{filters}</tev:Filter>" if filters else ""
    if expires:
        name = "tev:InitialTerminationTime"
        inner += f"<{name}>{xml_text(expires)}</{name}>"
    parts = _event_request(_EVENTS, "CreatePullPointSubscription", inner)
    return write_request(spec, to, parts, message_id)


def write_get_event_properties(spec: Spec, to: str, *, message_id: str) -> tuple[str, bytes]:
    """Write GetEventProperties, which devices answer to those who have logged in."""
    return write_request(spec, to, _event_request(_EVENTS, "GetEventProperties"), message_id)


def write_synchronize(
    spec: Spec, manager: EndpointReference, *, message_id: str
) -> tuple[str, bytes]:
    """Write SetSynchronizationPoint: the device says the state of all properties anew."""
    parts = _event_request(_PULL_POINT, "SetSynchronizationPoint")
    return write_request(spec, manager, parts, message_id)


def write_pull_messages(
    spec: Spec, manager: EndpointReference, *, message_id: str, wait: timedelta, most: int
) -> tuple[str, bytes]:
    """Write PullMessages of at most so many, the first of which may be waited for."""
    inner = (
        f"<tev:Timeout>{format_duration(wait)}</tev:Timeout>"
        f"<tev:MessageLimit>{most}</tev:MessageLimit>"
    )
    parts = _event_request(_PULL_POINT, "PullMessages", inner)
    return write_request(spec, manager, parts, message_id)


def read_pulled_messages(octets: bytes) -> Pulled:
    """Read the answer to PullMessages.

    Raises:
        AnsweredFault: It is a fault.
        Refused: It cannot be read.
    """
    response = _body(octets)
    if response.tag != _PULL_RESPONSE:
        return Pulled()
    events = unwrapped_events(response, in_ours=False)
    return Pulled(tuple(PulledEvent(one.payload, one.action, one.topic) for one in events))


def _event_request(port_type: str, operation: str, inner: str = "") -> RequestParts:
    name = f"tev:{operation}"
    body = f'<{name} xmlns:tev="{_TEV}" xmlns:wsnt="{_WSNT}">{inner}</{name}>'
    return RequestParts(f"{port_type}/{operation}Request", body)


def _body(octets: bytes) -> etree._Element:
    """The first element of a body; an empty one where there is none."""
    body = read_whole(octets).body
    return body[0] if len(body) else etree.Element("nothing")
