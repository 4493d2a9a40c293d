"""Sequences of reliable messages, as far as requests and endpoints tell of them."""

from dataclasses import dataclass
from enum import Enum


class Sequences(Enum):
    """The use that an endpoint makes of sequences of reliable messages (WS-ReliableMessaging)."""

    OFF = "off"
    """It does not understand them."""
    OFFERED = "offered"
    REQUIRED = "required"
    """It takes events in sequences alone."""


class SequenceParts:
    """The sequences that a message speaks of. `mediation.reliable_messaging.ReliableMessage` is
    what it always is; this stands for it where that is not known yet."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class RunSequence:
    """Make, ask about or end a sequence, or acknowledge one: as `Context.reliable` says."""


@dataclass(frozen=True, slots=True)
class SequenceAnswered:
    """The answer to RunSequence: an action, and the whole envelope."""

    action: str
    envelope: bytes
