"""The machine that a figure was measured on, and its spread."""

import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path

import lxml.etree


def describe() -> str:
    """One line: processor, cores, kernel, Python, libxml2."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    libxml2 = ".".join(map(str, lxml.etree.LIBXML_VERSION))
    return (
        f"{model}, {os.cpu_count()} cores, Linux {platform.release()}, "
        f"Python {platform.python_version()}, libxml2 {libxml2}"
    )


def pin(core: int) -> None:
    """Keep this process on one core, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[core % len(cores)]})


def spread(values: Sequence[float]) -> str:
    """Median with the smallest and the largest."""
    return f"{statistics.median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which *share* of all lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def fit(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float, float]:
    """The least-squares line through the points: slope, intercept, R squared."""
    line = statistics.linear_regression(xs, ys)
    return line.slope, line.intercept, statistics.correlation(xs, ys) ** 2
