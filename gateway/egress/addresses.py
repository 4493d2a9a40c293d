"""Addresses that strangers name, read by one strict parser.

What a browser, a resolver and a socket library each read differently (``127.1``,
``0x7f000001``, ``http://good@bad/``, a backslash) is no address here. The path goes out
byte for byte as it came in: some consumers sign it or look it up.
"""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import idna

from filters import Reason, Refused
from gateway.model.hosts import IPAddress, is_number, unmapped

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
"""Ports of services that believe whoever reaches them, and that an HTTP request can confuse; as all
below 1024 but those of the schemes, strangers may only name them where a setting says so."""

_ABSOLUTE = re.compile(
    r"""(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://
        (?P<authority>[^/?]+)
        (?P<path>(?:[/?](?:[!$&-;=?-\[\]_a-z~]|%[0-9A-Fa-f]{2})*)?)""",
    re.VERBOSE,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\x9f\\#]")


ILL_FORMED = "This is not an address that can be sent to."
POLICY = "The policy of this gateway does not allow to send to this address."


class AddressRefused(Refused):
    """An address that this gateway does not send to.

    What is wrong with how it is written, *text* says to everybody. Where it is the policy that
    refuses it, and *allowed_by* names the setting, or the command, that would allow it, the text is
    always the same, so that refusals map no network: the setting and *value* are for the log and
    for those who are trusted.
    """

    def __init__(
        self,
        value: str = "",
        *,
        allowed_by: str | None = None,
        text: str = "",
    ) -> None:
        text = text or (POLICY if allowed_by else ILL_FORMED)
        super().__init__(Reason.CONSUMER_ADDRESS, text, value=value)
        self.allowed_by = allowed_by

    def with_mend(self) -> "AddressRefused":
        """The same, for those who are trusted: with the setting that would allow it."""
        if self.allowed_by is None:
            return self
        what = (
            f"`{self.allowed_by}`" if " " in self.allowed_by else f"The setting {self.allowed_by}"
        )
        text = f"{self.text} {what} can allow it."
        return AddressRefused(self.value, allowed_by=self.allowed_by, text=text)


@dataclass(frozen=True, slots=True)
class Target:
    """An address to send to, which passed `parse_target`.

    Attributes:
        scheme: In lower case.
        host: A name in ASCII and lower case, or an IP address; IPv6 without brackets, an IPv4
            address within one as that address.
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
            known = self.host[-1].isdigit() and is_number(self.host)
            return IPv4Address(self.host) if known else None
        except ValueError:
            return None

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"


def parse_target(url: str, *, default_ports: Mapping[str, int] = DEFAULT_PORTS) -> Target:
    """Read *url* (RFC 3986, absolute; host by IDNA 2008). Whether it may be sent to, and on that
    port, `AddressPolicy` says.

    Args:
        default_ports: The schemes taken, each with the port that it stands for.

    Raises:
        AddressRefused: It is anything else; the text says what is wrong.
    """
    if len(url) > MAX_ADDRESS_OCTETS:
        raise _ill_formed(url, f"it has more than {MAX_ADDRESS_OCTETS} characters")
    if found := _FORBIDDEN.search(url):
        raise _ill_formed(url, f"it has {_named(found[0])}")
    match = _ABSOLUTE.fullmatch(url)
    if match is None:
        raise _ill_formed(url, _fault_of(url))
    scheme = match["scheme"].lower()
    if scheme not in default_ports:
        raise _ill_formed(url, f"its scheme is none of {', '.join(default_ports)}")
    if "@" in match["authority"]:
        raise _ill_formed(url, "it has a user or a password before @, which nothing is sent with")
    host, port_text = _split(match["authority"], url)
    port = _port(port_text, url) if port_text else default_ports[scheme]
    path = match["path"]
    target = Target(scheme, host, port, path if path.startswith("/") else f"/{path}", "")
    ascii_url = f"{scheme}://{target.authority}{path}"
    if len(ascii_url) > MAX_ADDRESS_OCTETS:
        raise _ill_formed(url, f"it has more than {MAX_ADDRESS_OCTETS} characters in ASCII")
    return Target(scheme, host, port, target.path, ascii_url)


def _ill_formed(url: str, why: str) -> AddressRefused:
    return AddressRefused(
        url[:MAX_ADDRESS_OCTETS], text=f"This is not an address to send to: {why}."
    )


def _named(character: str) -> str:
    if character in "\\#":
        return f"a {character}"
    return "a space" if character == " " else f"the character U+{ord(character):04X}"


def _fault_of(url: str) -> str:
    """What is wrong with *url*, which is no absolute URL."""
    if not url:
        return "it is empty"
    scheme, colon, rest = url.partition(":")
    if not (colon and _SCHEME.fullmatch(scheme)) or not rest.startswith("/"):
        return "it does not begin with a scheme and a host, as http://host/path does"
    if not rest.startswith("//") or not re.match("//[^/?]", rest):
        return "it has no host: http://host/path"
    if "%" in rest and re.search("%(?![0-9A-Fa-f]{2})", rest):
        return "a % in it is not followed by two hexadecimal digits"
    return "its path has a character that has to be written with %"


def _split(authority: str, url: str) -> tuple[str, str]:
    """Host in ASCII, and the port's text or nothing."""
    if authority.startswith("["):
        literal, bracket, rest = authority[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")) or rest == ":":
            raise _ill_formed(url, "its host in [] is followed by anything but : and a port")
        return _ipv6(literal, url), rest[1:]
    host, colon, port = authority.partition(":")
    if colon and not port:
        raise _ill_formed(url, "its port is empty")
    return _host(host, url), port


def _ipv6(text: str, url: str) -> str:
    try:
        address = IPv6Address(text)
    except ValueError as exc:
        raise _ill_formed(url, "its host in [] is no IPv6 address") from exc
    if address.scope_id is not None:
        raise _ill_formed(url, "its IPv6 address has a scope")
    return str(unmapped(address))


def _host(text: str, url: str) -> str:
    try:
        labels = [_ascii_label(label) for label in text.split(".")]
        if is_number(labels[-1]):
            # inet_aton and browsers read 127.1, 0177.1 and 0x7f000001 as addresses: only
            # what everybody reads alike may stand here.
            return _ipv4(text, url)
    except ValueError as exc:  # idna.IDNAError and AddressValueError are such
        raise _ill_formed(url, "its host is neither a name nor an IP address") from exc
    host = ".".join(labels)
    if len(host) > MAX_HOST_OCTETS:
        raise _ill_formed(url, f"its host has more than {MAX_HOST_OCTETS} characters")
    return host


def _ipv4(text: str, url: str) -> str:
    with contextlib.suppress(ValueError):
        if str(IPv4Address(text)) == text:
            return text
    raise _ill_formed(url, "its host is no IPv4 address of four decimal numbers")


def _ascii_label(label: str) -> str:
    if not label.isascii():
        return idna.alabel(label).decode("ascii")
    label = label.lower()
    if not _LABEL.fullmatch(label):
        raise ValueError("not a label of a host name")
    if label.startswith("xn--"):
        idna.ulabel(label)
    return label


def _port(text: str, url: str) -> int:
    port = int(text) if _PORT.fullmatch(text) else 0
    if not 1 <= port <= 65535:
        raise _ill_formed(url, "its port is not a number from 1 to 65535")
    return port
