"""The machine that a figure was measured on."""

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from lxml import etree


def describe(*, java: str = "") -> list[tuple[str, str]]:
    """Describe what a figure depends on: names and values. *java* is the version of Spark's
    machine."""
    return [
        ("when it ended", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
        ("processor", f"{_processor()}, {len(os.sched_getaffinity(0))} cores for this process"),
        ("memory", f"{_memory() / 2**30:.1f} GiB"),
        ("system", f"{platform.system()} {platform.release()}"),
        ("Python", platform.python_version()),
        ("lxml, libxml2", f"{etree.__version__}, {'.'.join(map(str, etree.LIBXML_VERSION))}"),
        ("Spark", _version("pyspark")),
        ("Java", java or "unknown"),
        ("pyarrow", _version("pyarrow")),
        ("Dragoman", _version("dragoman")),
        ("load when it ended", ", ".join(f"{load:.1f}" for load in os.getloadavg())),
    ]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
