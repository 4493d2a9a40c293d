"""The clock, the libraries, the filter engine."""

import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from lxml import etree

from filters import engine, engine_note
from gateway.checks.findings import Finding, fail, ok, warn

SKEW = 60.0
"""Seconds by which a file may be newer than the clock."""
LEAST_LXML = (6, 1, 3)
_WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)


def check_clock(data: Path | None) -> Iterator[Finding]:
    now = datetime.now(UTC)
    newest = max((path.stat().st_mtime for path in data.glob("*.db*")), default=0.0) if data else 0
    if now < _WRITTEN:
        yield fail("clock", f"it says {now:%Y-%m-%d %H:%M}Z; set it, leases depend on it")
    elif newest > now.timestamp() + SKEW:
        text = f"files in {data} are {newest - now.timestamp():.0f} s newer than now"
        yield warn("clock", f"{text}; see that the clock is right, leases depend on it")
    else:
        yield ok("clock", f"{now:%Y-%m-%d %H:%M:%S}Z")


def check_versions() -> Iterator[Finding]:
    version = etree.LXML_VERSION[:3]
    found = (
        f"Python {platform.python_version()}, lxml {_dotted(version)},"
        f" libxml2 {_dotted(etree.LIBXML_VERSION)}"
    )
    if version < LEAST_LXML:
        yield fail("versions", f"{found}; install what requirements/base.txt locks")
    elif etree.LIBXML_VERSION < etree.LIBXML_COMPILED_VERSION:
        text = f"older than the {_dotted(etree.LIBXML_COMPILED_VERSION)} that lxml was built with"
        yield warn("versions", f"{found}, {text}; install what requirements/base.txt locks")
    else:
        yield ok("versions", found)


def check_engine() -> Iterator[Finding]:
    note = engine_note()
    yield warn("filter engine", f"{engine()}: {note}") if note else ok("filter engine", engine())


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
