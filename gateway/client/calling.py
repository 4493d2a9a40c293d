"""HTTP requests to a gateway, and errors in words for whatever goes wrong."""

import socket
import ssl
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from io import BytesIO
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from filters import Refused, in_utf_8
from gateway.client.credentials import Credentials, same_origin
from gateway.client.errors import GatewayError

HTTP = ("http", "https")
TIMEOUT = 30.0
MAX_ANSWER = 16 * 1024 * 1024
SOAP_TCP = ("soap.tcp", "soap.tcps")
SCHEMES = ("http", "https", *SOAP_TCP)
"""Schemes of URLs that a gateway can be called at to publish and to subscribe."""
SOAP = "/soap"
"""The path of a gateway's SOAP endpoint."""
QUIET = 60.0
"""Seconds without a byte after which a stream has broken off: a heartbeat comes every 15."""
LARGE = 2**20
"""Bytes of a body from which on it is sent piece by piece."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, whatever its status."""

    status: int
    body: bytes
    content_type: str

    @property
    def words(self) -> str:
        """The status as people say it: ``404 Not Found``."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)


def base_url(text: str, schemes: Collection[str] = HTTP) -> str:
    """A gateway's URL as people write it, without the slash at its end; ``http`` if it has no
    scheme.

    Raises:
        GatewayError: It is no URL of one of *schemes*.
    """
    url = _url(text, schemes)
    if urlsplit(url).query:
        raise _no_url(text)
    return url.rstrip("/").removesuffix(SOAP)


def endpoint_url(text: str, schemes: Collection[str] = HTTP, path: str = SOAP) -> str:
    """The address of an endpoint: a URL with a path as it is, and of a gateway's root, or of its
    SOAP endpoint, that of its endpoint at *path*.

    Raises:
        GatewayError: It is no URL of one of *schemes*.
    """
    url = _url(text, schemes)
    parts = urlsplit(url)
    if parts.query or parts.path.rstrip("/") not in ("", SOAP):
        return url
    return f"{url.rstrip('/').removesuffix(SOAP)}{path}"


def _url(text: str, schemes: Collection[str]) -> str:
    url = text.strip() if "://" in text else f"http://{text.strip()}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme.lower() in schemes and parts.hostname and parts.port != 0
    except ValueError:
        usable = None
    if not usable or parts.fragment or not url.isprintable() or " " in url:
        raise _no_url(text)
    return url


def _no_url(text: str) -> GatewayError:
    return GatewayError(f"{text!r} is not the URL of a gateway, such as http://127.0.0.1:8080")


def address_towards(url: str) -> str:
    """Our address as the host of *url* sees it; nothing is sent to find out, but a name is looked
    up, which may take its time."""
    parts = urlsplit(base_url(url.partition("?")[0], SCHEMES))
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:  # Subscribing will say what is wrong with it.
        return "127.0.0.1"


def proxy_url(text: str) -> str:
    """The URL of an HTTP proxy.

    Raises:
        GatewayError: It is none; the text does not repeat it, for it may have a password.
    """
    try:
        parts = urlsplit(text)
        usable = parts.scheme in HTTP and parts.hostname and parts.port != 0
    except ValueError:
        usable = None
    if not usable or parts.path.strip("/") or parts.query or not text.isprintable():
        raise GatewayError("the proxy must be http://host:port, with user:password@ if it asks")
    return text


class NotStreamed(Exception):
    """The answer to a request for a stream is an error."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.words)
        self.answer = answer


class Caller:
    """Sends requests with a time limit; an answer of any status is returned, none raises.

    Args:
        timeout: Seconds for a whole exchange.
        max_answer: Octets; a longer answer is an error.
        tls: For ``https``; what the system trusts, when None.
        proxy: The HTTP proxy that requests go through, ``http://[user:password@]host:port``. Those
            of the environment mean nothing.
        credentials: Sent to the scheme, host and port of *gateway*.
    """

    def __init__(
        self,
        *,
        timeout: float = TIMEOUT,
        max_answer: int = MAX_ANSWER,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
        credentials: Credentials | None = None,
        gateway: str = "",
    ) -> None:
        self._proxy = None if proxy is None else proxy_url(proxy)
        self._credentials, self._gateway = credentials, gateway
        self._timeout = timeout
        self._tls = tls or True
        self._max_answer = max_answer
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._timeout, sock_connect=min(10, self._timeout)),
            auto_decompress=True,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request.

        Raises:
            GatewayError: There was no answer, or a longer one than is read.
        """
        with _said_of(url, self._timeout):
            async with self._request(method, url, body, headers) as response:
                octets = await _read(response, self._max_answer)
                return Answer(response.status, _read_text(octets, response), response.content_type)

    async def lines(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Get *url*, and yield the lines of the answer as they come, without a time limit but for
        `QUIET` seconds in which none does.

        Raises:
            NotStreamed: The answer is an error.
            GatewayError: There was no answer, or it broke off.
        """
        with _said_of(url, QUIET):
            waits = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=QUIET)
            async with self._request("GET", url, None, headers, waits) as response:
                if response.status != 200:
                    octets = await _read(response, self._max_answer)
                    raise NotStreamed(Answer(response.status, octets, response.content_type))
                async for line in response.content:
                    yield line

    def _request(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._session is None:
            raise RuntimeError("enter the context manager first")
        if self._credentials is not None and same_origin(url, self._gateway):
            headers = {**(headers or {}), "Authorization": self._credentials.authorization}
        return self._session.request(
            method,
            url,
            data=_sent(body),
            headers=headers,
            allow_redirects=False,
            ssl=self._tls,
            proxy=self._proxy,
            timeout=timeout or self._session.timeout,
        )


@contextmanager
def _said_of(url: str, seconds: float) -> Iterator[None]:
    """Say in words what goes wrong in an exchange with *url*, which may take so many *seconds*."""
    try:
        yield
    except TimeoutError as error:
        raise GatewayError(f"no answer from {shown(url)} within {seconds:g} seconds") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise GatewayError(f"cannot reach {shown(url)}: {_why(error)}") from error


def _read_text(octets: bytes, response: aiohttp.ClientResponse) -> bytes:
    """The body of an answer: XML in UTF-8, anything else as it came."""
    if not response.content_type.endswith("xml"):
        return octets
    try:
        return in_utf_8(octets, response.charset)
    except Refused:
        return octets  # Whoever reads it says what is wrong.


class Speaker:
    """What speaks to one gateway; it is a context manager, which holds its connections.

    Args:
        url: Of the gateway, as people write it.
        schemes: That *url* may have.
        timeout: Seconds for one exchange.
        tls: For a gateway with TLS; what the system trusts, when None.
        proxy: The HTTP proxy that requests go through; None: none.
        caller: Sends the requests, instead of one with *timeout*, *tls*, *proxy* and *credentials*.
        credentials: Of us, for this gateway alone.

    Raises:
        GatewayError: *url* or *proxy* is none.
    """

    _path = SOAP
    """Where what is spoken is taken at a gateway."""

    def __init__(
        self,
        url: str,
        *,
        schemes: Collection[str] = HTTP,
        timeout: float = TIMEOUT,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
        caller: Caller | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._address = endpoint_url(url, schemes, self._path)
        """Of the endpoint."""
        self._url = base_url(url.partition("?")[0], schemes)
        self._caller = caller or Caller(
            timeout=timeout, tls=tls, proxy=proxy, credentials=credentials, gateway=self._url
        )

    async def __aenter__(self) -> Self:
        await self._caller.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._caller.__aexit__(*error)


async def _read(response: aiohttp.ClientResponse, at_most: int) -> bytes:
    octets = bytearray()
    async for chunk in response.content.iter_chunked(64 * 1024):
        octets += chunk
        if len(octets) > at_most:
            raise GatewayError(f"the answer of {shown(str(response.url))} is too long")
    return bytes(octets)


def shown(url: str) -> str:
    """Scheme, host and port of *url*, for people: no password, and no path with a key in it."""
    try:
        parts = urlsplit(url)
    except ValueError:  # Others name addresses, too: consumers, and where replies go.
        return "an address that is no URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def whole(url: str) -> str:
    """*url* for people, with its path: that of an endpoint, which they named; no password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def stranger(url: str, answer: Answer, *, named: bool = False) -> GatewayError:
    """The error for an answer that no gateway gives; the path is said where people have *named* it:
    other addresses may have a key in it."""
    place = whole(url) if named else shown(url)
    text = f"{place} does not answer as a Dragoman gateway does: {answer.words}"
    if answer.content_type:
        text += f" ({answer.content_type})"
    return GatewayError(text, status=answer.status)


def _why(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            cause = error.certificate_error
            said = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else ""
            return f"its certificate is not trusted ({said or 'wrong host or issuer'})"
        case aiohttp.ClientSSLError():
            return "TLS failed; does it speak https there, or ask for a certificate?"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered {error.status} {error.message}".rstrip()
        case aiohttp.ClientProxyConnectionError():
            return f"its proxy cannot be reached ({error.os_error.strerror or 'no connection'})"
        case aiohttp.ClientConnectorDNSError():
            return "the name has no address"
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, ConnectionRefusedError):
            return "connection refused; is the gateway running there?"
        case aiohttp.ClientConnectorError():
            return error.os_error.strerror or str(error.os_error)
        case aiohttp.ServerDisconnectedError() | ConnectionResetError():
            return "it closed the connection without an answer"
        case aiohttp.InvalidURL():
            return "that is not a URL"
        case aiohttp.ClientResponseError():
            return "it does not speak HTTP"
        case _:
            return str(error) or type(error).__name__


def _sent(body: bytes | None) -> bytes | BytesIO | None:
    """*body* as aiohttp sends it piece by piece: of large bytes it warns that it would not."""
    return BytesIO(body) if body is not None and len(body) > LARGE else body
