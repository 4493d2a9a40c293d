"""Transports of other packages: found by scheme, checked, made; what is wrong is one line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.egress import Target
from gateway.egress.plugins import PluggedScheme, TransportError, load_transport

MODULE = """
class Good:
    api_version = 1

    @classmethod
    def from_setup(cls, setup):
        made = cls()
        made.setup = setup
        return made

    def target(self, address): ...
    async def send(self, request): ...
    async def close(self): ...

class Old(Good):
    api_version = 0

class Mute(Good):
    close = None

class Picky(Good):
    @classmethod
    def from_setup(cls, setup):
        raise ValueError(f"no user for {setup.settings['password']}")

a_number = 7
"""
ENTRY_POINTS = """
[dragoman.transports]
post = doves:Good
roc = doves:Old
mute = doves:Mute
picky = doves:Picky
number = doves:a_number
dodo = doves:Dodo
wanting = doves_of_wax:Transport
falling = doves_that_fall:Transport
http = doves:Good
twin = doves:Good
"""
TWIN = """
[dragoman.transports]
twin = pigeons:Good
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Distributions with transports, as pip would leave them."""
    (tmp_path / "doves.py").write_text(MODULE)
    (tmp_path / "doves_of_wax.py").write_text("import wax_of_no_bee\n")
    (tmp_path / "doves_that_fall.py").write_text("1 / 0\n")
    for name, text in (("doves", ENTRY_POINTS), ("pigeons", TWIN)):
        metadata = tmp_path / f"{name}-1.0.dist-info"
        metadata.mkdir()
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        (metadata / "METADATA").write_text(about)
        (metadata / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("doves", None)


def reach(target: Target, address: str) -> bool:
    return False


def test_one_that_is_good(installed: None) -> None:
    made = load_transport(PluggedScheme(scheme="post", settings={"a": "b"}), reach)
    setup = made.setup  # type: ignore[attr-defined]
    assert (setup.scheme, setup.settings, setup.may_reach) == ("post", {"a": "b"}, reach)


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        ("pots", "no transport has the scheme 'pots'; did you mean post\\? installed: .*http, "),
        ("http", "http: is Dragoman's own, and needs no row"),
        ("mailto", "mailto: is Dragoman's own"),
        ("roc", "roc: speaks version 0 of the transport protocol, this Dragoman speaks 1"),
        ("mute", "mute: is not a transport: doves:Mute has no close$"),
        ("number", "number: speaks version None"),
        ("dodo", "dodo: cannot be loaded: AttributeError"),
        ("wanting", "wanting: needs wax_of_no_bee, which is not installed: pip install 'doves'"),
        ("falling", "falling: cannot be loaded: ZeroDivisionError"),
        ("twin", "twin: is brought by doves 1.0 and pigeons 1.0: uninstall all but one"),
        ("picky", "picky: does not take its settings: ValueError: no user for \\.\\.\\.$"),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_what_cannot_be_loaded(installed: None, scheme: str, text: str, again: bool) -> None:
    row = PluggedScheme(scheme=scheme, settings={"password": "s3cret"})
    for _ in range(1 + again):
        with pytest.raises(TransportError, match=f"^transports: {text}") as caught:
            load_transport(row, reach)
    assert "s3cret" not in str(caught.value) and "\n" not in str(caught.value)
