"""What is written as this package writes it is read quickly, and as it is read anyway."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import DocumentLimits, Refused
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import (
    Acknowledgement,
    AcknowledgementAlone,
    Ranges,
    Rm,
    RmSpec,
    SequenceHeader,
    acknowledgement_block,
    read_message,
    sequence_block,
    with_blocks,
    write_acknowledgement,
    write_message,
)
from mediation.reliable_messaging.application import write_application_message
from mediation.reliable_messaging.canonical import heading_of

ANY_LIMITS = DocumentLimits(octets=2**20)
"""With limits of its own a message is read as what strangers write."""
SPECS = st.builds(RmSpec, st.sampled_from(Rm), st.sampled_from(Soap), st.sampled_from(Wsa))
WORDS = st.text("abc:-/?&<>\"' é]", min_size=1, max_size=12).filter(lambda text: text.strip())
NUMBERS = st.integers(1, 2**63) | st.integers(1, 20)
PAIRS = st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair)))
BODIES = st.sampled_from(
    [
        b"<a/>",
        b'<a xmlns="urn:a">&amp;<b/></a>',
        b"",
        b" <a/>",
        b"<a/> ",
        b"<!-- a --><a/>",
        b"<a/><b/>",
        b"<a/><!-- b -->",
        b"<a/></s:Body><s:Body><b/>",
        b"<a/></s:Body><s:Body>",
        b"<a>",
        b"text",
        b"<?a b?><a/>",
        b"<s:Fault/>",
        b'<wsrm:CloseSequence xmlns:wsrm="http://docs.oasis-open.org/ws-rx/wsrm/200702"/>',
        b'<wsrm:x xmlns:wsrm="http://schemas.xmlsoap.org/ws/2005/02/rm"/>',
        b"<a>\x01</a>",
        b"<a:b/>",
        '<a>é</a>'.encode("latin-1"),
    ]
)  # fmt: skip


def outcome(octets: bytes, **options: Any) -> object:
    try:
        return read_message(octets, **options)
    except Refused as refused:
        return type(refused), refused.reason, refused.text


def same(octets: bytes) -> None:
    assert outcome(octets) == outcome(octets, limits=ANY_LIMITS)


def in_sequence(
    spec: RmSpec, to: str, action: str, identifier: str, number: int, body: bytes
) -> Any:
    written = write_application_message(
        spec.soap,
        spec.wsa,
        action=action,
        body=b"<BODY/>",
        to=EndpointReference(to, spec.wsa),
        message_id=f"urn:{action}",
    )
    header = SequenceHeader(identifier, number)
    placed = with_blocks(written, [sequence_block(spec.rm, spec.soap, header)])
    return placed.replace(b"<BODY/>", body)


def acknowledgement(spec: RmSpec, to: str, said: Acknowledgement) -> bytes:
    blocks = [acknowledgement_block(spec.rm, said)]
    at = EndpointReference(to, spec.wsa)
    written = write_message(spec, AcknowledgementAlone(), to=at, blocks=blocks)
    assert write_acknowledgement(spec, at, b"".join(blocks)) == written
    return written[1]


@given(SPECS, WORDS, WORDS, WORDS, st.integers(1, 2**63 - 1), BODIES)
def test_messages_of_sequences(
    spec: RmSpec, to: str, action: str, identifier: str, number: int, body: bytes
) -> None:
    same(in_sequence(spec, to, action, identifier, number, body))


@given(SPECS, WORDS, WORDS, st.lists(PAIRS, max_size=5), st.booleans())
def test_acknowledgements(
    spec: RmSpec, to: str, identifier: str, pairs: list[tuple[int, int]], final: bool
) -> None:
    said = Acknowledgement(identifier, Ranges.of(pairs), final=final)
    same(acknowledgement(spec, to, said))


SPEC = RmSpec(Rm.V1_1, Soap.V1_2, Wsa.V2005_08)
PLAIN = (
    in_sequence(SPEC, "http://a/", "urn:b", "urn:c", 7, b"<a/>"),
    acknowledgement(SPEC, "http://a/", Acknowledgement("urn:c", Ranges.parse("1-4,6"))),
)


@given(st.sampled_from(PLAIN), st.data())
def test_what_is_changed_somewhere(octets: bytes, data: Any) -> None:
    """An octet is left out, doubled, or put in."""
    at = data.draw(st.integers(0, len(octets)))
    new = data.draw(st.sampled_from([b"", b" ", b"0", b"9", b"<", b">", b"&", b'"', b"\0", b"a"]))
    same(octets[:at] + new + octets[at + data.draw(st.integers(0, 2)) :])


@pytest.mark.parametrize("octets", PLAIN)
def test_what_is_written_is_read_quickly(octets: bytes) -> None:
    assert heading_of(octets) is not None


@pytest.mark.parametrize("pairs", ['Upper="3" Lower="4"', f'Upper="{2**63}" Lower="1"'])
def test_ranges_that_are_none(pairs: str) -> None:
    octets = PLAIN[1].replace(b'Upper="4" Lower="1"', pairs.encode())
    assert octets != PLAIN[1]
    assert heading_of(octets) is None
    same(octets)
