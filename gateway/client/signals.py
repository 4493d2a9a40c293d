"""How a program ends when it is told to."""

import signal
from types import FrameType


def end_as_by_interrupt() -> None:
    """Let SIGTERM and SIGHUP end this program as Ctrl-C does, in code of asyncio and in any other.

    By themselves they end it at once: no ``finally`` runs, and the programs that it started go on.
    What is ignored (SIGHUP under ``nohup``) stays so. To be called by the main thread.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(_: int, frame: FrameType | None) -> None:
    # Where SIGINT is ignored, as in the background of a script, it would have no effect if raised.
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)
