"""The nine programs of queued transactions, and the experiment of the dissertation's chapter 5."""

import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.rigs.cases import each_value_once
from tests.rigs.ports import free_ports
from tests.rigs.postgresql import fresh_database, needs_postgresql
from tests.rigs.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "queued-transactions"
END = 240.0
PATTERNS = ["one_way", "request_reply", "fault"]
pytestmark = pytest.mark.slow


@contextmanager
def database(way: str, path: Path) -> Iterator[str]:
    """The URL of the database of an application."""
    if way != "two_phase":
        yield f"sqlite:///{path}"
        return
    with fresh_database() as url:
        yield url.replace("postgresql:", "postgresql+psycopg:")


def start(command: list[str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server, and wait until it listens; its port. Another program may take a port that was
    free a moment ago: then it is another one."""
    for _ in range(5):
        (port,) = free_ports(1)
        server = subprocess.Popen([*command, "--port", str(port)])

        def is_decided(port: int = port, server: "subprocess.Popen[bytes]" = server) -> bool:
            with socket.socket() as probe:
                listens = probe.connect_ex(("127.0.0.1", port)) == 0
            return listens or server.poll() is not None

        wait_until(is_decided, END)
        if server.poll() is None:
            return server, port
    raise AssertionError("no port stays free")


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30) as connection:
            return connection.execute(query).fetchall()
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        return connection.execute(query.encode()).fetchall()


@each_value_once(
    way={way: way for way in ("database", "memory", "two_phase")},
    pattern={pattern: pattern for pattern in PATTERNS},
)
def test_a_program(way: str, pattern: str, tmp_path: Path) -> None:
    if way == "two_phase":
        needs_postgresql()
    program = [sys.executable, str(EXAMPLE / f"{way}_{pattern}.py")]
    options = ["--folder", str(tmp_path), "--count", "10"]
    with database(way, tmp_path / "shop.db") as shop, database(way, tmp_path / "yard.db") as yard:
        server, port = start([*program, "server", "--data", yard, *options])
        try:
            address = ["--address", f"http://127.0.0.1:{port}/orders"]
            subprocess.run(
                [*program, "client", "--data", shop, *address, *options], check=True, timeout=END
            )
            refused = {5, 10} if pattern == "fault" else set()
            wanted = [(number,) for number in range(1, 11) if number not in refused]
            query = "SELECT number FROM taken ORDER BY id"
            wait_until(lambda: rows(yard, query) == wanted, says=lambda: rows(yard, query))
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(END) in (0, -signal.SIGTERM)
        states = dict(rows(shop, "SELECT number, state FROM ordered"))
    done = "ordered" if pattern == "one_way" else "confirmed"
    assert states == {number: "refused" if number in refused else done for number in range(1, 11)}


def experiment(*options: str) -> dict[str, tuple[int, ...]]:
    """The rows of the table that the experiment prints: sent, arrived, waiting, lost, twice, and,
    where orders are answered, open."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "run.py"), *options],
        capture_output=True, text=True, timeout=2 * END,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    table = re.findall(r"^(in .*?) {2,}(\d+(?: +\d+)+)$", done.stdout, re.MULTILINE)
    return {row[0]: tuple(map(int, row[1].split())) for row in table}


@pytest.mark.nightly
def test_in_one_transaction_nothing_is_lost_or_doubled() -> None:
    found = experiment("--ways", "database", "--orders", "8", "--kills", "1")
    assert found == {"in a database, one transaction": (8, 8, 0, 0, 0)}


@pytest.mark.nightly
def test_with_two_phase_commits_nothing_is_lost_or_doubled() -> None:
    needs_postgresql()
    with fresh_database() as url:
        found = experiment(
            "--ways", "two_phase", "--orders", "8", "--kills", "1", "--postgresql", url
        )
    assert found == {"in two databases, two-phase commit": (8, 8, 0, 0, 0)}


@pytest.mark.nightly
def test_requests_are_answered_though_both_programs_are_killed() -> None:
    options = ("--ways", "database", "--pattern", "request_reply", "--orders", "8", "--kills", "1")
    assert experiment(*options) == {"in a database, one transaction": (8, 8, 0, 0, 0, 0)}


@pytest.mark.nightly
def test_in_memory_something_is_lost() -> None:
    found = experiment("--ways", "memory", "--orders", "8", "--kills", "1")
    [(sent, arrived, waiting, lost, _)] = found.values()
    assert sent == 8 == arrived + lost
    assert waiting == 0
    assert lost > 0


@pytest.mark.release
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("way", ["memory", "database", "two_phase"])
def test_twenty_orders_and_three_kills(way: str, pattern: str, seed: int) -> None:
    """The experiment whole: of the refused orders nothing is kept, and none is open."""
    needs_postgresql()
    with fresh_database() as url:
        options = ("--ways", way, "--pattern", pattern, "--seed", str(seed), "--postgresql", url)
        [row] = experiment(*options).values()
    if way == "memory":
        assert sum(row[3:]) > 0, "something is lost, taken twice, or never answered"
    else:
        arrived = 16 if pattern == "fault" else 20
        done = (20, 20, 0, 0, 0) if pattern == "one_way" else (20, arrived, 0, 0, 0, 0)
        assert row == done


@pytest.mark.nightly
def test_without_a_common_transaction_something_is() -> None:
    """The experiment would tell."""
    found = experiment("--ways", "apart", "--orders", "10", "--kills", "2", "--work", "0.6")
    [(sent, arrived, waiting, lost, doubled)] = found.values()
    assert sent == 10 == arrived + lost
    assert waiting == 0
    assert lost + doubled > 0


def test_the_programs_are_read_at_a_glance() -> None:
    for path in EXAMPLE.glob("*_*.py"):
        assert len(path.read_text().splitlines()) < 60, path.name
