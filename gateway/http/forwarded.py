"""The addresses of the gateway and of the peer, as proxies in between forward them.

Headers about it count only when a configured proxy sent them; the nearest proxy's word is
the last of each, and one goes further back only through proxies that are configured too.
``X-Forwarded-*`` comes before ``Forwarded``: a proxy that writes the former often hands the
latter on as its client wrote it.
"""

import base64
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from starlette.types import Scope

from gateway.http.acknowledged_bytes import CONNECTION, Connection
from gateway.model.hosts import host_in_url
from gateway.security.http_digest import HttpRequest
from gateway.security.identify import TransportFacts
from gateway.security.networks import Networks

_HOST = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_PAIR = re.compile(
    rf"""[ \t]*+(?:({_TOKEN})=(?:"([^"\\]*+(?:\\.[^"\\]*+)*)"|([^\s;,"]*+))[ \t]*+)?(?:;|\Z)"""
)
"""One of the pairs of an element, or none between two semicolons."""
_MAX_HOPS = 16
REQUEST = "dragoman.request"
"""The member of a scope that has its `HttpRequest`."""


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The settings of HTTP that say where the gateway stands: its names, and proxies before it.

    Attributes:
        public_url: The base of all addresses given out; None to take it from requests.
        hosts: Further names that requests may be for, without port, in lower case.
        trusted_proxies: Whose word about host, scheme and peer counts.
        messenger_prefixes: Further paths below which WS-Messenger's services are.
        certificate_header: The header in which proxies hand on the certificate that a client
            showed them, in lower case; empty: none does.
        counts: Whether such a certificate (DER) counts: the proxy may know no list of revoked ones.
    """

    public_url: str | None = None
    hosts: frozenset[str] = frozenset()
    trusted_proxies: Networks = field(default_factory=Networks)
    messenger_prefixes: tuple[str, ...] = ()
    certificate_header: str = ""
    counts: Callable[[bytes], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class _Hop:
    """The word of one proxy about the request that it received."""

    peer: str = ""
    host: str = ""
    scheme: str = ""


_UNSAID = _Hop()


def public_base(scope: Scope, settings: HttpSettings) -> str:
    """The base of addresses in the answer to *scope*, without a slash at its end."""
    if settings.public_url is not None:
        return settings.public_url.rstrip("/")
    hop = _first_hop(scope, settings)
    host = hop.host or header(scope, b"host") or _server(scope)
    return f"{hop.scheme or scope['scheme']}://{host}"


def client_address(scope: Scope, settings: HttpSettings) -> str:
    """The network address of the peer: of the proxy's client, where a proxy is trusted."""
    return _first_hop(scope, settings).peer or _client(scope)


def transport_facts(scope: Scope, settings: HttpSettings) -> TransportFacts:
    """Gather what the connection and the head of a request say of its sender."""
    return TransportFacts(
        client_address(scope, settings),
        certificate=client_certificate(scope, settings),
        headers=scope["headers"],
        request=request_of(scope, settings),
    )


def request_of(scope: Scope, settings: HttpSettings) -> HttpRequest:
    """The method and the target of *scope*, as they were sent; the same each time, because of some
    credentials it is remembered with it that they have counted."""
    found: HttpRequest | None = scope.get(REQUEST)
    if found is None:
        path = scope.get("raw_path") or quote(scope["path"]).encode()
        query = scope["query_string"]
        target = str(path + b"?" + query if query else path, "latin-1")
        public_path = urlsplit(settings.public_url or "").path.rstrip("/")
        scope[REQUEST] = found = HttpRequest(scope["method"], target, public_path)
    return found


def from_proxy(scope: Scope, settings: HttpSettings) -> bool:
    """Whether *scope* came from a configured proxy."""
    return _client(scope) in settings.trusted_proxies


def client_certificate(scope: Scope, settings: HttpSettings) -> bytes | None:
    """The certificate that the client of *scope* showed in TLS, in DER: to us, or where it came
    from a configured proxy, to that. None where it showed none, it is revoked, or the header is no
    certificate."""
    if not from_proxy(scope, settings):
        connection: Connection | None = scope.get("extensions", {}).get(CONNECTION)
        return None if connection is None else connection.certificate
    name = settings.certificate_header.encode()
    values = [value for key, value in scope["headers"] if key == name]
    if not name or len(values) != 1:
        return None
    text = str(values[0], "latin-1").strip()
    try:
        if text.startswith(":"):  # RFC 9440, "Client-Cert"
            found = base64.b64decode(text.removeprefix(":").removesuffix(":"), validate=True)
        else:
            found = ssl.PEM_cert_to_DER_cert(unquote(text))
    except ValueError:
        return None
    return found if settings.counts(found) else None


def header(scope: Scope, name: bytes) -> str:
    """The first header called *name*; empty when there is none."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return ""


def host_name(host: str) -> str:
    """*host* without port and brackets, in lower case."""
    name = host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    return name.lower()


def public_host(settings: HttpSettings) -> str:
    """The name in the public URL; empty when none is configured."""
    return (urlsplit(settings.public_url or "").hostname or "").lower()


def _first_hop(scope: Scope, settings: HttpSettings) -> _Hop:
    """The word of the outermost of the trusted proxies that stand one behind the other."""
    found = _UNSAID
    if not settings.trusted_proxies or not from_proxy(scope, settings):
        return found
    for hop in reversed(_x_forwarded(scope) or _forwarded(scope)):
        found = _Hop(hop.peer or found.peer, hop.host or found.host, hop.scheme or found.scheme)
        if hop.peer not in settings.trusted_proxies:
            break
    return found


def _x_forwarded(scope: Scope) -> list[_Hop]:
    peers = _list(scope, b"x-forwarded-for")
    hosts = _list(scope, b"x-forwarded-host")
    schemes = _list(scope, b"x-forwarded-proto")
    ports = _list(scope, b"x-forwarded-port")
    if hosts and ports and ":" not in hosts[-1] and ports[-1] not in ("80", "443"):
        hosts[-1] = f"{hosts[-1]}:{ports[-1]}"
    hops = max(map(len, (peers, hosts, schemes)))
    # Proxies add to the first list and mostly replace the others: the last words belong together.
    return [
        _hop({"for": _at(peers, n), "host": _at(hosts, n), "proto": _at(schemes, n)})
        for n in range(-hops, 0)
    ]


def _forwarded(scope: Scope) -> list[_Hop]:
    """RFC 7239, "Forwarded HTTP Header Field"."""
    hops = []
    for element in _list(scope, b"forwarded"):
        hops.append(_hop(_pairs(element)))
    return hops


def _pairs(element: str) -> dict[str, str]:
    """The pairs of an element, whose names are in lower case; none where it has another form."""
    found: dict[str, str] = {}
    at = 0
    while at < len(element):
        pair = _PAIR.match(element, at)
        if pair is None:
            return {}
        name, quoted, plain = pair.groups("")
        found[name.lower()] = quoted or plain
        at = pair.end()
    return found


def _hop(said: Mapping[str, str]) -> _Hop:
    """The hop of *said*, without values that are no address, host or scheme."""
    host = said.get("host", "")
    scheme = said.get("proto", "").lower()
    peer = said.get("for", "")
    if peer.startswith("["):
        peer = peer[1:].partition("]")[0]
    elif peer.count(":") == 1:
        peer = peer.partition(":")[0]
    return _Hop(
        peer if re.fullmatch(r"[0-9A-Fa-f:.]{2,45}", peer) else "",
        host if _HOST.fullmatch(host) else "",
        scheme if scheme in ("http", "https") else "",
    )


def _list(scope: Scope, name: bytes) -> list[str]:
    values: Iterable[bytes] = (value for key, value in scope["headers"] if key == name)
    text = b",".join(values).decode("latin-1")
    return [item.strip() for item in text.split(",")[-_MAX_HOPS:]] if text else []


def _at(items: list[str], n: int) -> str:
    return items[n] if -n <= len(items) else ""


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _server(scope: Scope) -> str:
    host, port = scope.get("server") or ("localhost", None)
    host = host_in_url(host)
    default = {"http": 80, "https": 443}.get(scope["scheme"])
    return host if port in (None, default) else f"{host}:{port}"
