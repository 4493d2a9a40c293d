"""The audit log is whole, or says where it is not."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.security import audit
from gateway.security.audit import FIRST, AuditLog, AuditUnusable, read_records, verify
from gateway.security.identify import anonymous

MOLE, OTHER = anonymous("192.0.2.1", trusted=False), anonymous("192.0.2.2", trusted=False)


def opened(path: Path) -> AuditLog:
    log = AuditLog(path)
    log.open()
    return log


def written(path: Path, number: int = 5) -> list[str]:
    """The lines of a log with so many records."""
    log = opened(path)
    for each in range(number):
        log.note(MOLE, "Subscribe", f"subscription {each}")
    log.write()
    return path.read_text().splitlines(keepends=True)


def test_records_follow_one_another(tmp_path: Path) -> None:
    """Over restarts, too."""
    path = tmp_path / "audit.jsonl"
    assert verify_empty(path) == (0, FIRST)
    first = written(path)
    again = written(path)
    assert again[:5] == first
    number, last = verify(path)
    assert (number, last) == (10, json.loads(again[-1])["hash"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(again[3]).items() >= {
        "number": 4, "who": MOLE.owner, "from": MOLE.address, "did": "Subscribe",
        "what": "subscription 3", "result": "done",
    }.items()  # fmt: skip


def verify_empty(path: Path) -> tuple[int, str]:
    opened(path)
    return verify(path)


def test_any_text_can_be_noted(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    for text in ("\ud800", "\x00\n", "ö \N{PILE OF POO}", '"'):
        log.note(MOLE, text, text)
    log.write()
    assert verify(path)[0] == 4


CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "a record removed": lambda lines: lines[:2] + lines[3:],
    "the first removed": lambda lines: lines[1:],
    "two exchanged": lambda lines: [lines[1], lines[0], *lines[2:]],
    "one twice": lambda lines: [lines[0], *lines],
    "another user": lambda lines: [lines[0].replace("192.0.2.1", "192.0.2.9"), *lines[1:]],
    "another hash": lambda lines: [*lines[:-1], lines[-1].replace('"hash":"', '"hash":"0')],
    "no record": lambda lines: [*lines[:3], "[]\n", *lines[4:]],
    "half a line": lambda lines: [*lines[:4], lines[4][:20]],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_was_changed_is_found(
    tmp_path: Path, change: Callable[[list[str]], list[str]]
) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text("".join(change(written(path))))
    with pytest.raises(AuditUnusable, match="line "):
        verify(path)


@settings(max_examples=30)
@given(st.integers(0, 2000), st.integers(1, 255))
def test_no_byte_can_be_another(at: int, by: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.jsonl"
        written(path)
        octets = bytearray(path.read_bytes())
        octets[at % len(octets)] ^= by
        path.write_bytes(octets)
        with pytest.raises(AuditUnusable):
            verify(path)


def test_what_a_crash_left_of_a_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    lines = written(path)
    path.write_text("".join(lines) + lines[0][:30])
    written(path, 1)
    assert verify(path)[0] == 6


def test_a_last_line_that_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text("something else\n")
    with pytest.raises(AuditUnusable, match="no record"):
        opened(path)


def test_what_cannot_be_written_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk nothing is half written, and nothing is lost when there is room again."""
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    log.note(MOLE, "Subscribe")
    log.write()
    whole = path.read_bytes()
    log.note(MOLE, "Unsubscribe")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        log.write()
    assert (path.read_bytes(), log.failures) == (whole, 1)
    log.write()
    assert verify(path)[0] == 2


def test_a_refusal_again_and_again_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    for _ in range(1000):
        log.note(MOLE, "Publish", "", "refused: You have no right.")
    log.note(OTHER, "Publish", "", "refused: You have no right.")
    log.write()
    assert len(list(read_records(path))) == 2
    monkeypatch.setattr(audit, "AGAIN", 0.0)
    log.note(MOLE, "Publish", "", "refused: You have no right.")
    log.write()
    assert [record.get("again") for record in read_records(path)] == [None, None, 999, None]


def test_more_than_can_wait_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "WAITING", 10)
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    for each in range(15):
        log.note(MOLE, "Subscribe", str(each))
    log.write()
    assert [record.get("lost") for record in read_records(path)][-1] == 5
    assert verify(path)[0] == 11
