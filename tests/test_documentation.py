"""The documents lead to each other, and nowhere else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.rigs.cases import for_each

DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "helm" / "dragoman" / "README.md",
]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def links(document: Path) -> list[str]:
    """Where a document leads within the repository."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [link for link in _LINK.findall(text) if "://" not in link]


def anchors(document: Path) -> set[str]:
    """The headings of a document, as GitHub names them."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(
            " ", "-"
        )
        for heading in _HEADING.findall(text)
    }


@for_each("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for link in links(document):
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_what_is_named_in_the_tree_is_there(name: str) -> None:
    named = re.findall(r"`([a-z_]+(?:/[\w.-]+)+/?)`", (ROOT / name).read_text())
    tops = {"dragoman", "gateway", "adapters", "mediation", "filters", "tests", "benchmarks"}
    tops |= {"distributions", "examples"}
    paths = [path for path in named if path.partition("/")[0] in tops]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_readme_leads_to_every_document() -> None:
    readme = ROOT / "README.md"
    found = {(readme.parent / link.partition("#")[0]).resolve() for link in links(readme)}
    assert set((ROOT / "docs").glob("*.md")) - found == set()


def test_pip_is_told_of_no_package_that_is_not_published() -> None:
    # Whoever took the name on an index would have their code run by all who follow such a line.
    named = re.compile(r"pip install(?: -\S+)* ['\"]?dragoman\b|['\"`]dragoman\[")
    folders = ["dragoman", "gateway", "adapters", "mediation", "filters"]
    folders += ["distributions", "examples", "docs", "helm"]
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [*DOCUMENTS, ROOT / "Dockerfile", ROOT / "Makefile"]
    wrong = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files
        if path.suffix in {"", ".md", ".py", ".toml", ".txt", ".yaml", ".tpl"}
        for line in path.read_text().splitlines()
        if named.search(line)
    ]
    assert wrong == []


def test_what_is_installed_is_what_is_locked() -> None:
    command = [sys.executable, str(ROOT / "requirements" / "lock.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    locked = "".join(path.read_text() for path in (ROOT / "requirements").glob("*.txt"))
    assert "://" not in locked
    assert not re.search(r"^\s*-[-\w]*(index|find-links|trusted)", locked, re.MULTILINE)
    unhashed = re.findall(r"^\S+==\S+(?: ;[^\\\n]*)?$", locked, re.MULTILINE)
    assert unhashed == []
