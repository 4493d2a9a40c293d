"""What ``dragoman doctor adapter`` finds: the guarantees that a messaging system gives."""

import asyncio
import logging
import signal
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager

from adapters import AdapterError
from adapters.drills import Drill, Promise, Result, Wishes
from gateway.checks.findings import Finding, Verdict, fail

_VERDICTS = {
    Promise.KEPT: Verdict.OK,
    Promise.ABSENT: Verdict.WARN,
    Promise.BROKEN: Verdict.FAIL,
}


def drill_adapter(url: str, settings: Mapping[str, str], wishes: Wishes) -> Iterator[Finding]:
    """Try the messaging system of *url*, with the adapter's *settings*.

    Raises:
        KeyboardInterrupt: It was interrupted; all that was made in the system is removed.
    """
    try:
        drill = Drill(url, settings, wishes)
    except AdapterError as error:
        yield fail("adapter", f"{error}; correct the URL, or --setting")
        return
    with _quiet(), _terminated_as_interrupted(), asyncio.Runner() as runner:
        results = drill.run()
        try:
            while (result := runner.run(_next(results))) is not None:
                yield _finding(result)
        finally:
            runner.run(results.aclose())
            for left in drill.left:
                yield _finding(left)


async def _next(results: AsyncGenerator[Result, None]) -> Result | None:
    return await anext(results, None)


def _finding(result: Result) -> Finding:
    return Finding(_VERDICTS[result.promise], result.trial, result.text)


@contextmanager
def _quiet() -> Iterator[None]:
    """Have adapters log nothing: cut connections are what is tried."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Have SIGTERM do what Ctrl-C does: end the drill, and remove what it made."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
