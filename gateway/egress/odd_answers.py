"""Reads an answer over HTTP that the strict parser refused: what is meant is clear, and how it is
written is not allowed, or allowed and rare.

RFC 9112: a line may end with a bare LF (section 2.2), a folded field is one field (5.2), space
before a colon is removed (5.1), chunks count before a length (6.3). A line that is no field is
passed over. What has two readings is still refused: two lengths, chunks that are none. Such an
answer ends its connection, so nothing of it can be taken for another one.

Sans-I/O, and incremental: every byte is looked at once, however slowly they come.
"""

import re
from collections.abc import Callable

from gateway.egress.client_limits import KEPT_HEADERS, ClientLimits, keep_header

_STATUS_LINE = re.compile(rb"[ \t]*HTTP/\d(?:\.\d{1,3})?[ \t]+(\d{1,3})(?![0-9])", re.IGNORECASE)
_LENGTH = re.compile(rb"[0-9]{1,18}")
_CHUNK = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?", re.DOTALL)
_SHOWN = 40
"""Characters of an answer that a text repeats."""
_SHORT_OF_SUCCESS = frozenset({0, 20})
"""Statuses with too few digits that stand for 200: wseventsink acknowledges with them."""
_WITHOUT_BODY = frozenset({204, 304})
_MAYBE_WITHOUT_LENGTH = frozenset({202, 205})
"""Without a length they are over with their head: many who say them forget to close."""


class MalformedAnswer(Exception):
    """The answer cannot be read, or is larger than may be. The text continues a sentence that
    begins with the peer: "answered 200 with a malformed head: two lengths, 1 and 2"."""


class OddAnswer:
    """One answer, read leniently.

    Attributes:
        status: That of the final answer, as soon as its first line is there; else 0.
        whole: Whether the answer is complete.
    """

    def __init__(self, limits: ClientLimits) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._searched = 0
        # Not bound methods: a circle would keep what was read until Python looks for circles.
        self._read: Callable[[OddAnswer], bool] = OddAnswer._read_status
        self._head_bytes = self._interim = self._fields = self._left = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self.status = 0
        self.whole = False

    @property
    def body(self) -> bytes:
        return bytes(self._body)

    @property
    def headers(self) -> dict[str, str]:
        """The fields that are kept, by name in lower case."""
        found: dict[str, str] = {}
        for name, value in self._headers:
            if name in KEPT_HEADERS:
                shown = re.sub(rb"[\0-\x08\x0a-\x1f\x7f]+", b" ", value)
                keep_header(found, name, shown)
        return found

    def feed(self, data: bytes) -> None:
        """Read on.

        Raises:
            MalformedAnswer
        """
        self._buffer += data
        while not self.whole and self._read(self):
            pass

    def end(self) -> None:
        """Hear that no more will come; it is `whole` where nothing is missing.

        Raises:
            MalformedAnswer
        """
        if self._read is OddAnswer._read_to_end:
            self.whole = True

    # Each reads one part from the buffer; False: it is not there yet.

    def _read_status(self) -> bool:
        line = self._head_line()
        if not line:  # Empty lines before an answer are passed over (RFC 9112, 2.2).
            return line is not None
        match = _STATUS_LINE.match(line)
        if match is None:
            raise MalformedAnswer(
                f"answered with a malformed head: it begins with {_shown(line)}, not with HTTP/"
            )
        status = int(match[1])
        if status == 101 or not (100 <= status <= 599 or status in _SHORT_OF_SUCCESS):
            raise MalformedAnswer(f"answered with the status {match[1].decode()}")
        self._fields = 0
        self._headers.clear()
        self.status = 0 if 100 <= status < 200 else status
        self._read = OddAnswer._read_interim_field if 100 <= status < 200 else OddAnswer._read_field
        return True

    def _read_interim_field(self) -> bool:
        line = self._head_line()
        if line is None:
            return False
        if not line:
            self._interim += 1
            if self._interim > self._limits.interim:
                raise MalformedAnswer(f"sent more than {self._limits.interim} interim answers")
            self._read = OddAnswer._read_status
        return True

    def _read_field(self) -> bool:
        line = self._head_line()
        if line is None:
            return False
        if not line:
            self._begin_body()
            return True
        self._fields += 1
        if self._fields > self._limits.fields:
            raise self._malformed(f"more than {self._limits.fields} fields")
        name, colon, value = line.partition(b":")
        if line[:1] in b" \t":
            if self._headers:
                before, first = self._headers[-1]
                self._headers[-1] = before, b"%b %b" % (first, line.strip())
        elif colon:
            self._headers.append((name.strip().lower(), value.strip(b" \t")))
        return True

    def _read_counted(self) -> bool:
        self._take(self._left)
        self.whole = not self._left
        return False

    def _read_to_end(self) -> bool:
        self._take(len(self._buffer))
        return False

    def _read_chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        match = _CHUNK.fullmatch(line)
        if match is None:
            raise self._malformed(f"{_shown(line)} is not the size of a chunk", "body")
        self._left = int(match[1], 16)
        self._read = OddAnswer._read_chunk
        self.whole = not self._left  # What may follow are trailers, which nobody reads.
        return not self.whole

    def _read_chunk(self) -> bool:
        self._take(self._left)
        if self._left:
            return False
        self._read = OddAnswer._read_chunk_end
        return True

    def _read_chunk_end(self) -> bool:
        line = self._line()
        if line:
            raise self._malformed("a chunk is longer than its size", "body")
        self._read = OddAnswer._read_chunk_size if line is not None else OddAnswer._read_chunk_end
        return line is not None

    # Leaned on by these.

    def _begin_body(self) -> None:
        """Find out how long the body is (RFC 9112, 6.3)."""
        chunked, length = self._chunked(), self._length()
        if self.status in _WITHOUT_BODY:
            self.whole = True
        elif chunked:
            self._read = OddAnswer._read_chunk_size
        elif length is not None and length > self._limits.body:
            raise MalformedAnswer(long_body(self.status, self._limits.body))
        elif length is not None:
            self._left = length
            self._read = OddAnswer._read_counted
        else:
            self.whole = self.status in _MAYBE_WITHOUT_LENGTH
            self._read = OddAnswer._read_to_end

    def _chunked(self) -> bool:
        codings = b",".join(value for name, value in self._headers if name == b"transfer-encoding")
        return codings.lower().rpartition(b",")[2].strip() == b"chunked"

    def _length(self) -> int | None:
        if self._chunked():
            return None
        said = b",".join(value for name, value in self._headers if name == b"content-length")
        lengths = {one.strip() for one in said.split(b",")} - {b""}
        if not lengths:
            return None
        for one in lengths:
            if _LENGTH.fullmatch(one) is None:
                raise self._malformed(f"{_shown(one)} is not a length")
        numbers = sorted({int(one) for one in lengths})
        if len(numbers) > 1:
            raise self._malformed(f"two lengths, {numbers[0]} and {numbers[1]}")
        return numbers[0]

    def _head_line(self) -> bytes | None:
        before = len(self._buffer)
        line = self._line()
        self._head_bytes += before - len(self._buffer)
        if self._head_bytes + (len(self._buffer) if line is None else 0) > self._limits.head:
            said = f"answered {self.status}" if self.status else "answered"
            raise MalformedAnswer(f"{said} with a head of more than {self._limits.head} bytes")
        return line

    def _line(self) -> bytes | None:
        """Take the next line, without its end; None where it is not there yet."""
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = bytes(self._buffer[:end]).rstrip(b"\r")
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def _take(self, most: int) -> None:
        """Take up to *most* bytes of the body."""
        piece = self._buffer[:most]
        del self._buffer[:most]
        self._left -= len(piece)
        self._body += piece
        if len(self._body) > self._limits.body:
            raise MalformedAnswer(long_body(self.status, self._limits.body))

    def _malformed(self, why: str, part: str = "head") -> MalformedAnswer:
        return MalformedAnswer(f"answered {self.status} with a malformed {part}: {why}")


def long_body(status: int, most: int) -> str:
    """What is said of an answer whose body is too long."""
    return f"answered {status} with a body of more than {most} bytes"


def _shown(text: bytes) -> str:
    return ascii(text[:_SHOWN].decode("latin-1"))
