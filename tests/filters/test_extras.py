"""What a message about a missing library says."""

import importlib.util
import sys
from importlib import metadata

import pytest

from filters.extras import how_to_install

DECLARED = [
    "lxml>=6",
    "pika<2,>=1.4; extra == 'rabbitmq'",
    'a[b]>=1; extra == "two"',
    "c; extra == 'two'",
]


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _name: DECLARED)


def test_the_command_is_for_the_interpreter_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/my tools/bin/python")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    assert how_to_install("rabbitmq") == "'/opt/my tools/bin/python' -m pip install 'pika<2,>=1.4'"
    assert how_to_install("two").endswith(" -m pip install 'a[b]>=1' c")


def test_without_pip_or_with_nothing_known_it_is_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert how_to_install("wax") == "install Dragoman with its extra wax"
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert how_to_install("rabbitmq") == "install Dragoman with its extra rabbitmq"
