"""The versions of WS-ReliableMessaging, and all that a version decides."""

from enum import Enum

from mediation import names


class Rm(Enum):
    """A version; the value is its namespace, which 1.2 shares with 1.1."""

    V1_0 = names.WSRM_1_0
    V1_1 = names.WSRM_1_1


class IncompleteBehaviour(Enum):
    """What becomes of what was received where a sequence ends with gaps (1.1, section 3.4); the
    value is its name on the wire."""

    NO_DISCARD = "NoDiscard"
    DISCARD_FOLLOWING_FIRST_GAP = "DiscardFollowingFirstGap"
    DISCARD_ENTIRE_SEQUENCE = "DiscardEntireSequence"
