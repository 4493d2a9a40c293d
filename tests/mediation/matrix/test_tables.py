"""The tables for users are those of the code."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from mediation.matrix.tables import LETTERS, profiles, tables
from mediation.model.facts import Fact
from tests.conftest import ROOT

PAGES = [("mediation", "", tables), ("profiles", " profiles", profiles)]
END = "<!-- end -->\n"


@pytest.mark.parametrize(("name", "argument", "made"), PAGES)
def test_the_documents_have_the_tables(name: str, argument: str, made: Callable[[], str]) -> None:
    """``REGENERATE=1`` writes them."""
    page = ROOT / "docs" / f"{name}.md"
    begin = f"<!-- python -m mediation.matrix{argument} -->\n"
    before, _, rest = page.read_text("utf-8").partition(begin)
    _, _, after = rest.partition(END)
    text = f"{before}{begin}\n{made()}\n{END}{after}"
    if os.environ.get("REGENERATE"):
        page.write_text(text, "utf-8")
    assert page.read_text("utf-8") == text


@pytest.mark.parametrize(("_", "argument", "made"), PAGES)
def test_the_command_prints_them(_: str, argument: str, made: Callable[[], str]) -> None:
    command = [sys.executable, "-m", "mediation.matrix", *argument.split()]
    done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
    assert done.stdout.decode() == made()


def test_letters_are_told_apart() -> None:
    assert set(LETTERS) == set(Fact)
    letters = [letter for letter in LETTERS.values() if letter]
    assert len(set(letters)) == len(letters)
