"""Asks the system how much of what was written to a connection its peer has not acknowledged."""

import fcntl
import struct
import sys
import termios


def unacknowledged(descriptor: int) -> int:
    """Octets on their way that the peer's system has not acknowledged (Linux: SIOCOUTQ); 0 where
    the system does not say."""
    if sys.platform != "linux":
        return 0
    try:
        answer = fcntl.ioctl(descriptor, termios.TIOCOUTQ, b"\0\0\0\0")
    except OSError:
        return 0
    return int(struct.unpack("i", answer)[0])
