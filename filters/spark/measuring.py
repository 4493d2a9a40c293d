"""The part of a benchmark that runs in the workers: compares verdicts, and times matching.

A job is one row a partition; messages and expressions are broadcast. So what is timed, in the
worker and around parsing and matching alone, has nothing of Spark in it.
"""

import os
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lxml import etree

from filters.documents import parse_own
from filters.filter import Expression
from filters.spark.arrow import arrow_schema
from filters.spark.engines import NAIVE, Engine, make_engine

KEPT = 1
"""Built engines that a worker keeps: what a benchmark builds is large."""

TIMED = (
    "partition int, repetition int, messages int, octets long, matches long, parse_ns long,"
    " cpu_ns long, start_ns long, end_ns long, build_ns long, process string"
)
"""The result of one repetition in one partition. ``parse_ns`` and ``cpu_ns`` (matching) are
processor time; ``start_ns`` and ``end_ns`` are by the clock of the machine, around both;
``build_ns`` is 0 where the process had the engine already."""

COMPARED = "verdicts long, matches long, message int, expression int, engine string"
"""A row that names an engine is a verdict in which it differs; the last one has the counts."""
NAMED = 10
"""Differences that one partition names."""


@dataclass(frozen=True)
class Case:
    """Expressions and messages; *name* is unique within a benchmark."""

    name: str
    expressions: tuple[Expression, ...]
    messages: tuple[bytes, ...]


_built: OrderedDict[tuple[str, str], tuple[Engine, list[int]]] = OrderedDict()


def built(engine: str, name: str, load: Callable[[], Case]) -> tuple[Engine, list[int], int]:
    """An engine with the expressions of a case, the number of each, and nanoseconds to build it.

    It is built when a process first wants it, and kept until another takes its place.
    """
    key = (engine, name)
    kept = _built.get(key)
    if kept is not None:
        return *kept, 0
    while len(_built) >= KEPT:
        _built.popitem(last=False)
    expressions = load().expressions
    started = time.process_time_ns()
    made = make_engine(engine)
    numbers = [made.add(expression) for expression in expressions]
    took = time.process_time_ns() - started
    _built[key] = (made, numbers)
    return made, numbers, took


def timed(
    spark: Any,
    case: Case,
    shared: Any,
    *,
    engine: str,
    partitions: int,
    repetitions: int,
    passes: int = 1,
) -> list[Any]:
    """Match all messages of *case*, shared out over *partitions*; the rows are `TIMED`'s.

    Args:
        shared: A broadcast of *case*.
        repetitions: How often; 0 builds the engine, and matches once without counting it.
        passes: How often each message is parsed and matched in one repetition.
    """
    name = case.name

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for partition in batch.column("id").to_pylist():
                rows = list(
                    _time(
                        (partition, partitions),
                        engine,
                        name,
                        lambda: shared.value,
                        repetitions,
                        passes,
                    )
                )
                yield _arrow(rows, TIMED)

    cells = spark.range(0, partitions, 1, numPartitions=partitions)
    found: list[Any] = cells.mapInArrow(run, TIMED).collect()
    return found


def _time(
    share: tuple[int, int],
    engine: str,
    name: str,
    load: Callable[[], Case],
    repetitions: int,
    passes: int,
) -> Iterator[dict[str, Any]]:
    made, _, build_ns = built(engine, name, load)
    partition, partitions = share
    messages = load().messages[partition::partitions]
    if build_ns or not repetitions:
        # Nothing is counted before caches are warm: those of the engine, and of the machine.
        made.find_all([parse_own(octets) for octets in messages])
    for repetition in range(max(1, repetitions)):
        parse_ns = cpu_ns = matches = 0
        start = time.time_ns()
        for _ in range(passes):
            began = time.process_time_ns()
            roots = [parse_own(octets) for octets in messages]
            parsed = time.process_time_ns()
            matches += sum(map(len, made.find_all(roots)))
            parse_ns += parsed - began
            cpu_ns += time.process_time_ns() - parsed
        yield {
            "partition": partition,
            "repetition": repetition,
            "messages": len(messages) * passes,
            "octets": sum(map(len, messages)) * passes,
            "matches": matches,
            "parse_ns": parse_ns,
            "cpu_ns": cpu_ns,
            "start_ns": start,
            "end_ns": time.time_ns(),
            "build_ns": build_ns,
            "process": f"{socket.gethostname()}:{os.getpid()}",
        }


def compared(spark: Any, case: Case, shared: Any, engines: Sequence[str], sample: int) -> list[Any]:
    """Compare every verdict of *engines* on the first *sample* messages with libxml2's.

    One partition, so that each engine is built once; the rows are `COMPARED`'s.
    """
    name, others = case.name, [engine for engine in engines if engine != NAIVE]

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows:
                yield _arrow(list(_compare(name, lambda: shared.value, others, sample)), COMPARED)

    found: list[Any] = spark.range(0, 1, 1, numPartitions=1).mapInArrow(run, COMPARED).collect()
    return found


def _compare(
    name: str, load: Callable[[], Case], engines: Sequence[str], sample: int
) -> Iterator[dict[str, Any]]:
    case = load()
    roots = [parse_own(octets) for octets in case.messages[:sample]]
    truth = _verdicts(NAIVE, name, load, roots)
    named = 0
    for engine in engines:
        for message, (said, true) in enumerate(
            zip(_verdicts(engine, name, load, roots), truth, strict=True)
        ):
            for expression in sorted(said ^ true):
                named += 1
                if named <= NAMED:
                    yield {"message": message, "expression": expression, "engine": engine}
    yield {
        "verdicts": (1 + len(engines)) * len(roots) * len(case.expressions),
        "matches": sum(map(len, truth)),
    }


def _verdicts(
    engine: str, name: str, load: Callable[[], Case], roots: Sequence[etree._Element]
) -> list[set[int]]:
    """The positions of the expressions that are true of each message."""
    made, numbers, _ = built(engine, name, load)
    positions: dict[int, list[int]] = {}
    for position, number in enumerate(numbers):
        positions.setdefault(number, []).append(position)
    found = made.find_all(roots)
    return [{one for number in numbers for one in positions[number]} for numbers in found]


def _arrow(rows: list[dict[str, Any]], ddl: str) -> Any:
    import pyarrow

    return pyarrow.RecordBatch.from_pylist(rows, schema=arrow_schema(ddl))
