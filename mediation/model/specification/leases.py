"""The leases that a source may grant."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeaseRules:
    """The leases that a source may grant. The gateway bounds their length; a subscriber may say
    that it takes a shorter one, `Expiry.best_effort`."""

    absolute: bool = False
    """Expirations are dateTimes alone, and the answer to Subscribe tells none: it grants what was
    asked for."""
    shortens: bool = False
    """A lease that is too long is shortened; else it is refused."""
    endless: bool = True
    """A trusted subscriber may get a lease without end."""
    unasked_endless: bool = False
    """A trusted subscriber that asks for no lease gets one without end."""
    grace: bool = False
    """A subscription can be renewed for a while after its lease."""


USUAL_LEASES = LeaseRules()
