"""Names to addresses."""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Protocol

from gateway.model.hosts import IPAddress

MAX_LOOKUPS = 64


class Resolver(Protocol):
    """Looks names up."""

    async def resolve(self, host: str) -> Sequence[IPAddress]:
        """Every address of *host*, in the order to try them.

        Raises:
            OSError: There is none, or nobody could be asked.
        """

    def close(self) -> None: ...


class SystemResolver:
    """Asks the system (hosts file, DNS), each name once at a time.

    ``getaddrinfo`` blocks, and a name server that a stranger owns can make it block for
    long: it has threads of its own, so that it holds up nothing but other look-ups.

    Args:
        max_lookups: Look-ups at a time.
    """

    def __init__(self, *, max_lookups: int = MAX_LOOKUPS) -> None:
        self._threads = ThreadPoolExecutor(max_lookups, thread_name_prefix="resolver")
        self._asked: dict[str, asyncio.Future[Sequence[IPAddress]]] = {}

    async def resolve(self, host: str) -> Sequence[IPAddress]:
        asked = self._asked.get(host)
        if asked is None:
            loop = asyncio.get_running_loop()
            asked = loop.run_in_executor(self._threads, _addresses, host)
            self._asked[host] = asked
            asked.add_done_callback(lambda done: self._forget(host, done))
        try:
            return await asyncio.shield(asked)
        finally:  # Else a failure would hold it, and it the failure.
            del asked

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _forget(self, host: str, done: asyncio.Future[Sequence[IPAddress]]) -> None:
        del self._asked[host]
        if not done.cancelled():
            done.exception()  # whoever asked may have given up


def _addresses(host: str) -> Sequence[IPAddress]:
    # Octets, for Python would put text through the older IDNA once more.
    found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    return [ip_address(str(address[0])) for *_, address in found]
