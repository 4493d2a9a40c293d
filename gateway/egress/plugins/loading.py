"""Finds, checks and makes the transport of a scheme.

Third parties add one with an entry point, whose name is the scheme::

    [project.entry-points."dragoman.transports"]
    xmpp = "my_package:XmppTransport"
"""

from collections.abc import Callable
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from filters import Reason, Refused
from gateway.egress.addresses import Target
from gateway.egress.plugins.settings import PluggedScheme
from gateway.egress.transport import TRANSPORT_API_VERSION, PluggedTransport, TransportSetup

ENTRY_POINT_GROUP = "dragoman.transports"
OURS = ("http", "https", "mailto", "soap.tcp", "soap.tcps")
"""The schemes of Dragoman's own transports, which no package can replace."""
_METHODS = ("from_setup", "target", "send", "close")


class TransportError(Refused):
    """A transport cannot be used; the text is one line for a person."""


def load_transport(
    row: PluggedScheme, may_reach: Callable[[Target, str], bool]
) -> PluggedTransport:
    """Make the transport that *row* enables.

    Raises:
        TransportError: It is not installed, or several packages bring it, it cannot be loaded, is
            no transport, was written for another version of the protocol, or does not take its
            settings.
    """
    point, made = _find_class(row.scheme)
    try:
        transport = made.from_setup(TransportSetup(row.scheme, dict(row.settings), may_reach))
    except Exception as exc:
        text = str(exc) if isinstance(exc, Refused) else f"{type(exc).__name__}: {exc}"
        for name, secret in row.settings.items():
            if "password" in name.lower() or "token" in name.lower() or "secret" in name.lower():
                text = text.replace(secret, "...")
        raise _wrong(point, f"does not take its settings: {text}") from exc
    return cast(PluggedTransport, transport)


def transport_class(scheme: str) -> Any:
    """Return the class of the transport with *scheme*.

    Raises:
        TransportError: As `load_transport`.
    """
    return _find_class(scheme)[1]


def _find_class(scheme: str) -> tuple[EntryPoint, Any]:
    if scheme in OURS:
        raise TransportError(
            Reason.INTERNAL, f"transports: {scheme}: is Dragoman's own, and needs no row"
        )
    found = [point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name == scheme]
    if not found:
        raise _unknown(scheme)
    point = found[0]
    if len(found) > 1:
        packages = " and ".join(sorted(map(_package, found)))
        raise _wrong(point, f"is brought by {packages}: uninstall all but one")
    try:
        made: Any = point.load()
    except ModuleNotFoundError as exc:
        package = point.dist.name if point.dist else point.value
        raise _wrong(
            point, f"needs {exc.name}, which is not installed: pip install '{package}'"
        ) from exc
    except Exception as exc:  # A third party's module may raise anything.
        raise _wrong(point, f"cannot be loaded: {type(exc).__name__}: {exc}") from exc
    version = getattr(made, "api_version", None)
    if version != TRANSPORT_API_VERSION:
        raise _wrong(
            point,
            f"speaks version {version} of the transport protocol,"
            f" this Dragoman speaks {TRANSPORT_API_VERSION}: install the one made for it",
        )
    missing = [name for name in _METHODS if not callable(getattr(made, name, None))]
    if missing:
        raise _wrong(point, f"is not a transport: {point.value} has no {', '.join(missing)}")
    return point, made


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _wrong(point: EntryPoint, text: str) -> TransportError:
    return TransportError(Reason.INTERNAL, f"transports: {point.name}: {text}")


def _unknown(scheme: str) -> TransportError:
    known = sorted({*OURS, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})
    near = get_close_matches(scheme, known, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    return TransportError(
        Reason.INTERNAL,
        f"transports: no transport has the scheme {scheme!r}; {meant}installed: {', '.join(known)}",
    )
