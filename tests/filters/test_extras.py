"""What a message about a missing library says."""

import importlib.util
import sys
from importlib import metadata
from pathlib import Path

import pytest

from filters.extras import how_to_install

DECLARED = [
    "lxml>=6",
    "pika<2,>=1.4; extra == 'rabbitmq'",
    'a[b]>=1; extra == "two"',
    "c; extra == 'two'",
]


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _name: DECLARED)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))


def test_in_a_clone_it_is_make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What pip installs there is not what is locked."""
    clone = tmp_path / "a clone"
    (clone / ".venv").mkdir(parents=True)
    (clone / "Makefile").touch()
    (clone / ".venv" / ".made-with").write_text(f"{clone} 3.11\n")
    monkeypatch.setattr(sys, "prefix", str(clone / ".venv"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert how_to_install("rabbitmq") == f"make -C '{clone}' setup EXTRAS=rabbitmq"
    monkeypatch.chdir(clone)
    assert how_to_install("two") == "make setup EXTRAS=two"


def test_the_command_is_for_the_interpreter_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/my tools/bin/python")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    assert how_to_install("rabbitmq") == "'/opt/my tools/bin/python' -m pip install 'pika<2,>=1.4'"
    assert how_to_install("two").endswith(" -m pip install 'a[b]>=1' c")


def test_without_pip_or_with_nothing_known_it_is_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert how_to_install("wax") == "install Dragoman with its extra wax"
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert how_to_install("rabbitmq") == "install Dragoman with its extra rabbitmq"
