"""Java's own UTF-8, in which ActiveMQ hands on the text messages of JMS programs.

A character beyond U+FFFF is two surrogates of three octets each, and U+0000 is two octets
("Modified UTF-8", java.io.DataInput). A text message in plain UTF-8 that has one of these makes
``getText`` fail (measured with 5.17). Later brokers, tried with 5.18.6 and 6.1.6, read UTF-8.
"""

import re

_BEYOND = re.compile("[\U00010000-\U0010ffff]")
_FOUR_OCTETS = re.compile(rb"[\xf0-\xf4]")
_THEIRS = re.compile(rb"\xed[\xa0-\xbf]|\xc0\x80")


def has_beyond(text: str) -> bool:
    """Return True if Java's UTF-8 of *text* differs: it has characters beyond U+FFFF."""
    return not text.isascii() and _BEYOND.search(text) is not None


def to_java(text: bytes) -> bytes:
    """Turn UTF-8 into Java's."""
    if text.isascii() or not _FOUR_OCTETS.search(text):
        return text
    return _BEYOND.sub(_surrogates, text.decode()).encode(errors="surrogatepass")


def from_java(text: bytes) -> bytes:
    """Turn Java's UTF-8 into UTF-8; bytes that are neither stay as they are."""
    if text.isascii() or not _THEIRS.search(text):
        return text
    try:
        halves = text.replace(b"\xc0\x80", b"\0").decode(errors="surrogatepass")
        return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le").encode()
    except UnicodeError:
        return text


def _surrogates(found: re.Match[str]) -> str:
    above = ord(found[0]) - 0x10000
    return chr(0xD800 + (above >> 10)) + chr(0xDC00 + (above & 0x3FF))
