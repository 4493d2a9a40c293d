"""Fair turns of tenants among the destinations that have something to send.

Deficit round robin (Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round-Robin",
1995): the tenant whose turn it is sends `QUANTUM`, then the next one; what it sent beyond that is
taken from its next turns. So whoever floods lets nobody wait for more than one turn of each tenant.
What a tenant owes when it has nothing more to send is paid off by what the others send meanwhile.
"""

from collections import deque
from typing import Generic, TypeVar

QUANTUM = 16 * 2**10
"""What a tenant sends in a turn."""
EACH = 2**10
"""What a message counts beside its bytes: about as many of them take the same processor time."""

T = TypeVar("T")


class TenantTurns(Generic[T]):
    """Destinations in line, those of one tenant in the order in which they came. Where one tenant
    alone has any, that order is all, and nothing is counted."""

    __slots__ = ("_left", "_lines", "_number", "_owed", "_sent", "_tenants")

    def __init__(self) -> None:
        self._number = 0
        self._lines: dict[str, deque[T]] = {}
        self._tenants: deque[str] = deque()
        """Those with a line; the first has its turn. It keeps that while its only destination is
        sent to, and comes back."""
        self._left: dict[str, int] = {}
        """What tenants may still send in their turns; less than 0: they sent too much."""
        self._owed: dict[str, tuple[int, int]] = {}
        """What tenants without a line sent too much, less than 0, and `_sent` at that time."""
        self._sent = 0
        """What all tenants have sent."""

    def __bool__(self) -> bool:
        return self._number > 0

    def append(self, destination: T, tenant: str) -> None:
        """Put *destination* at the end of the line of *tenant*."""
        line = self._lines.get(tenant)
        if line is None:
            line = self._lines[tenant] = deque()
            if tenant in self._owed:
                self._return(tenant)
            self._tenants.append(tenant)
        line.append(destination)
        self._number += 1

    def popleft(self) -> T:
        """Take the destination whose turn it is.

        Raises:
            IndexError: There is none.
        """
        tenants = self._tenants
        while True:
            tenant = tenants[0]
            line = self._lines[tenant]
            if not line:
                self._leave(tenant)
            elif len(tenants) == 1 or self._left.get(tenant, 0) > 0:
                self._number -= 1
                return line.popleft()
            else:
                self._left[tenant] = left = self._left.get(tenant, 0) + QUANTUM
                if left <= 0:
                    tenants.rotate(-1)

    def sent(self, tenant: str, octets: int) -> None:
        """Count a message of so many bytes that *tenant* sent, whose turn it was."""
        tenants = self._tenants
        self._sent += EACH + octets
        if len(tenants) < 2:
            return
        self._left[tenant] = left = self._left.get(tenant, 0) - EACH - octets
        if left <= 0 and tenants[0] == tenant:
            tenants.rotate(-1)

    def _leave(self, tenant: str) -> None:
        """Forget *tenant*, the first, which has nothing to send; but not what it sent too much."""
        self._tenants.popleft()
        del self._lines[tenant]
        left = self._left.pop(tenant, 0)
        if left < 0:
            self._owed[tenant] = left, self._sent

    def _return(self, tenant: str) -> None:
        """Take from what *tenant* owed the part that each of the others has sent since then."""
        left, then = self._owed.pop(tenant)
        left += (self._sent - then) // max(1, len(self._tenants))
        if left < 0:
            self._left[tenant] = left
