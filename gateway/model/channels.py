"""Channels with names, as values: each is a place of its own to publish and to subscribe at."""

from dataclasses import dataclass

CHANNEL_PROPERTY = "dragoman_channel"
"""The property of a notification with the name of the channel that it was published at; one without
it was published at the endpoint itself."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a channel takes, or a link asks for, as a person says it; all of it must hold.

    Attributes:
        example: The fields of an event that is an example, by their names in Grid SOAP Events.
        xpath: A condition of XPath 1.0 over the payload.
        namespaces: Its prefixes.
    """

    example: tuple[tuple[str, str], ...] = ()
    xpath: str | None = None
    namespaces: tuple[tuple[str, str], ...] = ()


EVERYTHING_SELECTED = Selection()


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel.

    Attributes:
        configured: Whether it is one of the settings, not of the store.
    """

    name: str
    selection: Selection = EVERYTHING_SELECTED
    configured: bool = False


@dataclass(frozen=True, slots=True)
class RelayRow:
    """A relay as the store has it: the hash of its token, and where what is posted to it goes."""

    id: str
    digest: bytes
    location: str


def channel_address(endpoint: str, name: str) -> str:
    """The address of the channel of this name, below that of the SOAP endpoint."""
    return f"{endpoint}/channel/{name}" if name else endpoint
