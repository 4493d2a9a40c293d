"""Frames of STOMP 1.2 in a stream of octets, as stomp.py writes and reads each.

A frame is a command, headers and a body; a line end between two frames is a heart-beat. What is
added to stomp.py: where a frame ends, as the octets come, within bounds, and escapes.

What is written is written here, and so are heads read that have no carriage returns: stomp.py
matches three regular expressions a header, for 40 us a message. Both say what stomp.py says.
"""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

# Else the import asks the DNS for this machine's names, for seconds where there is none.
os.environ.setdefault("STOMP_SKIP_HOSTNAME_SCAN", "1")

from stomp.utils import parse_frame

MAX_HEAD = 2**20
MAX_BODY = 128 * 2**20
"""Octets. More than brokers send by default: a message beyond would come again for ever."""

MAX_HEADER = 10 * 2**10
"""Octets of one header as it is written: ActiveMQ takes no longer ones."""

MOST_OCTETS = 4
"""Of one character in a header: one beyond U+FFFF. An escape has two."""

UNESCAPED = "CONNECT"
"""Its headers have no escapes (STOMP 1.2, "CONNECT or STOMP Frame")."""

_ESCAPES = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), (":", "\\c"))
"""What stands for what; the backslash first."""
_UNESCAPED = {escaped: plain for plain, escaped in _ESCAPES}
_ESCAPE = re.compile(r"\\.")
_LENGTH_LINE = b"\ncontent-length:"
_LENGTH = re.compile(rb"^content-length:\s*([0-9]{1,10})\s*$", re.MULTILINE)
_NUL = 0


__all__ = [
    "MAX_BODY",
    "MAX_HEAD",
    "MAX_HEADER",
    "MOST_OCTETS",
    "Frame",
    "FrameError",
    "FrameReader",
    "escape",
    "read_frame",
    "write_frame",
]


class FrameError(Exception):
    """The octets are no frames, or exceed a bound."""


class Frame(NamedTuple):
    """A frame."""

    cmd: str
    headers: dict[str, str]
    body: bytes


def escape(value: str) -> str:
    """*value* as it stands in a header."""
    for plain, escaped in _ESCAPES:
        value = value.replace(plain, escaped)
    return value


def write_frame(command: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """The octets of a frame.

    ``content-length`` is the caller's: ActiveMQ makes a bytes message of what has one.
    """
    names = sorted(headers)
    values = [headers[name] for name in names]
    if command != UNESCAPED:
        values = _escape_all(values)
    lines = [command, *map("{}:{}".format, names, values), "\n"]
    return b"".join(("\n".join(lines).encode(errors="replace"), body, b"\0"))


def _escape_all(values: list[str]) -> list[str]:
    """All of *values* as they stand in headers: in one go, which costs a third."""
    escaped = escape("\0".join(values)).split("\0")
    return escaped if len(escaped) == len(values) else [escape(value) for value in values]


def read_frame(octets: bytes, body: int) -> Frame:
    """The frame of *octets*, whose body starts at *body*."""
    head = octets[:body]
    if b"\r" in head:
        found = parse_frame(octets)
        return Frame(found.cmd, found.headers, found.body)
    command, *lines = head.decode(errors="replace").split("\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not (name and colon):
            continue
        if "\\" in value:
            value = _unescape(value)
        if "\\" in name:
            name = _unescape(name)
        if name not in headers:  # The first one counts.
            headers[name] = value
    return Frame(command, headers, octets[body:])


def _unescape(text: str) -> str:
    """*text* without its escapes; unknown ones stay, as stomp.py leaves them."""
    if "\\\\" in text:
        return _ESCAPE.sub(lambda found: _UNESCAPED.get(found[0], found[0]), text)
    text = text.replace("\\c", ":")
    return text.replace("\\n", "\n").replace("\\r", "\r") if "\\" in text else text


class FrameReader:
    """Octets in, frames out."""

    def __init__(self, *, max_head: int = MAX_HEAD, max_body: int = MAX_BODY) -> None:
        self._max_head = max_head
        self._max_body = max_body
        self._buffer = bytearray()
        self._searched = 0
        """Octets of the frame that comes that need not be looked at again."""
        self._body: int | None = None
        """Where its body starts."""
        self._end: int | None = None
        """Where it ends, if it says so."""

    def feed(self, octets: bytes) -> list[Frame]:
        """The frames that end in *octets*. Heart-beats are left out.

        Raises:
            FrameError: Nothing can be read from here on.
        """
        buffer = self._buffer
        buffer += octets
        frames = []
        start = 0
        while True:
            if self._body is None:
                while start < len(buffer) and buffer[start] in b"\r\n":
                    start += 1
            end = self._find_end(start)
            if end is None:
                break
            frames.append(read_frame(bytes(buffer[start:end]), self._body or 0))
            start = end + 1
            self._searched, self._body, self._end = 0, None, None
        del buffer[:start]
        return frames

    def _find_end(self, start: int) -> int | None:
        """The place of the NUL that ends the frame at *start*, if it has come."""
        buffer = self._buffer
        here = len(buffer) - start
        if self._body is None:
            behind = _find_body(buffer, start + max(0, self._searched - 3))
            if (behind - start if behind else here) > self._max_head:
                raise FrameError(f"a frame's headers exceed {self._max_head} octets")
            if not behind:
                self._searched = here
                return None
            self._body = self._searched = behind - start
            line = buffer.find(_LENGTH_LINE, start, behind)
            length = _LENGTH.search(buffer, line + 1, behind) if line >= 0 else None
            if length is not None:
                self._end = self._body + int(length[1])
        if (here if self._end is None else self._end) - self._body > self._max_body:
            raise FrameError(f"a frame's body exceeds {self._max_body} octets")
        if self._end is None:
            place = buffer.find(_NUL, start + self._searched)
            self._searched = here
            return None if place < 0 else place
        if here <= self._end:
            return None
        if buffer[start + self._end] != _NUL:
            raise FrameError("a frame does not end where it says")
        return start + self._end


def _find_body(buffer: bytearray, start: int) -> int:
    """Where the body begins: behind the first empty line from *start* on. 0: there is none."""
    plain = buffer.find(b"\n\n", start)
    carriage = buffer.find(b"\n\r\n", start, plain if plain >= 0 else len(buffer))
    if carriage >= 0:
        return carriage + 3
    return plain + 2 if plain >= 0 else 0
