"""Orders 20 times while both programs are killed and the net between them is cut, once for each way
to keep messages, and prints what became of the orders.

After S. Suriarachchi, "Queued Transaction Processing with Web Service Reliable Messaging"
(University of Moratuwa, 2010), chapter 5.
"""

import argparse
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from shop import metadata, ordered, taken
from sqlalchemy import Engine, create_engine, func, select, text

from gateway.client.reliable import DatabaseStore
from gateway.client.signals import end_as_by_interrupt

HERE = Path(__file__).parent
SETTLED = 3.0
"""Seconds without a change, while the server listens and no store has a message, after which
nothing more is expected to arrive."""
PATIENCE = 60.0
"""Seconds without a change after which what is left in a store counts as waiting."""
PATTERNS = ("one_way", "request_reply", "fault")
FORGETS = frozenset({"memory"})
"""Ways in which a client waits for ever for answers to what a crash lost."""
WAYS = {
    "memory": "in memory",
    "apart": "in a database, two transactions",
    "database": "in a database, one transaction",
    "two_phase": "in two databases, two-phase commit",
}


class Relay(threading.Thread):
    """The net between client and server: it forwards connections, until it is cut."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._server = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._is_cut = False

    def run(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                near.close()
                continue
            try:
                far = socket.create_connection(self._server, timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            self._open |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while octets := one.recv(65536):
                other.sendall(octets)
        for end in (one, other):
            self._open.discard(end)
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def cut(self, seconds: float) -> None:
        """Break all connections, and make no new ones for a while."""
        self._is_cut = True
        for end in list(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        time.sleep(seconds)
        self._is_cut = False

    def close(self) -> None:
        self._listener.close()


@dataclass
class Program:
    """A program that is killed and started again."""

    command: list[str]
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    def start(self) -> None:
        # What they say is for who starts them by hand; what goes wrong is shown.
        self.process = subprocess.Popen([sys.executable, *self.command], stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        """SIGKILL: it has no time to clean up."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def has_ended(self) -> bool:
        assert self.process is not None
        if self.process.poll():
            raise SystemExit(f"{self.command[0]} ended with {self.process.returncode}")
        return self.process.returncode is not None


@dataclass(frozen=True)
class Result:
    """What became of the orders.

    Attributes:
        waiting: Those that have not arrived, and may: their messages are in a store.
        lost: Those that have not, and will not.
    """

    sent: int
    arrived: int
    waiting: int
    lost: int
    doubled: int
    open: int

    def row(self, pattern: str) -> str:
        """The columns; how many orders were never answered, where they are to be."""
        columns = f"{self.sent:8}{self.arrived:9}{self.waiting:9}{self.lost:6}{self.doubled:7}"
        return columns if pattern == "one_way" else f"{columns}{self.open:6}"


@contextmanager
def databases(way: str, folder: Path, url: str | None) -> Iterator[dict[str, str]]:
    """The databases of the applications; two fresh ones of a server for two-phase commits."""
    if way != "two_phase":
        yield {role: f"sqlite:///{folder}/{role}.db" for role in ("client", "server")}
        return
    assert url is not None
    url = url.replace("postgresql://", "postgresql+psycopg://", 1)
    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    names = {role: f"queued_{role}_{random.randrange(10**9)}" for role in ("client", "server")}
    with admin.connect() as connection:
        for name in names.values():
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
    try:
        yield {
            role: admin.url.set(database=name).render_as_string(hide_password=False)
            for role, name in names.items()
        }
    finally:
        with admin.connect() as connection:
            for name in names.values():
                connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
        admin.dispose()


def stores_of(way: str, folder: Path, urls: dict[str, str]) -> list[Engine]:
    """The databases that messages are in; none where they are in memory."""
    if way == "memory":
        return []
    if way == "database":
        return [create_engine(url) for url in urls.values()]
    return [create_engine(f"sqlite:///{folder}/{role}-messages.db") for role in urls]


def waiting_in(stores: list[Engine]) -> int:
    """How many messages are not acknowledged, or not given to the application."""
    found = 0
    for store in stores:
        with DatabaseStore(store, create=False).look() as look, store.connect() as connection:
            found += look.waiting() + connection.execute(TO_GIVE).scalar_one()
    return found


TO_GIVE = text("SELECT count(*) FROM dragoman_rm_invoker_messages")


def listens(port: int) -> bool:
    """Whether the server does."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def play(way: str, options: argparse.Namespace, folder: Path) -> Result:
    """Play one row of the table."""
    draw = random.Random(options.seed)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    relay = Relay(port)
    relay.start()
    program = str(HERE / f"{way}_{options.pattern}.py")
    common = ["--folder", str(folder), "--count", str(options.orders), "--work", str(options.work)]
    where = ["--address", f"http://127.0.0.1:{relay.port}/orders", "--port", str(port)]
    with databases(way, folder, options.postgresql) as urls:
        data = {role: create_engine(url) for role, url in urls.items()}
        for engine in data.values():
            metadata.create_all(engine)
        stores = stores_of(way, folder, urls)
        for store in stores:
            DatabaseStore(store)
        ends = {
            "client": Program([program, "client", "--data", urls["client"], *common, *where]),
            "server": Program([program, "server", "--data", urls["server"], *common, *where]),
        }

        def so_far() -> tuple[int, int]:
            with data["client"].connect() as client, data["server"].connect() as server:
                return (
                    client.execute(select(func.count()).select_from(ordered)).scalar_one(),
                    server.execute(select(func.count()).select_from(taken)).scalar_one(),
                )

        try:
            for end in ends.values():
                end.start()
            waiting = 0
            forgets = way in FORGETS and options.pattern != "one_way"
            patience = SETTLED if forgets else 60.0
            happenings = ["client", "server", "net"] * options.kills
            for what in happenings:
                # It happens once the program that is killed has done something, at any time then.
                before, at = so_far(), 0 if what == "client" else 1
                deadline = time.monotonic() + patience
                while (
                    so_far()[at] <= before[at] < options.orders and not ends["client"].has_ended()
                ):
                    if time.monotonic() > deadline:
                        break
                    time.sleep(0.01)
                time.sleep(draw.random() * options.work / 2)
                if what == "net":
                    relay.cut(options.work)
                elif not ends["client"].has_ended():
                    ends[what].kill()
                    ends[what].start()
            while not ends["client"].has_ended():
                if forgets and so_far()[0] >= options.orders:
                    break  # It waits for answers that never come.
                time.sleep(0.05)
            now = changed = settled = None
            while settled is None or time.monotonic() < settled + SETTLED:
                time.sleep(0.05)
                if so_far() != now:
                    now, changed, settled = so_far(), time.monotonic(), None
                waiting = waiting_in(stores)
                if settled is None and not waiting and listens(port):
                    settled = time.monotonic()
                if changed is not None and time.monotonic() > changed + PATIENCE:
                    break
            with data["client"].connect() as client, data["server"].connect() as server:
                states = {row.number: row.state for row in client.execute(select(ordered))}
                arrived = Counter(server.execute(select(taken.c.number)).scalars())
        finally:
            for end in ends.values():
                end.kill()
            relay.close()
            for engine in (*data.values(), *stores):
                engine.dispose()
    refused = {number for number, state in states.items() if state == "refused"}
    doubled = sum(count - 1 for count in arrived.values())
    missing = len(set(states) - set(arrived) - refused)
    waiting = min(waiting, missing)
    unanswered = sum(state == "ordered" for state in states.values())
    return Result(len(states), len(arrived), waiting, missing - waiting, doubled, unanswered)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=None)
    parser.add_argument(
        "--pattern",
        choices=PATTERNS,
        default="one_way",
        help="whether orders are answered, and every fifth one is refused",
    )
    parser.add_argument("--orders", type=int, default=20)
    parser.add_argument("--kills", type=int, default=3, help="of each program, and cuts of the net")
    parser.add_argument("--work", type=float, default=0.2, help="seconds for each order")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--postgresql", help="URL of a server with max_prepared_transactions, for two-phase commits"
    )
    options = parser.parse_args()
    there = [way for way in WAYS if (HERE / f"{way}_{options.pattern}.py").exists()]
    ways = options.ways or [way for way in there if way != "two_phase" or options.postgresql]
    if missing := set(ways) - set(there):
        parser.error(f"{', '.join(missing)}: there is no such program with {options.pattern}")
    if "two_phase" in ways and not options.postgresql:
        parser.error("two_phase needs --postgresql URL")
    head = f"{'messages':36}{'sent':>8}{'arrived':>9}{'waiting':>9}{'lost':>6}{'twice':>7}"
    print(head if options.pattern == "one_way" else f"{head}{'open':>6}", flush=True)
    for way in ways:
        with tempfile.TemporaryDirectory() as folder:
            found = play(way, options, Path(folder))
        print(f"{WAYS[way]:36}{found.row(options.pattern)}", flush=True)


if __name__ == "__main__":
    end_as_by_interrupt()
    main()
