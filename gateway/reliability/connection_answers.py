"""Pick the acknowledgements out of answers on connections, and of each sequence the largest: it
says all that was acknowledged before."""

from collections.abc import Iterable

from filters import Refused
from gateway.reliability.batches import AcknowledgementAnswer
from gateway.reliability.values import Outgoing
from mediation.model.values import checked_dataclass
from mediation.reliable_messaging import Acknowledgement, AcknowledgementAlone, read_message

SHORT = 16_384
"""Bytes of an answer that is read at once, to see whether it only acknowledges."""


@checked_dataclass(frozen=True, slots=True)
class ConnectionAnswer:
    """The answer on a connection to something that was sent.

    Attributes:
        envelope: None: the answer was empty.
    """

    outgoing: Outgoing
    envelope: bytes | None
    content_type: str


def acknowledgement_in(answer: ConnectionAnswer) -> AcknowledgementAnswer | None:
    """The acknowledgement that an answer is; None where it says anything else, too."""
    envelope, outgoing = answer.envelope, answer.outgoing
    if envelope is None or outgoing.ends or outgoing.key is None or len(envelope) > SHORT:
        return None
    try:
        message = read_message(envelope)
    except Refused:
        return None  # `Endpoint.sent` reads it again, and raises.
    if not isinstance(message.body, AcknowledgementAlone) or message.refusals:
        return None
    if message.sequence is not None or message.ack_requested or message.fault is not None:
        return None
    if message.message_pending is not None or len(message.acknowledgements) != 1:
        return None
    [said] = message.acknowledgements
    return (
        None if said.final or said.nacks else AcknowledgementAnswer(outgoing.key, message, envelope)
    )


def largest_of_each(answers: Iterable[AcknowledgementAnswer]) -> list[AcknowledgementAnswer]:
    """*answers* without those that another one of the same sequence contains."""
    kept: list[AcknowledgementAnswer] = []
    largest: dict[tuple[str, str], AcknowledgementAnswer] = {}
    for each in answers:
        said = _said(each)
        place = each.key, said.identifier
        other = largest.get(place)
        if other is None or _said(other).ranges | said.ranges == said.ranges:
            largest[place] = each
        elif _said(other).ranges | said.ranges != _said(other).ranges:
            kept.append(each)  # Neither contains the other, which is odd: both are taken.
    return [*kept, *largest.values()]


def _said(each: AcknowledgementAnswer) -> Acknowledgement:
    [said] = each.message.acknowledgements
    return said
