"""Nothing is lost, taken twice or out of order, though both programs are killed again and again."""

from pathlib import Path

import pytest

from tests.rigs.outbox import database, kill_again_and_again
from tests.rigs.ports import free_ports


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql"])
def test_kills_lose_and_double_nothing_straight_between_two_programs(
    kind: str, tmp_path: Path
) -> None:
    play(kind, tmp_path, kills=4, seed=1)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_many_kills_lose_and_double_nothing(kind: str, seed: int, tmp_path: Path) -> None:
    play(kind, tmp_path, kills=15, seed=seed)


def play(kind: str, folder: Path, *, kills: int, seed: int) -> None:
    (port,) = free_ports(1)
    to = f"http://127.0.0.1:{port}/inbox"
    with database(kind, folder, "here") as here, database(kind, folder, "there") as there:
        assert kill_again_and_again(here, there, to, port, None, kills, seed) > 5 * kills
