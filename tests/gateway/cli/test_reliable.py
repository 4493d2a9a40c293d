"""``dragoman reliable simulate``."""

from functools import partial

import pytest

from gateway.cli.errors import CommandFailed
from gateway.cli.reliable import ExchangeOption, simulate
from gateway.reliability.simulation import scenarios
from gateway.reliability.simulation.scenarios import Exchange
from mediation.reliable_messaging.policy import Policy


def test_a_seed_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    simulate(seed=3, seeds=1)
    printed = capsys.readouterr().out
    assert printed.startswith("seed 3: WS-RM ")
    assert "CreateSequence ----" in printed
    assert printed.endswith("nothing is broken\n")


def test_many_seeds_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    simulate(seed=0, seeds=20, exchange=ExchangeOption.ANONYMOUS)
    assert capsys.readouterr().out.startswith("20 seeds, ")


def test_what_breaks_can_be_seen_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(scenarios, "Policy", partial(Policy, tombstone=0.0))
    with pytest.raises(CommandFailed) as failed:
        simulate(seed=0, seeds=400, exchange=ExchangeOption.ONE_WAY)
    assert "CreateSequence ----" in capsys.readouterr().out
    again = str(failed.value).partition(" simulate --seed ")[2]
    seed, _, exchange = again.partition(" --exchange ")
    with pytest.raises(CommandFailed):
        simulate(seed=int(seed), seeds=1, exchange=ExchangeOption(exchange))


@pytest.mark.parametrize("store", ["nosuch", "postgresql://127.0.0.1:1/none"])
def test_a_store_that_cannot_be_used_is_one_line(store: str) -> None:
    with pytest.raises(CommandFailed, match=r"^the store cannot be used: [^\n]+$"):
        simulate(seed=0, seeds=1, store=store)


def test_each_exchange_has_a_word() -> None:
    assert [each.name for each in ExchangeOption] == ["ANY", *(each.name for each in Exchange)]
