"""Fair turns of tenants among what is to be done for them: messages that are yielded, destinations
that have something to send.

Deficit round robin (Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round-Robin",
1995): the tenant whose turn it is sends `QUANTUM`, then the next one; what it sent beyond that is
taken from its next turns. So whoever floods lets nobody wait for more than one turn of each tenant.
What a tenant has left of a turn, or owes, when it has nothing more to send is kept, and what the
others send meanwhile is added, up to a turn. Who comes back with something left goes first: so who
sends little waits for nobody (as new flows do in RFC 8290, section 4.2).
"""

from collections import deque
from typing import Generic, TypeVar

QUANTUM = 16 * 2**10
"""Bytes that a tenant sends in a turn, with `EACH` for each message."""
EACH = 2**10
"""What a message counts beside its bytes: about as many of them take the same processor time."""
REMEMBERED = 1024
"""Tenants without a line that are kept before those are looked for that have a whole turn left."""

T = TypeVar("T")


class TenantTurns(Generic[T]):
    """What waits in line, of one tenant in the order in which it came. Where one tenant alone has
    anything, that order is all, and nothing is counted."""

    __slots__ = ("_away", "_left", "_lines", "_most_away", "_number", "_sent", "_tenants")

    def __init__(self) -> None:
        self._number = 0
        self._lines: dict[str, deque[T]] = {}
        self._tenants: deque[str] = deque()
        """Those with a line; the first has its turn. It keeps that while its only one is out, and
        comes back."""
        self._left: dict[str, int] = {}
        """What tenants may still send in their turns; less than 0: they sent too much."""
        self._away: dict[str, tuple[int, int]] = {}
        """What tenants without a line had left, and `_sent` at that time; others a whole turn."""
        self._most_away = REMEMBERED
        """How many may be away before the next look at them."""
        self._sent = 0
        """What all tenants have sent."""

    def __bool__(self) -> bool:
        return self._number > 0

    def append(self, one: T, tenant: str) -> None:
        """Put *one* at the end of the line of *tenant*."""
        line = self._lines.get(tenant)
        if line is None:
            line = self._lines[tenant] = deque()
            if self._tenants or self._away:
                self._return(tenant)
            else:
                self._tenants.append(tenant)
        line.append(one)
        self._number += 1

    def tenant(self) -> str:
        """The tenant whose turn it is.

        Raises:
            IndexError: There is none.
        """
        tenants = self._tenants
        while True:
            tenant = tenants[0]
            if not self._lines[tenant]:
                self._leave(tenant)
            elif len(tenants) == 1 or self._left.get(tenant, 0) > 0:
                return tenant
            else:
                self._left[tenant] = left = self._left.get(tenant, 0) + QUANTUM
                if left <= 0:
                    tenants.rotate(-1)

    def popleft(self) -> T:
        """Take the one whose turn it is.

        Raises:
            IndexError: There is none.
        """
        line = self._lines[self.tenant()]
        self._number -= 1
        return line.popleft()

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
        """Forget *tenant*, the first, which has nothing to send; but not what it has left."""
        self._tenants.popleft()
        del self._lines[tenant]
        left = self._left.pop(tenant, 0)
        if left < 0 or (left < QUANTUM and (self._tenants or self._away)):
            self._away[tenant] = left, self._sent
            if len(self._away) > self._most_away:
                self._away = {
                    one: away for one, away in self._away.items() if self._left_now(*away) < QUANTUM
                }
                self._most_away = max(REMEMBERED, 2 * len(self._away))

    def _return(self, tenant: str) -> None:
        """Let *tenant* have a line again, before the others if it has something left."""
        away = self._away.pop(tenant, None)
        left = self._left[tenant] = QUANTUM if away is None else self._left_now(*away)
        if left > 0:
            self._tenants.appendleft(tenant)
        else:
            self._tenants.append(tenant)

    def _left_now(self, left: int, then: int) -> int:
        """What is left of a turn to who had *left* when all had sent *then*: the part that each
        of the others has sent since is added."""
        return min(QUANTUM, left + (self._sent - then) // max(1, len(self._tenants)))
