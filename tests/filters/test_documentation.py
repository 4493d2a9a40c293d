"""The code in docs/filters.md runs, from top to bottom, as one program."""

import re
from pathlib import Path

from filters.compiling.compiled import MAX_EXPRESSIONS
from filters.xpath import XPathLimits

PAGE = Path(__file__).parents[2] / "docs" / "filters.md"


def test_the_samples_of_the_page() -> None:
    samples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(samples) == 7
    scope: dict[str, object] = {"__name__": "documentation"}
    for sample in samples:
        exec(compile(sample, PAGE.name, "exec"), scope)  # noqa: S102 - it is our own page


def test_the_limits_on_the_page() -> None:
    limits = XPathLimits()
    text = " ".join(PAGE.read_text().split())
    assert (
        f"more than {limits.octets:,} octets, {limits.operators} operators and commas, "
        f"{limits.nesting} nested brackets, {limits.steps} steps or {limits.predicates} predicates"
    ) in text
    assert f"more than {MAX_EXPRESSIONS} conditions in one filter" in text
