"""Right of way among tenants: the light ones go first, and the others are held back meanwhile.

    used lately       under half of an equal share          as much, or more
                      light: its work begins at once        heavy: it takes turns

    time ────┬─────────────────┬──────────────┬──────────────────────────
             │ held back       │ free         │ held back ...
             light work begins └ its end, or `HOLD` is used up

While work of a light tenant is under way, no heavy tenant's work begins: an event loop that a flood
keeps busy costs that work about a millisecond at each of its steps. `HOLD` is used up by the time
that the heavy ones are held back and comes back with the time that they are not, so at least half
of the time is theirs, whatever the light ones do. Where there is one tenant, none is light.
"""

from typing import Final

HOLD: Final = 0.02
"""Seconds for which heavy tenants are held back at most, in a row."""
HALF_LIFE: Final = 1.0
"""Seconds after which what a tenant has used counts half."""
FORGOTTEN: Final = 1.0
"""A tenant whose use counts less has used nothing."""


class TenantPriority:
    """Tells light tenants from heavy ones. It knows no clock: *now* is in seconds, and never
    falls."""

    def __init__(self) -> None:
        self._used: dict[str, float] = {}
        self._all_used = 0.0
        self._halved = 0.0
        self._left = HOLD
        """Seconds for which heavy tenants may be held back, at `_changed`."""
        self._changed = 0.0
        self._hold = 0
        """The number of the last hold."""
        self._under_way = 0
        """Work of light tenants that began in this hold, and has not ended."""
        self.holds_back = False
        """No heavy tenant's work is to begin now."""

    @property
    def several(self) -> bool:
        """Whether more than one tenant has used anything lately."""
        return len(self._used) > 1

    def use(self, tenant: str, amount: float, now: float) -> None:
        """Count what *tenant* uses, in any unit that is larger than `FORGOTTEN`."""
        if now - self._halved > HALF_LIFE:
            self._halve(now)
        self._used[tenant] = self._used.get(tenant, 0.0) + amount
        self._all_used += amount

    def is_light(self, tenant: str) -> bool:
        """Whether *tenant* has used less than half of an equal share of what all have lately."""
        return 2 * self._used.get(tenant, 0.0) * len(self._used) < self._all_used

    def _halve(self, now: float) -> None:
        periods = int((now - self._halved) / HALF_LIFE)
        part = 0.5 ** min(periods, 1000)
        self._halved += periods * HALF_LIFE
        kept = {tenant: used * part for tenant, used in self._used.items()}
        self._used = {tenant: used for tenant, used in kept.items() if used >= FORGOTTEN}
        self._all_used = sum(self._used.values())

    def begin(self, now: float) -> int:
        """Begin work of a light tenant, for which the others are held back if they have not been
        for too long. Returns the number of the hold, for `end`."""
        if not self.holds_back:
            self._left = min(HOLD, self._left + now - self._changed)
            self._changed = now
            if self._left < HOLD / 2:
                return 0
            self.holds_back, self._under_way = True, 0
            self._hold += 1
        self._under_way += 1
        return self._hold

    def end(self, hold: int, now: float) -> None:
        """End work that began in *hold*."""
        if self.holds_back and hold == self._hold:
            self._under_way -= 1
            if not self._under_way:
                self._let_go(now)

    def expire(self, now: float) -> None:
        """Hold back nobody any more if the time for that is used up."""
        if self.holds_back and now >= self.until:
            self._let_go(now)

    @property
    def until(self) -> float:
        """When this hold is used up."""
        return self._changed + self._left

    def _let_go(self, now: float) -> None:
        self.holds_back = False
        self._left = max(0.0, self._left - (now - self._changed))
        self._changed = now
