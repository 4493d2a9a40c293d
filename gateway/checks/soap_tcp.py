"""The ports of SOAP.TCP, and who listens there."""

import contextlib
import errno
import socket
import ssl
import time
from collections.abc import Iterator

from gateway.checks.findings import Finding, fail, ok
from gateway.security.keys import message_urn
from gateway.server.process import ListenRefused, listen
from gateway.settings.settings import Settings
from mediation.client import SPECS, write_get_resource_property
from mediation.model.messages import EndpointReference
from mediation.model.versions import Version, Wsa
from mediation.names import WSN_1_3
from mediation.packaging.dime import Decoder, DimeError, DimeMessage, Encoder

ANSWER = 2.0
"""Seconds that whoever listens has to answer in DIME."""


def check_soap_tcp(settings: Settings, runs: bool) -> Iterator[Finding]:
    ports = {"soap_tcp_port": settings.soap_tcp_port, "soap_tcps_port": settings.soap_tcps_port}
    taken = {settings.port: "port"} if settings.port else {}
    if settings.admin is not None and settings.admin[1]:
        taken[settings.admin[1]] = "the administration's"
    for name, port in ports.items():
        if port is None:
            continue
        option = f"--{name.replace('_', '-')}"
        if port in taken:
            text = f"{name} is {port}, as {taken[port]} is; choose another with {option}"
            yield fail("SOAP.TCP", text)
            continue
        if port:
            taken[port] = name
        yield _check(settings, runs, port, option)


def _check(settings: Settings, runs: bool, port: int, option: str) -> Finding:
    host = settings.host
    where = f"{host}:{port}"
    try:
        listen(host, port).close()
    except ListenRefused as error:
        tls = option == "--soap-tcps-port"
        if getattr(error.__cause__, "errno", None) != errno.EADDRINUSE:
            return fail("SOAP.TCP", f"{str(error).rstrip('.')}; choose another with {option}")
        if runs and tls and settings.tls_client_ca is not None:
            text = f"{where}: in use; the gateway asks for a certificate, and was not asked"
            return ok("SOAP.TCP", text)
        if not _answers(host, port, tls=tls):
            text = f"{where}: another program has it; stop that, or choose another with {option}"
            return fail("SOAP.TCP", text)
        if not runs:
            text = f"{where}: a gateway with other data answers; stop it, or choose another"
            return fail("SOAP.TCP", f"{text} with {option}")
        return ok("SOAP.TCP", f"{where}: a gateway answers")
    return ok("SOAP.TCP", f"{where if port else f'{host}, any port'} is free")


def _answers(host: str, port: int, *, tls: bool) -> bool:
    """Whether somebody there answers a request in DIME; one that changes nothing."""
    spec = SPECS[Version.WSN_1_3]
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    producer = EndpointReference(f"soap.tcp://{reachable}:{port}/soap", Wsa.V2005_08)
    _, envelope = write_get_resource_property(
        spec, producer, f"{{{WSN_1_3}}}FixedTopicSet", message_id=message_urn()
    )
    end = time.monotonic() + ANSWER
    decoder = Decoder()
    with contextlib.suppress(OSError, DimeError), contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((reachable, port), ANSWER))
        if tls:
            # It is asked what it is, and told nothing: whose name it has does not matter.
            unverified = ssl.create_default_context()
            unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
            connection = stack.enter_context(unverified.wrap_socket(connection))
        connection.sendall(Encoder().encode(DimeMessage(spec.soap, envelope)))
        while (left := end - time.monotonic()) > 0:
            connection.settimeout(left)
            octets = connection.recv(2**16)
            if not octets:
                break
            if next(decoder.feed(octets), None) is not None:
                return True
    return False
