"""The benchmark of filters: corpus x workload x engine x N x partitions, on Spark.

Question: what does matching one message cost when N filters wait for it, and how far do cores and
partitions help? Every figure is kept as it was measured, a row a repetition and partition.

A run is refused when two engines differ about one verdict of the sample: a figure of an engine that
is wrong means nothing.
"""

import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from filters.documents import parse_own
from filters.spark.arrow import arrow_schema
from filters.spark.benchmark_checkpoints import Keeper, Progress, Unfinished
from filters.spark.benchmark_plan import (
    FEWEST,
    Cases,
    Plan,
    counts_of,
    few_messages,
)
from filters.spark.charts import Block
from filters.spark.engines import NAIVE, engines, unavailable
from filters.spark.footprint import Footprint, measure
from filters.spark.measuring import Case, built, compared, timed
from filters.spark.profiling import profile
from filters.spark.session import LOCAL, java_version, session

TASKS_A_CORE = 4
"""Tasks for each core in the scaling by cores, on all cores: so the last task to end leaves little
idle."""
MAX_ROUNDS = 5
"""The most rounds of the scaling by cores: each starts a session for each number of cores."""
WARMED = 0.1
"""Share of the work by which a session is warmed up."""


class Disagreement(Exception):
    """Two engines differ about a verdict; the text says which, and about what."""


@dataclass(slots=True)
class Outcome:
    """The figures of a benchmark. Rows are those of the Parquet file (`FIGURES`)."""

    engines: tuple[str, ...] = ()
    rows: list[dict[str, Any]] = field(default_factory=list)
    startup: list[tuple[str, float]] = field(default_factory=list)
    """The steps before anything was measured: name, and seconds."""
    verdicts: int = 0
    flames: list[tuple[str, Block]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    java: str = ""
    """The version of the machine that Spark ran on."""
    seconds: float = 0.0
    """The seconds that all of it took."""


FIGURES = (
    "kind string, workload string, seed int, engine string, filters int, distinct int,"
    " partitions int, cores int, run int, partition int, repetition int, messages int,"
    " octets long, matches long, parse_ns long, cpu_ns long, start_ns long, end_ns long,"
    " job_ns long, build_ns long, churn_ns long, memory long, process string"
)
"""``kind`` is ``match`` (by N and partitions), ``scale`` (by cores; one row a task of run *run*,
``job_ns`` the whole job's), or ``build`` (``build_ns``, ``churn_ns`` and ``memory`` alone)."""


def run(
    plan: Plan,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    tell: Callable[[str], None],
    unfinished: Unfinished | None = None,
) -> Outcome:
    """Measure all of *plan*. *tell* is told what is going on, in lines.

    Args:
        unfinished: Keeps each figure once it is there, and has those of a run that ended early.

    Raises:
        Disagreement: Engines differ; nothing that was measured is to be believed.
        Unfit: A workload does not fit the corpus.
        MeasuringFailed: A process that measures memory fails.
        SparkUnavailable: As `session`.
    """
    started = time.monotonic()
    outcome = Outcome()
    if not plan.engines:
        plan = replace(plan, engines=tuple(_available(outcome)))
    outcome.engines = plan.engines
    progress = Progress(tell, _steps(plan, master))
    keeper = Keeper(outcome, progress, unfinished)
    cases = Cases(plan)
    with _session(master, conf, outcome) as spark:
        for case, context in cases:
            shared = spark.sparkContext.broadcast(case)
            if keeper.begins(f"verdicts of {case.name}", 1):
                _compare(spark, plan, case, shared, context, outcome, progress)
                keeper.ends()
            for engine in plan.engines:
                if keeper.begins(f"{engine} in {case.name}", 1 + len(plan.partitions)):
                    _measure(spark, plan, case, engine, context, outcome, progress)
                    keeper.ends()
            shared.unpersist()
    if plan.scaling and (master or LOCAL).startswith("local"):
        _scale(plan, cases, conf, outcome, progress, keeper)
    for workload in plan.workloads:
        for engine in plan.engines:
            case, _ = cases.case(workload, plan.seeds[0], plan.counts[-1])
            progress.step(f"{workload} {engine}: looking where the time goes")
            few = replace(case, messages=few_messages(engine, case))
            name = f"{engine}, {workload}, {len(case.expressions):,} filters"
            outcome.flames.append((name, profile(engine, few)))
    outcome.seconds = time.monotonic() - started
    return outcome


def write_figures(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows of `FIGURES` as one Parquet file.

    Raises:
        OSError: It cannot be written; names the file.
    """
    import pyarrow
    from pyarrow import parquet

    schema = arrow_schema(FIGURES)
    try:
        parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema=schema), path)
    except OSError as error:
        number = error.errno or errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from error


# Steps.


def _compare(
    spark: Any,
    plan: Plan,
    case: Case,
    shared: Any,
    context: dict[str, Any],
    outcome: Outcome,
    progress: Progress,
) -> None:
    sample = len(few_messages(NAIVE, case))
    *different, counts = compared(spark, case, shared, plan.engines, sample)
    refuse(different, case, context)
    outcome.verdicts += counts["verdicts"]
    progress.step(
        f"{case.name}: {counts['verdicts']:,} verdicts agree, {counts['matches']:,} matches in"
        f" {sample} messages"
    )


def refuse(different: Sequence[Mapping[str, Any]], case: Case, context: Mapping[str, Any]) -> None:
    """Let a verdict in which an engine differs be the end.

    Args:
        different: The rows of `measuring.COMPARED` that name an engine.

    Raises:
        Disagreement: There is one.
    """
    if not different:
        return
    first = different[0]
    raise Disagreement(
        f"{first['engine']} and libxml2 differ about"
        f" {case.expressions[first['expression']].text!r} on message {first['message']} of"
        f" {context['workload']} with seed {context['seed']}: nothing was measured"
    )


def _measure(
    spark: Any,
    plan: Plan,
    case: Case,
    engine: str,
    context: dict[str, Any],
    outcome: Outcome,
    progress: Progress,
) -> None:
    few = replace(case, name=f"{case.name}/{engine}", messages=few_messages(engine, case))
    context = context | {"engine": engine}
    took = measure(engine, few.expressions, few.messages[:FEWEST], context["seed"])
    context["distinct"] = took.distinct
    outcome.rows.append(_build_row(context, took))
    count = len(case.expressions)
    progress.step(
        f"{case.name} {engine}: built in {took.build_seconds:.2f} s,"
        f" {took.build_seconds / count * 1e6:.0f} us and {took.memory / count:,.0f} bytes a filter"
    )
    shared = spark.sparkContext.broadcast(few)
    for partitions in plan.partitions:
        parts = f"{partitions} partition{'' if partitions == 1 else 's'}"
        if partitions > len(few.messages):
            progress.step(f"{case.name} {engine}: too few messages for {parts}")
            continue
        rows = timed(
            spark, few, shared, engine=engine, partitions=partitions, repetitions=plan.repetitions
        )
        outcome.rows += [
            {"kind": "match", "partitions": partitions, **context, **row.asDict()} for row in rows
        ]
        spent = sum(row["cpu_ns"] for row in rows) / sum(row["messages"] for row in rows)
        progress.step(f"{case.name} {engine}, {parts}: {spent / 1000:,.1f} us/message")
    shared.unpersist()


def _scale(
    plan: Plan,
    cases: Cases,
    conf: Mapping[str, str] | None,
    outcome: Outcome,
    progress: Progress,
    keeper: Keeper,
) -> None:
    """Match the same messages with 1, 2, ... cores; the best engine, first workload.

    Each run has a session of its own, and sessions of few and of many cores take turns, so that
    what else the machine does, or how fast its clock is, meets all of them.
    """
    engine = plan.engines[-1]
    cores_of = _core_counts()
    case, context = cases.case(plan.workloads[0], plan.seeds[0], plan.scaling or 1)
    passes = _passes(case, engine, plan.scaled_seconds)
    partitions = min(TASKS_A_CORE * cores_of[-1], len(case.messages))
    context |= {"engine": engine, "partitions": partitions}
    match = partial(timed, engine=engine, partitions=partitions)
    for number in range(_rounds(plan)):
        if not keeper.begins(f"round {number}", 1):
            continue
        spent = []
        for cores in cores_of:
            with _session(f"local[{cores}]", conf, outcome, named=not number) as spark:
                shared = spark.sparkContext.broadcast(case)
                started = time.perf_counter()
                warm = max(1, round(passes * WARMED))
                match(spark, case, shared, repetitions=0, passes=warm)
                if not number:
                    what = f"sending {len(case.expressions):,} filters, building, warm-up"
                    took = time.perf_counter() - started
                    outcome.startup.append((f"local[{cores}]: {what}", took))
                started_ns = time.perf_counter_ns()
                rows = match(spark, case, shared, repetitions=1, passes=passes)
                job_ns = time.perf_counter_ns() - started_ns
            run = {"kind": "scale", "cores": cores, "run": number, "job_ns": job_ns}
            outcome.rows += [run | context | row.asDict() for row in rows]
            spent.append(f"{job_ns / 1e9:.2f} s with local[{cores}]")
        progress.step(f"{case.name} {engine}, round {number + 1}: {', '.join(spent)}")
        keeper.ends()


def _build_row(context: dict[str, Any], took: Footprint) -> dict[str, Any]:
    return context | {
        "kind": "build",
        "build_ns": int(took.build_seconds * 1e9),
        "churn_ns": int(took.churn_seconds * 1e9),
        "memory": took.memory,
    }


def _passes(case: Case, engine: str, seconds: float) -> int:
    """Compute how often to match the messages of *case*, so that one core has work for
    *seconds*."""
    made, _, _ = built(engine, case.name, lambda: case)
    for _ in range(2):
        started = time.process_time()
        for octets in case.messages:
            made.find(parse_own(octets))
        took = time.process_time() - started
    return max(1, round(seconds / max(took, 1e-4)))


def _rounds(plan: Plan) -> int:
    return min(plan.repetitions, MAX_ROUNDS)


def _core_counts() -> list[int]:
    """1, 2, 4, ... and all cores that this process may use."""
    all_ = len(os.sched_getaffinity(0))
    return sorted({*(2**n for n in range(all_.bit_length())), all_} & set(range(1, all_ + 1)))


# Around.


def _available(outcome: Outcome) -> Iterator[str]:
    for engine in engines():
        why = unavailable(engine)
        if why is None:
            yield engine
        else:
            outcome.left_out.append(f"{engine}: {why}")


@contextmanager
def _session(
    master: str | None, conf: Mapping[str, str] | None, outcome: Outcome, *, named: bool = True
) -> Iterator[Any]:
    """A session; *named* lets its start be among the outcome's."""
    started = time.perf_counter()
    with session(master, app="dragoman benchmark", conf=conf) as spark:
        spark.range(1).count()
        if named:
            what = f"{spark.sparkContext.master}: starting the session"
            outcome.startup.append((what, time.perf_counter() - started))
        outcome.java = java_version(spark)
        yield spark


def _steps(plan: Plan, master: str | None) -> int:
    cases = sum(len(counts_of(plan, workload)) for workload in plan.workloads) * len(plan.seeds)
    steps = cases * (1 + len(plan.engines) * (1 + len(plan.partitions)))
    if plan.scaling and (master or LOCAL).startswith("local"):
        steps += _rounds(plan)
    return steps + len(plan.workloads) * len(plan.engines)
