"""The audit log is whole, or says where it is not."""

import asyncio
import base64
import json
import os
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.security import audit
from gateway.security.audit import AuditLog, ReceiptNotKept
from gateway.security.audit_chain import (
    FIRST,
    REMOVED,
    AuditUnusable,
    read_records,
    segments,
    verify,
)
from gateway.security.identify import anonymous
from gateway.security.principals import OF_NAMED, OF_TRUSTED, Limits, Principal, owner_in
from mediation.model.messages import Notification
from tests.rigs.document_metadata import document, submission
from tests.rigs.waiting import until

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
    with pytest.raises(AuditUnusable, match=r"line |are missing"):
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
    """However much of it there is."""
    path = tmp_path / "audit.jsonl"
    for number, length in enumerate((1, 3 * 2**20)):
        lines = written(path)
        path.write_text("".join(lines) + lines[0][:30] + "x" * length)
        written(path, 1)
        assert verify(path)[0] == 6 * (number + 1)


def test_a_last_line_that_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text("something else\n")
    with pytest.raises(AuditUnusable, match="no record"):
        opened(path)


def test_a_last_record_of_any_length_is_read_again(tmp_path: Path) -> None:
    """After a kill it may be the last one; so may that of a complete segment."""
    path = tmp_path / "audit.jsonl"
    for length in (2**16, 3 * 2**20):
        log = opened(path)
        log.note(MOLE, "Subscribe")
        log.note(MOLE, "Subscribe", "x" * length)
        log.write()
        log = opened(path)
        log.note(MOLE, "Unsubscribe")
        log.write()
    assert verify(path)[0] == 6


def test_documents_leave_room_for_what_people_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event that goes to thousands keeps neither records nor receipts out; the first are named,
    with records that are bounded whatever strangers write."""
    monkeypatch.setattr(audit, "DOCUMENTS_WAITING", 5)
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, documents=True)
    log.open()
    payload = submission(*(document("\u00e9" * 4000, id=f"{n}.{9:04000}") for n in range(200)))
    event = Notification("1", "urn:registry", payload.encode(), datetime.now(UTC))
    for _ in range(8):
        log.note_documents("gateway", "", audit.DELIVERED, event, to="http://192.0.2.3/")
    log.note(MOLE, "Subscribe")
    log.write()
    *delivered, subscribed, lost = read_records(path)
    assert (len(delivered), subscribed["did"], lost["lost"]) == (5, "Subscribe", 3)
    assert all(len(json.dumps(one)) < 2**18 for one in delivered)


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


async def test_a_receipt_is_on_the_disk_when_it_is_kept(tmp_path: Path) -> None:
    """Each of many at once; in the chain."""
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    running = asyncio.create_task(log.run())
    try:

        async def keep(number: int) -> None:
            await log.keep("cert:CN=mole", "192.0.2.1", "gave", f"{number}", b"%d" % number)
            kept = [one for one in read_records(path) if one["what"] == f"{number}"]
            assert [base64.b64decode(one["receipt"]) for one in kept] == [b"%d" % number]

        await asyncio.gather(*map(keep, range(20)))
    finally:
        running.cancel()
    assert verify(path)[0] == 20


async def test_a_receipt_that_a_write_took_along_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to be written for it then."""
    path, begun, going = tmp_path / "audit.jsonl", threading.Event(), threading.Event()
    log = opened(path)
    complete = AuditLog._complete_segment

    def completed(self: AuditLog) -> None:
        begun.set()
        going.wait(30)
        complete(self)

    monkeypatch.setattr(AuditLog, "_complete_segment", completed)
    running = asyncio.create_task(log.run())
    try:
        first = asyncio.create_task(log.keep("mole", "192.0.2.1", "gave", "1", b"1"))
        await asyncio.to_thread(begun.wait, 30)
        second = asyncio.create_task(log.keep("mole", "192.0.2.1", "gave", "2", b"2"))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.01, going.set)
        await asyncio.gather(first, second)
    finally:
        running.cancel()
    assert verify(path)[0] == 2


async def test_a_receipt_that_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told that it is; when the disk is there again, others are."""
    log = opened(tmp_path / "audit.jsonl")
    running = asyncio.create_task(log.run())

    def full(*_: object) -> None:
        raise OSError("full")

    try:
        with monkeypatch.context() as patch:
            patch.setattr(audit, "_append", full)
            patch.setattr(audit, "KEPT_WITHIN", 0.05)
            with pytest.raises(ReceiptNotKept, match="cannot be kept now"):
                await log.keep("cert:CN=mole", "192.0.2.1", "gave", "1", b"1")
            assert log.failures < 5  # It is not tried without a pause.
            assert not log._keeping  # Nor does anything else go on without one.
        await log.keep("cert:CN=mole", "192.0.2.1", "gave", "2", b"2")
        monkeypatch.setattr(audit, "WAITING", 0)
        with pytest.raises(ReceiptNotKept, match="cannot be kept now"):
            await log.keep("cert:CN=mole", "192.0.2.1", "gave", "3", b"3")
    finally:
        running.cancel()
    assert [one["what"] for one in read_records(log.path)] == ["2"]


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


def test_a_flood_of_different_refusals_is_summed_up(tmp_path: Path) -> None:
    """It fills no disk; who is refused elsewhere meanwhile is recorded all the same."""
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    for each in range(20_000):
        log.note(MOLE, "Publish", f"to {each}", "refused: You have no right.")
    log.note(OTHER, "Publish", "", "refused: You have no right.")
    log.record_counts()
    log.write()
    records = list(read_records(path))
    assert len(records) < 510 and path.stat().st_size < 250_000
    assert [one["from"] for one in records][-2:] == [OTHER.address, ""]
    assert records[-1]["again"] == 20_000 - (len(records) - 2)
    assert records[-1]["what"] == f"{MOLE.address}: {records[-1]['again']}"
    log.record_counts()
    assert not log._waiting, "nothing since"


def test_refusals_of_many_addresses_are_bounded_together(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    for each in range(6000):
        stranger = anonymous(f"10.0.{each // 250}.{each % 250}", trusted=False)
        log.note(stranger, "Publish", "", "refused: You have no right.")
    log.write()
    assert 3000 <= sum(1 for _ in read_records(path)) < 3100
    assert log._unrecorded.total > 2800
    assert len(log._unrecorded.named) <= audit.MOST_SUMMED


def of(tenant: str, name: str, limits: Limits = OF_NAMED) -> Principal:
    return Principal("192.0.2.9", owner_in(tenant, f"user:{name}"), "", limits, tenant=tenant)


def test_a_flood_of_changes_is_summed_up(tmp_path: Path) -> None:
    """By who may, also under many names; others' are recorded, of other tenants, of operators."""
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    most = int(audit.DONE_EACH_AT_ONCE + audit.DONE_ALL_AT_ONCE) + 100
    for each in range(9000):
        log.note(of("acme", "mole"), "Renew", f"to {each}")
    for each in range(9000):
        log.note(of("acme", f"m{each}"), "Renew", "\x01" * 2600)
        if not each % 1000:
            log.write()
    others = (of("zeta", "a"), of("", "b"), MOLE, of("", "boss", OF_TRUSTED))
    for other in others:
        log.note(other, "Renew")
    for _ in range(3000):
        log.note(of("", "boss", OF_TRUSTED), "Delete")
    log.record_counts()
    log.write()
    records = list(read_records(path))
    mine = [one for one in records if one["who"].startswith(owner_in("acme", "user:m"))]
    assert len(mine) < most and path.stat().st_size < 12e6
    assert all(len(one["what"]) <= 256 for one in mine)
    assert {other.owner for other in others} <= {one["who"] for one in records}
    assert sum(one["did"] == "Delete" for one in records) == 3000, "of operators all"
    [summed] = [one for one in records if one["did"] == audit.DONE_UNRECORDED]
    assert summed["again"] == 18_000 - len(mine)
    first = f"{owner_in('acme', 'user:mole')} (Renew): "
    assert summed["what"].startswith(first)


def test_a_flood_of_intents_is_summed_up(tmp_path: Path) -> None:
    """What becomes of each that has a record has one, too, of both together as many as of others;
    of what is counted there is none."""
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    for each in range(3000):
        if log.intend(of("acme", "mole"), "DELETE", f"x{each}"):
            log.settle(of("acme", "mole"), "DELETE", f"x{each}", "refused: 404 None")
    for _ in range(1500):
        assert log.intend(of("", "boss", OF_TRUSTED), "DELETE", "x"), "of operators all"
    log.record_counts()
    log.write()
    records = list(read_records(path))
    mine = [one for one in records if one["who"] == owner_in("acme", "user:mole")]
    asked = [one["what"] for one in mine if one["result"] == audit.ASKED]
    ended = [one["what"] for one in mine if one["result"] != audit.ASKED]
    assert asked == ended and len(mine) < audit.DONE_EACH_AT_ONCE + 100
    [summed] = [one for one in records if one["did"] == audit.DONE_UNRECORDED]
    assert summed["again"] == 3000 - len(asked)


async def test_a_full_disk_stops_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may change nothing makes no room on it. The line is there once the disk has room."""
    log = opened(tmp_path / "audit.jsonl")
    running = asyncio.create_task(log.run())

    def full(*_: object) -> None:
        raise OSError("full")

    try:
        with monkeypatch.context() as patch:
            patch.setattr(audit, "_append", full)
            patch.setattr(audit, "KEPT_WITHIN", 0.05)
            for each in range(2):
                assert log.intend(MOLE, "POST", str(each))
                await log.on_disk()
            assert log.failing
        await until(lambda: not log._waiting)
        assert log.intend(MOLE, "POST", "2")
        await log.on_disk()
        assert [one["what"] for one in read_records(log.path)] == ["0", "1", "2"]
    finally:
        running.cancel()


@given(st.text(max_size=3000), st.text(max_size=3000), st.booleans())
def test_no_record_is_long(what: str, result: str, refused: bool) -> None:
    """Whatever an id of a request has, which is noted before it is looked up."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.jsonl"
        log = opened(path)
        log.note(MOLE, "Renew", what, f"refused: {result}" if refused else result)
        log.write()
        [record] = read_records(path)
        assert len(record["what"]) <= 256 and len(record["result"]) <= 1024
        assert path.stat().st_size < 20_000


def test_a_clock_that_jumps_removes_no_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    days_of(path, monkeypatch, 9, days=30)
    log = AuditLog(path, days=30)
    log.open()
    for day in ("2026-12-24", "2026-01-10"):
        clock(monkeypatch, day)
        log.note(MOLE, "Subscribe", day)
        log.write()
    assert next(read_records(path))["number"] == 1
    assert verify(path)[0] == 20


def test_more_than_can_wait_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "WAITING", 10)
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    for each in range(15):
        log.note(MOLE, "Subscribe", str(each))
    log.write()
    assert [record.get("lost") for record in read_records(path)][-1] == 5
    assert verify(path)[0] == 11


def clock(monkeypatch: pytest.MonkeyPatch, day: str) -> None:
    """Let records be of *day*, and what is old be counted from it."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Clock":
            return cls.fromisoformat(f"{day}T12:00:00+00:00")

    monkeypatch.setattr(audit, "datetime", Clock)


def days_of(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, days: int = audit.DAYS
) -> None:
    """Write a log of two records a day."""
    log = AuditLog(path, days)
    log.open()
    for day in range(1, number + 1):
        clock(monkeypatch, f"2026-01-{day:02}")
        for _ in range(2):
            log.note(MOLE, "Subscribe", f"on day {day}")
        log.write()


def test_a_day_is_a_segment_and_the_chain_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    days_of(path, monkeypatch, 3)
    names = [one.name for one in segments(path)]
    assert names == ["audit.000000000001.jsonl", "audit.000000000003.jsonl"]
    assert [one["number"] for one in read_records(path)] == [1, 2, 3, 4, 5, 6]
    days_of(path, monkeypatch, 1)  # Started anew, by a clock that went back.
    assert verify(path)[0] == 8
    path.rename(tmp_path / "audit.000000000007.jsonl")  # Killed between the two files.
    days_of(path, monkeypatch, 1)
    assert verify(path)[0] == 10


def test_a_file_that_was_moved_away(tmp_path: Path) -> None:
    """As by logrotate: the chain goes on in a new file, and so it does after a restart."""
    log = opened(tmp_path / "audit.jsonl")
    for number in range(3):
        log.note(MOLE, "Subscribe", str(number))
        log.write()
        assert not log.failing
        if number == 1:
            log.path.rename(tmp_path / "audit.jsonl.1")
    [moved] = [*read_records(tmp_path / "audit.jsonl.1")][-1:]
    [record] = read_records(log.path)
    assert (record["number"], record["previous"]) == (3, moved["hash"])
    again = opened(log.path)
    again.note(MOLE, "Subscribe", "4")
    again.write()
    assert [one["number"] for one in read_records(log.path)] == [3, 4]


def test_a_large_file_is_a_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "SEGMENT", 1000)
    path = tmp_path / "audit.jsonl"
    for _ in range(4):
        written(path)
    assert len(segments(path)) == 3 and verify(path)[0] == 20


def test_old_segments_are_removed_and_that_is_proved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    days_of(path, monkeypatch, 9, days=3)
    first = next(read_records(path))
    assert first["what"] == "on day 6" and first["number"] > 10
    number, last = verify(path)
    assert number == sum(1 for _ in read_records(path))
    records = list(read_records(path))
    removals = [one for one in records if one["did"] == REMOVED]
    assert removals and removals[-1]["last"] == first["previous"]
    assert last == records[-1]["hash"]


@pytest.mark.parametrize("which", [0, 1])
def test_a_segment_that_somebody_removed_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    path = tmp_path / "audit.jsonl"
    days_of(path, monkeypatch, 9, days=3)
    segments(path)[which].unlink()
    with pytest.raises(AuditUnusable, match=r"are missing|does not follow"):
        verify(path)


def test_what_cannot_be_written_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    days_of(path, monkeypatch, 5, days=90)
    before = list(segments(path))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    log = AuditLog(path, days=1)
    log.open()
    clock(monkeypatch, "2026-02-01")
    log.note(MOLE, "Subscribe")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        log.write()
    assert log.failures == 1 and set(before) <= set(segments(path))
    log.write()
    assert [one.name for one in segments(path)] == ["audit.000000000009.jsonl"]
    verify(path)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("removed", [0, 1, 2])
def test_a_kill_between_removals_breaks_no_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    path = tmp_path / "audit.jsonl"
    days_of(path, monkeypatch, 5, days=90)
    log = AuditLog(path, days=1)
    log.open()
    clock(monkeypatch, "2026-02-01")
    log.note(MOLE, "Subscribe")
    unlink, left = Path.unlink, [removed]

    def killed(one: Path, missing_ok: bool = False) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        unlink(one, missing_ok=missing_ok)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "unlink", killed)
        log.write()
    assert len(segments(path)) == 5 - removed
    verify(path)
    days_of(path, monkeypatch, 1)
    verify(path)


def test_a_removal_is_recorded_also_where_nothing_more_can_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    days_of(path, monkeypatch, 3, days=90)
    monkeypatch.setattr(audit, "WAITING", 1)
    log = AuditLog(path, days=1)
    log.open()
    clock(monkeypatch, "2026-02-01")
    log.note(MOLE, "Subscribe")
    log.write()
    assert len(segments(path)) == 1
    verify(path)


def test_a_segment_that_cannot_be_read_hides_no_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    days_of(path, monkeypatch, 4, days=90)
    whole = segments(path)[1].read_bytes()
    segments(path)[1].write_bytes(b"something else\n")
    log = AuditLog(path, days=1)
    log.open()
    clock(monkeypatch, "2026-02-01")
    for _ in range(2):
        log.note(MOLE, "Subscribe")
        log.write()
    assert log.failures == 1
    second = min(tmp_path.glob("audit.0*"))
    assert second.read_bytes() == b"something else\n"
    second.write_bytes(whole)
    verify(path)


def test_a_write_that_nobody_waits_for_is_not_overtaken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at a stop, which gives up waiting for the last write, and writes itself."""
    path = tmp_path / "audit.jsonl"
    log = opened(path)
    log.note(MOLE, "Subscribe")
    flush, slow, go_on = os.fsync, threading.Event(), threading.Event()

    def flushing(descriptor: int) -> None:
        if not slow.is_set():
            slow.set()
            go_on.wait(10)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", flushing)
    first = threading.Thread(target=log.write)
    first.start()
    assert slow.wait(10)
    log.note(MOLE, "Unsubscribe")
    last = threading.Thread(target=log.write)
    last.start()
    last.join(0.05)  # It would be through by then.
    go_on.set()
    first.join(10)
    last.join(10)
    assert verify(path)[0] == 2
