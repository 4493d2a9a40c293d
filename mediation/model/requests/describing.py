"""Requests for descriptions of the gateway itself: product, metadata, events, ONVIF device."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from filters import Topic


@dataclass(frozen=True, slots=True)
class DescribeEvents:
    """ONVIF's GetEventProperties and GetServiceCapabilities."""


@dataclass(frozen=True, slots=True)
class Identify:
    """Tell the product and its release (WS-Management, Identify)."""


@dataclass(frozen=True, slots=True)
class GetMetadata:
    """Tell of the endpoint (WS-MetadataExchange): *wanted* are dialects, each with the identifier
    that documents in it shall have, or an empty one. A dialect is the namespace of its documents'
    root."""

    wanted: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DescribeDevice:
    """An operation of ONVIF's device service, which the context names. *categories*: those that
    GetCapabilities asks for; none means all. *detailed*: GetServices wants the capabilities too."""

    categories: frozenset[str] = frozenset()
    detailed: bool = False


@dataclass(frozen=True, slots=True)
class Events:
    """The answer to DescribeEvents: the topics known, the dialects spoken, and bounds; *fixed*:
    there are no other topics."""

    topics: tuple[Topic, ...]
    dialects: tuple[str, ...]
    most_mailboxes: int
    lease: timedelta
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Identified:
    """The answer to Identify: the release of Dragoman that runs."""

    release: str


@dataclass(frozen=True, slots=True)
class MetadataSection:
    """One document of metadata: the expanded name of its root, what identifies it among those of
    its dialect, and its content (UTF-8)."""

    name: str
    identifier: str
    content: bytes

    @property
    def dialect(self) -> str:
        return self.name[1:].partition("}")[0]


@dataclass(frozen=True, slots=True)
class Metadata:
    """The answer to GetMetadata."""

    sections: tuple[MetadataSection, ...]


@dataclass(frozen=True, slots=True)
class Device:
    """The answer to what is asked of ONVIF's device service.

    ``serial`` tells gateways apart. ``address`` is the gateway's public URL, without a slash at its
    end; ``events`` what GetServiceCapabilities of the event service answers.
    """

    request: DescribeDevice
    release: str
    serial: str
    address: str
    now: datetime
    events: Events
