"""The state machines against what the bits of their states mean."""

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
