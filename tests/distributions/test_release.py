"""What a release consists of."""

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from distributions import release
from tests.conftest import ROOT


@pytest.mark.slow
def test_the_sources_are_what_a_wheel_is_built_from(tmp_path: Path) -> None:
    with tarfile.open(release.build_sources(tmp_path)) as packed:
        names = [Path(name).parts[1:] for name in packed.getnames()]
    assert {parts[0] for parts in names} == {
        *("gateway", "adapters", "mediation", "filters"),
        *("pyproject.toml", "hatch_build.py", ".gitignore", "PKG-INFO"),
        *("README.md", "CHANGELOG.md", "LICENSE", "NOTICE"),
    }
    assert ("filters", "matching", "kernel", "kernel.pyx") in names
    assert ("gateway", "web", "swagger_ui", "swagger-ui-bundle.js") in names
    assert not [parts for parts in names if "tests" in parts or parts[-1].endswith((".so", ".pyc"))]


def test_checksums_are_read_by_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"1")
    release.write_checksums(tmp_path)
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "one").write_bytes(b"2")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_pythons_are_found_where_they_are() -> None:
    found = dict(release.pythons())
    assert set(found) == {11, 12, 13}
    python = found[sys.version_info.minor]
    assert python is not None
    asked = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout
    assert asked.startswith(f"Python 3.{sys.version_info.minor}.")


@pytest.mark.nightly
def test_a_release_is_built_whole(tmp_path: Path) -> None:
    release.main([str(tmp_path)])
    names = {path.name for path in tmp_path.iterdir()}
    wheels = {name for name in names if name.startswith("dragoman-0") and name.endswith(".whl")}
    assert len(wheels) == sum(python is not None for _, python in release.pythons())
    assert all("manylinux" in name for name in wheels)
    assert {"sbom.cdx.json", "NOTICE", "SHA256SUMS", "dragoman-0.1.0.tgz"} < names
    for line in (tmp_path / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == digest
    for name in wheels:
        inside = zipfile.ZipFile(tmp_path / name).namelist()
        assert not [one for one in inside if one.startswith(("tests/", "filters/matching/kernel/"))]
        assert "gateway/web/swagger_ui/swagger-ui-bundle.js" in inside


OTHERS = ["5.4.0", "6.0.0", "6.1.2"]
"""Versions of lxml with another layout, with another libxml2, and with the same."""


@pytest.mark.nightly
@pytest.mark.parametrize("version", OTHERS)
def test_another_lxml_has_the_reference_engine(version: str, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--target", tmp_path, f"lxml=={version}"], check=True)
    script = (
        "from lxml import etree; from filters import Event, Filter, FilterSet, engine, engine_note;"
        "print(etree.__version__); print(engine()); print(engine_note())"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    found = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    told, engine, note = found.stdout.splitlines()
    assert (told, engine) == (version, "reference")
    assert f"this is lxml {version}" in note and "install Dragoman again" in note


@pytest.mark.nightly
def test_a_newcomer_sees_an_event_cross(tmp_path: Path) -> None:
    python = dict(release.pythons())[sys.version_info.minor]
    assert python is not None
    wheel = release.build_wheel(release.build_sources(tmp_path), python, tmp_path)
    release.run(python, "-m", "venv", tmp_path / "try")
    release.run(tmp_path / "try" / "bin" / "pip", "install", "--quiet", wheel)
    demo = [str(tmp_path / "try" / "bin" / "dragoman"), "demo"]
    found = subprocess.run(demo, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "know nothing of each other" in found.stdout + found.stderr
