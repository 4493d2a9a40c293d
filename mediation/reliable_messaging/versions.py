"""WS-ReliableMessaging 1.0 (2005/02) and 1.1 (200702; 1.2 has the same namespace): all that differs
between them, as a table."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from mediation import names
from mediation.model.versions import Soap, Wsa

LARGEST_NUMBER = 2**63 - 1
"""The highest message number. The schema of 1.0 allows twice as many; WCF stops here."""


class IncompleteBehaviour(Enum):
    """What becomes of what was received where a sequence ends with gaps (1.1, section 3.4); the
    value is its name on the wire."""

    NO_DISCARD = "NoDiscard"
    DISCARD_FOLLOWING_FIRST_GAP = "DiscardFollowingFirstGap"
    DISCARD_ENTIRE_SEQUENCE = "DiscardEntireSequence"


class Kind(Enum):
    """The protocol messages; the value is the end of the action, and the name of the element in
    the body of those that have one."""

    CREATE_SEQUENCE = "CreateSequence"
    CREATE_SEQUENCE_RESPONSE = "CreateSequenceResponse"
    LAST_MESSAGE = "LastMessage"
    CLOSE_SEQUENCE = "CloseSequence"
    CLOSE_SEQUENCE_RESPONSE = "CloseSequenceResponse"
    TERMINATE_SEQUENCE = "TerminateSequence"
    TERMINATE_SEQUENCE_RESPONSE = "TerminateSequenceResponse"
    ACKNOWLEDGEMENT = "SequenceAcknowledgement"
    ACK_REQUESTED = "AckRequested"


class Nothing(Enum):
    """The ways to acknowledge that no message was received yet."""

    NONE = "the element None"
    ZERO_RANGE = "the range 0-0"
    SILENCE = "no acknowledgement"


@dataclass(frozen=True, slots=True)
class Rules:
    """All that a version decides.

    Attributes:
        number: What people call the version.
        policy: The namespace of its policy assertions.
        kinds: The protocol messages that exist.
        elements: Local names of the elements and headers that not every version has.
        wsa: The versions of WS-Addressing in use with it, that of the specification first.
        own_fault_action: Whether faults have an action of the namespace; else it is the one that
            WS-Addressing has for faults. Either is read.
        largest: The highest message number.
        closes: Whether a sequence is closed before it is terminated.
        terminate_answered: Whether TerminateSequence has a response.
        nothing: What is written where no message was received yet.
    """

    number: str
    policy: str
    kinds: frozenset[Kind]
    elements: frozenset[str]
    wsa: tuple[Wsa, ...]
    own_fault_action: bool
    largest: int
    closes: bool
    terminate_answered: bool
    nothing: Nothing


class Rm(Enum):
    """A version; the value is its namespace, which 1.2 shares with 1.1."""

    V1_0 = names.WSRM_1_0
    V1_1 = names.WSRM_1_1

    __hash__ = object.__hash__  # As of `mediation.Soap`.

    @classmethod
    def of(cls, number: str) -> "Rm":
        """The version that people call *number*, such as ``1.0``; 1.2 is on the wire what 1.1 is.

        Raises:
            ValueError: *number* is not known.
        """
        for rm in cls:
            if number in (rm.number, "1.2" if rm is cls.V1_1 else ""):
                return rm
        raise ValueError(f"WS-ReliableMessaging {number} is not known")

    @property
    def rules(self) -> Rules:
        return RULES[self]

    @property
    def namespace(self) -> str:
        return self.value

    @property
    def number(self) -> str:
        """Such as ``1.0``: what people call it."""
        return RULES[self].number

    def action(self, kind: Kind) -> str:
        """The action of a protocol message.

        Raises:
            ValueError: This version has no such message.
        """
        rules = RULES[self]
        if kind not in rules.kinds:
            raise ValueError(f"WS-ReliableMessaging {self.number} has no {kind.value}")
        return f"{self.value}/{kind.value}"

    def fault_action(self, wsa: Wsa) -> str:
        """The action of a fault."""
        rules = RULES[self]
        return f"{self.value}/fault" if rules.own_fault_action else wsa.fault_action

    @property
    def fault_actions(self) -> frozenset[str]:
        """The actions of faults as peers send them."""
        rules = RULES[self]
        return frozenset({f"{self.value}/fault", *(wsa.fault_action for wsa in rules.wsa)})


_IN_BOTH = frozenset(
    {
        Kind.CREATE_SEQUENCE,
        Kind.CREATE_SEQUENCE_RESPONSE,
        Kind.TERMINATE_SEQUENCE,
        Kind.ACKNOWLEDGEMENT,
        Kind.ACK_REQUESTED,
    }
)

RULES: Mapping[Rm, Rules] = {
    Rm.V1_0: Rules(
        number="1.0",
        policy=names.WSRM_1_0_POLICY,
        kinds=_IN_BOTH | {Kind.LAST_MESSAGE},
        elements=frozenset({"LastMessage"}),
        wsa=(Wsa.V2004_08, Wsa.V2005_08),
        own_fault_action=False,
        largest=LARGEST_NUMBER,
        closes=False,
        terminate_answered=False,
        nothing=Nothing.ZERO_RANGE,
    ),
    Rm.V1_1: Rules(
        number="1.1",
        policy=names.WSRM_1_1_POLICY,
        kinds=frozenset(Kind) - {Kind.LAST_MESSAGE},
        elements=frozenset(
            {
                "Detail",
                "Endpoint",
                "Final",
                "IncompleteSequenceBehavior",
                "LastMsgNumber",
                "MaxMessageNumber",
                "None",
                "UsesSequenceSSL",
                "UsesSequenceSTR",
            }
        ),
        wsa=(Wsa.V2005_08, Wsa.V2004_08),
        own_fault_action=True,
        largest=LARGEST_NUMBER,
        closes=True,
        terminate_answered=True,
        nothing=Nothing.NONE,
    ),
}

RM_BY_NAMESPACE: Mapping[str, Rm] = {rm.value: rm for rm in Rm}


class Spoken(Protocol):
    """The versions that the two sides of a sequence speak, from CreateSequence to its end: an
    `RmSpec`, or a record of the same parts."""

    @property
    def rm(self) -> Rm: ...

    @property
    def soap(self) -> Soap: ...

    @property
    def wsa(self) -> Wsa: ...


@dataclass(frozen=True, slots=True)
class RmSpec:
    """The versions that the two sides of a sequence speak, from CreateSequence to its end."""

    rm: Rm
    soap: Soap
    wsa: Wsa
