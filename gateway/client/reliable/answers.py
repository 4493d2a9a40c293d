"""Answers on connections, those of one sequence together: an acknowledgement says all that was
acknowledged before, so that of several the largest is taken, in one transaction."""

from collections.abc import Iterable
from dataclasses import dataclass

from filters import Refused
from gateway.reliability.values import Outgoing
from mediation.reliable_messaging import Acknowledgement, AcknowledgementAlone, read_message


@dataclass(frozen=True, slots=True)
class Came:
    """What came back for something that was sent.

    Attributes:
        envelope: None: the answer was empty.
    """

    outgoing: Outgoing
    envelope: bytes | None
    content_type: str


def together(answers: Iterable[Came]) -> list[Came]:
    """*answers* without the acknowledgements that another one contains."""
    kept: list[Came] = []
    largest: dict[str, tuple[Came, Acknowledgement]] = {}
    for came in answers:
        said = _only_acknowledges(came)
        if said is None:
            kept.append(came)
            continue
        other = largest.get(said.identifier)
        if other is None or other[1].ranges | said.ranges == said.ranges:
            largest[said.identifier] = came, said
        elif other[1].ranges | said.ranges != other[1].ranges:
            kept.append(came)  # Neither contains the other: something is odd, and nothing lost.
    return [*kept, *(came for came, _ in largest.values())]


def _only_acknowledges(came: Came) -> Acknowledgement | None:
    """The acknowledgement, if that is all that there is and nothing hangs on it."""
    if came.envelope is None or came.outgoing.ends:
        return None
    try:
        message = read_message(came.envelope)
    except Refused:
        return None  # Whoever takes it says so.
    if not isinstance(message.body, AcknowledgementAlone) or message.refusals:
        return None
    if message.sequence is not None or message.ack_requested or message.fault is not None:
        return None
    if len(message.acknowledgements) != 1:
        return None
    [said] = message.acknowledgements
    return None if said.final or said.nacks else said
