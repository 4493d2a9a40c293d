"""Messages of syslog (RFC 5424) as they go over TLS (RFC 5425), for audit messages (IHE ITI-20)."""

import os
import re
import socket

PRIORITY = 10 * 8 + 5
"""Facility 10 (security), severity 5 (notice), as ITI-20 wants it."""
OF_IHE, OF_DICOM = "IHE+RFC-3881", "DICOM+RFC3881"
"""MSGID: of transactions of IHE, and of all else that DICOM has."""
_UNPRINTABLE = re.compile("[^!-~]")
_BOM = b"\xef\xbb\xbf"


def write_frame(message: bytes, *, time: str, kind: str, host: str = "") -> bytes:
    """The octets of *message*, in UTF-8, with its length in front.

    Args:
        time: When it happened (RFC 3339).
        kind: `OF_IHE` or `OF_DICOM`.
        host: Of this machine, when empty.
    """
    name = _UNPRINTABLE.sub("_", host or socket.gethostname())[:255] or "-"
    head = f"<{PRIORITY}>1 {time or '-'} {name} dragoman {os.getpid()} {kind} - "
    said = head.encode() + _BOM + message
    return str(len(said)).encode() + b" " + said
