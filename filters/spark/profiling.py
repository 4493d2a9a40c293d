"""Profiles matching: samples the call stack every few milliseconds.

The timer runs on processor time, as finely as the kernel lets it; a stack counts for the processor
time since the one before.

What is compiled (lxml, libxml2, the native engine) has no frames of Python; its time is that of the
line that called it, which is shown as a block of its own.
"""

import linecache
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import process_time
from types import FrameType

from filters.documents import parse_own
from filters.spark.charts import Block
from filters.spark.engines import make_engine
from filters.spark.measuring import Case

INTERVAL = 0.001
SECONDS = 2.0
"""Processor time to look at, in whole passes over the messages."""


def profile(engine: str, case: Case, *, seconds: float = SECONDS) -> Block:
    """Match the messages of *case* in this process, its main thread; values are milliseconds."""
    made = make_engine(engine)
    for expression in case.expressions:
        made.add(expression)
    for octets in case.messages:
        made.find(parse_own(octets))
    root = Block(f"{engine}: parse and match")

    def work() -> None:
        ends = process_time() + seconds
        while process_time() < ends:
            for octets in case.messages:
                made.find(parse_own(octets))

    with _sampled(root, work.__code__.co_name):
        work()
    return root


@contextmanager
def _sampled(root: Block, below: str) -> Iterator[None]:
    """Add to *root* the stacks below the function named *below* while this runs."""
    looked = process_time()

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal looked
        since, looked = looked, process_time()
        frames: list[FrameType] = []
        while frame is not None and frame.f_code.co_name != below:
            frames.append(frame)
            frame = frame.f_back
        if frame is not None:
            _add(root, [*frames, frame], (looked - since) * 1000)

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _add(root: Block, frames: Sequence[FrameType], value: float) -> None:
    """Add a sample; the innermost frame comes first."""
    names = [frame.f_code.co_qualname for frame in reversed(frames[:-1])]
    innermost = frames[0]
    # Between two lines there is no number; then the function's first line stands for it.
    line = innermost.f_lineno or innermost.f_code.co_firstlineno
    names.append(linecache.getline(innermost.f_code.co_filename, line).strip())
    block = root
    block.value += value
    for name in names:
        block = block.inner.setdefault(name, Block(name))
        block.value += value
