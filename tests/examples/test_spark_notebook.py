"""The notebook of functions for columns, run from its first cell to its last."""

from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = [pytest.mark.needs_server("spark"), pytest.mark.slow, pytest.mark.nightly]
NOTEBOOK = ROOT / "examples" / "spark" / "columns.ipynb"


def test_it_runs_and_shows_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(
        notebook,
        timeout=180,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    printed = "".join(
        output.get("text", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.get("name") == "stdout"
    )
    rows = {" ".join(line.strip("|").replace("|", " ").split()) for line in printed.splitlines()}
    assert {"2 true 120", "4 NULL NULL", "coast 2", "fast 1"} <= rows, printed
