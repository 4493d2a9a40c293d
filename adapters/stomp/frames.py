"""Frames of STOMP out of the bytes that the event loop moves, and into them.

stomp.py reads the head of a frame (`parse_frame`), and escapes and writes all that is sent
(`Protocol12`). Where a frame ends is found here: its head ends at the empty line, its body after
``content-length`` bytes, or without one at the NUL. stomp.py cuts at the first NUL wherever it
stands, and has no bounds. A MESSAGE beyond the bounds is skipped as it comes, but for the headers
by which it is acknowledged: what nobody can acknowledge comes again for ever.

A program of JMS may give a text message a property ``content-length``, which ActiveMQ (5.17) hands
on as if it were its own: it is not believed where it does not lead to the end of a frame.
"""

import os
import re
from collections.abc import Callable, Collection, Mapping

# Without it, the import asks the DNS for this machine's names: seconds where there is no DNS.
os.environ.setdefault("STOMP_SKIP_HOSTNAME_SCAN", "1")

from stomp.protocol import Protocol12
from stomp.transport import BaseTransport
from stomp.utils import Frame, calculate_heartbeats, convert_frame, pack, parse_frame

from adapters.broker.unreadable import MAX_BODY

MAX_HEAD = 2**20
"""Bytes. More than brokers send by default."""
KEPT_HEAD = 16 * 2**10
"""Bytes of the headers that are kept of a head beyond `MAX_HEAD`, beside those that say which
message it is."""
MAX_LINE = 16 * 2**10
"""Bytes of a header that may be among them."""

IDENTIFYING = frozenset(
    {
        *(b"ack", b"subscription", b"message-id", b"amqp-message-id", b"content-length"),
        *(b"destination", b"original-destination", b"timestamp", b"redelivered"),
    }
)
"""Headers that are kept of every head: they acknowledge a message, or say which one it is."""

_MESSAGE = b"MESSAGE"
_NUL = b"\0"
_LINE_ENDS = re.compile(rb"[\r\n]*")
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_NEARLY = 3
"""Bytes of the end of a head that may have come before its last one."""
_ENDED = re.compile(rb"\0[\r\n]+(?=(?:MESSAGE|RECEIPT|ERROR|CONNECTED)\r?\n|\Z)")
"""The end of a frame, where it was not looked for: ActiveMQ writes a line end behind each."""
_WRONG_LENGTH = "its content-length is wrong"
_LENGTH = re.compile(rb"^content-length:[ \t]*([0-9]{1,15})[ \t]*\r?$", re.MULTILINE)

__all__ = [
    "Frame",
    "FrameError",
    "FrameTransport",
    "Protocol12",
    "calculate_heartbeats",
    "unescaped",
]


def unescaped(value: bytes) -> str:
    """Return the value of a header as stomp.py reads it."""
    return str(parse_frame(b"MESSAGE\nvalue:" + value).headers["value"])


class FrameError(Exception):
    """The bytes are no frames: nothing can be read from here on."""


class FrameTransport(BaseTransport):  # type: ignore[misc]  # stomp.py has no types
    """stomp.py's transport between bytes and frames.

    Args:
        write: Gets the bytes of each frame that is sent.
        take: Gets each frame that has come, but no heart-beats, and why it is not whole, "" of one
            that is. Its body is bytes.
        host: The ``host`` of CONNECT.

    Attributes:
        disbelieved: The ids of messages whose ``content-length`` is not believed.
    """

    disbelieved: Collection[str] = ()

    def __init__(
        self,
        write: Callable[[bytes], None],
        take: Callable[[Frame, str], None],
        host: str = "/",
        *,
        max_head: int = MAX_HEAD,
        max_body: int = MAX_BODY,
    ) -> None:
        super().__init__(auto_decode=False)
        self._write = write
        self._take = take
        self._max_head = max_head
        self._max_body = max_body
        self._buffer = bytearray()
        self._at = 0
        """Where in the buffer is what has not been read."""
        self._seen = 0
        """Up to where the buffer has been searched for an end in vain."""
        self._step = self._read_head
        """Reads on; returns whether more may be read now."""
        self._head = b""
        self._kept: dict[bytes, bytes] = {}
        """Lines of a head that is too long, by name."""
        self._cut_line = False
        """The line that comes is too long to be kept."""
        self._left: int | None = None
        """Bytes of the body that are yet to come; None: it ends with a NUL."""
        self._fault = ""
        self.vhost = host
        self.current_host_and_port = (host, 0)

    def feed(self, octets: bytes) -> None:
        """Take *octets*, and hand on the frames that end in them.

        Raises:
            FrameError: Nothing can be read from here on.
        """
        self._buffer += octets
        while self._step():
            pass
        del self._buffer[: self._at]
        self._seen = max(0, self._seen - self._at)
        self._at = 0

    @property
    def held(self) -> int:
        """The bytes of an unfinished frame that are kept."""
        return len(self._buffer)

    @property
    def in_body(self) -> bool:
        """True if the end of a body is waited for."""
        return self._step == self._read_body or self._step == self._skip_body

    def stop_waiting(self) -> None:
        """Find an earlier end for the body that is waited for: nothing comes any more.

        Raises:
            FrameError: It was skipped, and with it what may stand behind it.
        """
        if self._step == self._skip_body:
            raise FrameError("a body does not end where its content-length says")
        if self._left is None or not self._head.startswith(_MESSAGE):
            return
        ended = _ENDED.search(self._buffer)
        if ended is not None and ended.start() == self._buffer.find(_NUL):
            self._distrust_length()
            self.feed(b"")

    @property
    def unfinished(self) -> Mapping[str, str]:
        """The headers of a frame whose body is being read; empty if no body is being read."""
        return self._headers() if self.in_body else {}

    def _headers(self) -> Mapping[str, str]:
        headers: Mapping[str, str] = parse_frame(self._head).headers
        return headers

    def transmit(self, frame: Frame) -> None:
        """Send *frame*."""
        self._write(pack(convert_frame(frame)))

    # ------------------------------------------------------------------------------- one step each

    def _read_head(self) -> bool:
        """Read a head, behind the line ends and heart-beats that stand before it."""
        buffer = self._buffer
        ends = _LINE_ENDS.match(buffer, self._at)
        assert ends is not None, "it matches nothing, too"
        self._at = ends.end()
        found = _HEAD_END.search(buffer, max(self._at, self._seen - _NEARLY))
        end = found.end() if found is not None else len(buffer)
        if end - self._at > self._max_head:
            return self._begin_long_head()
        if found is None:
            self._seen = end
            return False
        head = bytes(buffer[self._at : found.start()])
        self._at = self._seen = end
        return self._begin_body(head)

    def _begin_long_head(self) -> bool:
        if not self._buffer.startswith(_MESSAGE, self._at):
            raise FrameError(f"a frame's headers exceed {self._max_head} bytes")
        self._fault = f"its headers exceed {self._max_head} bytes"
        self._kept, self._cut_line = {}, False
        self._step = self._skip_head
        return True

    def _skip_head(self) -> bool:
        """Read lines of a head that is too long, and keep few of them."""
        end = self._buffer.find(b"\n", self._at)
        if end < 0:
            if len(self._buffer) - self._at > MAX_LINE:
                self._cut_line, self._at = True, len(self._buffer)
            return False
        line = bytes(self._buffer[self._at : min(end, self._at + MAX_LINE + 1)]).rstrip(b"\r")
        is_cut, self._cut_line = self._cut_line or end - self._at > MAX_LINE, False
        self._at = self._seen = end + 1
        if is_cut:
            return True
        if line:
            self._keep_line(line)
            return True
        return self._begin_body(b"\n".join(self._kept.values()))

    def _keep_line(self, line: bytes) -> None:
        name = line.partition(b":")[0]
        room = KEPT_HEAD - sum(map(len, self._kept.values()))
        if name not in self._kept and (name in IDENTIFYING or len(line) < room):
            self._kept[name] = line

    def _begin_body(self, head: bytes) -> bool:
        self._head = head
        length = _LENGTH.search(head)
        self._left = None if length is None else int(length[1])
        if self.disbelieved and self._headers().get("message-id") in self.disbelieved:
            self._fault, self._left = _WRONG_LENGTH, None
        self._step = self._read_body
        if self._left is not None and self._left > self._max_body:
            return self._begin_long_body()
        return True

    def _begin_long_body(self) -> bool:
        if not self._head.startswith(_MESSAGE):
            raise FrameError(f"a frame's body exceeds {self._max_body} bytes")
        self._fault = f"its body exceeds {self._max_body} bytes"
        self._step = self._skip_body
        return True

    def _read_body(self) -> bool:
        buffer = self._buffer
        if self._left is None:
            end = buffer.find(_NUL, self._seen)
            if (len(buffer) if end < 0 else end) - self._at > self._max_body:
                return self._begin_long_body()
        else:
            end = self._at + self._left
        self._seen = len(buffer)
        if not 0 <= end < len(buffer):
            return False
        if buffer[end] != 0:
            return self._distrust_length()
        with memoryview(buffer) as view:
            body = bytes(view[self._at : end])
        return self._finish(body, end + 1)

    def _distrust_length(self) -> bool:
        """Read the body again, up to the first NUL: its ``content-length`` is wrong."""
        if not self._head.startswith(_MESSAGE):
            raise FrameError("a body does not end where its content-length says")
        self._fault, self._left, self._seen = _WRONG_LENGTH, None, self._at
        return True

    def _skip_body(self) -> bool:
        """Pass by a body that is too long."""
        if self._left is None:
            end = self._buffer.find(_NUL, self._at)
            if end < 0:
                self._at = self._seen = len(self._buffer)
                return False
            return self._finish(b"", end + 1)
        passed = min(self._left, len(self._buffer) - self._at)
        self._left -= passed
        self._at += passed
        if self._left or self._at == len(self._buffer):
            return False
        if self._buffer[self._at] != 0:
            raise FrameError("a body does not end where its content-length says")
        return self._finish(b"", self._at + 1)

    def _finish(self, body: bytes, end: int) -> bool:
        """Hand on the frame that ends before *end*."""
        fault, self._fault = self._fault, ""
        self._at = self._seen = end
        self._step = self._read_head
        frame = parse_frame(self._head)
        frame.body = body
        self._take(frame, fault)
        return True
