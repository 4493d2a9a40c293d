"""TLS contexts from files: for the listeners, and for what is sent.

TLS 1.2 and up everywhere; what is sent is always verified, and no setting turns that off.
"""

import functools
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from filters import Reason, Refused


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


def server_context(settings: TlsSettings) -> ssl.SSLContext | None:
    """The context of all listeners; None where no certificate is set.

    With ``tls_client_ca`` a peer must show a certificate of that authority. Who asks for a name
    of ``tls_names`` (RFC 6066, "Server Name Indication") is shown that row's certificate; a
    name ``*.example.org`` stands for those of one label more.

    Raises:
        TlsError: A file cannot be used.
    """
    if settings.tls_certificate is None:
        return None
    context = _listening(settings.tls_certificate, settings.tls_key, settings, _LISTENER)
    _choose(context, _by_name(settings))
    return context


def reload(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Let *context* serve what is in the files now; connections that there are stay.

    Raises:
        TlsError: A file cannot be used; everything stays as it was.
    """
    if settings.tls_certificate is not None:
        fresh = _listening(settings.tls_certificate, settings.tls_key, settings, _LISTENER)
        _choose(context, _by_name(settings), otherwise=fresh)


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
    certificate: Path, key: Path | None, settings: TlsSettings, names: Names
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    _show(context, certificate, key, names)
    if settings.tls_client_ca is not None:
        # On every context: OpenSSL asks the one that was chosen last whom it trusts.
        context.verify_mode = ssl.CERT_REQUIRED
        _trust(context, settings.tls_client_ca, names.ca)
    return context


def _by_name(settings: TlsSettings) -> dict[str, ssl.SSLContext]:
    return {
        row.name.lower(): _listening(
            row.certificate,
            row.key,
            settings,
            Names(f"tls_names: {row.name}: certificate", f"tls_names: {row.name}: key", "ca"),
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


def _read(path: Path, setting: str) -> None:
    try:
        path.read_bytes()
    except OSError as exc:
        raise TlsError(setting, path, f"cannot be read ({exc.strerror or exc})") from exc
