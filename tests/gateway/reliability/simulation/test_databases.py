"""The same runs over databases, with the application's table beside the messages."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.reliability.simulation import databases
from gateway.reliability.simulation.databases import disks_in
from gateway.reliability.simulation.run import simulate
from gateway.reliability.simulation.scenarios import Exchange, Scenario
from gateway.reliability.stores.database import DatabaseTransaction
from gateway.reliability.stores.two_phase import TwoPhaseStore

SHORT = [
    replace(Scenario.drawn(0, exchange), messages=3, pace=0.5, calm_at=20.0, together=4)
    for exchange in (Exchange.REQUEST_REPLY, Exchange.ANONYMOUS, Exchange.FETCHED)
]
CAMPAIGN = 1000


def run(url: str, folder: Path, scenarios: list[Scenario], *, two_phase: bool = False) -> None:
    with disks_in(url, folder, two_phase=two_phase) as make_disk:
        for scenario in scenarios:
            outcome = simulate(scenario, make_disk)
            assert outcome.broken is None, outcome.diagram


@pytest.mark.slow
def test_runs_over_sqlite(tmp_path: Path) -> None:
    run("sqlite://", tmp_path, SHORT)


@pytest.mark.nightly
@pytest.mark.slow
def test_runs_over_postgresql(postgresql_url: str, tmp_path: Path) -> None:
    run(postgresql_url, tmp_path, SHORT)


@pytest.mark.slow
def test_runs_with_two_phases(postgresql_url: str, tmp_path: Path) -> None:
    """Processes end between the phases, too."""
    run(postgresql_url, tmp_path, [replace(one, crash=0.1) for one in SHORT], two_phase=True)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["prepared", "decided"])
def test_what_recovery_forgets_is_found(
    step: str, postgresql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "_STEPS", dict.fromkeys(databases._STEPS, (step,)))
    monkeypatch.setattr(TwoPhaseStore, "recover", lambda self, patience=0.0: 0)
    with pytest.raises(AssertionError):
        run(postgresql_url, tmp_path, [replace(SHORT[0], crash=0.3)], two_phase=True)


@pytest.mark.release
def test_the_campaign_with_two_phases(postgresql_url: str, tmp_path: Path) -> None:
    scenarios = [Scenario.drawn(seed) for seed in range(CAMPAIGN)]
    run(postgresql_url, tmp_path, scenarios, two_phase=True)


@pytest.mark.release
def test_the_campaign_over_sqlite(tmp_path: Path) -> None:
    run("sqlite://", tmp_path, [Scenario.drawn(seed) for seed in range(CAMPAIGN)])


@pytest.mark.release
def test_the_campaign_over_postgresql(postgresql_url: str, tmp_path: Path) -> None:
    run(postgresql_url, tmp_path, [Scenario.drawn(seed) for seed in range(CAMPAIGN)])


@pytest.mark.slow
def test_disk_and_memory_run_alike(tmp_path: Path) -> None:
    alone = replace(SHORT[1], together=1)
    with disks_in("sqlite://", tmp_path) as make_disk:
        assert simulate(alone, make_disk).diagram == simulate(alone).diagram


@pytest.mark.slow
def test_a_delivery_that_is_not_undone_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an application changed before it failed stays in the transaction of other deliveries."""
    failing = [replace(SHORT[0], failing=1.0)]
    run("sqlite://", tmp_path, failing)
    monkeypatch.setattr(DatabaseTransaction, "savepoint", lambda self: nullcontext())
    with pytest.raises(AssertionError, match=r"the service got order .* more than once"):
        run("sqlite://", tmp_path, failing)
