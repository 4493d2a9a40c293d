"""The families of metrics that docs/metrics.md lists, and those that an expression of PromQL asks."""

import re

from tests.conftest import ROOT

Family = tuple[str, frozenset[str]]
"""The type of a family, and its labels."""
_ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram) \|([^|]*)\|", re.MULTILINE)
_SERIES = re.compile(r"\b(?:dragoman|process)_\w+")


def documented() -> dict[str, Family]:
    """The families of the page; those of counters without ``_total``."""
    page = (ROOT / "docs" / "metrics.md").read_text()
    return {
        name.removesuffix("_total"): (type_, frozenset(re.findall(r"`(\w+)`", labels)))
        for name, type_, labels in _ROW.findall(page)
    }


def series() -> set[str]:
    """The names of all series of these families, as Prometheus stores them."""
    found = set()
    for name, (type_, _) in documented().items():
        if type_ == "histogram":
            found |= {f"{name}_{part}" for part in ("bucket", "sum", "count")}
        else:
            found.add(f"{name}_total" if type_ == "counter" else name)
    return found


def asked_by(expression: str) -> set[str]:
    """The series of a gateway that *expression* asks for."""
    return set(_SERIES.findall(expression))
