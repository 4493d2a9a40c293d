"""MIME as SOAP and messaging systems need it: media types, and multipart bodies read and written.

It is our own because the standard library's parser has no bounds: it takes a body line by line, and
so spends a second on four megabytes of line breaks.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

MAX_BOUNDARY = 70
"""RFC 2046, "Multipart Media Type"."""
MAX_PART_HEADER = 8 * 1024
"""Octets of the header of one part."""
MAX_PARTS = 64

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_TYPE = re.compile(rf"[ \t]*({_TOKEN}/{_TOKEN})[ \t]*")
# Many toolkits leave action=http://... without its quotation marks, so any run will do.
_PARAMETER = re.compile(
    rf";[ \t]*(?:({_TOKEN})=(?:\"((?:[^\"\\\x00-\x08\x0a-\x1f\x7f]|\\[\t\x20-\x7e])*)\""
    r"|([^\s;\",\x00-\x1f\x7f]+))[ \t]*)?"
)
_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^";\s]{1,80})"?', re.IGNORECASE)
_MAX_OCTETS = 4096
_MAX_PARAMETERS = 16

_DELIMITED = re.compile(rb"(--)?[ \t]*(?:\r?\n|\Z)")
"""The rest of a boundary's line; two hyphens end the body."""
_LINE_END = re.compile(r"\r?\n")
_HEAD_END = re.compile(rb"\r?\n\r?\n")


class MimeError(ValueError):
    """Text that is not a media type or not a multipart body, or exceeds a limit."""


@dataclass(frozen=True, slots=True)
class MediaType:
    """A media type (RFC 9110, "Media Type"); its name and those of its parameters are in lower
    case."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def charset(self) -> str | None:
        """The value in lower case; None when not said."""
        charset = self.parameters.get("charset")
        return None if charset is None else charset.lower()

    @property
    def action(self) -> str | None:
        """SOAP 1.2's action parameter (RFC 3902)."""
        return self.parameters.get("action")


def charset_in(content_type: str) -> str | None:
    """The charset that a content type names, however the rest of it is written; None: it names
    none."""
    found = _CHARSET.search(content_type)
    return found[1] if found is not None else None


def with_charset(content_type: str, charset: str) -> str:
    """*content_type* with *charset* in place of the one that it names, if it names one."""
    return _CHARSET.sub(f"; charset={charset}", content_type, count=1)


def parse_media_type(text: str) -> MediaType:
    """Read a media type.

    Raises:
        MimeError: *text* is not a media type, or has one parameter twice.
    """
    head = _TYPE.match(text)
    if head is None or len(text) > _MAX_OCTETS:
        raise MimeError("not a media type")
    parameters: dict[str, str] = {}
    position = head.end()
    while position < len(text):
        found = _PARAMETER.match(text, position)
        if found is None or len(parameters) >= _MAX_PARAMETERS:
            raise MimeError("a parameter of a media type cannot be read, or there are too many")
        position = found.end()
        name, quoted, plain = found.groups()
        if name is None:
            continue
        name = name.lower()
        if name in parameters:
            raise MimeError("a media type has a parameter twice")
        parameters[name] = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    return MediaType(head[1].lower(), parameters)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a multipart body. The names of its header fields are in lower case, their values as
    they stood behind the colon and one space, unfolded."""

    fields: Mapping[str, str]
    content: bytes


def read_multipart(body: bytes, boundary: str, *, max_parts: int = MAX_PARTS) -> list[Part]:
    """The parts of a multipart body (RFC 2046, "Common Syntax"), in order, at least one.

    Lines may end without CR: what Python's own library writes does. What stands before the first
    boundary and behind the last is not looked at.

    Raises:
        MimeError: It does not end, has no or more than *max_parts* parts, or a part's header is
            larger than `MAX_PART_HEADER`, cannot be read, or has one ``Content-`` field twice.
    """
    if not 0 < len(boundary) <= MAX_BOUNDARY:
        raise MimeError("a boundary has 1 to 70 characters")
    mark = b"--" + boundary.encode()
    line = b"\n" + mark
    parts: list[Part] = []
    at = 0 if body.startswith(mark) else _find(body, line, 0) + 1
    while True:
        behind = _DELIMITED.match(body, at + len(mark))
        if behind is None:
            raise MimeError("something stands behind a boundary")
        if behind[1]:
            break
        if len(parts) == max_parts:
            raise MimeError(f"a multipart body has more than {max_parts} parts")
        start = behind.end()
        # The line break belongs to the boundary, and may be that which ended the one before.
        end = _find(body, line, start - 1)
        at = end + 1
        if end > start and body[end - 1 : end] == b"\r":
            end -= 1
        parts.append(_read_part(body[start:end]))
    if not parts:
        raise MimeError("a multipart body has no parts")
    return parts


def _find(body: bytes, line: bytes, start: int) -> int:
    found = body.find(line, start)
    if found < 0:
        raise MimeError("a multipart body does not end, or does not begin")
    return found


def _read_part(part: bytes) -> Part:
    if part.startswith((b"\n", b"\r\n")):
        return Part({}, part[part.index(b"\n") + 1 :])
    end = _HEAD_END.search(part, 0, MAX_PART_HEADER + 4)
    if end is None:
        if len(part) > MAX_PART_HEADER:
            raise MimeError(f"the header of a part exceeds {MAX_PART_HEADER} octets")
        return Part(read_fields(part.removesuffix(b"\n").removesuffix(b"\r")), b"")
    return Part(read_fields(part[: end.start()]), part[end.end() :])


def read_fields(head: bytes) -> dict[str, str]:
    """The header fields of *head*, by their names in lower case.

    Raises:
        MimeError: It is not UTF-8, a line is not a field, or a ``Content-`` field stands twice.
    """
    try:
        lines = _LINE_END.split(head.decode())
    except UnicodeDecodeError as exc:
        raise MimeError("the header of a part is not UTF-8") from exc
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        if line.startswith((" ", "\t")) and name:
            fields[name] += f" {line.strip()}"
            continue
        name, colon, value = line.partition(":")
        name = name.strip().lower()
        if not colon or not name or (name in fields and name.startswith("content-")):
            raise MimeError("the header of a part cannot be read")
        fields[name] = value.removeprefix(" ")
    return fields


def write_multipart(parts: Sequence[tuple[str, bytes]], seed: bytes) -> tuple[str, bytes]:
    """A boundary that occurs in none of *parts*, and the body; each part is its header, without the
    last line break, and its content. The same *seed* and parts give the same boundary."""
    heads = [head.encode() for head, _ in parts]
    boundary = _boundary(seed, [*heads, *(content for _, content in parts)])
    line = f"--{boundary}".encode()
    pieces: list[bytes] = []
    for head, (_, content) in zip(heads, parts, strict=True):
        pieces += (line, b"\r\n", head, b"\r\n\r\n", content, b"\r\n")
    return boundary, b"".join([*pieces, line, b"--\r\n"])


def _boundary(seed: bytes, texts: Iterable[bytes]) -> str:
    texts = list(texts)
    digest = blake2b(seed, digest_size=16)
    while any(digest.hexdigest().encode() in text for text in texts):
        digest.update(b".")
    return digest.hexdigest()
