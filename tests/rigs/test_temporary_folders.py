"""Temporary folders are in memory only where there is room, and nobody named another place."""

import os
from pathlib import Path

import pytest

from tests.rigs.temporary_folders import PLACE, choose


@pytest.mark.parametrize(
    ("named", "folder", "needed", "chosen"),
    [
        ("", ".", 1, "."),
        ("", ".", 2**60, ""),
        ("", "missing", 1, ""),
        ("elsewhere", ".", 1, "elsewhere"),
    ],
    ids=["room", "no room", "no folder", "another is named"],
)
def test_the_place(
    named: str, folder: str, needed: int, chosen: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv(PLACE, str(tmp_path / named))  # Whatever follows is undone.
    if not named:
        del os.environ[PLACE]
    choose(tmp_path / folder, needed)
    assert os.environ.get(PLACE) == (str(tmp_path / chosen) if chosen else None)
