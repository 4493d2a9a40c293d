"""Runs of the simulator: whatever happens to messages, processes and stores, each message comes
once, in order, and nothing stays behind."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.reliability import batches
from gateway.reliability.shared_transactions import run_together
from gateway.reliability.simulation.run import simulate
from gateway.reliability.simulation.scenarios import Exchange, Scenario

SEEDS = 25
"""Of each exchange, on every change."""
CAMPAIGN = int(os.environ.get("DRAGOMAN_SEEDS", "100000"))


@pytest.mark.slow
@pytest.mark.parametrize("exchange", Exchange)
def test_whatever_goes_wrong(exchange: Exchange) -> None:
    for seed in range(SEEDS):
        outcome = simulate(Scenario.drawn(seed, exchange))
        assert outcome.broken is None, outcome.diagram


def test_a_reply_may_miss_a_sequence_whose_time_is_over() -> None:
    """The client ends the sequence for replies when its time is over; what the service takes after
    that is answered to nobody, which it says."""
    outcome = simulate(Scenario.drawn(65267))
    assert outcome.broken is None, outcome.diagram


@pytest.mark.release
def test_the_campaign() -> None:
    for seed in range(CAMPAIGN):
        outcome = simulate(Scenario.drawn(seed))
        assert outcome.broken is None, outcome.diagram
        if seed % 1000 == 999:
            print(f"{seed + 1} of {CAMPAIGN} seeds", flush=True)


@pytest.mark.parametrize("exchange", Exchange)
def test_a_seed_is_one_run(exchange: Exchange) -> None:
    one, other = (simulate(Scenario.drawn(7, exchange)) for _ in range(2))
    assert one.lines
    assert one.diagram == other.diagram


def test_what_comes_in_a_turn_shares_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(party: Any, now: float, parts: Sequence[Any], *first: Any) -> list[Any]:
        sizes.append(len(parts))
        return run_together(party, now, parts, *first)

    monkeypatch.setattr(batches, "run_together", counted)
    busy = replace(Scenario.drawn(1, Exchange.ONE_WAY), messages=12, pace=0.01, names=3)
    for most in (1, 8):
        sizes.clear()
        assert simulate(replace(busy, together=most)).broken is None
        assert bool(sizes) == (most > 1)
    assert 1 < max(sizes) <= 8
