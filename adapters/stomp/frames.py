"""stomp.py's reader and writer of frames over bytes that the event loop moves, without a thread.

stomp.py reads in a loop that it means to run in a thread, around a blocking socket. A subclass of
its `BaseTransport` decides how bytes are read (``receive``), what becomes of a frame
(``process_frame``), and who runs the loop (``override_threading``). Here the loop runs whenever
bytes have come and ends when it has read them, as it would read TLS (``blocking`` is False): a read
without bytes is not the end of the connection. A message consumed and acknowledged takes 59 us of
processor time this way, and 86 with stomp.py's thread that reads and one that writes, handed over
in batches (1 KiB, ActiveMQ 5.17, two busy cores).

stomp.py parses, escapes and writes frames; the bounds are ours, because it has none. stomp.py does
not promise that its loop may run again and again: `pyproject.toml` pins the version, and
`tests/adapters/stomp/test_frames.py` would notice a change.
"""

import os
from collections.abc import Callable
from typing import Any

# Without it, the import asks the DNS for this machine's names: seconds where there is no DNS.
os.environ.setdefault("STOMP_SKIP_HOSTNAME_SCAN", "1")

from stomp.protocol import Protocol12
from stomp.transport import BaseTransport
from stomp.utils import (
    HEARTBEAT_FRAME,
    PREAMBLE_END_RE,
    Frame,
    calculate_heartbeats,
    convert_frame,
    pack,
)

MAX_HEAD = 2**20
MAX_BODY = 128 * 2**20
"""Bytes. More than brokers send by default: a message beyond would come again for ever."""

LARGE = 2**20
"""Bytes of an unfinished frame from which on more of it is gathered before it is read:
stomp.py copies all of it each time."""

_NUL = b"\0"
_LINE_ENDS = b"\r\n"

__all__ = ["Frame", "FrameError", "FrameTransport", "Protocol12", "calculate_heartbeats"]


class FrameError(Exception):
    """The bytes are not frames, or exceed a bound."""


class FrameTransport(BaseTransport):  # type: ignore[misc]  # stomp.py has no types
    """stomp.py's transport between bytes and frames.

    Args:
        write: Gets the bytes of each frame that is sent.
        take: Gets each frame that has come, but no heart-beats. Its body is bytes.
        host: The ``host`` of CONNECT.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        take: Callable[[Frame], None],
        host: str = "/",
        *,
        max_head: int = MAX_HEAD,
        max_body: int = MAX_BODY,
    ) -> None:
        super().__init__(auto_decode=False, is_eol_fc=_is_line_ends)
        self._write = write
        self._take = take
        self._max_head = max_head
        self._max_frame = max_head + max_body
        self._gathered: list[bytes] = []
        self._coming: list[bytes] = []
        """Bytes that the loop has yet to receive, the last piece first."""
        self._octets = b""
        """Bytes that the loop receives in this run."""
        self._start = 0
        """The start of the unfinished frame in ``_octets``; less than 0: it started in an earlier
        run."""
        self._unfinished = 0
        """Bytes of the unfinished frame that have come."""
        self._head: bytes | None = b""
        """The end of what has come of its head; None when its body has begun."""
        self._failure: Exception | None = None
        self.vhost = host
        self.current_host_and_port = (host, 0)
        self.blocking = False
        self.sel = self
        self.override_threading(self._keep_loop)
        self.start()

    def feed(self, octets: bytes = b"") -> bool:
        """Take *octets*, and hand on the frames that end in them; without, in what is gathered.

        Returns:
            True if it has to be called without octets within moments, because part of a large frame
            is gathered.

        Raises:
            FrameError: Nothing can be read from here on.
        """
        if octets:
            self._gathered.append(octets)
            if _NUL not in octets and not _is_line_ends(octets):
                self._grow(octets)  # Every frame ends with a NUL.
                return False
            read = -self._start
            if read > LARGE and sum(map(len, self._gathered)) < read // 4:
                self._grow(octets)
                return True
        if self._gathered:
            self._read()
        return False

    def _read(self) -> None:
        octets = self._octets = b"".join(self._gathered)
        self._gathered.clear()
        # Line ends before a frame are heart-beats to stomp.py only where they come alone.
        frame = octets.lstrip(_LINE_ENDS)
        ends = octets[: len(octets) - len(frame)]
        self._coming = [piece for piece in (frame, ends) if piece]
        before = self._start
        self.notified_on_disconnect = True  # By the end of a run nobody is disconnected.
        self.running = True
        self._loop()
        if (failure := self._failure) is not None:
            self._failure = FrameError("a frame before could not be read")
            try:
                raise failure
            finally:
                del failure
        rest = octets
        if self._start != before:
            rest = octets[max(0, self._start) :]
            self._unfinished, self._head = 0, b""
        else:
            self._unfinished = -before
        self._start -= len(octets)
        self._grow(rest)

    # ------------------------------------------------------------------------- called by stomp.py

    def receive(self) -> bytes | None:
        """The next bytes for the loop; None: no more for now."""
        return self._coming.pop() if self._coming else None

    def select(self) -> tuple[()]:
        """End the loop when it has read all there was."""
        self.running = bool(self._coming)
        return ()

    def cleanup(self) -> None:
        """Note a failure of the loop, which calls this when it ends, too."""
        if self.running:
            self.running = False
            self._failure = self._failure or FrameError("a frame cannot be read")

    def process_frame(self, f: Frame, frame_str: bytes) -> None:
        if f is HEARTBEAT_FRAME:
            self._start += len(frame_str)
            return
        end = self._start + len(frame_str) + len(_NUL)
        while self._octets[end : end + 1] in (b"\n", b"\r"):  # stomp.py leaves them out, too.
            end += 1
        self._start = end
        if self._failure is None:
            try:
                self._take(f)
            except Exception as exc:  # The loop would log it, and lose the frames behind.
                self._failure = exc.with_traceback(None)

    def transmit(self, frame: Frame) -> None:
        """Send *frame*."""
        self._write(pack(convert_frame(frame)))

    def _keep_loop(self, loop: Callable[[], Any]) -> None:
        self._loop = loop

    # ------------------------------------------------------------------------------------ bounds

    def _grow(self, octets: bytes) -> None:
        """Check the bounds of the unfinished frame, to which *octets* have come."""
        self._unfinished += len(octets)
        if self._head is not None:
            head = self._head + octets
            self._head = None if PREAMBLE_END_RE.search(head) else head[-3:]
            if self._head is not None and self._unfinished > self._max_head:
                raise FrameError(f"a frame's headers exceed {self._max_head} octets")
        if self._unfinished > self._max_frame:
            raise FrameError(f"a frame exceeds {self._max_frame} octets")


def _is_line_ends(octets: bytes) -> bool:
    """Return True if *octets* are a heart-beat, or several."""
    return bool(octets) and not octets.strip(_LINE_ENDS)
