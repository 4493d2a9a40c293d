import shutil
from collections.abc import Iterator

import pytest
from server import Server


@pytest.fixture(scope="session")
def _installed() -> None:
    for program in ("nats-server", "setpriv"):
        if shutil.which(program) is None:
            pytest.skip(f"needs a NATS server: {program} is not installed (nats-server)")


@pytest.fixture(scope="session")
def server(_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that all tests share."""
    server = Server(tmp_path_factory.mktemp("nats"))
    server.start()
    try:
        yield server
    finally:
        server.stop()
