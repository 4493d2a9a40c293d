"""Measures a set of expressions: time to build, memory, time to change. Run as a program.

In a process of its own, because a process that has built others has memory to use again. Reads one
JSON object (``engine``, ``expressions`` as pairs of text and namespaces, ``messages`` as texts,
``seed``) from standard input, and writes one to standard output.
"""

import gc
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from filters.documents import parse_own
from filters.filter import Expression
from filters.spark.engines import make_engine

CHANGED = 1000
"""Expressions that are taken out and put back to measure churn."""
DEADLINE = 1800.0


class MeasuringFailed(Exception):
    """A process that measures has failed; the text has the last line that it said."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Times are of the processor, in seconds; memory is resident, in octets."""

    build_seconds: float
    churn_seconds: float
    """Seconds to take one expression out and put it back, on average."""
    memory: int
    """Bytes that the engine took once built, and after it had seen the messages."""
    distinct: int


def measure(
    engine: str, expressions: Sequence[Expression], messages: Sequence[bytes], seed: int
) -> Footprint:
    """Measure in a fresh process.

    Raises:
        MeasuringFailed: It fails, or takes longer than `DEADLINE`.
    """
    asked = {
        "engine": engine,
        "expressions": [(one.text, one.namespaces) for one in expressions],
        "messages": [octets.decode() for octets in messages],
        "seed": seed,
    }
    try:
        done = subprocess.run(
            (sys.executable, "-m", "filters.spark.footprint"),
            input=json.dumps(asked).encode(),
            capture_output=True,
            timeout=DEADLINE,
            check=True,
        )
    except subprocess.SubprocessError as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").splitlines()
        raise MeasuringFailed(
            f"measuring {engine} failed: {said[-1] if said else error}"
        ) from error
    return Footprint(**json.loads(done.stdout))


def main() -> None:
    """Answer what standard input asks."""
    asked = json.load(sys.stdin)
    expressions = [
        Expression(text, namespaces=tuple((prefix, uri) for prefix, uri in namespaces))
        for text, namespaces in asked["expressions"]
    ]
    messages = [text.encode() for text in asked["messages"]]
    chance = random.Random(asked["seed"])
    engine = make_engine(asked["engine"])
    gc.collect()
    before, started = _resident(), time.process_time()
    numbers = [engine.add(expression) for expression in expressions]
    build = time.process_time() - started
    for octets in messages:
        engine.find(parse_own(octets))
    gc.collect()
    memory = max(0, _resident() - before)
    changed = chance.sample(range(len(numbers)), min(CHANGED, len(numbers)))
    started = time.process_time()
    for position in changed:
        engine.remove(numbers[position])
        numbers[position] = engine.add(expressions[position])
    churn = (time.process_time() - started) / len(changed)
    json.dump(asdict(Footprint(build, churn, memory, len(engine))), sys.stdout)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
