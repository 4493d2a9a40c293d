"""Acknowledgements: what peers write, what of it is forgiven, and what is not valid."""

from dataclasses import replace

import pytest
from lxml import etree

from filters import Reason
from mediation.reliable_messaging import (
    EMPTY,
    MAX_BLOCKS,
    MAX_RANGES,
    Acknowledgement,
    FaultName,
    Nothing,
    Ranges,
    Rm,
    SequenceHeader,
    acknowledgement_block,
)
from tests.rigs.cases import for_each
from tests.rigs.reliable_envelopes import (
    NAMED,
    V1_0,
    V1_1,
    acknowledged,
    read,
    refused,
    sequence,
    span,
)

FORGIVEN = [
    pytest.param(span(" 1", "3 "), [(1, 3)], id="blanks"),
    pytest.param(span(4, 6) + span(1, 3), [(1, 6)], id="adjacent, out of order"),
    pytest.param(span(1, 5) + span(3, 9) + span(4, 4), [(1, 9)], id="overlapping"),
    pytest.param(span(0, 0), [], id="0-0"),
    pytest.param(span(0, 0) + span(2, 3), [(2, 3)], id="0-0 and more"),
    pytest.param("<r:None/>", [], id="None"),
    pytest.param("", [], id="nothing at all"),
    pytest.param("<other/>" + span(1, 1), [(1, 1)], id="elements of others"),
]


@for_each("rm", Rm)
@for_each(("inner", "pairs"), FORGIVEN)
def test_what_is_forgiven(inner: str, pairs: list[tuple[int, int]], rm: Rm) -> None:
    message = read(acknowledged(inner), rm=rm)
    assert message.acknowledgements == (Acknowledgement("urn:s", Ranges.of(pairs)),)
    assert message.refusals == ()


INVALID = [
    pytest.param(span(3, 2), id="the lower above the upper"),
    pytest.param(span(1, 2) + span(9, 8), id="one of two"),
    pytest.param(span(0, 3), id="from 0"),
    pytest.param(span(1, 2**63), id="above all numbers"),
    pytest.param(f"<r:Nack>{2**63}</r:Nack>", id="a number that no message has"),
]


@pytest.mark.parametrize("inner", INVALID)
def test_an_acknowledgement_that_is_not_valid(inner: str) -> None:
    """It is answered with a fault, and spoils nothing else of the message."""
    good = acknowledged(span(1, 1), "<r:Identifier>urn:other</r:Identifier>")
    message = read(sequence("5") + acknowledged(inner) + good)
    assert message.sequence == SequenceHeader("urn:s", 5)
    assert [one.identifier for one in message.acknowledgements] == ["urn:other"]
    [fault] = message.refusals
    assert (fault.name, fault.identifier) == (FaultName.INVALID_ACKNOWLEDGEMENT, "urn:s")
    assert etree.fromstring(fault.detail).tag == f"{{{V1_1.namespace}}}SequenceAcknowledgement"


def test_a_long_acknowledgement_is_not_repeated() -> None:
    [fault] = read(acknowledged(span(3, 2) + span(1, 1) * 1000)).refusals
    assert fault.detail == b""


@pytest.mark.parametrize(
    "inner",
    [
        span("", 1), span(1, "x"), span(1, 2**64), span("-1", 1),
        "<r:AcknowledgementRange/>", '<r:AcknowledgementRange Upper="1"/>', "<r:Nack/>",
    ],
)  # fmt: skip
def test_no_numbers(inner: str) -> None:
    assert refused(acknowledged(inner)).reason is Reason.MESSAGE_INVALID


@pytest.mark.parametrize(
    ("text", "remaining"), [("0", 0), ("8", 8), ("99999", 4096), ("-1", None), ("", None)]
)
def test_the_buffer(text: str, remaining: int | None) -> None:
    header = acknowledged(span(1, 1) + f"<n:BufferRemaining>{text}</n:BufferRemaining>")
    assert read(header).acknowledgements[0].buffer_remaining == remaining


def test_final_is_of_1_1() -> None:
    header = acknowledged(span(1, 1) + "<r:Final/>")
    assert read(header, rm=V1_1).acknowledgements[0].final
    assert not read(header, rm=V1_0).acknowledgements[0].final


@pytest.mark.parametrize("inner", [span(1, 1), "<r:Nack>1</r:Nack>"])
def test_how_many_ranges(inner: str) -> None:
    assert read(acknowledged(inner * MAX_RANGES)).acknowledgements
    assert refused(acknowledged(inner * (MAX_RANGES + 1))).reason is Reason.MESSAGE_INVALID


@pytest.mark.parametrize("block", [acknowledged(""), f"<r:AckRequested>{NAMED}</r:AckRequested>"])
def test_how_many_blocks(block: str) -> None:
    assert read(block * MAX_BLOCKS).rm is V1_1
    assert refused(block * (MAX_BLOCKS + 1)).reason is Reason.MESSAGE_INVALID


def test_nothing_was_received() -> None:
    nothing = Acknowledgement("urn:s", EMPTY)
    for rm in Rm:
        for way in (None, Nothing.NONE, Nothing.ZERO_RANGE):
            header = acknowledgement_block(rm, nothing, nothing=way).decode()
            assert read(header, rm=rm).acknowledgements == (nothing,)
        assert acknowledgement_block(rm, nothing, nothing=Nothing.SILENCE) == b""
    assert b"None" in acknowledgement_block(V1_1, nothing)
    assert b'Upper="0" Lower="0"' in acknowledgement_block(V1_0, nothing)


def test_an_acknowledgement_with_nacks_is_not_final() -> None:
    """The schema has no place for both."""
    both = Acknowledgement("urn:s", EMPTY, final=True, nacks=(3,))
    assert read(acknowledgement_block(V1_1, both).decode()).acknowledgements == (
        replace(both, nacks=()),
    )
