"""Choose the address at which the manager of a subscription is asked, whatever its producer gave.

An address of HTTP or SOAP.TCP with a host is asked as it is. What is relative to the producer (a
path alone, no host) is resolved against the producer's URL (RFC 3986, section 5). What names and
does not lead anywhere (``urn:uuid:``, the anonymous address, nothing) is asked at the producer's
URL, and a name is still who the message is to: WS-Addressing's To.
"""

import re
from dataclasses import replace
from urllib.parse import urljoin, urlsplit

from mediation import names
from mediation.model.messages import EndpointReference
from mediation.soap.addressing import is_anonymous

_CALLABLE = re.compile(r"(https?|soap\.tcps?):(/*)(.*)", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ANYWHERE = frozenset({"0.0.0.0", "[::]"})
"""Hosts that mean all addresses of a machine, and lead nowhere."""


def manager_at(manager: EndpointReference, url: str) -> tuple[EndpointReference, str]:
    """Say who requests to *manager*, whose producer is at *url*, are written to, and the URL that
    they are sent to; that of *manager* itself where it can be called."""
    address = manager.address.strip()
    if not _means_nobody(address) and _NAME.match(address) and not _CALLABLE.match(address):
        return manager, url
    called = url if _means_nobody(address) else _resolved(address, url)
    return (manager if called == manager.address else replace(manager, address=called)), called


def _means_nobody(address: str) -> bool:
    nobody = not address or is_anonymous(address) or address == names.WSA_NONE
    return nobody or address.startswith(names.MAKE_CONNECTION_ANONYMOUS)


def _resolved(address: str, url: str) -> str:
    found = _CALLABLE.match(address)
    if found is None:
        return _joined(url, address)
    scheme, slashes, rest = found.groups()
    if not rest:
        return url
    if len(slashes) == 1 or len(slashes) > 2:  # No host: a path.
        return _joined(url, f"/{rest}")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    host, colon, port = authority.rpartition(":") if not authority.endswith("]") else ("", "", "")
    host = host if colon else authority
    if host and host not in _ANYWHERE:
        return address if slashes else f"{scheme}://{rest}"
    at = urlsplit(url)
    theirs = at.netloc.rpartition("@")[2]
    if colon:
        theirs = f"{_host(theirs)}:{port}"
    return f"{scheme}://{theirs}{rest[len(authority) :]}"


def _host(authority: str) -> str:
    return authority if authority.endswith("]") else re.sub(r":[0-9]*$", "", authority)


def _joined(url: str, relative: str) -> str:
    if urlsplit(url).scheme in ("http", "https"):
        return urljoin(url, relative)
    at = urlsplit(url)  # urljoin knows no schemes of others.
    return f"{at.scheme}://{at.netloc}{urljoin(at.path or '/', relative)}"
