"""A process that can be killed: that it starts, answers, ends, and is ended."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from filters.processes import Broken, Killable, NotStarted
from tests.rigs.waiting import wait_until

ECHO = """
import os, sys
os.write(1, b"ready")
while octets := os.read(0, 65536):
    if octets == b"environment":
        octets = " ".join(sorted(os.environ)).encode().ljust(100)
    elif octets == b"die":
        os.write(1, b"al")
        sys.exit()
    elif octets == b"sleep":
        continue
    os.write(1, octets)
"""
SECONDS = 30.0


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Killable]:
    (tmp_path / "killable_echo.py").write_text(ECHO)
    monkeypatch.syspath_prepend(tmp_path)
    process = Killable("killable_echo", {"SAID": "1"}, b"ready")
    yield process
    process.close()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_it_answers_and_ends_with_its_object(echo: Killable) -> None:
    echo.write(b"abcdef", SECONDS)
    assert (echo.read(2, SECONDS), echo.read(4, SECONDS)) == (b"ab", b"cdef")
    pid = echo.pid
    assert pid is not None
    echo.close()
    assert is_gone(pid)
    echo.write(b"x", SECONDS)
    assert echo.read(1, SECONDS) == b"x"
    assert echo.pid not in (None, pid)


def test_it_knows_nothing_but_what_it_is_given(
    echo: Killable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_STORE", "secret")
    echo.write(b"environment", SECONDS)
    # LC_CTYPE is Python's own.
    assert set(echo.read(100, SECONDS).decode().split()) <= {"LC_CTYPE", "PYTHONPATH", "SAID"}


def test_what_is_not_answered_in_time(echo: Killable) -> None:
    echo.write(b"sleep", SECONDS)
    with pytest.raises(Broken):
        echo.read(1, 0.01)
    echo.close()
    echo.write(b"y", SECONDS)
    assert echo.read(1, SECONDS) == b"y", "nothing of the former is left"


def test_a_process_that_dies(echo: Killable) -> None:
    echo.write(b"die", SECONDS)
    with pytest.raises(Broken):
        echo.read(3, SECONDS)
    wait_until(echo.has_died)
    echo.close()
    assert not echo.has_died(), "there is none"
    echo.start()
    assert echo.pid is not None
    os.kill(echo.pid, signal.SIGKILL)
    wait_until(echo.has_died)


def test_one_that_does_not_read(echo: Killable) -> None:
    echo.start()
    assert echo.pid is not None
    os.kill(echo.pid, signal.SIGSTOP)
    for each in (False, True):
        with pytest.raises(Broken):
            echo.write(bytes(2**21), 0.05, each=each)


@pytest.mark.parametrize("executable", ["/nowhere/python", "/bin/false"])
def test_one_that_does_not_start(
    echo: Killable, executable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(NotStarted):
        echo.start()
    assert echo.pid is None
