"""Answers on connections, those of one sequence together: an acknowledgement says all that was
acknowledged before, so that of several the largest is taken."""

from collections.abc import Iterable

from filters import Refused
from gateway.reliability.batches import Acknowledging
from gateway.reliability.values import Outgoing
from mediation.model.values import checked_dataclass
from mediation.reliable_messaging import Acknowledgement, AcknowledgementAlone, read_message

SHORT = 16_384
"""Bytes of an answer that is read at once, to see whether it only acknowledges."""


@checked_dataclass(frozen=True, slots=True)
class Came:
    """What came back for something that was sent.

    Attributes:
        envelope: None: the answer was empty.
    """

    outgoing: Outgoing
    envelope: bytes | None
    content_type: str


def acknowledging(came: Came) -> Acknowledging | None:
    """What came, if it is an acknowledgement, and nothing else, and nothing hangs on it."""
    envelope, outgoing = came.envelope, came.outgoing
    if envelope is None or outgoing.ends or outgoing.key is None or len(envelope) > SHORT:
        return None
    try:
        message = read_message(envelope)
    except Refused:
        return None  # Whoever takes it says so.
    if not isinstance(message.body, AcknowledgementAlone) or message.refusals:
        return None
    if message.sequence is not None or message.ack_requested or message.fault is not None:
        return None
    if message.message_pending is not None or len(message.acknowledgements) != 1:
        return None
    [said] = message.acknowledgements
    return None if said.final or said.nacks else Acknowledging(outgoing.key, message, envelope)


def together(answers: Iterable[Acknowledging]) -> list[Acknowledging]:
    """*answers* without those that another one contains."""
    kept: list[Acknowledging] = []
    largest: dict[tuple[str, str], Acknowledging] = {}
    for each in answers:
        said = _said(each)
        place = each.key, said.identifier
        other = largest.get(place)
        if other is None or _said(other).ranges | said.ranges == said.ranges:
            largest[place] = each
        elif _said(other).ranges | said.ranges != _said(other).ranges:
            kept.append(each)  # Neither contains the other: something is odd, and nothing lost.
    return [*kept, *largest.values()]


def _said(each: Acknowledging) -> Acknowledgement:
    [said] = each.message.acknowledgements
    return said
