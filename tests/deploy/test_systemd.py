"""The service of systemd, as far as it can be tried without running systemd."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.server.process import IN_ALL
from gateway.settings.settings import read_settings
from tests.conftest import ROOT

FOLDER = ROOT / "deploy" / "systemd"
UNIT = FOLDER / "dragoman.service"
EXPOSURE = 16
"""Tenths of what `systemd-analyze security` makes of it; what is below 20 it calls OK."""
needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd is not installed"
)


def read_unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # as its documentation has it
    unit.read_string(UNIT.read_text())
    return unit


def run(*command: str | Path) -> str:
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout + found.stderr


@needs_systemd
def test_systemd_understands_it(tmp_path: Path) -> None:
    text = re.sub(r"^ExecStart=.*$", "ExecStart=/bin/true", UNIT.read_text(), flags=re.MULTILINE)
    (tmp_path / "dragoman.service").write_text(text)
    assert run("systemd-analyze", "verify", tmp_path / "dragoman.service") == ""
    security = ("security", "--offline=yes", f"--threshold={EXPOSURE}")
    assert "OK" in run("systemd-analyze", *security, UNIT)


@needs_systemd
def test_the_user_and_the_folders_are_made(tmp_path: Path) -> None:
    for name in ("sysusers", "tmpfiles"):
        (tmp_path / "usr" / "lib" / f"{name}.d").mkdir(parents=True)
        shutil.copy(FOLDER / f"{name}.d" / "dragoman.conf", tmp_path / f"usr/lib/{name}.d")
    (tmp_path / "etc").mkdir()
    run("systemd-sysusers", f"--root={tmp_path}")
    made = (tmp_path / "etc" / "passwd").read_text()
    [(user, home)] = re.findall(r"^(\w+):.*:([^:]+):[^:]+$", made, re.MULTILINE)
    service = read_unit()["Service"]
    assert user == service["User"] == service["Group"]
    environment = dict(pair.split("=") for pair in service["Environment"].split())
    assert home == environment["DRAGOMAN_DATA"] == f"/var/lib/{service['StateDirectory']}"
    folders = re.findall(r"^d (\S+)", (FOLDER / "tmpfiles.d/dragoman.conf").read_text(), re.M)
    assert folders == [service["WorkingDirectory"], home]


def test_a_gateway_gets_the_time_to_stop() -> None:
    assert int(read_unit()["Service"]["TimeoutStopSec"]) > IN_ALL


def test_a_gateway_takes_its_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for pair in read_unit()["Service"]["Environment"].split():
        name, _, value = pair.partition("=")
        monkeypatch.setenv(name, value)
    assert read_settings().data == Path("/var/lib/dragoman")
