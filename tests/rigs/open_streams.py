"""Finds the streams of asyncio that a test left open.

Python tells of such a stream when it collects it: by then another test runs, and fails instead, or
what that one is doing breaks (3.11 cannot parse source in two places at once, and parses some to
print the warning's traceback).
"""

import asyncio
from weakref import WeakKeyDictionary

_opened: WeakKeyDictionary[asyncio.StreamWriter, asyncio.AbstractEventLoop] = WeakKeyDictionary()
"""Streams, with their loops."""


def watch() -> None:
    """Take note of each stream from now on."""
    plain = asyncio.StreamWriter.__init__

    def noted(self: asyncio.StreamWriter, *arguments: object, **named: object) -> None:
        plain(self, *arguments, **named)  # type: ignore[arg-type]  # As they came.
        _opened[self] = asyncio.get_running_loop()

    asyncio.StreamWriter.__init__ = noted  # type: ignore[method-assign]  # No hook is public.


def take_open() -> list[str]:
    """Say which streams were opened since the last call, and are open though their loop is not: one
    that many tests share closes what it has when the last of them has ended."""
    left = [
        repr(one)
        for one, loop in _opened.items()
        if loop.is_closed() and not one.transport.is_closing()
    ]
    _opened.clear()
    return left
