"""What persons and servers tell each other: types of Grid SOAP Events of this example."""

import asyncio
import contextlib
import re
import sys
import threading
import time
from dataclasses import dataclass

from gateway.client import GatewayError
from gateway.client.grid_events import TYPES, Event, Publisher
from mediation.grid_events import Port

NAMESPACE = "http://example.org/messenger"
SECONDS = 5.0
"""For an answer."""
LONGEST_TEXT = 4000
"""Characters of a message."""
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


@TYPES.register(NAMESPACE, "Chat")
@dataclass(frozen=True, slots=True, kw_only=True)
class Chat(Event):
    """What `source` says to a person, or in a room (``bob``, ``#lobby``). `seq_no` counts, from 1,
    what it says there."""

    recipient: str = ""


@TYPES.register(NAMESPACE, "Presence")
@dataclass(frozen=True, slots=True, kw_only=True)
class Presence(Event):
    """Whether `source` is there, told to a buddy.

    Attributes:
        location: Of the listener, with its binding name, where it may be called directly.
        asks: Whether the buddy's own presence is wanted in return.
    """

    recipient: str = ""
    here: bool = False
    location: str = ""
    binding: str = ""
    asks: bool = False


@TYPES.register(NAMESPACE, "Buddies")
@dataclass(frozen=True, slots=True, kw_only=True)
class Buddies(Event):
    """Told to the own server: of whom `source` wants to know whether they are there.

    Attributes:
        names: Separated by blanks.
        direct: Whether buddies may call the listener of `source`.
    """

    names: str = ""
    direct: bool = True


@TYPES.register(NAMESPACE, "Heartbeat")
@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Event):
    """The central server, `source`, is alive.

    Attributes:
        term: Counts elections. What comes of an earlier one is refused.
    """

    term: int = 0


@TYPES.register(NAMESPACE, "Missed")
@dataclass(frozen=True, slots=True, kw_only=True)
class Missed(Event):
    """Whoever has missed heart-beats tells a server; who answers is alive, and sees to it."""


def kind_for(recipient: str) -> str:
    """The event type below which everything is for a person, or a room."""
    return f"room.{recipient[1:]}" if is_room(recipient) else f"to.{recipient}"


def is_name(text: str) -> bool:
    """Whether *text* may be the name of a person or a server."""
    return _NAME.fullmatch(text) is not None


def is_room(text: str) -> bool:
    """Whether *text* may be the name of a room."""
    return text.startswith("#") and is_name(text[1:])


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


async def tell(to: Port | str, event: Event) -> GatewayError | None:
    """Call a listener or a server, or the gateway at a URL; why it did not take the event."""
    try:
        async with Publisher(to, timeout=SECONDS) as publisher:
            await publisher.publish(event)
    except GatewayError as error:
        return error
    return None


def show(text: str) -> None:
    """Print a line at once, whoever reads it."""
    print(text, flush=True)


def warn(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def typed() -> "asyncio.Queue[str]":
    """The lines that are typed, as they come; an empty one when there are no more."""
    lines: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        with open(0, "rb", buffering=0, closefd=False) as terminal:
            line = b"\n"
            while line:
                line = terminal.readline()
                with contextlib.suppress(RuntimeError):  # The program has ended.
                    loop.call_soon_threadsafe(lines.put_nowait, line.decode(errors="replace"))

    # Nobody waits for it: a line may never come.
    threading.Thread(target=read, daemon=True).start()
    return lines
