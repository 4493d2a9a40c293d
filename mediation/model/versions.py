"""The names of specifications in their versions, of SOAP and of WS-Addressing."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Family(Enum):
    """The kinds of specifications that metrics tell apart."""

    WSE = "ws-eventing"
    WSN = "ws-notification"
    MAILBOX = "mailbox"
    """Message boxes and WS-MakeConnection, which only fetch messages."""
    MANAGEMENT = "management"
    """WS-Management, as far as it is not WS-Eventing."""
    CLOUDEVENTS = "cloudevents"
    GRID = "grid-events"
    """Grid SOAP Events."""
    METADATA = "metadata"
    """WS-MetadataExchange."""
    ADMINISTRATION = "administration"
    """Dragoman's own, of subscriptions."""
    DEVICE = "device"
    """ONVIF's device service."""
    RELIABLE = "reliable-messaging"
    """WS-ReliableMessaging: what makes, asks about and ends sequences."""


class Version(Enum):
    """The name of a specification in one version; the value is its ``--spec`` name. All that the
    version decides is its row of `mediation.specifications.SPECIFICATIONS`."""

    WSE_2004_08 = "wse-2004-08"
    WSE_2011_03 = "wse-2011-03"
    WSN_1_3 = "wsn-1.3"
    WSN_1_2 = "wsn-1.2"
    WSN_1_0 = "wsn-1.0"
    MESSAGE_BOX_2011 = "msgbox-2011"
    MESSAGE_BOX_2004 = "msgbox-2004"
    MAKE_CONNECTION_1_1 = "wsmc-1.1"
    MESSENGER = "ws-messenger"
    """Publications as WS-Messenger's clients send them: they are answered."""
    MANAGEMENT = "ws-management"
    METADATA_2004_09 = "ws-mex-2004-09"
    METADATA_2011_03 = "ws-mex-2011-03"
    ONVIF_DEVICE = "onvif-device"
    CLOUDEVENTS = "cloudevents"
    GRID_EVENTS = "grid-events"
    WSRM_1_0 = "wsrm-1.0"
    WSRM_1_1 = "wsrm-1.1"
    ADMINISTRATION_1 = "dragoman-management-1"
    """Subscriptions listed and deleted, whatever their subscribers speak."""


class Soap(Enum):
    """A SOAP version; the value is its envelope namespace."""

    V1_1 = "http://schemas.xmlsoap.org/soap/envelope/"
    V1_2 = "http://www.w3.org/2003/05/soap-envelope"

    # Enum's own is of Python, and asked for each message many times: a member is itself alone.
    __hash__ = object.__hash__

    @property
    def media_type(self) -> str:
        return "text/xml" if self is Soap.V1_1 else "application/soap+xml"


class Wsa(Enum):
    """A WS-Addressing version; the value is its namespace."""

    V2003_03 = "http://schemas.xmlsoap.org/ws/2003/03/addressing"
    V2004_03 = "http://schemas.xmlsoap.org/ws/2004/03/addressing"
    V2004_08 = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
    V2005_08 = "http://www.w3.org/2005/08/addressing"

    __hash__ = object.__hash__  # As of `Soap`.

    @property
    def anonymous(self) -> str:
        return self.value + ("/anonymous" if self is Wsa.V2005_08 else "/role/anonymous")

    @property
    def fault_action(self) -> str:
        return self.value + "/fault"

    @property
    def default_reply_to(self) -> str | None:
        """The address of the reply to a request that names none (WS-Addressing 1.0 Core, section
        3.2); None: a request has to name one."""
        return self.anonymous if self is Wsa.V2005_08 else None


class EventForm(Enum):
    """A form of messages that are no SOAP (CloudEvents HTTP Protocol Binding 1.0.2, section 3): the
    attributes of an event in headers, or in JSON with its data, or several events in one message.
    """

    BINARY = "binary"
    STRUCTURED = "structured"
    BATCHED = "batched"


class DataForm(Enum):
    """The form of an event's data, for consumers that are sent no SOAP. Data that is not XML is
    always as it was published."""

    AS_PUBLISHED = "xml"
    JSON = "json"


Form: TypeAlias = Soap | EventForm
"""The form of the messages that a party speaks."""


@dataclass(frozen=True, slots=True)
class Spec:
    """The versions that a party spoke in its request; it is answered, notified and ended in the
    same.

    ``wsa`` is None for a party that sent no WS-Addressing headers.
    """

    version: Version
    form: Form
    wsa: Wsa | None

    @property
    def soap(self) -> Soap:
        """The version of SOAP.

        Raises:
            ValueError: The party speaks none.
        """
        if not isinstance(self.form, Soap):
            raise ValueError(f"{self.version.value} is not spoken in SOAP")
        return self.form
