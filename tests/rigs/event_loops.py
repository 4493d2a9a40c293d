"""Watches what holds the event loop while a gateway runs on it: everybody waits meanwhile.

What counts is the processor time of the loop's thread, so that a busy machine changes little; of that
time, how many times as much a known piece of work takes at the same moment (`pace.slowest`): on a core
whose other half computes, all takes up to twice as long, and a virtual machine is charged for what
others take of its processors. What is left out, and why:

- callbacks of tests and rigs, which share the loop with the gateway, but not in production;
- pauses of Python's collector: they depend on all that the tests keep in memory, and a gateway
  freezes what it has at its start;
- what a machine under this virtual one took, which the thread's time has in it;
- what the kernel does meanwhile, such as to find memory: 135 ms were seen in a step that awaits;
- callbacks that import a module, which happens once, and compile patterns with it;
- what uvloop runs: its callbacks cannot be seen. The same code runs on asyncio's loop in other tests.
"""

import asyncio
import gc
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import get_ident
from types import CodeType
from typing import Any, NamedTuple, cast

from tests.rigs import pace

MOST = 0.05
"""Seconds of processor time that one callback may take, where `pace.work` takes `QUIET`."""
QUIET = 0.005
"""Seconds that `pace.work` takes on a quiet machine of today."""
SAMPLED = 0.02
"""That part of what a callback may take, for which a reading of a thread's processor time serves the
callbacks that begin: two readings for each, and two of the user's part, take 2 us, the loop 1.4."""
_ROOT = Path(__file__).parents[2]
_OURS = tuple(f"{_ROOT}/{floor}/" for floor in ("gateway", "adapters", "mediation", "filters"))
_SERVERS = ("/site-packages/uvicorn/", "/site-packages/starlette/", "/site-packages/fastapi/")

_STATISTICS = Path("/proc/stat")
_TICKS = os.sysconf("SC_CLK_TCK")

_held: list[str] = []
"""Who held the loop, and for how long, since somebody asked."""
_stolen = 0.0
"""What `_stolen_time` said then."""
_watchers = 0
_most = MOST
_collecting: defaultdict[int, float] = defaultdict(float)
"""Seconds that the collector has taken, by the thread in which it ran."""
_began = 0.0


class Sample(NamedTuple):
    """What a thread had used when a callback began, or shortly before (`SAMPLED`)."""

    thread: int
    until: float
    """Seconds of `time.perf_counter`."""
    processor: float
    user: float
    collecting: float


_sample = Sample(0, 0.0, 0.0, 0.0, 0.0)


@contextmanager
def watched(most: float = MOST) -> Iterator[None]:
    """Watch the callbacks of asyncio's event loops, which may take *most* seconds."""
    global _watchers, _most, _stolen
    _watchers += 1
    _most = most
    if _watchers == 1:
        _stolen = _stolen_time()
        asyncio.Handle._run = _run  # type: ignore[method-assign, assignment]  # Nothing public sees them all.
        gc.callbacks.append(_note_collection)
    try:
        yield
    finally:
        _watchers -= 1
        if _watchers == 0:
            asyncio.Handle._run = _plain_run  # type: ignore[method-assign]  # As above.
            gc.callbacks.remove(_note_collection)


def take_held() -> list[str]:
    """Who held an event loop since the last call."""
    global _stolen
    if _watchers:  # To read it takes 0.1 ms, before and after each of 17,500 tests.
        _stolen = _stolen_time()
    held = _held.copy()
    _held.clear()
    return held


_plain_run = asyncio.Handle._run


def _run(handle: asyncio.Handle) -> None:
    global _sample
    thread, modules, began = get_ident(), len(sys.modules), time.perf_counter()
    sample = _sample
    if began >= sample.until or thread != sample.thread:
        sample = _sample = Sample(
            thread, began + SAMPLED * _most, time.thread_time(), _user_time(), _collecting[thread]
        )
    _plain_run(handle)
    if time.perf_counter() - began > _most and len(sys.modules) == modules:
        _judge(handle, sample)
    # A traceback keeps this frame, from 3.12 on, and the frame would keep what the traceback is of.
    del handle


def _judge(handle: asyncio.Handle, sample: Sample) -> None:
    """Note a callback that took long, where processor time is what it took."""
    took = time.thread_time() - sample.processor - SAMPLED * _most
    took -= _collecting[sample.thread] - sample.collecting
    if took > _most and _user_time() - sample.user >= (0.8 + SAMPLED) * _most:
        _note(_callback_of(handle), took)


def _note(callback: Any, took: float) -> None:
    own = took - (_stolen_time() - _stolen)
    if (name := _name_of(callback)) is None or own <= _most:
        return
    if own > _most * max(1.0, pace.slowest() / QUIET):
        _held.append(f"{name} held the event loop for {own * 1000:.0f} ms")


def _stolen_time() -> float:
    """The seconds for which other machines had our processors, since this one started."""
    if not _STATISTICS.is_file():
        return 0.0
    return int(_STATISTICS.read_text().split(maxsplit=9)[8]) / _TICKS


def _user_time() -> float:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_utime


def _note_collection(phase: str, _: dict[str, int]) -> None:
    global _began
    if phase == "start":  # It runs in one thread at a time.
        _began = time.thread_time()
    else:
        _collecting[get_ident()] += time.thread_time() - _began


def _callback_of(handle: asyncio.Handle) -> Any:
    callback = cast(Any, handle)._callback
    while isinstance(callback, partial):
        callback = callback.func
    return callback


def _name_of(callback: Any) -> str | None:
    """The name of the gateway's *callback*; None where it is none of the gateway's."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return _name_of_coroutine(owner.get_coro())
    protocol = getattr(owner, "_protocol", None)
    if protocol is not None:  # A transport, which has read or written for it.
        module = sys.modules.get(type(protocol).__module__)
        return (
            f"{type(protocol).__qualname__}, for which {callback.__name__} was called,"
            if (_is_ours(getattr(module, "__file__", None) or ""))
            else None
        )
    code = getattr(callback, "__code__", None)
    if not isinstance(code, CodeType) or not _is_ours(code.co_filename):
        return None
    return f"{callback.__qualname__} ({code.co_filename}:{code.co_firstlineno})"


def _name_of_coroutine(coroutine: Any) -> str | None:
    code = getattr(coroutine, "cr_code", None)
    if code is None or not _is_ours(code.co_filename):
        return None
    names = []
    while coroutine is not None and hasattr(coroutine, "cr_code"):
        frame = coroutine.cr_frame
        names.append(coroutine.__qualname__ + (f":{frame.f_lineno}" if frame is not None else ""))
        coroutine = coroutine.cr_await
    return f"a step of {' > '.join(names)}"


def _is_ours(file: str) -> bool:
    return file.startswith(_OURS) or any(server in file for server in _SERVERS)
