"""Serves an ASGI app of a program as the gateway serves its own: behind the same limits, and to
clients that offer HTTP/2 with their first request (Java's ``HttpClient``, hence CXF 4 and Spring),
which uvicorn alone refuses.

::

    python -m gateway.client.serving warehouse:app --port 8090
"""

import argparse
import ssl
import sys
from dataclasses import dataclass
from typing import Any

import uvicorn

from gateway.http import ConnectionGate, HttpLimits, hardened

LIMITS = HttpLimits(connections_per_address=1024)
"""All clients of a program may run on one host."""
GRACE = 15
"""Seconds that requests under way have when the process is told to end."""


@dataclass(frozen=True, slots=True)
class Serving:
    """How an app is served.

    Attributes:
        host: Where to listen; ``0.0.0.0`` is every address of IPv4.
        tls: With a certificate, for ``https``.
        forwarded_allow_ips: Addresses of proxies whose ``X-Forwarded-For`` is believed, as uvicorn
            takes them.
    """

    port: int
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    forwarded_allow_ips: str | None = None

    def server(self, app: Any) -> uvicorn.Server:
        """The server of *app*: an ASGI app, or where one is (``module:name``)."""
        config = uvicorn.Config(
            app,
            host=self.host,
            port=self.port,
            http=hardened(LIMITS, ConnectionGate(LIMITS), self.tls),
            ws="none",
            access_log=False,
            server_header=False,
            forwarded_allow_ips=self.forwarded_allow_ips,
            timeout_graceful_shutdown=GRACE,
        )
        return uvicorn.Server(config)


def main(arguments: list[str] | None = None) -> None:
    """Serve the app that the command line names until the process is told to end."""
    parser = argparse.ArgumentParser(prog="python -m gateway.client.serving")
    parser.add_argument("app", help="an ASGI app, such as warehouse:app")
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--certificate", help="PEM file, for https")
    parser.add_argument("--key", help="PEM file with its key, where that is another one")
    parser.add_argument("--forwarded-allow-ips", help="proxies whose X-Forwarded-For is believed")
    said = parser.parse_args(arguments)
    tls = None
    if said.certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(said.certificate, said.key)
    sys.path.insert(0, "")
    Serving(said.port, said.host, tls, said.forwarded_allow_ips).server(said.app).run()


if __name__ == "__main__":
    main()
