"""The compiled engine is kept, and taken again for the same sources alone."""

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT

pytest.importorskip("hatchling")
pytest.importorskip("Cython")


class Builder:
    """hatch_build.py with a compiler that takes no time."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.compiled = 0

    def build(self, root: Path) -> bytes:
        return bytes(self.module.build(root).read_bytes())

    def compile(self, root: Path, folder: Path) -> Path:
        self.compiled += 1
        built = folder / "_kernel.cpython-xyz.so"
        built.write_bytes(b"from " + (root / self.module.SOURCES / "kernel.pyx").read_bytes())
        return built


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Builder:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    builder = Builder(module)
    monkeypatch.setattr(module, "_compile", builder.compile)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return builder


def clone(folder: Path, source: bytes) -> Path:
    kernel = folder / "filters" / "matching" / "kernel"
    kernel.mkdir(parents=True)
    (kernel / "kernel.pyx").write_bytes(source)
    return folder


def test_another_clone_does_not_compile_again(builder: Builder, tmp_path: Path) -> None:
    one, same = clone(tmp_path / "one", b"A"), clone(tmp_path / "same", b"A")
    assert builder.build(one) == builder.build(one) == builder.build(same) == b"from A"
    assert builder.compiled == 1
    assert [path.suffix for path in (same / "filters" / "matching").glob("*.so")] == [".so"]
    assert builder.build(clone(tmp_path / "other", b"B")) == b"from B"
    assert builder.compiled == 2


def test_the_engine_of_another_python_stays_while_its_sources_do(
    builder: Builder, tmp_path: Path
) -> None:
    one = clone(tmp_path / "one", b"A")
    other = one / "filters" / "matching" / "_kernel.cpython-399-xyz.so"
    other.write_bytes(b"from A for another Python")
    builder.build(one)
    assert other.is_file()
    source = one / "filters" / "matching" / "kernel" / "kernel.pyx"
    source.write_bytes(b"B")
    later = other.stat().st_mtime_ns + 1_000_000
    os.utime(source, ns=(later, later))
    assert builder.build(one) == b"from B"
    assert not other.exists()


def test_other_flags_are_another_engine(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = clone(tmp_path / "one", b"A")
    builder.build(one)
    monkeypatch.setenv("CFLAGS", "-fsanitize=address")
    builder.build(one)
    assert builder.compiled == 2


def test_a_write_that_fails_leaves_nothing_under_the_name(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError("no space left")

    one = clone(tmp_path / "one", b"A")
    with monkeypatch.context() as patched, pytest.raises(OSError, match="no space"):
        patched.setattr(builder.module.os, "fsync", full)
        builder.build(one)
    assert [*tmp_path.rglob("*.so")] == [*tmp_path.rglob(".kernel-*")] == []
    assert builder.build(one) == b"from A"


def test_a_cache_that_others_can_write_to_is_not_used(builder: Builder, tmp_path: Path) -> None:
    one = clone(tmp_path / "one", b"A")
    builder.build(one)
    (kept,) = (tmp_path / "cache" / "dragoman").iterdir()
    kept.chmod(0o777)
    (kept / "_kernel.so").write_bytes(b"theirs")
    assert builder.build(one) == b"from A"


def test_the_cache_is_bounded(builder: Builder, tmp_path: Path) -> None:
    """By the engines in it: what others keep there is not counted, and stays."""
    folder = tmp_path / "cache" / "dragoman"
    for other in ("cxf", "kafka"):
        (folder / other).mkdir(parents=True)
        os.utime(folder / other, (0, 0))
    for number in range(builder.module.KEPT + 3):
        builder.build(clone(tmp_path / str(number), b"%d" % number))
    assert len([*folder.glob("*/_kernel.so")]) == builder.module.KEPT
    assert {path.name for path in folder.iterdir()} >= {"cxf", "kafka"}
