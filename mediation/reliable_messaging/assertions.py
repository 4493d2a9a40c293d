"""Policy assertions of WS-ReliableMessaging (RM Policy 2005/02, WS-RM Policy 1.1) and of
WS-MakeConnection."""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from mediation import names
from mediation.reliable_messaging.versions import Rm


class Assurance(Enum):
    """How often the application gets a message; the value is the local name of the assertion."""

    EXACTLY_ONCE = "ExactlyOnce"
    AT_LEAST_ONCE = "AtLeastOnce"
    AT_MOST_ONCE = "AtMostOnce"


class Bound(Enum):
    """What sequences must be bound to (1.1); the value is the local name of the assertion."""

    NOTHING = ""
    TOKEN = "SequenceSTR"
    """A token that CreateSequence refers to."""
    TLS = "SequenceTransportSecurity"
    """What carries CreateSequence; that says nothing but beside an ``sp:TransportBinding``."""


@dataclass(frozen=True, slots=True)
class RmAssertion:
    """What an endpoint says of its reliable messaging. A version that cannot say it leaves it out.

    Attributes:
        optional: Whether messages without a sequence are taken, too.
        assurance, in_order: (1.1) What the application gets.
        bound: (1.1) What sequences must be bound to.
        inactivity_timeout: (1.0) The time after which a sequence that nobody uses is over.
        base_retransmission_interval, exponential_backoff: (1.0) When a message that is not
            acknowledged is sent again, and whether that time grows.
        acknowledgement_interval: (1.0) How long an acknowledgement waits at most.
    """

    optional: bool = False
    assurance: Assurance | None = None
    in_order: bool = False
    bound: Bound = Bound.NOTHING
    inactivity_timeout: timedelta | None = None
    base_retransmission_interval: timedelta | None = None
    exponential_backoff: bool = False
    acknowledgement_interval: timedelta | None = None


def write_rm_assertion(rm: Rm, assertion: RmAssertion, *, policy: str = names.POLICY_1_5) -> bytes:
    """Write the RMAssertion of a version; *policy* is the namespace of the version of WS-Policy."""
    inner = _WRITERS[rm](assertion)
    optional = ' wsp:Optional="true"' if assertion.optional else ""
    return (
        f'<wsrmp:RMAssertion xmlns:wsrmp="{rm.rules.policy}" xmlns:wsp="{policy}"{optional}>'
        f"{inner}</wsrmp:RMAssertion>"
    ).encode()


def _parameters(assertion: RmAssertion) -> str:
    """The parameters of 1.0, each an element."""
    return "".join(
        (
            _interval("InactivityTimeout", assertion.inactivity_timeout),
            _interval("BaseRetransmissionInterval", assertion.base_retransmission_interval),
            "<wsrmp:ExponentialBackoff/>" if assertion.exponential_backoff else "",
            _interval("AcknowledgementInterval", assertion.acknowledgement_interval),
        )
    )


def _interval(name: str, length: timedelta | None) -> str:
    if length is None:
        return ""
    return f'<wsrmp:{name} Milliseconds="{length // timedelta(milliseconds=1)}"/>'


def _delivery(assertion: RmAssertion) -> str:
    """The nested policy of 1.1."""
    words = [assertion.assurance.value] if assertion.assurance is not None else []
    words += ["InOrder"] if assertion.in_order else []
    bound = f"<wsrmp:{assertion.bound.value}/>" if assertion.bound.value else ""
    if not words:
        return f"<wsp:Policy>{bound}</wsp:Policy>"
    inner = "".join(f"<wsrmp:{word}/>" for word in words)
    assured = f"<wsrmp:DeliveryAssurance><wsp:Policy>{inner}</wsp:Policy></wsrmp:DeliveryAssurance>"
    return f"<wsp:Policy>{bound}{assured}</wsp:Policy>"


_WRITERS = {Rm.V1_0: _parameters, Rm.V1_1: _delivery}
