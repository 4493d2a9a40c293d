"""Ports to listen at, for what says before it listens where, or goes away and comes back."""

import contextlib
import os
import socket
from itertools import count

from gateway.egress.addresses import DENIED_PORTS

_BELOW_EPHEMERAL = range(16_000, 32_000)
"""Linux gives connections, and servers that ask for any port, those from 32,768 on. Well-known
servers of these tests are below 16,000, but for RabbitMQ's distribution, which asks for its own."""
_WORKERS = 8
"""Workers that have ports of their own."""


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on, all different, which no other call gives out soon.

    None is of those that the system gives to connections and to servers that ask for any: one of
    them could be taken before the caller listens there, or while it is away; and who then tries to
    connect there may even be given it for its own end, and be connected with itself.
    """
    found: list[int] = []
    with contextlib.ExitStack() as held:
        while len(found) < number:
            sock = held.enter_context(socket.socket())
            port = _OWN[next(_turns) % len(_OWN)]
            with contextlib.suppress(OSError):
                sock.bind(("127.0.0.1", port))
                found.append(port)
    return found


def _own_ports() -> list[int]:
    """Those of this worker of pytest-xdist, without those that no consumer of a gateway may have."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    share = len(_BELOW_EPHEMERAL) // _WORKERS
    own = _BELOW_EPHEMERAL[number * share : (number + 1) * share]
    return [port for port in own if port not in DENIED_PORTS]


_OWN = _own_ports()
_turns = count(os.getpid())
"""Another run on this machine hardly begins at the same place."""
