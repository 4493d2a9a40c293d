"""Whether the gateway on this machine is alive: ``python -m gateway.alive``, for a container's
health check. It speaks whatever the gateway does."""

import http.client
import os
import ssl
import sys

SECONDS = 2.0


def is_alive(port: int) -> bool:
    """Whether a gateway answers on *port*, over HTTP or HTTPS.

    The certificate is for others to verify; one that asks for theirs ends the connection when it
    sees none, and is alive, too.
    """
    try:
        if _answers(http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)):
            return True
    except (OSError, http.client.HTTPException):
        pass  # It may speak TLS.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=SECONDS, context=context)
    try:
        connection.connect()
    except OSError:
        return False
    try:
        return _answers(connection)
    except (ConnectionResetError, ssl.SSLError):
        return True
    except (OSError, http.client.HTTPException):
        return False


def _answers(connection: http.client.HTTPConnection) -> bool:
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(not is_alive(int(os.environ.get("DRAGOMAN_PORT", "8080"))))
