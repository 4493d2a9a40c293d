"""What the programs share: two tables, the arguments of a command line, how a server is served.

A shop (the client) orders, a warehouse (the server) takes the orders. Each has data of its own.
"""

import argparse
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, Table, Text, create_engine, event, func, select

from gateway.client.reliable import Policy, Receiver, ReliableClient

PATIENCE = 10.0
"""Seconds after which a client says that it still waits."""
ORDER = "urn:example:shop/Order"
POLICY = Policy(interval=0.5, ceiling=2.0, tries=1000)
"""A demonstration does not wait for two minutes until something is sent again."""
metadata = MetaData()
ordered = Table(
    "ordered",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("state", Text, nullable=False, default="ordered"),
)
taken = Table(
    "taken",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("number", Integer, nullable=False),
)


def order(number: int) -> bytes:
    """The message of an order."""
    return f'<order xmlns="urn:example:shop">{number}</order>'.encode()


def number_in(text: bytes | str) -> int:
    """The number of the order that a message, or the words of a fault, are about."""
    found = re.search(r">(\d+)<|order (\d+)", text if isinstance(text, str) else text.decode())
    assert found is not None
    return int(found[1] or found[2])


def tell(words: str) -> None:
    """Say what the program does, at once."""
    print(words, flush=True)


class Shop:
    """What a program was told.

    Attributes:
        data: The database of the application, an SQLAlchemy engine.
        messages: The URL of a database for messages alone.
        address: Where orders go.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        folder = Path(arguments.folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.data = create_engine(arguments.data or f"sqlite:///{folder}/{arguments.role}.db")
        if self.data.dialect.name == "sqlite":
            event.listen(
                self.data, "connect", lambda own, _: own.execute("PRAGMA busy_timeout=9000")
            )
        metadata.create_all(self.data)
        self.messages = f"sqlite:///{folder}/{arguments.role}-messages.db"
        self.address: str = arguments.address
        self._port: int = arguments.port
        self._count: int = arguments.count
        self._work: float = arguments.work

    def orders(self) -> Iterator[int]:
        """The numbers that have not been ordered yet, also after a restart."""
        with self.data.connect() as connection:
            last = connection.execute(select(func.max(ordered.c.number))).scalar() or 0
        left = max(self._count - last, 0)
        tell(f"{last} orders were made before; {left} follow, to {self.address}")
        for number in range(last + 1, self._count + 1):
            yield number
            tell(f"order {number} is made")

    def work(self, done: str = "") -> None:
        """Whatever else the application does meanwhile, and what it says of it; a crash may come
        here."""
        time.sleep(self._work)
        if done:
            tell(done)

    def finish(self, client: ReliableClient, *, answered: bool = False) -> None:
        """Wait until all orders are stored at the warehouse, or given up, and are answered where
        they are to be; then end the sequence."""
        waits = select(func.count()).where(ordered.c.state == "ordered")
        tell("waiting for the warehouse")
        while not client.drain(PATIENCE):
            tell(f"{client.waiting()} messages wait: is the warehouse running at {self.address}?")
        while answered:
            with self.data.connect() as connection:
                if not connection.execute(waits).scalar():
                    break
            time.sleep(0.05)
        client.terminate()
        tell(f"done: {'all orders are answered' if answered else 'the warehouse has all orders'}")

    def serve(self, receiver: Receiver) -> None:
        """Serve *receiver* until the process ends."""
        tell(f"taking orders at http://127.0.0.1:{self._port}/orders; Ctrl-C ends it")
        receiver.serve(self._port)


def run(client: Callable[[Shop], None], server: Callable[[Shop], None]) -> None:
    """Run one of both, as the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("client", "server"))
    parser.add_argument("--address", default="http://127.0.0.1:8090/orders")
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--folder", default="shop-data")
    parser.add_argument("--data", help="URL of the application's database")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--work", type=float, default=0.0, help="seconds for each order")
    arguments = parser.parse_args()
    {"client": client, "server": server}[arguments.role](Shop(arguments))
