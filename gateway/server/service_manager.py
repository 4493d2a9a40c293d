"""Telling the service manager that started this program, as systemd does, how it stands
(``sd_notify``)."""

import os
import socket
from contextlib import suppress

READY, STOPPING = "READY=1", "STOPPING=1"
WAITS = 1.0
"""Seconds that a manager may keep us waiting."""


def notify(state: str) -> None:
    """Send *state* to the socket that ``NOTIFY_SOCKET`` names; without one nobody asks. A manager
    that does not read is no reason to fail."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # A name of Linux that is no file.
        address = f"\0{address[1:]}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(WAITS)
        sock.connect(address)
        sock.send(state.encode())
