"""TLS contexts from files: for the listeners, and for what is sent.

TLS 1.2 and up everywhere; what is sent is always verified, and no setting turns that off.
"""

import functools
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from filters import Reason, Refused

if TYPE_CHECKING:  # Its libraries are imported where clients show certificates.
    from gateway.security.revoked_certificates import RevokedCertificates


class TlsError(Refused):
    """A certificate, key or authority that cannot be used; the text names setting and file."""

    def __init__(self, setting: str, path: Path, why: str) -> None:
        super().__init__(Reason.MESSAGE_INVALID, f"{setting}: {path} {why}")


class Names(NamedTuple):
    """The names of the settings that name files, for the text of errors."""

    certificate: str
    key: str
    ca: str


EGRESS = Names("egress_certificate", "egress_key", "egress_ca")
_LISTENER = Names("tls_certificate", "tls_key", "tls_client_ca")


class NamedCertificate(Protocol):
    """A row of ``tls_names``."""

    @property
    def name(self) -> str: ...
    @property
    def certificate(self) -> Path: ...
    @property
    def key(self) -> Path | None: ...


class TlsSettings(Protocol):
    """The settings of the listeners that this reads."""

    @property
    def tls_certificate(self) -> Path | None: ...
    @property
    def tls_key(self) -> Path | None: ...
    @property
    def tls_client_ca(self) -> Path | None: ...
    @property
    def tls_names(self) -> Iterable[NamedCertificate]: ...


class CheckedConnection(ssl.SSLObject):
    """A connection whose client is asked for a certificate, which may be revoked: before it begins,
    and each time that the file of authorities has changed since. It is an error of TLS then to read
    or to write.

    OpenSSL itself would refuse whomever an authority without a list has certified as soon as there
    is a list of another (``VERIFY_CRL_CHECK_LEAF``), and checks nothing when a session is resumed.
    """

    _clients: "RevokedCertificates | None" = None
    _read_at = _until = 0.0

    def do_handshake(self) -> None:
        super().do_handshake()
        if isinstance(self.context, ListeningContext):
            self._clients = self.context.clients
            if self._clients is not None:
                self._check_session(self._clients)
            self._check()

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        self._check()
        return super().read(len, buffer)

    def write(self, data: Any) -> int:
        self._check()
        return super().write(data)

    def _check(self) -> None:
        clients = self._clients
        if clients is None:
            return
        read_at, now = clients.read_at, time.time()
        if read_at == self._read_at and now <= self._until:
            return
        try:
            clients.check(self._shown())
        except ValueError as error:
            raise _refused(str(error)) from None
        due = clients.revocations.next_due(datetime.fromtimestamp(now, UTC))
        self._read_at, self._until = read_at, float("inf") if due is None else due.timestamp()

    def _check_session(self, clients: "RevokedCertificates") -> None:
        """Refuse to resume a session that began before the authorities were read: nobody has
        verified its certificate by these. OpenSSL forgets it then, so it is refused once."""
        session = self.session if self.session_reused else None
        if session is not None and session.time <= clients.read_at:
            raise _refused("the session began before the authorities of clients have changed")

    def _shown(self) -> list[bytes]:
        """The client's certificate, then what else was verified with it (DER)."""
        own = self.getpeercert(binary_form=True)
        if own is None:
            raise ValueError("it has shown no certificate")
        # Public from Python 3.13 on, and then with certificates in DER.
        found = cast("Any", self)._sslobj.get_verified_chain() or ()
        return [own, *(one.public_bytes(_DER) for one in found[1:])]


_DER = 2
"""``ENCODING_DER`` of Python's own module ``_ssl``."""


def _refused(why: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, f"certificate verify failed: {why}")
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    return error


class ListeningContext(ssl.SSLContext):
    """A context of listeners.

    Attributes:
        clients: Whose certificates are revoked; None where clients are not asked for any.
    """

    sslobject_class = CheckedConnection
    clients: "RevokedCertificates | None" = None


def server_context(settings: TlsSettings) -> ListeningContext | None:
    """The context of all listeners; None where no certificate is set.

    With ``tls_client_ca`` a peer must show a certificate of that authority, that is on none of the
    lists of revoked ones in the same file. Who asks for a name
    of ``tls_names`` (RFC 6066, "Server Name Indication") is shown that row's certificate; a
    name ``*.example.org`` stands for those of one label more.

    Raises:
        TlsError: A file cannot be used.
    """
    if settings.tls_certificate is None:
        return None
    clients = None
    if settings.tls_client_ca is not None:
        from gateway.security.revoked_certificates import RevokedCertificates

        clients = RevokedCertificates(settings.tls_client_ca)
        _revocations(clients, settings.tls_client_ca)()
    context = _listening(settings.tls_certificate, settings.tls_key, settings, _LISTENER, clients)
    _choose(context, _by_name(settings, clients))
    return context


def reload(context: ListeningContext, settings: TlsSettings) -> None:
    """Let *context* serve what is in the files now. Connections that there are stay, but for those
    of clients whose certificates are revoked.

    Raises:
        TlsError: A file cannot be used; everything stays as it was.
    """
    if settings.tls_certificate is None:
        return
    with _RELOADING:
        clients, use = context.clients, None
        if clients is not None and settings.tls_client_ca is not None:
            use = _revocations(clients, settings.tls_client_ca)
        fresh = _listening(settings.tls_certificate, settings.tls_key, settings, _LISTENER, clients)
        _choose(context, _by_name(settings, clients), otherwise=fresh)
        if use is not None:
            use()


_RELOADING = threading.Lock()
"""A change of a file and a signal may ask for it at once."""


def _revocations(clients: "RevokedCertificates", path: Path) -> Callable[[], None]:
    """What has the lists in the file *path* count, which were read.

    Raises:
        TlsError: One cannot be used.
    """
    try:
        return clients.read(_read(path, _LISTENER.ca))
    except ValueError as error:
        raise TlsError(_LISTENER.ca, path, f"cannot be used: {error}") from error


def client_context(
    *,
    ca: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    names: Names = EGRESS,
) -> ssl.SSLContext:
    """A context that verifies name and certificate of whom it connects to; it may be shared.

    Args:
        ca: The only authorities trusted; those of the system when None.
        certificate: Shown to peers that ask for one, with its chain.
        key: That of the certificate; in the same file when None.

    Raises:
        TlsError: A file cannot be used.
    """
    if ca is None and certificate is None:
        return _plain_context()
    if ca is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _trust(context, ca, names.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        _show(context, certificate, key, names)
    return context


@functools.cache
def _plain_context() -> ssl.SSLContext:
    """One for the whole process: OpenSSL takes 20 ms to read the system's authorities."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _listening(
    certificate: Path,
    key: Path | None,
    settings: TlsSettings,
    names: Names,
    clients: "RevokedCertificates | None",
) -> ListeningContext:
    context = ListeningContext(ssl.PROTOCOL_TLS_SERVER)
    context.clients = clients
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    _show(context, certificate, key, names)
    if settings.tls_client_ca is not None:
        # On every context: OpenSSL asks the one that was chosen last whom it trusts.
        context.verify_mode = ssl.CERT_REQUIRED
        # Who resumes a session by a ticket is not verified, whatever has changed since.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        _trust(context, settings.tls_client_ca, names.ca)
    return context


def _by_name(
    settings: TlsSettings, clients: "RevokedCertificates | None"
) -> dict[str, ssl.SSLContext]:
    return {
        row.name.lower(): _listening(
            row.certificate,
            row.key,
            settings,
            Names(f"tls_names: {row.name}: certificate", f"tls_names: {row.name}: key", "ca"),
            clients,
        )
        for row in settings.tls_names
    }


def _choose(
    context: ssl.SSLContext,
    by_name: Mapping[str, ssl.SSLContext],
    otherwise: ssl.SSLContext | None = None,
) -> None:
    """Let a handshake take the context of the name that is asked for; it also comes without."""

    def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        name = (name or "").lower()
        above = f"*.{name.partition('.')[2]}"
        chosen = by_name.get(name) or by_name.get(above, otherwise)
        if chosen is not None:
            connection.context = chosen

    if by_name or otherwise is not None:
        context.sni_callback = choose


def _show(context: ssl.SSLContext, certificate: Path, key: Path | None, names: Names) -> None:
    """Load a certificate and its key; a password is not asked for."""
    _read(certificate, names.certificate)
    if key is not None:
        _read(key, names.key)
    try:
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as exc:
        if exc.reason == "KEY_VALUES_MISMATCH":
            why = f"does not belong to {certificate}"
            raise TlsError(names.key, key or certificate, why) from exc
        why = "holds no certificate in PEM"
        if b"-----BEGIN CERTIFICATE-----" not in certificate.read_bytes():
            raise TlsError(names.certificate, certificate, why) from exc
        why = "holds no key in PEM without a password"
        raise TlsError(names.key, key or certificate, why) from exc


def _trust(context: ssl.SSLContext, ca: Path, setting: str) -> None:
    _read(ca, setting)
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as exc:
        raise TlsError(setting, ca, "holds no certificate in PEM") from exc


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise TlsError(setting, path, f"cannot be read ({exc.strerror or exc})") from exc
