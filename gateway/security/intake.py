"""The intake of events: how many, and how many bytes of them, a stranger may send to be stored."""

from collections.abc import Callable

from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate

EVENTS, EVENTS_AT_ONCE = 500.0, 1000.0
"""Events that one stranger may publish: a second, and at once."""
BYTES, BYTES_AT_ONCE = 4 * 2.0**20, 64 * 2.0**20
"""Bytes of these events, in the same way."""
SHORT = 16 * 1024
"""Bytes of a body that is read whatever its sender sent before."""


class Intake:
    """Admits events, whether they are published or put into a mailbox.

    Args:
        reserve: Counts bytes against the room on the store's disk.
    """

    def __init__(self, reserve: Callable[[int], None]) -> None:
        self.events = PrincipalRate(EVENTS, EVENTS_AT_ONCE, "Too many events.")
        self.bytes = PrincipalRate(BYTES, BYTES_AT_ONCE, "Too many bytes.")
        self._reserve = reserve

    def admit_events(self, principal: Principal, number: int) -> None:
        """Count *number* events of *principal*.

        Raises:
            QuotaExceeded, TenantQuotaExceeded: It, or its tenant, sends too many.
        """
        self.events.take(principal, number)
        if principal.quotas is not None:
            principal.quotas.admit_messages(number)

    def admit_bytes(self, principal: Principal, octets: int) -> None:
        """Count the bytes of events of *principal*.

        Raises:
            QuotaExceeded: It sends too many.
            TenantQuotaExceeded: Its tenant does.
            StoreUnavailable: The store's disk is nearly full.
        """
        self._reserve(octets)
        self.bytes.take(principal, octets)
        if principal.quotas is not None:
            principal.quotas.admit_bytes(octets)

    def check_body(self, principal: Principal, octets: int) -> None:
        """Check, before a body of *octets* is read, that *principal* may still send so many.

        A short one is read in any case: who has sent too many events can still unsubscribe.

        Raises:
            QuotaExceeded: It has sent too many.
        """
        if octets > SHORT:
            self.bytes.check(principal, octets)
