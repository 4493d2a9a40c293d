"""Charsets of XML documents: the table of those that are read, and how a document becomes UTF-8.

Which one counts (RFC 7303, section 3): a byte order mark, then the charset of the media type, then
the XML declaration; a later one that contradicts an earlier one is ignored. Nothing is guessed, and
what is not in the table is refused.

Whatever leaves here is in UTF-8 and says nothing else of itself, so that whoever reads it later,
verifies it or cuts it into pieces, reads the same characters.
"""

import re

from filters.reasons import FilterError, Reason

CHARSETS = {
    "UTF-8": ("utf-8", "utf8", "unicode-1-1-utf-8", "csutf8"),
    "UTF-16": ("utf-16", "utf16", "csutf16"),
    "UTF-16LE": ("utf-16le", "utf-16-le", "utf16le", "csutf16le"),
    "UTF-16BE": ("utf-16be", "utf-16-be", "utf16be", "csutf16be"),
    "US-ASCII": (
        "us-ascii", "ascii", "us", "ansi-x3.4-1968", "ansi-x3.4-1986", "iso-646.irv:1991",
        "iso646-us", "iso-ir-6", "ibm367", "cp367", "csascii",
    ),
    "ISO-8859-1": (
        "iso-8859-1", "iso8859-1", "iso88591", "iso-8859-1:1987", "latin1", "latin-1", "l1",
        "iso-ir-100", "ibm819", "cp819", "csisolatin1",
    ),
    "ISO-8859-15": (
        "iso-8859-15", "iso8859-15", "iso885915", "latin9", "latin-9", "l9", "csiso885915",
    ),
    "windows-1252": (
        "windows-1252", "windows1252", "win-1252", "cp1252", "cp-1252", "x-cp1252",
        "cswindows1252",
    ),
}  # fmt: skip
"""The charsets that are read, each with its names: in lower case, with hyphens for underscores."""
OFFERED = "UTF-8, UTF-16, US-ASCII, ISO-8859-1, ISO-8859-15, windows-1252"
"""Those that are read, for people."""

_NAMED = {name: charset for charset, names in CHARSETS.items() for name in names}
_CODECS = {
    "UTF-16LE": "utf-16-le",
    "UTF-16BE": "utf-16-be",
    "ISO-8859-1": "iso-8859-1",
    "ISO-8859-15": "iso-8859-15",
    "windows-1252": "cp1252",
}
_WIDE = frozenset({"UTF-16", "UTF-16LE", "UTF-16BE"})
_BYTE_ORDER_MARKS = (
    # UTF-32's begin with, or hold, those of UTF-16: they come first.
    (b"\xff\xfe\x00\x00", ""),
    (b"\x00\x00\xfe\xff", ""),
    (b"\xef\xbb\xbf", "UTF-8"),
    (b"\xff\xfe", "UTF-16LE"),
    (b"\xfe\xff", "UTF-16BE"),
)
_FOREIGN_BEGINNINGS = (b"<\x00", b"\x00", b"\x4c\x6f\xa7\x94")
"""``<`` in UTF-16 and UTF-32 without a byte order mark, ``<?xm`` in EBCDIC."""
_SHOWN = 40
"""Characters of a name that a text repeats."""

_PLAIN_BEGINNING = re.compile(rb"<[^\0?]")
_PLAIN = frozenset({None, "utf-8", "UTF-8"})
"""UTF-8 without a byte order mark and a declaration, as nearly all send it."""

_VALUE = rb"""[ \t\r\n]*=[ \t\r\n]*(?:"([^"<]*)"|'([^'<]*)')"""
DECLARATION = re.compile(
    rb"<\?xml[ \t\r\n]+version" + _VALUE + rb"(?:[ \t\r\n]+encoding" + _VALUE + rb")?"
    rb"(?:[ \t\r\n]+standalone" + _VALUE + rb")?[ \t\r\n]*\?>"
)
"""An XML declaration; its groups are version, encoding and standalone, each in double and in single
quotes."""


def charset_named(name: str) -> str | None:
    """The charset of `CHARSETS` that *name* means; None where none of them is meant."""
    return _NAMED.get(name.strip(" \t\r\n\"'").lower().replace("_", "-"))


def charset_refused(name: str) -> str:
    """The text that refuses a charset of this *name*."""
    shown = "".join(sign if sign.isprintable() else "?" for sign in name[:_SHOWN])
    return f"the charset {shown!r} is not read; these are: {OFFERED}"


def in_utf_8(
    octets: bytes, charset: str | None = None, *, most: int | None = None, strict: bool = False
) -> bytes:
    """Return *octets*, an XML document, in UTF-8: without a byte order mark, and with no
    declaration of another encoding. What is so already is returned as it is, and whether it is
    well-formed is not looked at.

    Args:
        charset: The parameter of its media type, if it had one.
        most: The most bytes that it may have in UTF-8.
        strict: A declaration of anything but UTF-8 and UTF-16 is refused, where it counts: for who
            goes on with the document as it came.

    Raises:
        FilterError: ``ENCODING``: its charset is not read, or is not clear. ``NOT_XML``: it is not
            in its charset. ``TOO_LARGE``: it is larger than *most*.
    """
    if charset in _PLAIN and _PLAIN_BEGINNING.match(octets):
        return octets
    found, octets = _charset_of(octets, charset, strict)
    if found in _CODECS:
        octets = _converted(octets, found)
    elif found == "US-ASCII" and not octets.isascii():
        raise FilterError(Reason.NOT_XML, "the document is not in US-ASCII, as it says")
    if most is not None and len(octets) > most:
        raise FilterError(Reason.TOO_LARGE, "the document is too large")
    return _without_declaration(octets) if octets.startswith(b"<?xml") else octets


def require_utf_8(octets: bytes) -> None:
    """Refuse a document that is not in UTF-8, or says that it is not: one that is signed or kept as
    it came is read again by others, who know nothing of its media type.

    Raises:
        FilterError: ``ENCODING``
    """
    if in_utf_8(octets, strict=True) not in (octets, octets.removeprefix(b"\xef\xbb\xbf")):
        raise FilterError(Reason.ENCODING, "the document is not in UTF-8")


def _charset_of(octets: bytes, charset: str | None, strict: bool) -> tuple[str, bytes]:
    """The charset of *octets*, and these without their byte order mark."""
    stated = charset_named(charset) if charset else None
    if charset and stated is None:
        raise FilterError(Reason.ENCODING, charset_refused(charset))
    # A document's first octet is nearly always its first `<`.
    if not octets.startswith(b"<") or octets.startswith(b"<\x00"):
        for mark, marked in _BYTE_ORDER_MARKS:
            if octets.startswith(mark):
                if not marked:
                    raise FilterError(Reason.ENCODING, charset_refused("UTF-32"))
                return marked, octets[len(mark) :]
    found = stated or _declared(octets, strict)
    if found == "UTF-16" or (found not in _WIDE and octets.startswith(_FOREIGN_BEGINNINGS)):
        raise _unclear()
    return found, octets


def _declared(octets: bytes, strict: bool) -> str:
    """The charset that the declaration of *octets* says; UTF-8 without one."""
    if not octets.startswith(b"<?xml"):
        return "UTF-8"
    declaration = DECLARATION.match(octets)
    name = (declaration[3] or declaration[4]) if declaration is not None else None
    if name is None:
        return "UTF-8"
    said = name.decode("ascii", "replace")
    found = charset_named(said)
    if found is None:
        raise FilterError(Reason.ENCODING, charset_refused(said))
    if found in _WIDE or (strict and found != "UTF-8"):
        raise _unclear()
    return found


def _converted(octets: bytes, charset: str) -> bytes:
    # Half of a pair of UTF-16 is not well-formed in UTF-8 either: the parser says so.
    errors = "surrogatepass" if charset in _WIDE else "strict"
    try:
        return octets.decode(_CODECS[charset], errors).encode("utf-8", errors)
    except UnicodeError:
        text = f"the document is not in {charset}, as it says"
        raise FilterError(Reason.NOT_XML, text) from None


def _without_declaration(octets: bytes) -> bytes:
    """*octets*, in UTF-8, with blanks for a declaration of another encoding."""
    declaration = DECLARATION.match(octets)
    if declaration is None or (declaration[1] or declaration[2]) != b"1.0":
        return octets
    name = declaration[3] or declaration[4]
    if name is None or name.lower() == b"utf-8":
        return octets
    blanks = re.sub(rb"[^\r\n]", b" ", declaration[0])  # Lines and columns stay what they were.
    return blanks + octets[declaration.end() :]


def _unclear() -> FilterError:
    return FilterError(
        Reason.ENCODING,
        f"the document is not clearly in one of {OFFERED} "
        "(UTF-16 has a byte order mark, or is named utf-16le or utf-16be)",
    )
