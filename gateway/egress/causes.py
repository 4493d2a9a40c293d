"""Why there is no connection, or no answer, in words for operators.

Made of what the system, the resolver, OpenSSL and the parser of answers say; no path, key or
credential gets into them.
"""

import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from cryptography import x509

from mediation.certificates import extension_of, read_certificate

LONGEST_CAUSE = 200
"""Characters of a cause that are kept."""
_SHOWN_NAMES = 3

_SYSTEM = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "the network is unreachable",
    errno.EHOSTDOWN: "the host is down",
    errno.ETIMEDOUT: "the connection timed out",
    errno.ECONNRESET: "the connection was reset",
    errno.ECONNABORTED: "the connection was aborted",
    errno.EPIPE: "the connection was closed",
    errno.EACCES: "this machine does not permit the connection",
    errno.EPERM: "this machine does not permit the connection",
    errno.EADDRNOTAVAIL: "this machine has no local address or port left for it",
    errno.EMFILE: "this process has too many open files",
    errno.ENFILE: "this machine has too many open files",
}
_NAMES = {
    socket.EAI_NONAME: "no such host: {host}",
    socket.EAI_AGAIN: "no such host is known now: {host} (the name server does not answer)",
    socket.EAI_FAIL: "no such host is known now: {host} (the name server failed)",
}

_OWN = "(egress_certificate, or client_certificate in its row of [[consumers]])"
_UNTRUSTED = {
    18: "self-signed certificate",
    19: "self-signed certificate in its chain",
    2: "its issuer is unknown",
    20: "its issuer is unknown",
    21: "its issuer is unknown, and its chain is incomplete",
}
"""Codes of OpenSSL (``X509_V_ERR_...``) of certificates that another authority would mend."""
_NOT_YET, _EXPIRED, _OTHER_NAMES = 9, 10, frozenset({62, 64})

_REFUSES_OURS = f"the peer refuses the certificate of this gateway {_OWN}"
_NO_TLS = "the peer speaks no TLS at this port"
_OLD_TLS = "the peer speaks no version of TLS that is taken here: 1.2 or later"
_MAY_WANT = f"the peer may want a client certificate {_OWN}"
_CUT_OFF = (
    f"the connection was closed during the TLS handshake: {_MAY_WANT}, or another version of TLS"
)
_HANDSHAKE = {
    "UNSUPPORTED_PROTOCOL": _OLD_TLS,
    "TLSV1_ALERT_PROTOCOL_VERSION": _OLD_TLS,
    "UNKNOWN_PROTOCOL": _NO_TLS,
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "HTTP_REQUEST": _NO_TLS,
    "PACKET_LENGTH_TOO_LONG": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": f"the peer wants a client certificate {_OWN}",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": (
        f"the peer refuses the TLS handshake: it wants a client certificate {_OWN}, "
        "or has no cipher in common with this gateway"
    ),
    "SSLV3_ALERT_BAD_CERTIFICATE": _REFUSES_OURS,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _REFUSES_OURS,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"the certificate of this gateway has expired {_OWN}",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": f"the certificate of this gateway is revoked {_OWN}",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": _REFUSES_OURS,
    "TLSV1_ALERT_UNKNOWN_CA": f"the peer does not trust the certificate of this gateway {_OWN}",
    "TLSV1_ALERT_ACCESS_DENIED": _REFUSES_OURS,
    "TLSV1_UNRECOGNIZED_NAME": "the peer has no certificate for this name",
    "TLSV1_ALERT_UNRECOGNIZED_NAME": "the peer has no certificate for this name",
    "NO_SHARED_CIPHER": "the peer has no cipher in common with this gateway",
    "UNEXPECTED_EOF_WHILE_READING": _CUT_OFF,
}


def one_line(text: str, limit: int = LONGEST_CAUSE) -> str:
    """*text* in one line of printable characters, of *limit* at most."""
    line = "".join(char if char.isprintable() else " " for char in text[: 4 * limit])
    line = " ".join(line.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def system_words(failure: BaseException) -> str:
    """What the system says of a socket."""
    if isinstance(failure, ssl.SSLError):
        return handshake_words(failure)
    number = failure.errno if isinstance(failure, OSError) else None
    if number is not None and number in _SYSTEM:
        return _SYSTEM[number]
    if isinstance(failure, ConnectionError) and number is None:
        return "the connection was closed"
    return os.strerror(number) if number is not None and number > 0 else type(failure).__name__


def name_words(host: str, failure: OSError | None) -> str:
    """Why *host* has no address; None: the name server answered, without one."""
    number = failure.errno if isinstance(failure, socket.gaierror) else None
    if failure is None or number is None:
        said = f" ({failure.strerror})" if failure is not None and failure.strerror else ""
        return f"{host} has no address{said}"
    return _NAMES.get(number, "{host} has no address").format(host=host)


def handshake_words(failure: BaseException) -> str:
    """Why a TLS handshake failed, other than by the certificate of the peer."""
    if isinstance(failure, ConnectionError):
        return _CUT_OFF
    if not isinstance(failure, ssl.SSLError):
        return f"{system_words(failure)} during the TLS handshake"
    reason = failure.reason or ""
    if isinstance(failure, ssl.SSLEOFError):
        reason = reason or "UNEXPECTED_EOF_WHILE_READING"
    if reason in _HANDSHAKE:
        return _HANDSHAKE[reason]
    return f"the TLS handshake failed: {reason.lower().replace('_', ' ') or 'no reason was said'}"


def cut_words(failure: Exception | None, *, first_of_tls: bool) -> str:
    """Why a connection ended before an octet of the answer came.

    Args:
        first_of_tls: It was the first request on a connection with TLS: by TLS 1.3 a peer refuses
            who shows no certificate only after the handshake, and some say nothing.
    """
    if isinstance(failure, ssl.SSLError):
        return handshake_words(failure)
    words = "the connection was closed before the answer"
    if failure is not None and not isinstance(failure, ConnectionError):
        words = f"{system_words(failure)} before the answer"
    return f"{words}; {_MAY_WANT}" if first_of_tls else words


def tells_more(failure: BaseException) -> bool:
    """Whether the certificate itself would say more of why it was not accepted."""
    code = failure.verify_code if isinstance(failure, ssl.SSLCertVerificationError) else None
    return code in (_NOT_YET, _EXPIRED) or code in _OTHER_NAMES


def certificate_words(
    failure: ssl.SSLCertVerificationError,
    place: str,
    name: str,
    shown: bytes | None = None,
    trust: str = "egress_ca, or ca in its row of [[consumers]]",
) -> str:
    """Why the certificate that *place* showed was not accepted.

    Args:
        name: The one that was verified.
        shown: The certificate (DER), where it could be had.
        trust: The settings that name who is trusted.
    """
    subject, code = f"certificate of {place}", failure.verify_code
    if code in _UNTRUSTED:
        return f"{subject} is not trusted: {_UNTRUSTED[code]} ({trust})"
    certificate = _read(shown)
    now = datetime.now(UTC)
    if code == _EXPIRED:
        if certificate is None or certificate.not_valid_after_utc > now:
            return f"{subject} has expired, or one of its chain: it has to be renewed"
        ago = _span(now - certificate.not_valid_after_utc)
        return f"{subject} expired {ago} ago: it has to be renewed"
    if code == _NOT_YET:
        if certificate is None or certificate.not_valid_before_utc <= now:
            return f"{subject} is not valid yet, or one of its chain: see the clocks"
        in_ = _span(certificate.not_valid_before_utc - now)
        return f"{subject} is not valid yet, but in {in_}: see the clocks"
    if code in _OTHER_NAMES:
        others = _names(certificate) if certificate is not None else ()
        for_ = f"for {', '.join(others[:_SHOWN_NAMES])}, " if others else ""
        return f"{subject} is {for_}not for {name} (server_name in its row of [[consumers]])"
    return f"{subject} is not trusted: {failure.verify_message}"


def status_words(status: int) -> str:
    """An answer with *status*."""
    with contextlib.suppress(ValueError):
        return f"answered {status} {HTTPStatus(status).phrase}"
    return f"answered {status}"


def seconds_words(seconds: float) -> str:
    """*seconds* as people say them."""
    return f"{max(seconds, 0.1):.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def _read(shown: bytes | None) -> x509.Certificate | None:
    try:
        return None if shown is None else read_certificate(shown)
    except ValueError:
        return None


def _names(certificate: x509.Certificate) -> Sequence[str]:
    """Whom *certificate* is for."""
    try:
        found = extension_of(certificate, x509.SubjectAlternativeName)
        if found is None:
            return ()
        names = found.get_values_for_type(x509.DNSName)
        return tuple(names + [str(one) for one in found.get_values_for_type(x509.IPAddress)])
    except ValueError:
        return ()


def _span(time: timedelta) -> str:
    """*time*, which is positive, in its largest unit."""
    for unit, seconds in (("day", 86400), ("hour", 3600), ("minute", 60)):
        number = int(time.total_seconds() // seconds)
        if number:
            return f"{number} {unit}{'s' if number > 1 else ''}"
    return "less than a minute"
