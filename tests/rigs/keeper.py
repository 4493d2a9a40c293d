"""Keeps one server until the run that it is for has ended: ``python -m tests.rigs.keeper NAME
FOLDER CONTROLLER``, with the process id of the run's controller.

The server is pickled into *FOLDER*/*NAME* once it takes connections; then the command returns, with
exit code 0, and the keeper goes on in the background.
"""

import os
import pickle
import select
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NoReturn

from tests.rigs.activemq import activemq_broker
from tests.rigs.brokers import rabbitmq_node
from tests.rigs.mariadb import mariadb_server
from tests.rigs.postgresql import postgresql_cluster

STARTED: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "rabbitmq": rabbitmq_node,
    "activemq": activemq_broker,
    "postgresql": postgresql_cluster,
    "mariadb": mariadb_server,
}


def keep(name: str, folder: Path, controller: int, ready: int) -> None:
    """Start server *name*, write it into *folder* and a byte to *ready*, and stop the server once
    *controller* has ended."""
    ended = os.pidfd_open(controller)
    with STARTED[name]() as server:
        (folder / name).write_bytes(pickle.dumps(server))
        os.write(ready, b".")
        select.select([ended], [], [])


def _stop(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


if __name__ == "__main__":
    until_ready, ready = os.pipe()
    if os.fork():
        os.close(ready)
        sys.exit(0 if os.read(until_ready, 1) else 1)
    os.setsid()
    signal.signal(signal.SIGTERM, _stop)
    keep(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), ready)
