"""A circuit breaker: after failures in a row nothing is sent but a probe now and then.

closed --- 5 failures in a row ---> open --- its time has come ---> probing
   ^                                 ^                                 |
   |                                 +------------ it fails: 2 x ------+
   +---------------------------- a success ----------------------------+
"""

FAILURES = 5
FIRST_PROBE = 5.0
LAST_PROBE = 300.0


class Breaker:
    """Times are those of one clock, in seconds."""

    __slots__ = ("_delay", "_failures", "_first", "_probing", "until")

    def __init__(self, first: float = FIRST_PROBE) -> None:
        self._first = first
        self._failures = 0
        self._delay = 0.0
        self._probing = False
        self.until: float | None = None
        """While open: when the next probe may start. None while closed."""

    @property
    def open(self) -> bool:
        return self.until is not None

    def blocks(self, now: float) -> bool:
        """True if nothing, not even a probe, may start."""
        return self.until is not None and now < self.until

    def probing(self, now: float) -> None:
        """A probe starts; until its outcome is known no other does."""
        if self.until is not None:
            self._probing = True
            self.until = now + LAST_PROBE

    def withhold(self, now: float) -> None:
        """Nothing was sent, which says nothing: where it was to be the probe, another may start
        *now*."""
        if self._probing:
            self._probing = False
            self.until = now

    def hasten(self, now: float) -> None:
        """Let a probe start *now*, unless one is under way: there is reason to hope."""
        if self.until is not None and not self._probing:
            self.until = min(self.until, now)

    def succeeded(self) -> bool:
        """Close. Returns whether the breaker was open."""
        opened = self.until is not None
        self._failures = 0
        self._delay = 0.0
        self._probing = False
        self.until = None
        return opened

    def failed(self, now: float, *, at_least: float = 0.0) -> None:
        """Count a failure. *at_least* seconds of quiet open it at once (``Retry-After``).

        While it is open, only a probe's failure counts: others began before it opened.
        """
        self._failures += 1
        if self.until is not None and not self._probing:
            self.until = max(self.until, now + at_least)
        elif self._failures >= FAILURES or self.until is not None or at_least > 0:
            self._delay = min(self._delay * 2, LAST_PROBE) if self._delay else self._first
            self._probing = False
            self.until = now + max(self._delay, at_least)
