"""The report of a benchmark: figures, and what exactly each of them is."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from filters.spark.benchmark import Outcome, Plan
from filters.spark.charts import Series, flame, line_chart, number_text
from filters.spark.machine import describe
from filters.spark.page import facts, page, section, table

Row = Mapping[str, Any]


def html(plan: Plan, outcome: Outcome, corpus: str) -> str:
    """The report; *corpus* says where the messages came from."""
    rows = outcome.rows
    matched = [row for row in rows if row["kind"] == "match"]
    least = min((row["partitions"] for row in matched), default=1)
    sections = [section("What was measured", facts(_asked(plan, outcome, corpus)))]
    for workload in plan.workloads:
        of_workload = [
            row for row in matched if row["workload"] == workload and row["partitions"] == least
        ]
        sections.append(_by_count(workload, of_workload, least))
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
            " few milliseconds of processor time; the caller is above, width is time. What is"
            " compiled (libxml2, the native engine) has no stack to look at: its time is that of"
            " the line of Python that called it, the lowest block. Point at one to read it.",
        )
    )
    sections.append(section("The machine", facts(describe())))
    summary = (
        f'<p class="quiet">{outcome.verdicts:,} verdicts of {", ".join(plan.engines)} were'
        " compared before anything was measured, and all agree.</p>"
    )
    return page("Matching XPath filters", summary, sections)


def scaling(rows: Iterable[Row]) -> dict[int, tuple[list[float], list[float], list[float]]]:
    """By number of cores: seconds of engine work, of the whole job, and of processor time that the
    engine work took, of each run.

    Engine work lasts from when the first task begins to parse until the last one has matched, by
    the machine's clock, in the workers; the job from when it is submitted until its rows are here.
    """
    spans: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] == "scale":
            spans[row["cores"], row["run"]].append(row)
    found: dict[int, tuple[list[float], list[float], list[float]]] = {}
    for (cores, _), tasks in sorted(spans.items()):
        engine, job, processor = found.setdefault(cores, ([], [], []))
        span = max(task["end_ns"] for task in tasks) - min(task["start_ns"] for task in tasks)
        engine.append(span / 1e9)
        job.append(tasks[0]["job_ns"] / 1e9)
        processor.append(sum(task["cpu_ns"] + task["parse_ns"] for task in tasks) / 1e9)
    return found


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


def _asked(plan: Plan, outcome: Outcome, corpus: str) -> list[tuple[str, str]]:
    left_out = [("left out", "; ".join(outcome.left_out))] if outcome.left_out else []
    return [
        ("messages", corpus),
        ("workloads", ", ".join(plan.workloads)),
        ("engines", ", ".join(plan.engines)),
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
            matches = sum(row["matches"] for row in group) / seen
            parse = sum(row["parse_ns"] for row in group) / seen / 1000
            cells.append(
                (
                    engine,
                    f"{n:,}",
                    f"{number_text(median)} ({number_text(low)} to {number_text(high)})",
                    number_text(parse),
                    number_text(statistics.median(map(_per_second, group))),
                    number_text(matches),
                    f"{matches / group[0]['distinct']:.3%}",
                    f"{seen // max(1, len({row['repetition'] for row in group})):,}",
                )
            )
    names = ("engine", "filters", "us a message", "us to parse", "messages/s", "true", "share")
    return section(
        f"Workload {workload}",
        line_chart(costs, x="filters (N)", y="us a message", log_x=True, log_y=True),
        line_chart(throughputs, x="filters (N)", y="messages/s, one core", log_x=True, log_y=True),
        table((*names, "messages"), cells),
        note="Processor time to match one parsed message against N filters (median, smallest to"
        f" largest of all repetitions and seeds; {partitions} partitions). Messages a second of"
        " one core include parsing. True is how many distinct filters hold for a message, share"
        " how many of all that differ; the naive engine sees fewer messages where there are many"
        " filters.",
    )


def _builds(rows: Sequence[Row]) -> str:
    groups = _grouped(rows, "workload", "engine", "filters")
    drawn = rows[0]["workload"] if rows else ""
    by_line: dict[str, list[tuple[float, float]]] = defaultdict(list)
    cells = []
    for (workload, engine, n), group in groups.items():
        build = statistics.median(row["build_ns"] for row in group) / 1000 / n
        memory = statistics.median(row["memory"] for row in group) / n
        churn = statistics.median(row["churn_ns"] for row in group) / 1000
        if workload == drawn:
            by_line[engine].append((n, memory * n))
        shown = (number_text(build), number_text(churn), f"{memory:,.0f}")
        cells.append((workload, engine, f"{n:,}", f"{group[0]['distinct']:,}", *shown))
    series = [Series(name, sorted(points)) for name, points in by_line.items()]
    names = ("workload", "engine", "filters", "distinct", "us to add", "us to change", "octets")
    return section(
        "Build, churn, memory",
        line_chart(series, x="filters (N)", y=f"octets resident, {drawn}", log_x=True, log_y=True),
        table(names, cells, left=2),
        note="In a process of its own each: processor time to add one filter while all are added,"
        " to take one out of all and put it back, and resident memory for each filter, once built"
        " and after some messages. Distinct is how many filters differ.",
    )


def _by_partitions(rows: Sequence[Row]) -> str:
    """Processor time of a message by partitions, as a share of what it is with the fewest."""
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
            shown = (number_text(spent_each), str(workers))
            cells.append((workload, engine, str(partitions), *shown))
        if workload == drawn:
            series.append(Series(engine, points))
            series.append(Series("ideal", [(x, points[0][1]) for x, _ in points], ideal=True))
    names = ("workload", "engine", "partitions", "us a message", "workers")
    return section(
        "Scaling by partitions",
        line_chart(
            series, x="partitions", y=f"us a message, {drawn}", log_x=True, log_y=True, own_x=True
        ),
        table(names, cells, left=2),
        note=f"Processor time to parse and match one message, with {largest:,} filters: it stays"
        " the same if partitions cost nothing (the dashed line). Workers are the processes that"
        " the partitions ran in, each of which built the filters once.",
    )


def _by_cores(rows: Sequence[Row]) -> str:
    found = scaling(rows)
    first = rows[0]
    fewest = min(found)
    base = tuple(min(seconds) for seconds in found[fewest])
    engine = [
        (float(cores), fewest * base[0] / min(spans)) for cores, (spans, _, _) in found.items()
    ]
    jobs = [(float(cores), fewest * base[1] / min(took)) for cores, (_, took, _) in found.items()]
    cells = [
        (
            f"local[{cores}]",
            *(f"{min(s):.2f} to {max(s):.2f}" for s in found[cores]),
            f"{dict(engine)[cores]:.2f}",
            f"{dict(jobs)[cores]:.2f}",
        )
        for cores in found
    ]
    ideal = Series("ideal", [(float(cores), float(cores)) for cores in found], ideal=True)
    names = (
        "master",
        "engine work, s",
        "whole job, s",
        "processor, s",
        "engine, times",
        "job, times",
    )
    return section(
        "Scaling by cores",
        line_chart(
            [Series("engine work", engine), Series("whole job", jobs), ideal],
            x="cores",
            y="times as fast",
            own_x=True,
        ),
        table(names, cells),
        note=f"The same messages against {first['filters']:,} filters ({first['workload']},"
        f" {first['engine']}) in {first['partitions']} partitions, in sessions that are warm:"
        " started, filters sent and built, caches filled; what that took is named below. Engine"
        " work is from when the first task begins to parse until the last one has matched, by the"
        " machine's clock in the workers; the job from when it is submitted until its rows are"
        " back. Seconds are the smallest to the largest of all runs; the ratios compare the"
        " smallest. Processor is what the engine work took of all cores: where engine work takes"
        " longer than that divided by the cores, something else had the machine.",
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
