"""A relay between two programs that holds back what passes."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PIECE = 2**16
_Piece = tuple[float, bytes]


@contextmanager
def relay(target: int, seconds: float) -> Iterator[int]:
    """Relay connections to the port *target* of this machine, each piece *seconds* later, in both
    directions: however much passes, as a long way does. Yields the port that it listens on."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def listen() -> asyncio.Server:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection("127.0.0.1", target)
            # What is cancelled at the end is no error of the stream's.
            with suppress(asyncio.CancelledError):
                await asyncio.gather(_pass(reader, back, seconds), _pass(there, writer, seconds))

        return await asyncio.start_server(accept, "127.0.0.1", 0)

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(10)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        asyncio.run_coroutine_threadsafe(_close(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Write what is read, *seconds* later."""
    loop = asyncio.get_running_loop()
    held: asyncio.Queue[_Piece] = asyncio.Queue()

    async def read() -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(PIECE):
                held.put_nowait((loop.time() + seconds, piece))
        held.put_nowait((loop.time() + seconds, b""))

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        while True:
            due, piece = await held.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not piece:
                writer.close()
                return
            with suppress(ConnectionError):
                writer.write(piece)
                await writer.drain()


async def _close(server: asyncio.Server) -> None:
    server.close()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
