"""The tables for users are those of the code."""

import os
import subprocess
import sys

from mediation.matrix.tables import LETTERS, tables
from mediation.model.facts import Fact
from tests.conftest import ROOT

BEGIN, END = "<!-- python -m mediation.matrix -->\n", "<!-- end -->\n"


def test_the_document_has_the_tables() -> None:
    """``REGENERATE=1`` writes them."""
    page = ROOT / "docs" / "mediation.md"
    before, _, rest = page.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    text = f"{before}{BEGIN}\n{tables()}\n{END}{after}"
    if os.environ.get("REGENERATE"):
        page.write_text(text, "utf-8")
    assert page.read_text("utf-8") == text


def test_the_command_prints_them() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mediation.matrix"], capture_output=True, check=True, cwd=ROOT
    )
    assert done.stdout.decode() == tables()


def test_letters_are_told_apart() -> None:
    assert set(LETTERS) == set(Fact)
    letters = [letter for letter in LETTERS.values() if letter]
    assert len(set(letters)) == len(letters)
