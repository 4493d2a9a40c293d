"""The code and the tables in docs/discovery-queries.md."""

import re
from pathlib import Path

import pytest

from filters import dialects
from filters.queries import (
    Described,
    compile_query,
    query_dialects,
    regular,
    selectors,
    words,
    xquery,
)

PAGE = (Path(__file__).parents[3] / "docs" / "discovery-queries.md").read_text()
SAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_samples_run_from_top_to_bottom() -> None:
    assert len(SAMPLES) == 6
    scope: dict[str, object] = {"__name__": "documentation"}
    for sample in SAMPLES:
        if "XQueryWorker" in sample and not xquery.is_installed():
            continue
        exec(compile(sample, "discovery-queries.md", "exec"), scope)  # noqa: S102 - our own page


@pytest.mark.parametrize(
    ("heading", "dialect", "rows"),
    [("Words", dialects.QUERY_STRING, 5), ("Regular expressions", dialects.QUERY_REGEX, 3)],
)
def test_the_tables_say_what_is_found(heading: str, dialect: str, rows: int) -> None:
    if dialect not in query_dialects():
        pytest.skip("no engine for regular expressions (the extra discovery)")
    scope: dict[str, object] = {"__name__": "documentation"}
    exec(SAMPLES[0], scope)  # noqa: S102 - our own page
    harbour = scope["harbour"]
    assert isinstance(harbour, Described)
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `(.*)` \| (yes|no)", section, re.MULTILINE)
    assert len(told) == rows
    for text, verdict in told:
        query = compile_query(dialect, text.replace("\\|", "|"))
        assert query.matches(harbour) is (verdict == "yes"), text


def test_the_limits_on_the_page() -> None:
    text = " ".join(PAGE.split())
    assert f"At most {words.MAX_CHARACTERS:,} characters and {words.MAX_WORDS} words" in text
    assert f"At most {regular.MAX_CHARACTERS} characters" in text
    assert (
        f"At most {selectors.MAX_CHARACTERS:,} characters, {selectors.MAX_OPERATORS} operators of "
        f"arithmetic and comparison, {selectors.MAX_NESTING} nested parentheses, "
        f"{selectors.MAX_PATTERN} characters of a pattern"
    ) in text
    assert f"not found. At most {xquery.MAX_CHARACTERS:,} characters" in text
