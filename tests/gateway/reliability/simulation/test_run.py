"""Runs of the simulator: whatever happens to messages, processes and stores, each message comes
once, in order, and nothing stays behind."""

import os

import pytest

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
