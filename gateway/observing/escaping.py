"""Text of strangers, for a terminal."""

import re

_OBEYED = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, of C1 too: U+009B begins a sequence as ESC [ does
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the direction of what follows
)
_CONTROLS = re.compile(f"[{_OBEYED}]")
_COLOURED = re.compile(f"(\x1b\\[[0-9;]*m)|[{_OBEYED}]")


def visible(text: str) -> str:
    r"""*text* with what a terminal would obey written out: ``\x1b``."""
    return _CONTROLS.sub(_written, text)


def visible_but_colours(text: str) -> str:
    """The same, of text that has colours in it, which stay."""
    return _COLOURED.sub(lambda found: found[1] or _written(found), text)


def _written(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
