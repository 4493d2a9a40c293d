"""How long something takes, as a multiple of a fixed piece of work that is done beside it.

No test may say how fast a machine is, or how busy. What both slow down alike cancels out.
"""

import time
from collections.abc import Callable

from lxml import etree

_DOCUMENT = b"<r>" + b"<a b='c'>text</a>" * 10_000 + b"</r>"


def work() -> None:
    """About five milliseconds of a machine of today: some of libxml2, and some of Python."""
    root = etree.fromstring(_DOCUMENT)
    total = 0
    for number, element in enumerate(root):
        total += number % 7 * len(element.tag)
    assert total


_measured = (float("-inf"), 0.0)
"""When, and what."""


def unit() -> float:
    """The seconds of processor time that `work` takes now; what was measured a second ago is."""
    global _measured
    if time.monotonic() - _measured[0] > 1.0:
        _measured = time.monotonic(), min(_seconds(work) for _ in range(3))
    return _measured[1]


def slowest(tries: int = 5) -> float:
    """The most seconds of processor time that `work` takes in some *tries* now: what may be held
    against something that was done once, and that whatever disturbs the machine may have hit."""
    return max(_seconds(work) for _ in range(tries))


def pace(call: Callable[[], object], *, tries: int = 3, enough: float = 0.0) -> float:
    """How many times as long as `work` *call* takes, of processor time: the least of some *tries*,
    which end with the first of at most *enough*."""
    least = float("inf")
    for _ in range(tries):
        least = min(least, _seconds(call) / unit())
        if least <= enough:
            break
    return least


def growth(call: Callable[[int], object], size: int, *, times: int = 8) -> float:
    """How many times as long *call* takes for *times* the *size* as *times* calls for that size:
    about 1 where its cost is linear, and about *times* where it is quadratic."""

    def several() -> None:
        for _ in range(times):
            call(size)

    # What else the machine does can only make one of the two longer: the least of some tries.
    return min(pace(lambda: call(size * times)) / pace(several) for _ in range(3))


def _seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started
