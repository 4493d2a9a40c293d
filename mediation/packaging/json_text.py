"""JSON that has one reading (RFC 8259), and the texts that its parts were read from.

Python's parser takes NaN, Infinity, and names that stand twice in one object. Numbers need not
survive a parser at all (1.10, integers beyond 2**53): what is only carried stays as it was written.
"""

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from itertools import accumulate
from math import isinf
from typing import Any, NamedTuple, TypeVar

from filters import Reason, quoted
from mediation.model.errors import MediationError

T = TypeVar("T")
DEEPEST = 200
"""Brackets within each other."""
MOST_VALUES = 100_000
"""Values of a document. A parser makes an object of each, and nothing else runs while it does."""
_SMALL = 512
"""Octets that are read as quickly as their digest is made."""
_REMEMBERED = 4096
"""Texts of which it is known whether they are JSON; they are forgotten as a whole."""
_BLANKS = re.compile(r"[ \t\r\n]*+")
_OPENING = frozenset("[{")
_NO_BRACKETS = bytes(octet for octet in range(256) if octet not in b"[]{}")
_LEVELS = [(octet in b"[{") - (octet in b"]}") for octet in range(256)]
_known: dict[bytes, bool] = {}


class Part(NamedTuple):
    """The value of a member, and the text that it was read from."""

    value: Any
    text: str


Members = dict[str, Part]


def read_json(octets: bytes) -> Any:
    """Read a JSON document.

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is none, or not UTF-8, or has a name twice in one
            object, too many brackets within each other, or too large a number. ``TOO_COMPLEX``: it
            has more than `MOST_VALUES`.
    """
    return _read(octets, _value_of)


def read_members(octets: bytes) -> Members | None:
    """Read a JSON document that is an object; None where it is something else.

    Raises:
        MediationError: As `read_json`.
    """
    return _read(octets, lambda text: _whole(text, _object_at))


def read_objects(octets: bytes) -> list[Members | None] | None:
    """Read a JSON document that is an array of objects; None for what is something else.

    Raises:
        MediationError: As `read_json`.
    """
    return _read(octets, lambda text: _whole(text, _array_at))


def is_json_text(octets: bytes) -> bool:
    """Return whether `read_json` reads *octets*. The same ones may be written for many consumers:
    of large ones the answer is remembered."""
    if len(octets) <= _SMALL:
        return _is_json_text(octets)
    digest = blake2b(octets, digest_size=32).digest()
    found = _known.get(digest)
    if found is None:
        found = _is_json_text(octets)
        if len(_known) >= _REMEMBERED:
            _known.clear()
        _known[digest] = found
    return found


def _is_json_text(octets: bytes) -> bool:
    try:
        read_json(octets)
    except MediationError:
        return False
    return True


def _read(octets: bytes, read: Callable[[str], T]) -> T:
    try:
        text = octets.removeprefix(BOM_UTF8).decode()
        _check_size(octets)
        return read(text)
    except MediationError:
        raise
    except UnicodeDecodeError:
        raise MediationError(Reason.MESSAGE_INVALID, "The body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise MediationError(
            Reason.MESSAGE_INVALID, f"The body is not JSON: {error.msg} ({where})."
        ) from None
    except (ValueError, RecursionError):
        raise MediationError(
            Reason.MESSAGE_INVALID, "The body is JSON that is too deep, or has too large a number."
        ) from None


def _check_size(octets: bytes) -> None:
    """Count brackets and commas before a parser is given *octets*, which need not be JSON."""
    brackets = octets.count(b"[") + octets.count(b"{")
    if brackets <= DEEPEST and (
        len(octets) < MOST_VALUES or brackets + octets.count(b",") < MOST_VALUES
    ):
        return
    if b"\\" in octets:
        octets = octets.replace(b"\\\\", b"").replace(b'\\"', b"")
    if octets.count(b'"') > 4 * MOST_VALUES:  # Each string is a value, or the name of one.
        raise _too_complex()
    outside = b"".join(octets.split(b'"')[::2])
    if outside.count(b"[") + outside.count(b"{") + outside.count(b",") >= MOST_VALUES:
        raise _too_complex()
    levels = map(_LEVELS.__getitem__, outside.translate(None, _NO_BRACKETS))
    if max(accumulate(levels), default=0) > DEEPEST:
        raise RecursionError


def _value_of(text: str) -> Any:
    # As the decoder's own `decode`, which looks for blanks where there are none.
    value, end = _DECODER.raw_decode(text, 0 if text[:1] in _OPENING else _behind_blanks(text, 0))
    if end != len(text) and _behind_blanks(text, end) != len(text):
        raise json.JSONDecodeError("Extra data", text, _behind_blanks(text, end))
    return value


def _whole(text: str, read: Callable[[str, int], tuple[T, int]]) -> T:
    value, end = read(text, _behind_blanks(text, 0))
    end = _behind_blanks(text, end)
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def _object_at(text: str, at: int) -> tuple[Members | None, int]:
    if text[at : at + 1] != "{":
        return None, _DECODER.raw_decode(text, at)[1]
    found: Members = {}
    at = _behind_blanks(text, at + 1)
    if text[at : at + 1] == "}":
        return found, at + 1
    while True:
        if text[at : at + 1] != '"':
            raise json.JSONDecodeError("Expecting a name in double quotes", text, at)
        name, at = _DECODER.raw_decode(text, at)
        start = _behind_blanks(text, _behind(text, at, ":"))
        value, at = _DECODER.raw_decode(text, start)
        if name in found:
            raise _twice(name)
        found[name] = Part(value, text[start:at])
        at = _behind_blanks(text, at)
        if text[at : at + 1] == "}":
            return found, at + 1
        at = _behind_blanks(text, _behind(text, at, ","))


def _array_at(text: str, at: int) -> tuple[list[Members | None] | None, int]:
    if text[at : at + 1] != "[":
        return None, _DECODER.raw_decode(text, at)[1]
    found: list[Members | None] = []
    at = _behind_blanks(text, at + 1)
    if text[at : at + 1] == "]":
        return found, at + 1
    while True:
        members, at = _object_at(text, at)
        found.append(members)
        at = _behind_blanks(text, at)
        if text[at : at + 1] == "]":
            return found, at + 1
        at = _behind_blanks(text, _behind(text, at, ","))


def _behind(text: str, at: int, sign: str) -> int:
    at = _behind_blanks(text, at)
    if text[at : at + 1] != sign:
        raise json.JSONDecodeError(f"Expecting '{sign}' delimiter", text, at)
    return at + 1


def _behind_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None, "it may be empty"
    return found.end()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise _twice(name)
    return found


def _twice(name: str) -> MediationError:
    return MediationError(
        Reason.MESSAGE_INVALID, f"The body has {quoted(name)} twice in one object."
    )


def _constant(name: str) -> Any:
    raise MediationError(Reason.MESSAGE_INVALID, f"The body is not JSON: {name} is not a number.")


def _float(text: str) -> float:
    value = float(text)
    if isinf(value):  # 1e999
        raise ValueError
    return value


def _too_complex() -> MediationError:
    return MediationError(
        Reason.TOO_COMPLEX, f"The body is JSON of more than {MOST_VALUES} values."
    )


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
