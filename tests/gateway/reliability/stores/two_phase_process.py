"""A process that commits a message together with two databases, and is killed at a step.

Usage: python -m tests.gateway.reliability.stores.two_phase_process STORE ORDERS STOCK STEP
"""

import os
import signal
import sys

from sqlalchemy import create_engine, text

from gateway.reliability.stores.participants import (
    ConnectionManager,
    EngineConnections,
    PsycopgConnections,
)
from gateway.reliability.stores.two_phase import TwoPhaseStore
from tests.gateway.reliability.stores.contract.samples import outgoing


def main(store_url: str, orders: str, stock: str, fatal: str) -> None:
    def step(what: str) -> None:
        if what == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    engine = create_engine(stock.replace("postgresql://", "postgresql+psycopg://"))
    participants: list[ConnectionManager] = [
        PsycopgConnections("orders", orders),
        EngineConnections("stock", engine),
    ]
    store = TwoPhaseStore(store_url, participants, step=step)
    with store.transaction() as tx:
        tx.outgoing.put(outgoing("killed"))
        tx.enlist("orders").execute("INSERT INTO items VALUES (1)")
        tx.enlist("stock").execute(text("INSERT INTO items VALUES (1)"))
        step("begun")
    step("ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
