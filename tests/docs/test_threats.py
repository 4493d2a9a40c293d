"""The table of threats names tests that there are."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([AST][0-9]{2}) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
EACH = {*(f"A{n:02}" for n in range(1, 26)), *(f"T{n}" for n in range(20, 30)), "S07"}


@cache
def named_tests(file: Path) -> frozenset[str]:
    """The names of the tests of a file."""
    found = ast.walk(ast.parse(file.read_text()))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(one.name for one in found if isinstance(one, kinds))


def test_each_threat_has_its_tests() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    found = ROW.findall(text)
    rows = dict(found)
    assert rows.keys() == EACH and len(found) == len(rows)
    missing = []
    for threat, cell in rows.items():
        named = re.findall(r"`([^`]+)::(test_[a-z0-9_]+)`", cell)
        assert named, threat
        for path, name in named:
            file = ROOT / "tests" / path
            if not file.is_file() or name not in named_tests(file):
                missing.append((threat, path, name))
    assert missing == []
