"""Addresses that strangers name, read by one strict parser.

What a browser, a resolver and a socket library each read differently (``127.1``,
``0x7f000001``, ``http://good@bad/``, a backslash) is no address here. The path goes out
byte for byte as it came in: some consumers sign it or look it up.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias

import idna

from filters import Reason, Refused

IPAddress: TypeAlias = IPv4Address | IPv6Address

MAX_ADDRESS_OCTETS = 4096
MAX_HOST_OCTETS = 253

DEFAULT_PORTS = {"http": 80, "https": 443, "soap.tcp": 8081, "soap.tcps": 8081}

DENIED_PORTS = frozenset(
    {
        1433, 1434, 1521, 3050, 3306, 5432, 5984, 7474, 7687, 8086, 9042,  # databases
        9200, 9300, 27017, 27018, 27019,
        1883, 4222, 4369, 5671, 5672, 8883, 9092, 9093, 9094, 15672, 25672,  # brokers
        61613, 61614, 61616, 61617,
        6379, 6380, 11211, 26379,  # caches
        2049, 2181, 2375, 2376, 2379, 2380, 6000, 10250,  # what runs a machine or a cluster
    }
)  # fmt: skip
"""Ports of services that believe whoever reaches them, and that an HTTP request can confuse."""

_ABSOLUTE = re.compile(
    r"""(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://
        (?P<authority>[^/?]+)
        (?P<path>(?:[/?](?:[!$&-;=?-\[\]_a-z~]|%[0-9A-Fa-f]{2})*)?)""",
    re.VERBOSE,
)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\x9f\\#]")


class AddressRefused(Refused):
    """An address that this gateway does not send to.

    The text is the same whatever is wrong with a host, so that refusals map no network. *value* and
    *allowed_by*, the setting that would allow it, if any does, are for the log.
    """

    def __init__(
        self,
        value: str = "",
        *,
        allowed_by: str | None = None,
        text: str = "The policy of this gateway does not allow to send to this address.",
    ) -> None:
        super().__init__(Reason.CONSUMER_ADDRESS, text, value=value)
        self.allowed_by = allowed_by


@dataclass(frozen=True, slots=True)
class Target:
    """An address to send to, which passed `parse_target`.

    Attributes:
        scheme: In lower case.
        host: A name in ASCII and lower case, or an IP address; IPv6 without brackets.
        port: Always a number, the scheme's own when the address names none.
        path: Path and query as given; at least ``/``.
        url: The whole address in ASCII.
    """

    scheme: str
    host: str
    port: int
    path: str
    url: str

    @property
    def destination(self) -> tuple[str, str, int]:
        """The key by which connections and breakers are shared."""
        return self.scheme, self.host, self.port

    @property
    def literal(self) -> IPAddress | None:
        """The host as an IP address; None for a name, such as ``7`` where another package's
        transport takes that for one."""
        try:
            if ":" in self.host:
                return IPv6Address(self.host)
            return IPv4Address(self.host) if self.host[-1].isdigit() and _ends(self.host) else None
        except ValueError:
            return None

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"


def parse_target(
    url: str,
    *,
    default_ports: dict[str, int] = DEFAULT_PORTS,
    denied_ports: Collection[int] = DENIED_PORTS,
) -> Target:
    """Read *url* (RFC 3986, absolute; host by IDNA 2008).

    Args:
        default_ports: The schemes taken, each with the port that it stands for, which addresses may
            name, too, whatever it is.

    Raises:
        AddressRefused: It is anything else.
    """
    if len(url) > MAX_ADDRESS_OCTETS or _FORBIDDEN.search(url):
        raise AddressRefused(url[:MAX_ADDRESS_OCTETS])
    match = _ABSOLUTE.fullmatch(url)
    if match is None:
        raise AddressRefused(url)
    scheme = match["scheme"].lower()
    if scheme not in default_ports:
        raise AddressRefused(url)
    host, port_text = _split(match["authority"], url)
    port = default_ports[scheme]
    if port_text and port_text != str(port):
        port = _port(port_text, url, denied_ports)
    path = match["path"]
    target = Target(scheme, host, port, path if path.startswith("/") else f"/{path}", "")
    ascii_url = f"{scheme}://{target.authority}{path}"
    if len(ascii_url) > MAX_ADDRESS_OCTETS:
        raise AddressRefused(url)
    return Target(scheme, host, port, target.path, ascii_url)


def _split(authority: str, url: str) -> tuple[str, str]:
    """Host in ASCII, and the port's text or nothing."""
    if authority.startswith("["):
        literal, bracket, rest = authority[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")) or rest == ":":
            raise AddressRefused(url)
        return _ipv6(literal, url), rest[1:]
    host, colon, port = authority.partition(":")
    if colon and not port:
        raise AddressRefused(url)
    return _host(host, url), port


def _ipv6(text: str, url: str) -> str:
    try:
        address = IPv6Address(text)
    except ValueError as exc:
        raise AddressRefused(url) from exc
    if address.scope_id is not None:
        raise AddressRefused(url)
    return str(address)


def _host(text: str, url: str) -> str:
    try:
        labels = [_ascii_label(label) for label in text.split(".")]
        if _NUMBER.fullmatch(labels[-1]):
            # inet_aton and browsers read 127.1, 0177.1 and 0x7f000001 as addresses: only
            # what everybody reads alike may stand here.
            if str(IPv4Address(text)) != text:
                raise AddressRefused(url)
            return text
    except ValueError as exc:  # idna.IDNAError and AddressValueError are such
        raise AddressRefused(url) from exc
    host = ".".join(labels)
    if len(host) > MAX_HOST_OCTETS:
        raise AddressRefused(url)
    return host


def _ascii_label(label: str) -> str:
    if not label.isascii():
        return idna.alabel(label).decode("ascii")
    label = label.lower()
    if not _LABEL.fullmatch(label):
        raise ValueError("not a label of a host name")
    if label.startswith("xn--"):
        idna.ulabel(label)
    return label


def _port(text: str, url: str, denied: Collection[int]) -> int:
    if not _PORT.fullmatch(text):
        raise AddressRefused(url)
    port = int(text)
    if (port not in (80, 443) and not 1024 <= port <= 65535) or port in denied:
        raise AddressRefused(url)
    return port


def _ends(host: str) -> bool:
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None
