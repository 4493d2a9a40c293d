"""Check the addresses that a program names: URLs of HTTP. They are refused where they are named,
not where they are called, when the message is stored already."""

from urllib.parse import SplitResult, urlsplit

from mediation.model.messages import EndpointReference
from mediation.soap.body_elements import body_element

PORTS = {"http": 80, "https": 443}
_FORBIDDEN = frozenset(' \t\r\n"<>\\^`{|}')


def place_of(url: str, *, example: str = "http://here:9000/") -> tuple[str, int]:
    """The host and the port of a URL of HTTP.

    Args:
        example: A URL that would do, for the text of the error.

    Raises:
        ValueError: It is no such URL.
    """
    parts = _split(url)
    if parts is None:
        raise ValueError(f"{url!r} is not a URL of HTTP, such as {example}")
    return parts.hostname or "", parts.port or PORTS[parts.scheme]


def check_listener(url: str) -> None:
    """Check the URL of the program's own listener, which tells its messages by the path alone.

    Raises:
        ValueError: It is no such URL, or has a query or a fragment.
    """
    place_of(url)
    if "?" in url or "#" in url:
        raise ValueError(f"{url!r} is not the URL of a listener: it has a query or a fragment")


def check_target(address: str | EndpointReference) -> None:
    """Check the address of a message.

    Raises:
        ValueError: It is not a URL of HTTP, or a reference parameter is not one element.
        TypeError: It is neither text nor a reference.
    """
    if isinstance(address, str):
        place_of(address, example="http://warehouse.example:8090/orders")
    elif isinstance(address, EndpointReference):
        place_of(address.address, example="http://warehouse.example:8090/orders")
        for each in (*address.properties, *address.parameters):
            body_element(each)
    else:
        raise TypeError(f"an address is text or an EndpointReference, not {type(address).__name__}")


def _split(url: str) -> SplitResult | None:
    if not url.isprintable() or not _FORBIDDEN.isdisjoint(url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    return parts if parts.scheme in PORTS and parts.hostname and port != 0 else None
