"""The calls of listeners that subscribed by a call themselves (Grid SOAP Events)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Calling:
    """The form in which one listener is called.

    Attributes:
        handback: The text that it gave at its subscription, and gets back with each event.
        types: The names that it calls types by (`mediation.grid_events.types.TypeNames`).
        schema: The generation of XML Schema that it wrote
            (`mediation.grid_events.encoding.Generation`).
    """

    handback: str | None = None
    types: str = "schema"
    schema: str = "2001"


@dataclass(frozen=True, slots=True)
class CallRules:
    """The rules of an endpoint for calls of Grid SOAP Events. Leases are milliseconds.

    Attributes:
        known_types: Events of types that are not known here are refused.
        declared_types: Types that are known because a schema declares them: namespace and name.
        fault_status: That of HTTP with which faults are told: old clients read the body of a 200
            alone.
        lease: For who asks for none.
    """

    known_types: bool = False
    declared_types: frozenset[tuple[str, str]] = frozenset()
    fault_status: int = 500
    lease: int = 600_000
    shortest: int = 10_000
    longest: int = 86_400_000

    def granted(self, asked: int) -> int:
        """The lease that is granted: no duration is refused."""
        if asked <= 0:
            return self.lease
        return min(max(asked, self.shortest), self.longest)


USUAL_CALLS = CallRules()
