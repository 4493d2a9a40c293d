"""The state machines against what the bits of their states mean."""

from collections.abc import Mapping
from typing import Any

import pytest

from mediation.reliable_messaging.machines import (
    DESTINATION,
    INVOKER,
    SOURCE,
    DestinationEvent,
    DestinationState,
    InvokerEvent,
    InvokerState,
    OutOfTurn,
    SourceEvent,
    SourceState,
    after_destination,
    after_invoker,
    after_source,
)


def test_the_valid_states() -> None:
    """Those combinations of the bits that their meanings leave."""
    sources = {
        f"{started:b}{buffered:b}{last:b}{terminated:b}"
        for started in (False, True)
        for buffered in (False, True)
        for last in (False, True)
        for terminated in (False, True)
        # A buffer empties by acknowledgements, which need a sequence; all is over at the end.
        if (started or buffered) and (not terminated or (started and last and not buffered))
    }
    assert {state.value for state in SourceState} == sources
    destinations = {
        f"{first:b}{last:b}{every:b}{ended:b}"
        for first in (False, True)
        for last in (False, True)
        for every in (False, True)
        for ended in (False, True)
        if (first or not last) and (last or not every) and (every or not ended)
    }
    assert {state.value for state in DestinationState} == destinations
    invokers = {
        f"{buffered:b}{last:b}{every:b}"
        for buffered in (False, True)
        for last in (False, True)
        for every in (False, True)
        if (last or not every) and not (every and buffered) and (buffered or every or not last)
    }
    assert {state.value for state in InvokerState} == invokers


SOURCE_ROWS = {
    # Mercury's figure of RMSSequence: SS MIB LMR TMS.
    ("", "AMR"): "0100",
    ("", "LMR"): "0110",
    ("0100", "AMR"): "0100",
    ("0100", "LMR"): "0110",
    ("0100", "CRR"): "1100",
    ("0110", "CRR"): "1110",
    ("1100", "AMR"): "1100",
    ("1100", "LMR"): "1110",
    ("1100", "ACKALL"): "1000",
    ("1000", "AMR"): "1100",
    ("1000", "LMR"): "1110",
    ("1000", "END"): "1010",
    ("1110", "ACKALL"): "1010",
    ("1010", "TMS"): "1011",
    # A CreateSequenceResponse that came twice.
    ("1100", "CRR"): "1100",
    ("1110", "CRR"): "1110",
    ("1000", "CRR"): "1000",
    ("1010", "CRR"): "1010",
    ("1011", "CRR"): "1011",
    # The end as a signal while messages wait, and TerminateSequence of 1.1 sent again.
    ("0100", "END"): "0110",
    ("1100", "END"): "1110",
    ("1011", "TMS"): "1011",
}
DESTINATION_ROWS = {
    # RMDSequence: FMR LMR EMR TMR; whether the message completes the sequence (SC) or not (SNC).
    ("0000", "AMR_SNC"): "1000",
    ("0000", "LMR_SC"): "1110",
    ("0000", "LMR_SNC"): "1100",
    ("1000", "AMR_SNC"): "1000",
    ("1000", "LMR_SNC"): "1100",
    ("1000", "LMR_SC"): "1110",
    ("1100", "AMR_SNC"): "1100",
    ("1100", "AMR_SC"): "1110",
    ("1110", "AMR_SC"): "1110",
    ("1110", "LMR_SC"): "1110",
    ("1110", "TMR"): "1111",
    # The last number is said once more by CloseSequence or TerminateSequence (1.1).
    ("1100", "LMR_SNC"): "1100",
    ("1100", "LMR_SC"): "1110",
    # The source gives up.
    ("0000", "TMR"): "1111",
    ("1000", "TMR"): "1111",
    ("1100", "TMR"): "1111",
    ("1111", "TMR"): "1111",
}
INVOKER_ROWS = {
    # InvokerBuffer: MIB LMR EMS.
    ("000", "AMR"): "100",
    ("000", "LMR"): "110",
    ("100", "AMR"): "100",
    ("100", "LMR"): "110",
    ("100", "SAM_EMPTY"): "000",
    ("100", "SAM_GAP"): "100",
    ("110", "AMR"): "110",
    ("110", "SAM_ALL"): "011",
    ("110", "SAM_GAP"): "110",
    ("011", "AMR"): "011",
    ("011", "LMR"): "011",
    # The end became known by a number alone, or a last message came twice.
    ("000", "SAM_ALL"): "011",
    ("110", "LMR"): "110",
}


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        pytest.param(SOURCE, SOURCE_ROWS, id="RMSSequence"),
        pytest.param(DESTINATION, DESTINATION_ROWS, id="RMDSequence"),
        pytest.param(INVOKER, INVOKER_ROWS, id="InvokerBuffer"),
    ],
)
def test_every_transition(table: Mapping[Any, Any], rows: dict[tuple[str, str], str]) -> None:
    """The rows as they are drawn, and no other."""
    found = {
        (before.value if before is not None else "", event.name): after.value
        for (before, event), after in table.items()
    }
    assert found == rows


def test_all_states_are_reached() -> None:
    assert set(SOURCE.values()) == set(SourceState)
    assert {*DESTINATION.values(), DestinationState.CREATED} == set(DestinationState)
    assert {*INVOKER.values(), InvokerState.EMPTY} == set(InvokerState)


def test_what_is_true_stays_true() -> None:
    """No event takes back that a sequence started or ended, that an end is known, or that all was
    received."""
    lasting = {"source": (0, 2, 3), "destination": (0, 1, 2, 3), "invoker": (1, 2)}
    for name, table in (("source", SOURCE), ("destination", DESTINATION), ("invoker", INVOKER)):
        for (before, event), after in table.items():
            for bit in lasting[name]:
                if before is not None and before.value[bit] == "1":
                    assert after.value[bit] == "1", (before, event)


@pytest.mark.parametrize("event", [SourceEvent.AMR, SourceEvent.LMR, SourceEvent.END])
@pytest.mark.parametrize(
    "state",
    [
        SourceState.WAITING_ENDED,
        SourceState.SENDING_ENDED,
        SourceState.COMPLETE,
        SourceState.TERMINATED,
    ],
)
def test_nothing_comes_after_the_last(state: SourceState, event: SourceEvent) -> None:
    with pytest.raises(OutOfTurn):
        after_source(state, event)


def test_the_way_of_a_sequence() -> None:
    source = None
    for event in (
        SourceEvent.AMR, SourceEvent.CRR, SourceEvent.ACKALL, SourceEvent.LMR, SourceEvent.ACKALL,
        SourceEvent.TMS,
    ):  # fmt: skip
        source = after_source(source, event)
    assert source is SourceState.TERMINATED
    destination = DestinationState.CREATED
    for coming in (
        DestinationEvent.AMR_SNC, DestinationEvent.LMR_SNC, DestinationEvent.AMR_SC,
        DestinationEvent.LMR_SC, DestinationEvent.TMR,
    ):  # fmt: skip
        destination = after_destination(destination, coming)
    assert destination is DestinationState.TERMINATED
    with pytest.raises(OutOfTurn):
        after_destination(destination, DestinationEvent.AMR_SC)
    invoker = InvokerState.EMPTY
    for taken in (
        InvokerEvent.AMR, InvokerEvent.SAM_GAP, InvokerEvent.LMR, InvokerEvent.SAM_ALL,
        InvokerEvent.AMR,
    ):  # fmt: skip
        invoker = after_invoker(invoker, taken)
    assert invoker is InvokerState.DELIVERED
    with pytest.raises(OutOfTurn):
        after_invoker(invoker, InvokerEvent.SAM_GAP)
