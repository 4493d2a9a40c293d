"""From a URL to an adapter, third parties' included."""

import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from adapters import AdapterError, Capabilities, load, schemes
from adapters.embedded import EmbeddedAdapter
from adapters.memory import MemoryAdapter
from adapters.rabbitmq import RabbitMQAdapter

MODULE = """
from dataclasses import replace
from urllib.parse import urlsplit
from adapters import Capabilities
from adapters.memory import MemoryAdapter

class Good(MemoryAdapter):
    pass

def saying(**those):
    class Saying(MemoryAdapter):
        def __init__(self, **settings):
            super().__init__(**settings)
            self.capabilities = replace(self.capabilities, **those)
    return Saying

Old = saying(api_version=0)
Greedy = saying(prefetch="64")
Empty = saying(partitions=0)
Unsure = saying(durable=None)
Learned = saying(dialects="urn:jms")
Silent = saying(reporting="up")

class Half:
    share = adopt = print

Stingy = saying(sharing=Half())

class Dumb(MemoryAdapter):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.capabilities = {"durable": True}

class Mute:
    @classmethod
    def from_url(cls, url, *, data, settings):
        return None

    start = publish = want = deliveries = close = from_url

class Nobody(MemoryAdapter):
    @classmethod
    def from_url(cls, url, *, data, settings):
        return None

class Broken(MemoryAdapter):
    @classmethod
    def from_url(cls, url, *, data, settings):
        raise ValueError(f"what is {url}?")

a_number = 7
"""

ENTRY_POINTS = """
[dragoman.adapters]
carrier-pigeon = pigeons:Good
roc = pigeons:Old
dodo = pigeons:Dodo
wanting = pigeons_of_wax:Adapter [wax]
waxen = pigeons_of_wax:Adapter
egg = pigeons_unhatched:Adapter
falling = pigeons_that_fall:Adapter
greedy = pigeons:Greedy
empty = pigeons:Empty
unsure = pigeons:Unsure
learned = pigeons:Learned
stingy = pigeons:Stingy
silent = pigeons:Silent
dumb = pigeons:Dumb
mute = pigeons:Mute
nobody = pigeons:Nobody
broken = pigeons:Broken
number = pigeons:a_number
memory = pigeons:Good
twin = pigeons:Good
"""

TWIN = """
[dragoman.adapters]
twin = doves:Dove
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A distribution with adapters, as pip would leave it."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "pigeons.py").write_text(MODULE)
    (folder / "pigeons_of_wax.py").write_text("import wax_of_no_bee\n")
    (folder / "pigeons_that_fall.py").write_text("1 / 0\n")
    for name, text in (("pigeons", ENTRY_POINTS), ("doves", TWIN)):
        metadata = folder / f"{name}-1.0.dist-info"
        metadata.mkdir(parents=True)
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        (metadata / "METADATA").write_text(about)
        (metadata / "entry_points.txt").write_text(text)
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
        pytest.param("kafka://user:secret@host", "installed: .*embedded:, .*memory:", id="unknown"),
        pytest.param("embedded", "has no scheme", id="no scheme"),
        pytest.param("", "has no scheme", id="nothing"),
        pytest.param("roc:", "speaks version 0 of the adapter protocol", id="another version"),
        pytest.param("dodo:", "cannot be loaded", id="no such class"),
        pytest.param(
            "wanting:",
            r"needs wax_of_no_bee, which is not installed: pip install 'pigeons\[wax\]'",
            id="no library of an extra",
        ),
        pytest.param("waxen:", "not installed: pip install 'pigeons'", id="no library"),
        pytest.param("egg:", "needs pigeons_unhatched, which is not", id="no such module"),
        pytest.param("falling:", "cannot be loaded: ZeroDivisionError", id="it raises"),
        pytest.param(
            "twin:",
            "brought by doves 1.0 and pigeons 1.0: uninstall all but one",
            id="two packages",
        ),
        pytest.param(
            "number:", "is not an adapter: pigeons:a_number has no from_url,", id="a number"
        ),
        pytest.param(
            "mute:", "is not an adapter: pigeons:Mute has no unwant$", id="a method is missing"
        ),
        pytest.param("nobody:", "has no adapters.Capabilities .* but None", id="nothing is made"),
        pytest.param("dumb:", "has no adapters.Capabilities .* but {", id="other capabilities"),
        pytest.param("greedy:", "says prefetch='64' of itself, .* number", id="a text"),
        pytest.param(
            "empty:", "says partitions=0 of itself, .* at least 1", id="a number too small"
        ),
        pytest.param("unsure:", "says durable=None of itself, .* True or False", id="no flag"),
        pytest.param("learned:", "says dialects='urn:jms' of itself, .* tuple", id="no tuple"),
        pytest.param(
            "stingy:", "is not an adapter: .* has no take, release, arrived", id="half shared"
        ),
        pytest.param("silent:", "says reporting='up' of itself, .* called", id="no report"),
        pytest.param(
            "broken://user:secret@host",
            "URL and settings: ValueError: what is broken://user:...@host",
            id="it cannot be made",
        ),
    ],
)
def test_what_cannot_be_loaded(installed: Path, url: str, message: str) -> None:
    with pytest.raises(AdapterError, match=message) as caught:
        load(url, data=installed, settings={})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(one.name for one in fields(Capabilities)))
def test_each_capability_has_a_type(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does not have is refused at loading, not met later."""
    wrong: Any = {name: object()}
    capabilities = replace(Capabilities(durable=True), **wrong)
    monkeypatch.setattr("adapters.memory.Capabilities", lambda **_: capabilities)
    with pytest.raises(AdapterError):
        load("memory:", data=tmp_path, settings={})
