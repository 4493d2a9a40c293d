"""Nothing is lost, and nothing comes twice, though both programs are killed again and again."""

import random
import time
from pathlib import Path

import pytest

from tests.rigs.ports import free_ports
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.queued import (
    KEYS,
    Killed,
    client,
    confirmed,
    names,
    opened,
    ordered,
    server,
    taken,
)
from tests.rigs.waiting import wait_until

END = 300.0


def play(client_url: str, server_url: str, kills: int, seed: int) -> int:
    """Kill one of both programs *kills* times while messages are on their way.

    Returns:
        How many there were.
    """
    draw = random.Random(seed)
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}/orders"
    here, there = opened(client_url), opened(server_url)
    ends = [Killed(client, (client_url, address, 10**9, False)), Killed(server, (server_url, port))]
    for end in ends:
        end.start()
    for _ in range(kills):
        before = sum(names(here.engine, ordered).values()) + sum(
            names(there.engine, taken).values()
        )

        def went_on(before: int = before) -> bool:
            now = sum(names(here.engine, ordered).values())
            return now + sum(names(there.engine, taken).values()) > before

        wait_until(went_on)
        time.sleep(draw.random() * 0.3)  # Not to show anything: the kill comes at any time.
        end = draw.choice(ends)
        end.kill()
        end.start()
    ends[0].kill()
    ends[0] = Killed(client, (client_url, address, 0, True))
    ends[0].start()
    sent = names(here.engine, ordered)
    asked = {name for name in sent if int(name[7:-8]) % KEYS % 2}

    def is_over() -> bool:
        return sum(names(there.engine, taken).values()) >= len(sent) and sum(
            names(here.engine, confirmed).values()
        ) >= len(asked)

    def state() -> str:
        got, back = names(there.engine, taken), names(here.engine, confirmed)
        return f"{len(sent)} sent, {len(got)} taken, {len(asked)} asked, {len(back)} confirmed"

    wait_until(is_over, END, says=state)
    assert ends[0].process.is_alive() and ends[1].process.is_alive()
    got, back = names(there.engine, taken), names(here.engine, confirmed)
    for end in ends:
        end.kill()
    here.close()
    there.close()
    assert not sent - got, "lost"
    assert not got - sent, "twice"
    assert back == dict.fromkeys(asked, 1)
    return len(sent)


@pytest.mark.slow
def test_six_kills_with_sqlite(tmp_path: Path) -> None:
    assert play(f"sqlite:///{tmp_path}/client.db", f"sqlite:///{tmp_path}/server.db", 6, 3)


@pytest.mark.nightly
def test_twenty_kills_with_sqlite(tmp_path: Path) -> None:
    assert play(f"sqlite:///{tmp_path}/client.db", f"sqlite:///{tmp_path}/server.db", 20, 1)


@pytest.mark.nightly
def test_twenty_kills_with_postgresql() -> None:
    needs_postgresql()
    with fresh_database() as one, fresh_database() as other:
        assert play(one, other, 20, 2)


@pytest.mark.release
@pytest.mark.parametrize("seed", range(5))
def test_five_hundred_kills_with_sqlite(tmp_path: Path, seed: int) -> None:
    play(f"sqlite:///{tmp_path}/client.db", f"sqlite:///{tmp_path}/server.db", 100, seed)


@pytest.mark.release
@pytest.mark.parametrize("seed", range(5))
def test_five_hundred_kills_with_postgresql(seed: int) -> None:
    needs_postgresql()
    with fresh_database() as one, fresh_database() as other:
        play(one, other, 100, seed)
