"""The address of a broker and the credentials of the gateway:
``amqps://user:password@host:5671/vhost``, and the settings ``ca``, ``certificate``, ``key`` and
``server-name`` of TLS."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from adapters.options import Options
from adapters.protocol import AdapterError
from filters import Reason


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker's URL, read. ``tls``: None if the scheme is not that of TLS.

    ``vhost`` is the path without its first slash; a single slash if there is no path.
    ``certified`` is the name that the certificate of its TLS must have.
    """

    scheme: str
    host: str
    port: int
    tls: ssl.SSLContext | None
    user: str | None
    password: str | None = field(repr=False)
    vhost: str
    certified: str

    @property
    def source(self) -> str:
        """The URL without credentials and path."""
        return f"{self.scheme}://{self.host}:{self.port}"


def read_endpoint(
    url: str, options: Options, *, plain: tuple[str, int], secure: tuple[str, int], form: str
) -> Endpoint:
    """Read *url*, and the settings of TLS.

    Args:
        plain: The scheme without TLS, and its port.
        secure: The scheme with TLS, and its port.
        form: An example of a URL, for the error message.

    Raises:
        AdapterError: They do not fit.
    """
    parts = urlsplit(url)
    ports = dict((plain, secure))
    scheme = parts.scheme.lower()
    try:
        port = parts.port
    except ValueError:
        port = 0
    if scheme not in ports or not parts.hostname or port == 0:
        raise _wrong(plain[0], f"the URL must be {form}")
    files = [options.text(name) for name in ("ca", "certificate", "key")]
    certified = options.text("server-name")
    if scheme == plain[0] and any((*files, certified)):
        text = f"the settings ca, certificate, key and server-name need a URL of {secure[0]}://"
        raise _wrong(plain[0], text)
    return Endpoint(
        scheme=scheme,
        host=parts.hostname,
        port=port or ports[scheme],
        tls=None if scheme == plain[0] else _context(plain[0], *files),
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        vhost=unquote(parts.path.removeprefix("/")) or "/",
        certified=certified or parts.hostname,
    )


def _context(
    system: str, authority: str | None, certificate: str | None, key: str | None
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=authority)
        if authority is not None:
            # Python 3.13 also asks for extensions of RFC 5280 (an authority key identifier) that
            # many private authorities leave out; who names an authority takes what it issues.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except OSError as exc:  # of which SSLError is one
        files = [str(Path(name)) for name in (authority, certificate, key) if name]
        raise _wrong(system, f"TLS cannot be set up with {', '.join(files)}: {exc}") from exc
    return context


def _wrong(system: str, text: str) -> AdapterError:
    return AdapterError(Reason.INTERNAL, f"the adapter of {system}: {text}")
