"""Two programs with queued transactions, as processes that can be killed at any time: one orders, the
other takes the orders and confirms them. On each side the rows of the application and the messages
are in one database."""

import multiprocessing
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Engine, Integer, MetaData, Table, Text, func, insert, select

from gateway.client.reliable import DatabaseStore, Delivery, Policy, Receiver, ReliableClient

ORDER = "urn:example:orders/Order"
KEYS = 4
FEW = 64
"""Events of a publisher that may wait."""
BATCH = 5
"""Orders of one transaction."""
POLICY = Policy(interval=0.3, ceiling=1.0, ack_after=0.05, tries=100_000)
metadata = MetaData()
ordered, taken, confirmed = (
    Table(
        name,
        metadata,
        Column("id", Integer, primary_key=True),
        Column("name", Text),
    )
    for name in ("ordered", "taken", "confirmed")
)

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, "uvicorn"])


def opened(url: str) -> DatabaseStore:
    """The store in the database at *url*, with the tables of both programs."""
    store = DatabaseStore(url)
    metadata.create_all(store.engine)
    return store


def names(engine: Engine, table: Table) -> Counter[str]:
    """The names in a table, with how often each is there."""
    with engine.connect() as connection:
        return Counter(connection.execute(select(table.c.name)).scalars())


def client(url: str, address: str, most: int, quiet: bool) -> None:
    """Order until there are *most* orders; every second key wants confirmations. Without an end,
    since someone kills it.

    Args:
        quiet: Order nothing more.
    """
    store = opened(url)
    own = ReliableClient(store, policy=POLICY)

    def confirm(each: Delivery) -> None:
        each.connection.execute(insert(confirmed).values(name=each.body.decode()))

    own.callbacks("confirm", on_message=confirm)
    with own:
        while not quiet:
            with own.transaction() as tx:
                count = tx.connection.execute(select(func.count()).select_from(ordered)).scalar()
                if count >= most:
                    break
                for number in range(count, count + BATCH):
                    name = f"<order>{number}</order>"
                    tx.connection.execute(insert(ordered).values(name=name))
                    key = number % KEYS
                    if key % 2:
                        tx.request(
                            address, name.encode(), action=ORDER, key=str(key), callbacks="confirm"
                        )
                    else:
                        tx.send(address, name.encode(), action=ORDER, key=str(key))
        while True:
            time.sleep(60)


def server(url: str, port: int) -> None:
    """Take orders, and confirm them."""
    import uvicorn

    store = opened(url)

    def take(each: Delivery) -> bytes:
        each.connection.execute(insert(taken).values(name=each.body.decode()))
        return each.body

    receiver = Receiver(store, policy=POLICY, hold=2.0)
    receiver.service("/orders", take)
    with socket.create_server(("127.0.0.1", port)) as listener:
        uvicorn.Server(uvicorn.Config(receiver, log_config=None, ws="none")).run([listener])


def publisher(url: str, address: str, generation: int, most: int) -> None:
    """Publish *most* events, one after the other in one sequence, few of which wait at a time; then
    only send what waits. Without an end, since someone kills it."""
    store = opened(url)
    with ReliableClient(store, policy=POLICY) as own:
        for number in range(most):
            while own.waiting() > FEW:
                time.sleep(0.01)
            name = f"<order>{generation} {number}</order>"
            with own.transaction() as tx:
                tx.connection.execute(insert(ordered).values(name=name))
                tx.send(address, name.encode(), action=ORDER)
        while True:
            time.sleep(60)


def subscriber(url: str, port: int) -> None:
    """Take notifications, and answer none."""
    import uvicorn

    store = opened(url)

    def take(each: Delivery) -> None:
        each.connection.execute(insert(taken).values(name=each.body.decode()))

    receiver = Receiver(store, policy=POLICY)
    receiver.service("/orders", take)
    with socket.create_server(("127.0.0.1", port)) as listener:
        uvicorn.Server(uvicorn.Config(receiver, log_config=None, ws="none")).run([listener])


def _with_parent(target: Callable[..., None], *arguments: Any) -> None:
    """Run *target*, as long as there is the process that started it: one that was killed ends
    nobody."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    target(*arguments)


@dataclass(slots=True)
class Killed:
    """A process that is started again each time that it is killed."""

    target: Callable[..., None]
    arguments: tuple[Any, ...]
    process: Any = None

    def start(self) -> None:
        arguments = (self.target, *self.arguments)
        self.process = _context.Process(target=_with_parent, args=arguments, daemon=True)
        self.process.start()

    def kill(self) -> None:
        """SIGKILL: no code of it runs any more."""
        assert self.process.is_alive(), "it ended before it was killed"
        self.process.kill()
        self.process.join()
        self.process.close()
