"""Which specification and version a party speaks, with its SOAP and WS-Addressing versions."""

from dataclasses import dataclass
from enum import Enum


class Family(Enum):
    WSE = "ws-eventing"
    WSN = "ws-notification"
    MAILBOX = "mailbox"
    """What only fetches messages: message boxes, WS-MakeConnection."""
    MANAGEMENT = "management"
    """WS-Management, as far as it is not WS-Eventing."""
    DEVICE = "device"
    """ONVIF's device service."""


_FAMILIES = {
    "wse-2004-08": Family.WSE,
    "wsn-1.3": Family.WSN,
    "ws-messenger": Family.WSE,
    "ws-management": Family.MANAGEMENT,
    "onvif-device": Family.DEVICE,
}
_TITLES = {
    "wse-2004-08": "WS-Eventing 2004/08",
    "wsn-1.3": "WS-BaseNotification 1.3 and ONVIF's event service",
    "msgbox-2011": "WS-Messenger's message box",
    "msgbox-2004": "XSUL's message box",
    "wsmc-1.1": "WS-MakeConnection 1.1",
    "ws-messenger": "publishing by WS-Messenger",
    "ws-management": "WS-Management's Identify",
    "onvif-device": "ONVIF's device service",
}


class Version(Enum):
    """A specification in one version; the value is its ``--spec`` name."""

    WSE_2004_08 = "wse-2004-08"
    WSN_1_3 = "wsn-1.3"
    MESSAGE_BOX_2011 = "msgbox-2011"
    MESSAGE_BOX_2004 = "msgbox-2004"
    MAKE_CONNECTION_1_1 = "wsmc-1.1"
    MESSENGER = "ws-messenger"
    """Publications as WS-Messenger's clients send them: they are answered."""
    MANAGEMENT = "ws-management"
    ONVIF_DEVICE = "onvif-device"

    def __init__(self, name: str) -> None:
        # An attribute, not a property: it is asked for with every delivery.
        self.family = _FAMILIES.get(name, Family.MAILBOX)
        self.title = _TITLES[name]
        """What people call it, in a refusal that says what is offered."""


class Soap(Enum):
    """A SOAP version; the value is its envelope namespace."""

    V1_1 = "http://schemas.xmlsoap.org/soap/envelope/"
    V1_2 = "http://www.w3.org/2003/05/soap-envelope"

    @property
    def media_type(self) -> str:
        return "text/xml" if self is Soap.V1_1 else "application/soap+xml"


class Wsa(Enum):
    """A WS-Addressing version; the value is its namespace."""

    V2003_03 = "http://schemas.xmlsoap.org/ws/2003/03/addressing"
    V2004_03 = "http://schemas.xmlsoap.org/ws/2004/03/addressing"
    V2004_08 = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
    V2005_08 = "http://www.w3.org/2005/08/addressing"

    @property
    def anonymous(self) -> str:
        return self.value + ("/anonymous" if self is Wsa.V2005_08 else "/role/anonymous")

    @property
    def fault_action(self) -> str:
        return self.value + "/fault"


@dataclass(frozen=True, slots=True)
class Spec:
    """What a party spoke in its request; it is answered, notified and ended in the same.

    ``wsa`` is None for a party that sent no WS-Addressing headers.
    """

    version: Version
    soap: Soap
    wsa: Wsa | None
