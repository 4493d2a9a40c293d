"""The report of a benchmark: figures, and what exactly each of them is."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from filters.spark.benchmark import Outcome
from filters.spark.benchmark_comparison import compared, conclusion
from filters.spark.benchmark_plan import Plan
from filters.spark.charts import Series, flame, line_chart, number_text
from filters.spark.machine import describe
from filters.spark.page import beside, facts, page, plural, section, table

Row = Mapping[str, Any]


def html(
    plan: Plan, outcome: Outcome, corpus: str, baseline: tuple[str, Sequence[Row]] | None = None
) -> str:
    """The report.

    Args:
        corpus: Says where the messages came from.
        baseline: The name of an earlier run, and its rows.
    """
    rows = outcome.rows
    matched = [row for row in rows if row["kind"] == "match"]
    least = min((row["partitions"] for row in matched), default=1)
    sections = [section("What was measured", facts(_asked(plan, outcome, corpus)))]
    if baseline is not None:
        sections.append(_baseline(rows, *baseline))
    for workload in plan.workloads:
        of_workload = [
            row for row in matched if row["workload"] == workload and row["partitions"] == least
        ]
        sections.append(_by_count(workload, of_workload, least))
    sections.append(_selectivity(matched, least))
    sections.append(_builds([row for row in rows if row["kind"] == "build"]))
    sections.append(_by_partitions(matched))
    scaled = [row for row in rows if row["kind"] == "scale"]
    if scaled:
        sections.append(_by_cores(scaled))
    sections.append(_startup(outcome))
    sections.append(
        section(
            "Where the time goes",
            *(f"<p>{escape(name)}</p>{flame(block, unit='ms')}" for name, block in outcome.flames),
            note="Parsing and matching the messages in one process, the call stack looked at every"
            " few milliseconds of processor time; the caller is above, width is time, colours"
            " mean nothing. What is compiled (libxml2, the native engine) has no stack to look at:"
            " its time is that of the line of Python that called it, the lowest block. Point at"
            " one to read it.",
        )
    )
    sections.append(section("The machine", facts(describe(java=outcome.java))))
    said = (
        f"<p>{escape(conclusion(rows))}</p>"
        f'<p class="quiet">{outcome.verdicts:,} verdicts of {", ".join(outcome.engines)} were'
        " compared before anything was measured, and all agree. All of it took"
        f" {outcome.seconds // 60:.0f} min {outcome.seconds % 60:.0f} s.</p>"
    )
    return page("Matching XPath filters", said, sections)


@dataclass(frozen=True, slots=True)
class Scaled:
    """The time of the same work with some number of cores: seconds, a value a round.

    Engine work lasts from when the first task begins to parse until the last one has matched, by
    the machine's clock, in the workers; the job from when it is submitted until its rows are here;
    *processor* is what the engine work took of all cores.
    """

    engine: tuple[float, ...]
    job: tuple[float, ...]
    processor: tuple[float, ...]


def scaling(rows: Iterable[Row]) -> dict[int, Scaled]:
    """Return the times by number of cores."""
    runs: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] == "scale":
            runs[row["cores"], row["run"]].append(row)
    figures: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for (cores, _), tasks in sorted(runs.items()):
        span = max(task["end_ns"] for task in tasks) - min(task["start_ns"] for task in tasks)
        processor = sum(task["cpu_ns"] + task["parse_ns"] for task in tasks)
        figures[cores].append((span / 1e9, tasks[0]["job_ns"] / 1e9, processor / 1e9))
    return {cores: Scaled(*zip(*taken, strict=True)) for cores, taken in figures.items()}


def times_as_fast(few: Sequence[float], many: Sequence[float]) -> tuple[float, float, float]:
    """Median, smallest and largest of the ratios of each round, from its seconds."""
    ratios = [one / other for one, other in zip(few, many, strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios)


def summary(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """Workload, filters, engine, microseconds a message, messages a second of one core, and how
    many filters hold for one, as texts; with the fewest partitions."""
    matched = [row for row in rows if row["kind"] == "match"]
    least = min((row["partitions"] for row in matched), default=1)
    groups = _grouped(
        (row for row in matched if row["partitions"] == least), "workload", "filters", "engine"
    )
    return [
        (
            workload,
            f"{n:,}",
            engine,
            number_text(statistics.median(map(_micros, group))),
            number_text(statistics.median(map(_per_second, group))),
            number_text(sum(r["matches"] for r in group) / sum(r["messages"] for r in group)),
        )
        for (workload, n, engine), group in groups.items()
    ]


def _baseline(rows: Sequence[Row], name: str, earlier: Sequence[Row]) -> str:
    names = ("workload", "filters", "engine", "µs before", "µs now", "times")
    return section(
        "Compared with before",
        table(names, compared(rows, earlier)),
        note=f"Microseconds a message there ({name}) and here, of what both measured. Below 1 is"
        " faster now; it means something only on the same machine, as quiet as it was.",
    )


def _asked(plan: Plan, outcome: Outcome, corpus: str) -> list[tuple[str, str]]:
    left_out = [("left out", "; ".join(outcome.left_out))] if outcome.left_out else []
    return [
        ("messages", corpus),
        ("workloads", ", ".join(plan.workloads)),
        ("engines", ", ".join(outcome.engines)),
        ("filters (N)", ", ".join(f"{count:,}" for count in plan.counts)),
        ("partitions", ", ".join(map(str, plan.partitions))),
        ("repetitions, seeds", f"{plan.repetitions}, {', '.join(map(str, plan.seeds))}"),
        *left_out,
    ]


def _by_count(workload: str, rows: Sequence[Row], partitions: int) -> str:
    """Cost, throughput and selectivity of each engine, by number of filters."""
    groups = _grouped(rows, "engine", "filters")
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    counts = sorted({row["filters"] for row in rows})
    costs, throughputs, cells = [], [], []
    for engine in engines:
        measured = [(n, groups[engine, n]) for n in counts if (engine, n) in groups]
        micros = [(n, _summary(group, _micros)) for n, group in measured]
        costs.append(_series(engine, micros))
        per_second = [(n, _summary(group, _per_second)) for n, group in measured]
        throughputs.append(_series(engine, per_second))
        for (n, group), (_, (median, low, high)) in zip(measured, micros, strict=True):
            seen = sum(row["messages"] for row in group)
            parse = sum(row["parse_ns"] for row in group) / seen / 1000
            cells.append(
                (
                    engine,
                    f"{n:,}",
                    f"{number_text(median)} ({number_text(low)} to {number_text(high)})",
                    number_text(parse),
                    number_text(statistics.median(map(_per_second, group))),
                    f"{seen // max(1, len({row['repetition'] for row in group})):,}",
                )
            )
    names = ("engine", "filters", "µs a message", "µs to parse", "messages/s", "messages")
    return section(
        f"Workload {workload}",
        beside(
            line_chart(costs, x="filters (N)", y="µs a message", log_x=True, log_y=True),
            line_chart(
                throughputs, x="filters (N)", y="messages/s, one core", log_x=True, log_y=True
            ),
        ),
        table(names, cells),
        note="Processor time to match one parsed message against N filters (median, smallest to"
        f" largest of all repetitions and seeds; {plural(partitions, 'partition')}). Messages a"
        " second of one core include parsing. The last column is how many messages were matched:"
        " the naive engine, and that in Python, see fewer where there are many filters.",
    )


def _selectivity(rows: Sequence[Row], partitions: int) -> str:
    """Return how much of what is asked is true: the part that any engine has to report."""
    most = max((row["messages"] for row in rows), default=0)
    widest = [r for r in rows if r["partitions"] == partitions and r["messages"] == most]
    groups = _grouped(widest, "workload", "filters")
    lines: dict[str, list[tuple[float, float]]] = defaultdict(list)
    cells = []
    for (workload, n), group in sorted(groups.items()):
        true = sum(row["matches"] for row in group) / sum(row["messages"] for row in group)
        distinct = statistics.median(row["distinct"] for row in group)
        lines[workload].append((n, true))
        figures = (f"{distinct:,.0f}", number_text(true), f"{true / distinct:.3%}")
        cells.append((workload, f"{n:,}", *figures))
    series = [Series(workload, points) for workload, points in lines.items()]
    return section(
        "Selectivity",
        line_chart(series, x="filters (N)", y="true of a message", log_x=True, log_y=True),
        table(("workload", "filters", "distinct", "true of a message", "share"), cells),
        note="How many distinct filters hold for a message, on average, and which share that is of"
        " all that differ: an engine has to name each of them.",
    )


def _builds(rows: Sequence[Row]) -> str:
    groups = _grouped(rows, "workload", "engine", "filters")
    drawn = rows[0]["workload"] if rows else ""
    figures: dict[str, dict[str, list[tuple[float, float]]]] = {}
    cells = []
    for (workload, engine, n), group in groups.items():
        each = {
            "µs to add": statistics.median(row["build_ns"] for row in group) / 1000 / n,
            "µs to change": statistics.median(row["churn_ns"] for row in group) / 1000,
            "octets": statistics.median(row["memory"] for row in group) / n,
        }
        distinct = statistics.median(row["distinct"] for row in group)
        shown = (f"{distinct:,.0f}", *(number_text(float(f"{x:.3g}")) for x in each.values()))
        cells.append((workload, engine, f"{n:,}", *shown))
        if workload == drawn:
            for name, value in each.items():
                figures.setdefault(name, defaultdict(list))[engine].append((n, value))
    charts = [
        line_chart(
            [Series(engine, sorted(points)) for engine, points in lines.items()],
            x="filters (N)",
            y=f"{name}, each filter of {drawn}",
            log_x=True,
            log_y=True,
        )
        for name, lines in figures.items()
    ]
    names = ("workload", "engine", "filters", "distinct", "µs to add", "µs to change", "octets")
    return section(
        "Build, churn, memory",
        beside(*charts),
        table(names, cells, left=2),
        note="In a process of its own each: processor time to add one filter while all are added,"
        " to take one out of all and put it back, and resident memory (octets) for each filter,"
        " once built and after some messages; medians over the seeds. Distinct is how many filters"
        " differ: one that is there already costs next to nothing. Of a thousand filters or fewer"
        " the memory is less than the system counts exactly.",
    )


def _by_partitions(rows: Sequence[Row]) -> str:
    """Processor time of a message by partitions, as a multiple of what it is with the fewest."""
    largest = max((row["filters"] for row in rows), default=0)
    groups = _grouped([r for r in rows if r["filters"] == largest], "workload", "engine")
    drawn = rows[0]["workload"] if rows else ""
    series, cells = [], []
    for (workload, engine), group in groups.items():
        points = []
        for (partitions,), tasks in sorted(_grouped(group, "partitions").items()):
            spent = sum(row["cpu_ns"] + row["parse_ns"] for row in tasks)
            spent_each = spent / sum(row["messages"] for row in tasks) / 1000
            workers = len({row["process"] for row in tasks})
            points.append((float(partitions), spent_each))
            ratio = f"{spent_each / points[0][1]:.2f}"
            cells.append(
                (workload, engine, str(partitions), number_text(spent_each), ratio, str(workers))
            )
        if workload == drawn:
            series.append(Series(engine, [(x, spent / points[0][1]) for x, spent in points]))
    ends = sorted({x for one in series for x, _ in one.points})
    series.append(Series("ideal", [(x, 1.0) for x in ends], ideal=True))
    names = ("workload", "engine", "partitions", "µs a message", "times", "workers")
    return section(
        "Scaling by partitions",
        line_chart(series, x="partitions", y=f"times the time of the fewest, {drawn}", own_x=True),
        table(names, cells, left=2),
        note=f"Processor time to parse and match one message, with {largest:,} filters, and how"
        " many times that with the fewest partitions: 1 if partitions cost nothing (the dashed"
        " line). Workers are the processes that the partitions ran in, each of which built the"
        " filters once; two at a time on cores that share a cache, or something else, take longer"
        " than one.",
    )


def _by_cores(rows: Sequence[Row]) -> str:
    found = scaling(rows)
    first = rows[0]
    base = found[min(found)]
    engine = {c: times_as_fast(base.engine, one.engine) for c, one in found.items()}
    jobs = {c: times_as_fast(base.job, one.job) for c, one in found.items()}
    cells = [
        (
            f"local[{cores}]",
            *(f"{min(s):.2f} to {max(s):.2f}" for s in (one.engine, one.processor, one.job)),
            *("{:.2f} ({:.2f} to {:.2f})".format(*all_[cores]) for all_ in (engine, jobs)),
        )
        for cores, one in found.items()
    ]
    fewest = min(found)
    ideal = Series("ideal", [(float(c), c / fewest) for c in found], ideal=True)
    names = ("master", "engine work, s", "processor, s", "whole job, s", "engine, times")
    return section(
        "Scaling by cores",
        line_chart(
            [
                _series("engine work", [*engine.items()]),
                _series("whole job", [*jobs.items()]),
                ideal,
            ],
            x="cores",
            y=f"times as fast as local[{fewest}]",
            own_x=True,
        ),
        table((*names, "job, times"), cells),
        note=f"The same messages against {first['filters']:,} filters ({first['workload']},"
        f" {first['engine']}) in {first['partitions']} partitions, in"
        f" {plural(len(base.engine), 'round')} in which sessions of few and of many cores take"
        " turns. Each session is warm: started, filters sent and built, caches filled; what that"
        " took is named below. Engine work is from when the first task begins to parse until the"
        " last one has matched, by the machine's clock in the workers; the job from when it is"
        " submitted until its rows are back. Times as fast is the median of the rounds' ratios"
        " (smallest to largest). Processor is what the engine work took of all cores: where engine"
        " work takes longer than that divided by the cores, something else had the machine.",
    )


def _startup(outcome: Outcome) -> str:
    cells = [(name, f"{seconds:.2f}") for name, seconds in outcome.startup]
    return section(
        "Start-up, which is in none of the figures above",
        table(("what", "seconds"), cells),
        note="The first session starts the Java machine too.",
    )


def _grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in names)].append(row)
    return groups


def _micros(row: Row) -> float:
    return float(row["cpu_ns"] / row["messages"] / 1000)


def _per_second(row: Row) -> float:
    return float(row["messages"] * 1e9 / max(1, row["cpu_ns"] + row["parse_ns"]))


def _summary(rows: Sequence[Row], figure: Callable[[Row], float]) -> tuple[float, float, float]:
    """Median, smallest, largest."""
    values = [figure(row) for row in rows]
    return statistics.median(values), min(values), max(values)


def _series(name: str, found: Sequence[tuple[int, tuple[float, float, float]]]) -> Series:
    return Series(
        name,
        [(float(x), median) for x, (median, _, _) in found],
        [(low, high) for _, (_, low, high) in found],
    )
