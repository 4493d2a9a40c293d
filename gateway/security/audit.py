"""The audit log: who changed what, and who was refused, in a file that shows if it was altered.

Who changes, removes or reorders records has to write anew all that follow (`audit_chain`): keep
the hash of the last elsewhere (`dragoman audit verify` prints it), and compare.
"""

import asyncio
import base64
import contextlib
import hashlib
import os
import threading
import time
from collections import Counter, deque
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import structlog

from filters import Reason, Refused
from gateway.observing.request_ids import current_request
from gateway.security.audit_chain import (
    FIRST,
    REMOVED,
    AuditUnusable,
    cut_off_half_a_line,
    first_record,
    last_record,
    newest_record,
    segment_path,
    segments,
    write_record,
)
from gateway.security.principals import ANONYMOUS, Principal
from gateway.token_bucket import TokenBucket
from mediation.model.messages import Notification
from mediation.notification.document_metadata import RegistryObject, is_of_documents, named_in

REFUSALS = frozenset(
    {Reason.NOT_ALLOWED, Reason.NOT_IDENTIFIED, Reason.SIGNATURE_REFUSED, Reason.TOKEN_REFUSED}
)
WAITING = 10_000
"""Records that wait to be written; more are counted, and the number is recorded."""
EVERY = 0.2
"""Seconds between two writings, each of which flushes the disk once."""
AGAIN = 60.0
"""Seconds for which the same refusal of the same sender is counted instead of recorded: who tries a
thousand times fills no disk."""
EACH_A_SECOND, EACH_AT_ONCE = 0.2, 500.0
"""Different refusals of one principal that are recorded: a second, and at once."""
ALL_A_SECOND, ALL_AT_ONCE = 1.0, 3000.0
"""Those of all together: about 30 MB a day. More are counted, and a record a minute has the sum."""
SUMMED = 10
"""Addresses, or owners, that such a record names, those with the most."""
MOST_SUMMED = 4096
"""Addresses, or owners, that are told apart meanwhile."""
DONE_EACH_A_SECOND, DONE_EACH_AT_ONCE = 1.0, 1000.0
"""Changes of one principal that are recorded, unless it operates all of the gateway: a second, and
at once. So much renews 300 subscriptions every five minutes, and fills no disk."""
DONE_ALL_A_SECOND, DONE_ALL_AT_ONCE = 5.0, 5000.0
"""Those of all such principals of a tenant: about 200 MB a day. An identity provider of a tenant
gives it as many owners as it likes; what they do hides nothing of other tenants."""
LONGEST_WHAT, LONGEST_RESULT = 256, 1024
"""Characters of what a record is about, and of what came of it: both may repeat what was sent."""
TOOK_BACK = "took back: "
"""What a record did that takes back the one whose receipt has the SHA-256 ``late``: that was on the
disk when nobody waited for it any more, so that the receipt was not given."""
NOT_RECORDED, DONE_UNRECORDED = "refused more than is recorded", "changed more than is recorded"
"""What records are about that have the number of refusals, and of changes, as ``again``."""
SEGMENT = 64 * 2**20
"""Bytes after which a segment is complete; else it is with its day (UTC)."""
KEPT_WITHIN = 5.0
"""Seconds within which a receipt is on the disk, or is not given."""
DOCUMENTS_WAITING = WAITING // 2
"""Records of documents that wait at most: one event may go to thousands, and must leave room for
what people did."""
UNREAD = 32 * 2**20
"""Bytes of events that wait to be read for the documents that they name; of others that is not
noted."""
LONGEST_QUERY = 16_384
"""Characters of a subscription's filter that are noted."""
PUBLISHED, DELIVERED = "published documents' metadata", "delivered documents' metadata"
"""What records are about that IHE calls Document Metadata Publish (ITI-54) and Notify (ITI-53)."""
_PAYLOAD = "payload"
ASKED = "asked for"
"""The result of a record that is on the disk before what it is about is done: another one, of the
same request, says what became of that. Where there is none, the gateway was killed meanwhile."""
DAYS = 90
"""Days for which records are kept at least."""
_log = structlog.get_logger("dragoman.audit")


class Audit(Protocol):
    """Takes note of what people and programs did."""

    documents: bool
    """Whether publications and deliveries of documents' metadata are noted, and filters of
    subscriptions: where an audit repository of IHE gets them."""

    def note(
        self,
        principal: Principal,
        did: str,
        what: str = "",
        result: str = "done",
        *,
        query: str = "",
    ) -> None:
        """Note that *principal* did something, to *what*: an id that is no secret.

        Args:
            query: The filter of a subscription.
        """

    def note_documents(
        self, who: str, address: str, did: str, event: Notification, *, to: str = ""
    ) -> None:
        """Note that *event* was published by *who*, at *address*, or delivered *to* somebody, where
        it is documents' metadata and that is noted."""

    def intend(self, principal: Principal, did: str, what: str) -> bool:
        """Note that *principal* has asked for a change, which is to be made once `on_disk` has
        returned; whether it has a record, and what becomes of it is to have one (`settle`)."""

    def settle(self, principal: Principal, did: str, what: str, result: str) -> None:
        """Note what became of a change that has a record (`intend`)."""

    async def on_disk(self) -> None:
        """Return when what was noted is on the disk; after `KEPT_WITHIN`, and where the log cannot
        be written, all the same: who can change nothing makes no room on a full disk."""

    async def keep(self, who: str, address: str, did: str, what: str, receipt: bytes) -> None:
        """Keep a *receipt* that *who*, at *address*, gave or was given; it is on the disk on
        return.

        Raises:
            ReceiptNotKept: It is not, or it is and another record says that it came too late.
        """


class ReceiptNotKept(Refused):
    """A receipt is not in the audit log, or came too late, so it is not given."""

    def __init__(self) -> None:
        super().__init__(Reason.UNAVAILABLE, "A receipt cannot be kept now: send it again later.")


class NoAudit:
    """Where nothing is noted."""

    documents = False

    def note(
        self,
        principal: Principal,
        did: str,
        what: str = "",
        result: str = "done",
        *,
        query: str = "",
    ) -> None:
        pass

    def note_documents(
        self, who: str, address: str, did: str, event: Notification, *, to: str = ""
    ) -> None:
        pass

    def intend(self, principal: Principal, did: str, what: str) -> bool:
        return False

    def settle(self, principal: Principal, did: str, what: str, result: str) -> None:
        pass

    async def on_disk(self) -> None:
        pass

    async def keep(self, who: str, address: str, did: str, what: str, receipt: bytes) -> None:
        pass


def note_refusal(audit: Audit, principal: Principal, did: str, what: str, refused: Refused) -> None:
    """Note that *principal* was *refused* something, where it had no right to it, or its
    credentials prove nothing."""
    if refused.reason in REFUSALS:
        audit.note(principal, did, what, f"refused: {refused.text}")


NO_AUDIT = NoAudit()


class AuditLog:
    """Appends to the file at *path*, once that is open; a segment is complete each day.

    Args:
        days: For which segments are kept, counted from their last record; and so many segments are
            kept at least, whatever the clock says.
        documents: See `Audit.documents`.
    """

    def __init__(self, path: Path, days: int = DAYS, *, documents: bool = False) -> None:
        self.path = path
        self.documents = documents
        self._unread = 0
        """Bytes of events that wait to be read for the documents that they name."""
        self._days = days
        self._waiting: deque[dict[str, Any]] = deque()
        self._lost = 0
        self._refused: dict[tuple[str, ...], tuple[float, int]] = {}
        """When a refusal was recorded, and how often it came again."""
        self._each = TokenBucket(EACH_A_SECOND, EACH_AT_ONCE)
        self._all = TokenBucket(ALL_A_SECOND, ALL_AT_ONCE)
        self._done_each = TokenBucket(DONE_EACH_A_SECOND, DONE_EACH_AT_ONCE)
        self._done_all = TokenBucket(DONE_ALL_A_SECOND, DONE_ALL_AT_ONCE)
        self._unrecorded = _Sum(NOT_RECORDED)
        """Refusals, by address."""
        self._done_unrecorded = _Sum(DONE_UNRECORDED)
        """Changes, by owner and what it did."""
        self._number, self._last = 0, FIRST
        self._began = (0, "")
        """The number and the day of the first record in the file; none: it is empty."""
        self._old: deque[Path] = deque()
        """Segments that are removed once the log says so, the oldest first."""
        self._writing = threading.Lock()
        """Whoever gives up waiting for `write` does not end it: the last one, at a stop, waits."""
        self._under_way = 0
        """The first of those that wait that are being written."""
        self._moving = threading.Lock()
        """Held while that, or which of them are the first, changes."""
        self._hurry = asyncio.Event()
        """Set when somebody waits for what is written."""
        self._keeping: list[asyncio.Future[None]] = []
        self.failing = False
        """Whether the last time that it was written failed."""
        self.written = 0
        self.failures = 0

    def open(self) -> None:
        """Find the last record; the file is made, for its owner alone, where there is none.

        Raises:
            AuditUnusable: It cannot be written, or its last line is no record.
        """
        try:
            cut_off_half_a_line(self.path)
            first, last = first_record(self.path), newest_record(self.path)
            if first is not None:
                self._began = (int(first.get("number", 0)), str(first.get("time", ""))[:10])
        except OSError as error:
            raise AuditUnusable(self.path, str(error.strerror or error)) from error
        if last is not None:
            self._number, self._last = int(last.get("number", 0)), last["hash"]

    def note(
        self,
        principal: Principal,
        did: str,
        what: str = "",
        result: str = "done",
        *,
        query: str = "",
    ) -> None:
        """Note it; it is on disk within `EVERY` seconds."""
        record = _record(principal, did, what, result)
        if result.startswith("refused"):
            if not self._is_first(tuple(record.values())):
                return
        elif not self._may_record(principal, did):
            return
        if query and self.documents:
            record["query"] = query[:LONGEST_QUERY]
        self._put(_of_request(record))

    def intend(self, principal: Principal, did: str, what: str) -> bool:
        if not self._may_record(principal, did, number=2.0):  # This one, and what becomes of it.
            return False
        self._put(_of_request(_record(principal, did, what, ASKED)))
        return True

    def settle(self, principal: Principal, did: str, what: str, result: str) -> None:
        self._put(_of_request(_record(principal, did, what, result)))

    async def on_disk(self) -> None:
        if self.failing:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KEPT_WITHIN):
                await self._next_writing()

    def _next_writing(self) -> "asyncio.Future[None]":
        """What is done when all that waits now is on the disk: it is written at once."""
        written = asyncio.get_running_loop().create_future()
        self._keeping.append(written)
        self._hurry.set()
        return written

    def note_documents(
        self, who: str, address: str, did: str, event: Notification, *, to: str = ""
    ) -> None:
        """Note it, as `note` does. What documents it names is read in the thread that writes."""
        if not (self.documents and is_of_documents(event.payload)):
            return
        record: dict[str, Any] = {
            "who": who, "from": address, "did": did, "what": event.id, "result": "done", "to": to,
        }  # fmt: skip
        if len(self._waiting) >= DOCUMENTS_WAITING:
            self._lost += 1
            return
        octets = len(event.payload)
        if self._unread + octets <= UNREAD:
            self._unread += octets
            record[_PAYLOAD] = event.payload
        self._put(record)

    async def keep(self, who: str, address: str, did: str, what: str, receipt: bytes) -> None:
        text = base64.b64encode(receipt).decode()
        record = {"who": who, "from": address, "did": did, "what": what, "result": "done"}
        if len(self._waiting) >= WAITING:
            raise self._not_kept("too many records wait to be written")
        kept_record = {"time": _now(), **record, "receipt": text}
        self._waiting.append(kept_record)
        kept = self._next_writing()
        try:
            async with asyncio.timeout(KEPT_WITHIN):
                await kept
        except (TimeoutError, asyncio.CancelledError) as error:
            if kept.done() and not kept.cancelled() and isinstance(error, TimeoutError):
                return
            with contextlib.suppress(ValueError):  # It may be being written.
                self._keeping.remove(kept)
            self._take_back(kept_record, hashlib.sha256(receipt).hexdigest())
            if isinstance(error, asyncio.CancelledError):
                raise
            raise self._not_kept("it could not be written in time") from None

    def _not_kept(self, why: str) -> ReceiptNotKept:
        _log.error("audit.receipt-not-kept", path=str(self.path), why=why)
        return ReceiptNotKept()

    def _take_back(self, record: dict[str, Any], digest: str) -> None:
        """Leave out a record that nobody waits for any more, where it is not being written or
        written already; else another one takes it back."""
        with self._moving:
            for at, one in enumerate(list(self._waiting)):  # A thread may add to it.
                if one is record and at >= self._under_way:
                    del self._waiting[at]
                    return
            taken_back = {name: record[name] for name in ("who", "from", "what", "result")}
            did = TOOK_BACK + record["did"]
            # Whatever else waits: it must not be lost.
            self._waiting.append({"time": _now(), **taken_back, "did": did, "late": digest})

    def _put(self, record: dict[str, Any]) -> None:
        if len(self._waiting) >= WAITING:
            self._lost += 1
            return
        self._waiting.append({"time": _now(), **record})

    def _may_record(self, principal: Principal, did: str, number: float = 1.0) -> bool:
        """Whether what *principal* changed has records of its own, so many: of operators always.
        Else it is counted."""
        if not (principal.limits.guarded or principal.limits.quotas):
            return True
        now, owner = time.monotonic(), principal.owner
        stranger = owner.startswith(ANONYMOUS)
        together = ANONYMOUS if stranger else principal.tenant
        each, together_too = self._done_each, self._done_all
        if each.allows(owner, now, number=number) and together_too.allows(
            together, now, number=number
        ):
            return True
        self._done_unrecorded.add(f"{_named(principal)} ({did})")
        return False

    def _is_first(self, refusal: tuple[str, ...]) -> bool:
        now = time.monotonic()
        at, times = self._refused.get(refusal, (float("-inf"), 0))
        if now - at < AGAIN:
            self._refused[refusal] = (at, times + 1)
            return False
        who, address = refusal[:2]
        if not (self._each.allows(who, now) and self._all.allows("", now)):
            self._unrecorded.add(address)
            return False
        self._refused[refusal] = (now, 0)
        if times:
            self._put_again(refusal, times)
        return True

    def _forget_refusals(self, age: float) -> None:
        """Record how often refusals older than *age* came again."""
        before = time.monotonic() - age
        for refusal, (at, times) in list(self._refused.items()):
            if at <= before:
                del self._refused[refusal]
                if times:
                    self._put_again(refusal, times)

    def record_counts(self) -> None:
        """Record what was counted alone until now: at the end, after which nothing is counted."""
        self._forget_refusals(0.0)
        self._sum_up(0.0)

    def _sum_up(self, age: float) -> None:
        """Record how much was not recorded for *age* seconds, and of whom, or from where, most of
        it was."""
        for one in (self._unrecorded, self._done_unrecorded):
            if (record := one.take(age)) is not None:
                self._put(record)

    def _put_again(self, refusal: tuple[str, ...], times: int) -> None:
        record = dict(zip(("who", "from", "did", "what", "result"), refusal, strict=True))
        self._put({**record, "again": times})

    async def run(self) -> None:
        """Write what is noted, until it is cancelled."""
        while True:
            if not self._keeping or self.failing:  # A full disk is not tried without a pause.
                await self._pause()
            self._hurry.clear()
            self._forget_refusals(AGAIN)
            self._sum_up(AGAIN)
            # What somebody waits for may be written already, by a thread that had begun before.
            if self._waiting or self._lost or self._keeping:
                keeping, self._keeping = self._keeping, []
                await asyncio.to_thread(self.write)
                if self._unread:
                    waiting = list(self._waiting)
                    self._unread = sum([len(one.get(_PAYLOAD, b"")) for one in waiting])
                self._tell(keeping)

    async def _pause(self) -> None:
        """Wait for `EVERY` seconds, or until somebody waits for what is written."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EVERY):
                await (asyncio.sleep(EVERY) if self.failing else self._hurry.wait())

    def _tell(self, keeping: list[asyncio.Future[None]]) -> None:
        """Tell those whose records were written; others wait for the next time."""
        if self.failing:
            self._keeping += [one for one in keeping if not one.done()]
            return
        for one in keeping:
            if not one.done():
                one.set_result(None)

    def write(self) -> None:
        """Write what is noted now. What cannot be written waits; the log says so."""
        with self._writing:
            if self._lost:
                lost, self._lost = self._lost, 0
                self._waiting.append({"time": _now(), "lost": lost})
            try:
                self._complete_segment()
                self._append_waiting()
                self._remove_old()
                self.failing = False
            except (OSError, AuditUnusable) as error:
                self.failing = True
                self.failures += 1
                _log.error("audit.not-written", path=str(self.path), why=str(error))

    def _append_waiting(self) -> None:
        with self._moving:
            records = list(self._waiting)
            self._under_way = len(records)
        for record in records:
            if (payload := record.pop(_PAYLOAD, None)) is not None:
                named, record["patients"] = _named_in(payload)
                record["documents"] = [
                    {name: value for name, value in asdict(one).items() if value} for one in named
                ]
        number, last, lines = self._number, self._last, []
        for record in records:
            number += 1
            line, last = write_record({"number": number, **record, "previous": last})
            lines.append(line)
        try:
            _append(self.path, b"".join(lines))
        except OSError:
            self._under_way = 0
            raise
        if records and not self._began[0]:
            self._began = (self._number + 1, records[0]["time"][:10])
        with self._moving:
            for _ in records:
                self._waiting.popleft()
            self._under_way = 0
        self._number, self._last = number, last
        self.written += len(records)

    def _complete_segment(self) -> None:
        """Begin another file where this one is of another day, or large, or is gone: then the chain
        goes on in the next. Let old ones go."""
        began, day = self._began
        if not began:
            return
        try:
            if day == _now()[:10] and self.path.stat().st_size < SEGMENT:
                return
            self.path.rename(segment_path(self.path, began))
        except FileNotFoundError:
            _log.error("audit.moved-away", path=str(self.path))
        self._began = (0, "")
        before = (datetime.now(UTC) - timedelta(days=self._days)).isoformat()
        # By the clock alone, one that is wrong for a moment would take them all.
        for segment in segments(self.path)[: -max(1, self._days)]:
            last = last_record(segment) or {}
            if str(last.get("time", "")) >= before:
                break
            self._put_removal(segment, last)

    def _put_removal(self, segment: Path, last: dict[str, Any]) -> None:
        """Let *segment*, with that *last* record, be removed once a record says so: one for each,
        so that the chain is whole wherever the process is killed, and also where more is noted than
        can wait."""
        if segment in self._old:
            return
        self._waiting.append(
            {
                "time": _now(), "who": "gateway", "from": "", "did": REMOVED,
                "what": f"up to {last.get('time')}", "result": "done",
                "until": last.get("number"), "last": last.get("hash"),
            }
        )  # fmt: skip
        self._old.append(segment)

    def _remove_old(self) -> None:
        """Remove the segments of which records on the disk say so, the oldest first."""
        while self._old:
            self._old[0].unlink(missing_ok=True)
            self._old.popleft()


class _Sum:
    """Counts what is not recorded, by names, for a record a minute that *did* stands in."""

    def __init__(self, did: str) -> None:
        self._did = did
        self.named: Counter[str] = Counter()
        self.others = 0
        """How much is of names beyond `MOST_SUMMED`."""
        self._summed_at = time.monotonic()

    @property
    def total(self) -> int:
        return self.named.total() + self.others

    def add(self, name: str) -> None:
        """Count one more of *name*."""
        if name in self.named or len(self.named) < MOST_SUMMED:
            self.named[name] += 1
        else:
            self.others += 1

    def take(self, age: float) -> dict[str, Any] | None:
        """The record of what was counted, which begins anew; None before *age* seconds are over,
        and where there is nothing."""
        now, number = time.monotonic(), self.total
        if not number or now - self._summed_at < age:
            return None
        self._summed_at = now
        most = ", ".join(f"{name}: {times}" for name, times in self.named.most_common(SUMMED))
        self.named.clear()
        self.others = 0
        return {"who": "gateway", "from": "", "did": self._did, "what": most, "result": "done",
                "again": number}  # fmt: skip


def _named(principal: Principal) -> str:
    return principal.owner or "operator"


def _record(principal: Principal, did: str, what: str, result: str) -> dict[str, Any]:
    return {
        "who": _named(principal), "from": principal.address, "did": did,
        "what": what[:LONGEST_WHAT], "result": result[:LONGEST_RESULT],
    }  # fmt: skip


def _of_request(record: dict[str, Any]) -> dict[str, Any]:
    """*record*, with the id of the request that is carried out, where that has one."""
    if request := current_request():
        record["request"] = request
    return record


def _named_in(payload: bytes) -> tuple[list[RegistryObject], list[str]]:
    """As `named_in`; none where that has an error: records behind this one would not be written."""
    try:
        return named_in(payload)
    except Exception:
        _log.exception("audit.not-read")
        return [], []


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _append(path: Path, octets: bytes) -> None:
    """Append *octets*, on disk when this returns, or nothing of them: half a line would break the
    chain."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        start = os.fstat(descriptor).st_size
        try:
            left = memoryview(octets)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, start)
            raise
    finally:
        os.close(descriptor)
