"""Runs both services and a gateway, kills them again and again while sales go on, and counts.

.venv/bin/python examples/outbox/run.py [--sales 200] [--kills 10] [--adapter URL]
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import create_engine, text

from gateway.client.signals import end_as_by_interrupt

HERE = Path(__file__).parent
ITEMS = ("tea", "milk", "sugar", "unicorn")
END = 120.0


class Service:
    """A process that is killed, and started again."""

    def __init__(self, port: int, environment: dict[str, str], *words: str) -> None:
        self.port = port
        self._environment = environment
        self._words = words

    def start(self) -> None:
        """Start it."""
        self._process = subprocess.Popen([sys.executable, *self._words], env=self._environment)

    def kill(self) -> None:
        """Kill it: no code of it runs any more."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def ask(self, method: str, path: str) -> str | None:
        """Its answer; None: there was none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with (
            contextlib.closing(connection),
            contextlib.suppress(OSError, http.client.HTTPException),
        ):
            connection.request(method, path)
            answer = connection.getresponse()
            if answer.status == 200:
                return answer.read().decode()
        return None


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def services(folder: Path, adapter: str | None) -> list[Service]:
    """The gateway, the warehouse and the shop."""
    gateway, warehouse, shop = free_ports(3)
    environment = {
        **os.environ,
        "PYTHONPATH": f"{HERE}:{HERE.parents[1]}",
        "GATEWAY": f"http://127.0.0.1:{gateway}",
        "WAREHOUSE_PORT": str(warehouse),
        "SHOP": f"http://127.0.0.1:{shop}",
        "WAREHOUSE_DATABASE": f"sqlite:///{folder}/warehouse.db",
        "SHOP_DATABASE": f"sqlite:///{folder}/shop.db",
    }
    serve = ["-m", "gateway", "serve", "--port", str(gateway), "--data", str(folder / "gateway")]
    app = ["-m", "uvicorn", "shop:app", "--port", str(shop), "--log-level", "error"]
    return [
        Service(gateway, environment, *serve, *(["--adapter", adapter] if adapter else [])),
        Service(warehouse, environment, str(HERE / "warehouse.py")),
        Service(shop, environment, *app),
    ]


def wait(holds: object, what: str) -> None:
    """Wait until *holds* returns something true."""
    end = time.monotonic() + END
    while not holds():  # type: ignore[operator]
        if time.monotonic() > end:
            raise SystemExit(f"{what} after {END:g} seconds")
        time.sleep(0.1)


def play(all_of_them: Sequence[Service], folder: Path, sales: int, kills: int, seed: int) -> int:
    """Sell, and kill; the exit code."""
    draw = random.Random(seed)
    shop = all_of_them[-1]
    wait(lambda: subscriptions(folder) == 2, "nobody has subscribed")
    wait(lambda: shop.ask("GET", "/sales"), "the shop does not answer")
    at = set(draw.sample(range(sales), min(kills, sales)))
    for number in range(sales):
        wait(lambda: shop.ask("POST", f"/sales/{draw.choice(ITEMS)}"), "nothing was sold")
        if number in at:
            killed = draw.choice(all_of_them)
            killed.kill()
            killed.start()
    wait(lambda: "sold" not in json.loads(shop.ask("GET", "/sales") or '{"sold":1}'), "no replies")
    return count(folder)


def subscriptions(folder: Path) -> int:
    """How many of both services have subscribed."""
    found = 0
    for name in ("shop", "warehouse"):
        with contextlib.suppress(Exception), database(folder, name) as connection:
            query = "SELECT count(*) FROM dragoman_outbox_state WHERE name LIKE 'subscription%'"
            found += bool(connection.execute(text(query)).scalar())
    return found


@contextlib.contextmanager
def database(folder: Path, name: str):  # type: ignore[no-untyped-def]
    """A connection to the database of a service."""
    engine = create_engine(f"sqlite:///{folder}/{name}.db")
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def count(folder: Path) -> int:
    """Compare both databases, and say what was lost or doubled; the exit code."""
    with database(folder, "shop") as connection:
        rows = connection.execute(text("SELECT id, item, state FROM sales")).all()
    with database(folder, "warehouse") as connection:
        taken = list(connection.execute(text("SELECT sale FROM orders")).scalars())
    wanted = {id for id, item, _ in rows if item != "unicorn"}
    wrong = [
        id for id, item, state in rows if state != ("refused" if item == "unicorn" else "confirmed")
    ]
    print(
        f"{len(rows)} sales, {len(taken)} orders: {len(wanted - set(taken))} lost, "
        f"{len(taken) - len(set(taken))} twice, {len(wrong)} with a wrong state"
    )
    return 0 if set(taken) == wanted and len(taken) == len(wanted) and not wrong else 1


def main() -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--sales", type=int, default=200)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--adapter", help="the broker, such as amqp://guest:guest@127.0.0.1/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="outbox-") as name:
        programs = services(Path(name), options.adapter)
        for each in programs:
            each.start()
        try:
            return play(programs, Path(name), options.sales, options.kills, options.seed)
        finally:
            for each in programs:
                each.kill()


if __name__ == "__main__":
    end_as_by_interrupt()
    sys.exit(main())
