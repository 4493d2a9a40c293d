"""Compares the figures of two benchmarks, and says in a sentence what one found."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from filters.spark.charts import number_text
from filters.spark.engines import NAIVE

Row = Mapping[str, Any]
Key = tuple[str, int, str]
"""Workload, number of filters, engine."""


class NoFigures(Exception):
    """A baseline cannot be read; the text says why, in one line."""


def read_figures(place: Path) -> list[dict[str, Any]]:
    """Read the figures of a run: its folder, or the file ``figures.parquet`` in it.

    Raises:
        NoFigures: There are none.
    """
    import pyarrow
    from pyarrow import parquet

    file = place / "figures.parquet" if place.is_dir() else place
    try:
        with file.open("rb") as opened:
            rows: list[dict[str, Any]] = parquet.ParquetFile(opened).read().to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        why = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise NoFigures(f"{file}: {why}") from error
    if not rows or not {"kind", "cpu_ns", "messages", "engine"} <= rows[0].keys():
        raise NoFigures(f"{file}: no figures of a benchmark of filters")
    return rows


def costs(rows: Iterable[Row]) -> dict[Key, float]:
    """Return the median processor time to match a message, in microseconds, with the fewest
    partitions."""
    matched = [row for row in rows if row["kind"] == "match"]
    least = min((row["partitions"] for row in matched), default=1)
    found: dict[Key, list[float]] = defaultdict(list)
    for row in matched:
        if row["partitions"] == least:
            key = (row["workload"], row["filters"], row["engine"])
            found[key].append(row["cpu_ns"] / row["messages"] / 1000)
    return {key: statistics.median(values) for key, values in found.items()}


def compared(rows: Iterable[Row], baseline: Iterable[Row]) -> list[tuple[str, ...]]:
    """Workload, filters, engine, microseconds a message before and now, and how many times the time
    before that is, as texts; of what both have."""
    before, now = costs(baseline), costs(rows)
    return [
        (
            *(key[0], f"{key[1]:,}", key[2]),
            *(number_text(before[key]), number_text(now[key])),
            f"{now[key] / before[key]:.2f}",
        )
        for key in now
        if key in before
    ]


def conclusion(rows: Iterable[Row]) -> str:
    """Return a sentence about the most filters that were matched, the workload that was dearest
    with them, and the engine that was fastest; empty where nothing was matched."""
    found = costs(rows)
    if not found:
        return ""
    most = max(filters for _, filters, _ in found)
    best: dict[str, tuple[float, str]] = {}
    for (workload, filters, engine), micros in found.items():
        if filters == most:
            best[workload] = min(best.get(workload, (micros, engine)), (micros, engine))
    micros, engine = max(best.values())
    workload = next(name for name, value in best.items() if value == (micros, engine))
    said = f"Against {most:,} filters the {engine} engine matches a message in"
    said += f" {number_text(micros)} us"
    if len(best) > 1:
        said += f" at most, which {workload} takes"
    naive = found.get((workload, most, NAIVE))
    if naive is None or engine == NAIVE:
        return f"{said}."
    return f"{said}: {naive / micros:,.0f} times as fast as one expression after the other."
