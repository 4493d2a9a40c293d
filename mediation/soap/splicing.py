"""Header blocks added to envelopes that are finished: written, stored, perhaps signed."""

import re

_MISC = rb"(?:\s++|<!--[^-]*+(?:-(?!->)[^-]*+)*-->)*"
_DECLARATION = rb"(?:<\?xml\s[^?]*+(?:\?(?!>)[^?]*+)*\?>)?"
# What repeats begins with a character that what follows does not, so that what is given back is
# never tried again: time is linear. No group is possessive: up to Python 3.11.4 such ones match
# wrongly.
_ATTRIBUTES = rb"""(?:\s++[^\s=<>"'/]++\s*+=\s*+(?:"[^"]*+"|'[^']*+'))*\s*+"""
_NAME = rb"""(?![!?])[^\s/<>:="']++"""
_START = re.compile(
    _DECLARATION + _MISC + rb"<(?P<prefix>(?:" + _NAME + rb":)?)Envelope" + _ATTRIBUTES + rb">"
    + _MISC + rb"(?P<tag>(?P<child><(?:" + _NAME + rb":)?(?P<name>" + _NAME + rb"))" + _ATTRIBUTES
    + rb")(?P<empty>/?+)>",
)  # fmt: skip
"""An envelope's start tag and that of its header, or of its body where it has none."""


def add_header_blocks(envelope: bytes, blocks: bytes) -> bytes:
    """Put header *blocks*, on which every namespace is declared that they use, before all others of
    *envelope* (UTF-8). All else stays as it is, octet for octet.

    Raises:
        ValueError: It does not begin like an envelope.
    """
    found = _START.match(envelope)
    if found is None:
        raise ValueError("it does not begin like an envelope")
    if not blocks:
        return envelope
    if found["name"] != b"Header":
        header, place = b"%bHeader>" % found["prefix"], found.start("child")
        return b"%b<%b%b</%b%b" % (envelope[:place], header, blocks, header, envelope[place:])
    before, after = envelope[: found.end("tag")], envelope[found.end() :]
    closing = b"</%b>" % found["child"][1:] if found["empty"] else b""
    return b"%b>%b%b%b" % (before, blocks, closing, after)
