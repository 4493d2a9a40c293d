"""Checks of addresses: those that are listened on, connected to, and looked up."""

import errno
import json
import socket
import ssl
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from adapters import AdapterError, load
from gateway.checks.files import check_file, judge_journal, where_it_listens
from gateway.checks.findings import Finding, Verdict, fail, ok, warn
from gateway.databases import first_line
from gateway.egress import Proxy
from gateway.model.hosts import is_loopback
from gateway.server.process import ListenRefused, listen
from gateway.settings.settings import Settings

CONNECTED = 3.0
"""Seconds in which a broker is to take a connection."""
_PORTS = {"amqp": 5672, "amqps": 5671, "stomp": 61613}
_WEB_PORTS = {"http": 80, "https": 443}


def check_adapter_settings(settings: Settings) -> Iterator[Finding]:
    """Whether the adapter takes its URL and its settings; nothing is connected to."""
    url = settings.adapter.get_secret_value()
    try:
        load(url, data=settings.data, settings=settings.adapter_settings)
    except AdapterError as error:
        yield fail("adapter", f"{error}; correct it with --adapter or adapter_settings")
    else:
        yield ok("adapter", f"{settings.scheme}: takes its settings")


def check_adapter(settings: Settings) -> Iterator[Finding]:
    url = settings.adapter.get_secret_value()
    bad = [each for each in check_adapter_settings(settings) if each.verdict is Verdict.FAIL]
    if bad:
        yield from bad
        return
    parts = urlsplit(url)
    if parts.scheme == "embedded":
        yield from check_file("adapter", settings.data / "journal.db", judge_journal)
    elif parts.hostname is None:
        yield ok("adapter", f"{parts.scheme}: is there")
    elif (port := parts.port or _PORTS.get(parts.scheme)) is None:
        yield ok("adapter", f"{parts.scheme}: is there; its URL names no port to try")
    else:
        yield knock(parts.scheme, parts.hostname, port)


def knock(scheme: str, host: str, port: int) -> Finding:
    """Connect, no more: interests that are none would take away those of a gateway that runs."""
    why = _unreachable(host, port)
    if why:
        text = f"{scheme}: {host}:{port} cannot be connected to ({why})"
        return fail("adapter", f"{text}; see that the broker runs, and what --adapter says")
    return ok("adapter", f"{scheme}: {host}:{port} can be connected to; a start logs in")


def check_proxy(proxy: Proxy) -> Iterator[Finding]:
    """Check the proxy of egress: without it nothing is delivered."""
    why = _unreachable(proxy.host, proxy.port)
    if why:
        text = f"{proxy.host}:{proxy.port} cannot be connected to ({why})"
        yield fail("proxy", f"{text}; see that it runs, and what egress_proxy says")
    else:
        yield ok("proxy", f"{proxy.host}:{proxy.port} can be connected to")


def _unreachable(host: str, port: int) -> str:
    """Why nobody listens there; nothing where somebody does."""
    try:
        socket.create_connection((host, port), timeout=CONNECTED).close()
    except OSError as error:
        return error.strerror or str(error) or "no answer"
    return ""


def check_port(settings: Settings, runs: bool) -> Iterator[Finding]:
    host, port = settings.host, settings.port
    try:
        listen(host, port).close()
    except ListenRefused as error:
        state = _ask_gateway(host, port, tls=settings.tls_certificate is not None)
        if state is None and runs and settings.tls_client_ca is not None:
            text = f"{host}:{port}: in use; the gateway asks for a certificate, and was not asked"
            yield ok("port", text)
        elif state is None:
            used = getattr(error.__cause__, "errno", None) == errno.EADDRINUSE
            way = "stop the program that has it, or choose" if used else "choose"
            yield fail("port", f"{str(error).rstrip('.')}; {way} another with --host, --port")
        elif runs:
            ready = "is ready" if state.get("ready") else "is not ready: see /readyz"
            finding = ok if state.get("ready") else warn
            yield finding("port", f"{host}:{port}: a gateway answers, and {ready}")
            yield from _judge_broker(state.get("broker"))
        else:
            text = f"{host}:{port}: a gateway with other data answers; stop it, or choose another"
            yield fail("port", f"{text} with --port")
    else:
        where = f"{host}:{port}" if port else f"{host}, any port"
        there = where_it_listens(settings.data) if runs else None
        elsewhere = f"; the gateway with this data listens on {there}" if there else ""
        yield ok("port", f"{where} is free{elsewhere}")


def check_admin(settings: Settings, runs: bool) -> Iterator[Finding]:
    """Check where the administration is, and who reaches it."""
    what = "administration"
    if settings.admin is None:
        yield ok(what, f"with SOAP on {settings.host}, which is this machine alone")
        return
    host, port = settings.admin
    where = f"{host}:{port}" if port else f"{host}, any port"
    try:
        listen(host, port).close()
    except ListenRefused as error:
        if not runs or _ask_gateway(host, port, tls=settings.tls_certificate is not None) is None:
            text = f"{str(error).rstrip('.')}; choose another with --admin-host, --admin-port"
            yield fail(what, text)
            return
        where = f"{where}: a gateway answers"
    else:
        where = f"{where} is free"
    if is_loopback(host) or settings.tls_client_ca is not None:
        yield ok(what, f"{where}; it is not on that of SOAP")
    else:
        text = f"{where}, but whoever reaches it may end subscriptions and read dead letters"
        yield warn(what, f"{text}; let a firewall see to it, or set admin_host to 127.0.0.1")


def _judge_broker(broker: object) -> Iterator[Finding]:
    """Check the connection of the gateway that runs to its broker, where it says."""
    if not isinstance(broker, dict):
        return
    if stopped_by := first_line(str(broker.get("stopped_by") or "")):
        yield fail("broker", f"{stopped_by}; until then nothing behind it is delivered")
    since, why, when = (
        first_line(str(broker.get(name) or "")) for name in ("since", "last_error", "last_error_at")
    )
    if not broker.get("connected"):
        text = f"the gateway that runs is not connected since {since}: {why} (at {when})"
        yield fail("broker", f"{text}; see that the broker runs, and what --adapter says")
    elif broker.get("blocked"):
        text = "the gateway that runs is connected, but the broker takes no messages"
        yield warn("broker", f"{text}; see its alarms, its memory and its disk")
    elif gone := broker.get("queues_gone"):
        text = f"queues of the gateway were deleted, and made again: {first_line(str(gone))}"
        yield warn("broker", f"{text}; what they held is lost: see who deletes them")
    else:
        last = f"; its last error was at {when}: {why}" if why else ""
        yield ok("broker", f"the gateway that runs is connected since {since}{last}")


def _ask_gateway(host: str, port: int, *, tls: bool) -> dict[str, Any] | None:
    """The readiness that a gateway there answers with; None where no gateway does."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    connection = HTTPConnection(reachable, port, timeout=1.0)
    if tls:
        # It is asked what it is, and told nothing: whose name it has does not matter.
        unverified = ssl.create_default_context()
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection(reachable, port, timeout=1.0, context=unverified)
    try:
        connection.request("GET", "/readyz")
        state = json.loads(connection.getresponse().read(2**16))
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return state if isinstance(state, dict) and {"ready", "draining"} <= state.keys() else None


def check_public_url(settings: Settings) -> Iterator[Finding]:
    if settings.public_url is None:
        yield ok("public URL", "not set: addresses are given out as each request names them")
        return
    parts = urlsplit(settings.public_url)
    host = parts.hostname or ""
    port = parts.port or _WEB_PORTS[parts.scheme]
    try:
        found = {str(row[4][0]) for row in socket.getaddrinfo(host, port)}
    except (OSError, UnicodeError) as error:
        text = (
            f"{host} cannot be resolved here ({error}); correct it with --public-url, or mend DNS"
        )
        yield fail("public URL", text)
        return
    if not settings.on_loopback and any(map(is_loopback, found)):
        text = f"{host} is this machine alone, but {settings.host} is not; set the name that peers"
        yield warn("public URL", f"{text} use with --public-url")
    elif parts.scheme == "http" and not is_loopback(host):
        text = "without TLS others can read the keys of subscriptions on the way"
        yield warn("public URL", f"{text}; set tls_certificate, or put a proxy with https in front")
    else:
        yield ok("public URL", f"{host} is {', '.join(sorted(found)[:4])}")
