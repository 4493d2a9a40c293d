"""The header blocks Sequence, SequenceAcknowledgement and AckRequested: written, and added to a
finished envelope."""

from collections.abc import Iterable
from functools import lru_cache

from mediation import names
from mediation.model.versions import Soap
from mediation.reliable_messaging.values import (
    MAX_RANGES,
    Acknowledgement,
    AckRequested,
    SequenceHeader,
)
from mediation.reliable_messaging.versions import Nothing, Rm
from mediation.soap.envelopes import xml_text
from mediation.soap.splicing import add_header_blocks


def with_blocks(envelope: bytes, blocks: Iterable[bytes]) -> bytes:
    """Add header blocks to a finished *envelope* (UTF-8). All else stays as it is, byte for byte:
    a message that is sent again is the same message, and may be signed.

    Raises:
        ValueError: It is not an envelope.
    """
    return add_header_blocks(envelope, b"".join(blocks))


def uses_token_block(rm: Rm, soap: Soap) -> bytes:
    """Write the header block by which who makes the sequence has to bind it to the token that
    CreateSequence refers to, or to refuse it (1.1, section 6.1); 1.0 has none."""
    return _uses(rm, soap, "UsesSequenceSTR")


def uses_tls_block(rm: Rm, soap: Soap) -> bytes:
    """Write the header block by which who makes the sequence has to bind it to the TLS session of
    CreateSequence, or to refuse it (1.1, section 6.2); 1.0 has none."""
    return _uses(rm, soap, "UsesSequenceSSL")


def _uses(rm: Rm, soap: Soap, name: str) -> bytes:
    if name not in rm.rules.elements:
        return b""
    return (
        f'<wsrm:{name} xmlns:wsrm="{rm.namespace}" xmlns:m="{soap.value}" m:mustUnderstand="1"/>'
    ).encode()


def sequence_block(rm: Rm, soap: Soap, sequence: SequenceHeader) -> bytes:
    """Write the Sequence header block, which a receiver must understand.

    Raises:
        ValueError: The number is none of a message.
    """
    rules = rm.rules
    if not 1 <= sequence.number <= rules.largest:
        raise ValueError(f"{sequence.number} is not a message number")
    last = b"<wsrm:LastMessage/>" if sequence.last and "LastMessage" in rules.elements else b""
    start = _sequence_start(rm, soap, sequence.identifier)
    return b"%b%d</wsrm:MessageNumber>%b</wsrm:Sequence>" % (start, sequence.number, last)


@lru_cache(1024)
def _sequence_start(rm: Rm, soap: Soap, identifier: str) -> bytes:
    # SOAP 1.2 takes 1 as well as true.
    return (
        f'<wsrm:Sequence xmlns:wsrm="{rm.namespace}" xmlns:s="{soap.value}" s:mustUnderstand="1">'
        f"{_identifier(identifier)}<wsrm:MessageNumber>"
    ).encode()


def acknowledgement_block(
    rm: Rm, acknowledgement: Acknowledgement, *, nothing: Nothing | None = None
) -> bytes:
    """Write a SequenceAcknowledgement header block. With ranges, or *final*, it has no Nack.

    Args:
        nothing: How to say that no message was received yet; None: as the version does. With
            SILENCE the block is empty then.

    Raises:
        ValueError: There are more than `MAX_RANGES` ranges. An acknowledgement lists all of them,
            so a receiver has to drop a message that would make one more.
    """
    pairs, nacks = acknowledgement.ranges.pairs, acknowledgement.nacks
    if max(len(pairs), len(nacks)) > MAX_RANGES:
        raise ValueError(f"an acknowledgement has at most {MAX_RANGES} ranges")
    if len(pairs) == 1:
        [(low, high)] = pairs
        inner = f'<wsrm:AcknowledgementRange Upper="{high}" Lower="{low}"/>'
    elif pairs:
        inner = "".join(
            f'<wsrm:AcknowledgementRange Upper="{upper}" Lower="{lower}"/>'
            for lower, upper in pairs
        )
    elif nacks and not acknowledgement.final:
        inner = "".join(f"<wsrm:Nack>{number}</wsrm:Nack>" for number in nacks)
    else:
        way = nothing or rm.rules.nothing
        if way is Nothing.SILENCE:
            return b""
        inner = _NOTHING[way]
    if acknowledgement.final and "Final" in rm.rules.elements:
        inner += "<wsrm:Final/>"
    if acknowledgement.buffer_remaining is not None:
        inner += (
            f'<netrm:BufferRemaining xmlns:netrm="{names.NETRM}">'
            f"{acknowledgement.buffer_remaining}</netrm:BufferRemaining>"
        )
    return (
        f"{_ACKNOWLEDGES[rm]}{_identifier(acknowledgement.identifier)}{inner}"
        "</wsrm:SequenceAcknowledgement>"
    ).encode()


_ACKNOWLEDGES = {rm: f'<wsrm:SequenceAcknowledgement xmlns:wsrm="{rm.namespace}">' for rm in Rm}
_NOTHING = {
    Nothing.NONE: "<wsrm:None/>",
    Nothing.ZERO_RANGE: '<wsrm:AcknowledgementRange Upper="0" Lower="0"/>',
}


def ack_requested_block(rm: Rm, requested: AckRequested) -> bytes:
    """Write an AckRequested header block."""
    return (
        f'<wsrm:AckRequested xmlns:wsrm="{rm.namespace}">'
        f"{_identifier(requested.identifier)}</wsrm:AckRequested>"
    ).encode()


def _identifier(identifier: str) -> str:
    return f"<wsrm:Identifier>{xml_text(identifier)}</wsrm:Identifier>"
