"""From a URL to an adapter, third parties' included."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters import AdapterError, load, schemes
from adapters.embedded import EmbeddedAdapter
from adapters.memory import MemoryAdapter
from adapters.rabbitmq import RabbitMQAdapter

MODULE = """
from dataclasses import replace
from adapters.memory import MemoryAdapter

class Good(MemoryAdapter):
    pass

class Old(MemoryAdapter):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.capabilities = replace(self.capabilities, api_version=0)
"""

ENTRY_POINTS = """
[dragoman.adapters]
carrier-pigeon = pigeons:Good
roc = pigeons:Old
dodo = pigeons:Dodo
wanting = pigeons_of_wax:Adapter [wax]
memory = pigeons:Good
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A distribution with adapters, as pip would leave it."""
    folder = tmp_path / "site"
    metadata = folder / "pigeons-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "pigeons.py").write_text(MODULE)
    (folder / "pigeons_of_wax.py").write_text("import wax_of_no_bee\n")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeons\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(folder)
    yield tmp_path
    sys.modules.pop("pigeons", None)


def test_ours_are_known_without_being_loaded() -> None:
    assert {"amqp", "amqps", "embedded", "memory"} <= set(schemes())


def test_ours(tmp_path: Path) -> None:
    assert isinstance(load("embedded:", data=tmp_path, settings={}), EmbeddedAdapter)
    assert isinstance(load("MEMORY:", data=tmp_path, settings={}), MemoryAdapter)
    assert isinstance(load("amqp://host", data=tmp_path, settings={}), RabbitMQAdapter)
    assert isinstance(load("amqps://host/vhost", data=tmp_path, settings={}), RabbitMQAdapter)


def test_those_of_others(installed: Path) -> None:
    assert "carrier-pigeon" in schemes()
    adapter = load("carrier-pigeon://roof", data=installed, settings={})
    assert type(adapter).__name__ == "Good"
    assert type(load("memory:", data=installed, settings={})) is MemoryAdapter


@pytest.mark.parametrize(
    ("url", "message"),
    [
        pytest.param("embeded:", r"'embeded'; did you mean embedded:\?", id="misspelt"),
        pytest.param("kafka://user:secret@host", "installed: .*embedded:, memory:", id="unknown"),
        pytest.param("embedded", "has no scheme", id="no scheme"),
        pytest.param("", "has no scheme", id="nothing"),
        pytest.param("roc:", "speaks version 0 of the adapter protocol", id="another version"),
        pytest.param("dodo:", "cannot be loaded", id="no such class"),
        pytest.param(
            "wanting:",
            r"needs wax_of_no_bee, which is not installed: pip install 'pigeons\[wax\]'",
            id="no library",
        ),
    ],
)
def test_what_cannot_be_loaded(installed: Path, url: str, message: str) -> None:
    with pytest.raises(AdapterError, match=message) as caught:
        load(url, data=installed, settings={})
    assert "secret" not in str(caught.value)
