"""A receiver behind a real HTTP server, in a thread of its own."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn

from tests.rigs.waiting import wait_until


@contextlib.contextmanager
def served(app: Any, *, port: int = 0) -> Iterator[str]:
    """Serve an ASGI app; yields its URL."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none"))
        thread = threading.Thread(
            target=lambda: asyncio.run(server.serve([listener])), name="served", daemon=True
        )
        thread.start()
        wait_until(lambda: server.started or not thread.is_alive())
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)
