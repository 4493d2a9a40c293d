"""Parses the bytes of strangers into an XML document, within limits.

The parser is libxml2, hardened, a new one per document. What it cannot refuse by itself is
checked around it: document types before (nothing in one is ever read) and after, counts by a look
at the octets before, and exactly afterwards. Every check is skipped where the size of the
document, or a count of some octet in it, makes a violation impossible; so a small message pays
next to nothing.
"""

import re
import threading
from dataclasses import dataclass, field, fields
from typing import Any, cast

from lxml import etree

from filters.charsets import DECLARATION, in_utf_8
from filters.reasons import FilterError, Reason


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """The limits of one document, in octets of UTF-8 or as counts."""

    octets: int = 2 * 2**20
    depth: int = 256
    """Values above 256 have no effect: it is the parser's own limit."""
    elements: int = 50_000
    nodes: int = 100_000
    """Elements, attributes, texts, comments."""
    attributes: int = 128
    """Attributes of one element."""
    attribute_value: int = 64 * 2**10
    namespaces_in_scope: int = 128
    """NVRs of one maker declare 55 on each envelope."""
    namespaces_declared: int = 1024
    """Declarations of namespaces in the document."""
    scope_octets: int = 16 * 2**10
    """Prefixes and URIs in scope together."""
    uri: int = 2048
    """Octets of one namespace name."""
    name: int = 1024
    """Octets of one element's or attribute's name, with its prefix."""
    few_attributes: int = field(init=False, repr=False, compare=False)
    """Attributes and declarations in a whole document up to which none of these limits on their
    number can be exceeded."""
    short_tag: int = field(init=False, repr=False, compare=False)
    """Octets of a tag up to which no limit on what is in a tag can be exceeded."""
    short_part: int = field(init=False, repr=False, compare=False)
    """Octets of a part of a tag (a name, a value, a URI) up to which none on parts can be."""
    covers_usual: bool = field(init=False, repr=False, compare=False)
    """Whether each of these limits is at least as wide as the usual one. Asked for each message, it
    took 5 us to find out."""

    def __post_init__(self) -> None:
        few = min(self.attributes, self.namespaces_in_scope, self.namespaces_declared)
        wide = self.attributes * _SHORTEST_ATTRIBUTE
        part = min(self.name, self.uri, self.attribute_value)
        usual = all(getattr(self, one.name) >= one.default for one in fields(self) if one.init)
        object.__setattr__(self, "few_attributes", few)
        object.__setattr__(self, "covers_usual", usual)
        object.__setattr__(self, "short_tag", min(wide, part))
        object.__setattr__(self, "short_part", part)


MOST_SAID = 160
"""Characters of the parser's words that a refusal repeats."""
_PLACE = re.compile(r", line \d+, column \d+$")
_FUNCTION = re.compile(r"^xml[A-Z]\w+ ?: ")
"""The function of libxml2 that complains, which is nobody's business."""
_SHORTEST_ATTRIBUTE = len(' a=""')

DEFAULT_LIMITS = DocumentLimits()


def parse_document(
    octets: bytes,
    *,
    limits: DocumentLimits = DEFAULT_LIMITS,
    names: set[str] | None = None,
) -> etree._Element:
    """Parse *octets* of a peer, in UTF-8 or in UTF-16 with a byte order mark, into a document's
    root element. What comes in another charset, `in_utf_8` converts before.

    Args:
        names: Takes the names (Clark notation) of elements and attributes, and the prefixes and
            URIs of namespaces, also of a document that is then refused: libxml2 keeps them for the
            life of the thread, so somebody must count them. Names of a document that is not
            well-formed are kept by libxml2, but not counted.

    Raises:
        FilterError: ``TOO_LARGE``, ``ENCODING``, ``NOT_XML``, ``DTD``,
            ``PROCESSING_INSTRUCTION``, ``TOO_COMPLEX``.
    """
    if len(octets) > limits.octets:
        raise FilterError(Reason.TOO_LARGE, "the document is too large")
    octets = in_utf_8(octets, strict=True)
    body = _behind_declaration(octets)
    # One octet is found far more quickly than several, and most documents have neither of these.
    declares = b"!" in octets and b"<!D" in octets
    if declares:
        _refuse_document_type(octets, body)
    crowded = _may_be_crowded(octets, limits)
    if crowded:
        _refuse_crowds(octets, limits)
    try:
        root = etree.fromstring(octets, _parsers.hardened)
    except etree.XMLSyntaxError as exc:
        # The stubs do not know `code`.
        if exc.code == etree.ErrorTypes.ERR_RESOURCE_LIMIT:  # type: ignore[attr-defined]
            raise _too_complex("the document is nested too deeply, or a part is too long") from None
        raise _not_xml(_said(exc)) from None
    if names is not None:
        _collect(names, root, octets)
    if declares and root.getroottree().docinfo.internalDTD is not None:
        raise _document_type()
    if octets.find(b"?", body) >= 0 and octets.find(b"<?", body) >= 0 and _INSTRUCTIONS(root):
        raise FilterError(Reason.PROCESSING_INSTRUCTION, "the document has an instruction")
    if crowded and _CROWDED(root, elements=limits.elements, nodes=limits.nodes):
        raise _crowded()
    _check_sizes(root, octets, limits)
    return root


def end_of_declaration(octets: bytes) -> int | None:
    """Return where the XML declaration of *octets* ends, 0 where there is none; None where they are
    not read as they are: `parse_document` converts or refuses them."""
    try:
        return _behind_declaration(octets) if in_utf_8(octets, strict=True) is octets else None
    except FilterError:
        return None


def replace_forbidden(octets: bytes) -> bytes | None:
    """Replace every character that XML 1.0 forbids by U+FFFD, and every reference to a control
    character, in a document that `parse_document` refuses as ``NOT_XML``; None where there is none
    of them.

    The document is decoded, searched and encoded once, in a time that grows with its length.

    Raises:
        FilterError: ``ENCODING``.
    """
    try:
        text = in_utf_8(octets, strict=True).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    mended, replaced = _FORBIDDEN.subn("\ufffd", text)
    return mended.encode() if replaced else None


_FORBIDDEN = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]"
    "|&#0{0,9}(?:[0-8]|1[124-9]|2[0-9]|3[01]);|&#x0{0,9}(?:[0-8bcefBCEF]|1[0-9a-fA-F]);"
)


def text_of(element: etree._Element) -> str:
    """The text of *element*, comments aside, trimmed: peers pad URIs, times and identifiers."""
    return whole_text(element).strip()


def whole_text(element: etree._Element) -> str:
    """The text of *element*, comments aside, as it stands."""
    if not len(element):
        return element.text or ""
    return "".join([element.text or "", *(child.tail or "" for child in element)])


def parse_own(octets: bytes) -> etree._Element:
    """Parse a document that `parse_document` has passed, or that we made, with no limit but the
    parser's own.

    Raises:
        lxml.etree.XMLSyntaxError: It is not well-formed.
    """
    return etree.fromstring(octets, _parsers.hardened)


def _collect(names: set[str], root: etree._Element, octets: bytes) -> None:
    declared = 0
    signs = octets.count(b"=")
    if signs and b"xmlns" in octets:
        for _, (prefix, uri) in etree.iterwalk(root, events=("start-ns",)):
            declared += 1
            names.add(f"xmlns:{prefix}")
            names.add(uri)
    found = root.iter(etree.Element)
    if signs == declared:  # All signs belong to declarations: no attribute is left.
        names.update([element.tag for element in found])
        return
    for element in found:
        names.add(element.tag)
        if keys := element.keys():
            names.update(cast("list[str]", keys))


class _Parsers(threading.local):
    """The parser of each thread: to make one takes a fifth of the time that a small document
    takes."""

    def __init__(self) -> None:
        self.hardened = etree.XMLParser(
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            dtd_validation=False,
            huge_tree=False,
        )


_parsers = _Parsers()


# ---- declarations -------------------------------------------------------------------------------


def _behind_declaration(octets: bytes) -> int:
    """Return where the XML declaration of *octets* ends, which are in UTF-8; 0 where there is
    none."""
    if not (octets.startswith(b"<?xml") and octets[5:6] in (b" ", b"\t", b"\r", b"\n")):
        return 0
    declaration = DECLARATION.match(octets)
    if declaration is None or (declaration[1] or declaration[2]) != b"1.0":
        # XML 1.1 allows what 1.0 does not, and no peer of ours needs it.
        raise _not_xml()
    return declaration.end()


# ---- document types, counts, sizes --------------------------------------------------------------

_DOCUMENT_TYPE = b"<!DOCTYPE"
_BEFORE_IT = re.compile(rb"[ \t\r\n]+|<!--.*?-->|<\?.*?\?>", re.DOTALL)

# The last alternative is for what is not closed: there is nothing to look for behind it.
_HIDDEN = re.compile(rb"<!(?:--.*?-->|\[CDATA\[.*?\]\]>|.*)", re.DOTALL)

_INSTRUCTIONS = etree.XPath("boolean(//processing-instruction())")
_CROWDED = etree.XPath("count(//*) > $elements or count(//node()) + count(//@*) > $nodes")
_TOO_DEEP = etree.XPath("boolean(//*[count(ancestor::*) >= $limit])")
_TOO_WIDE = etree.XPath("boolean(//*[count(@*) > $limit])")
# These count characters, of which one has up to four octets.
_LONG_VALUES = etree.XPath("//@*[string-length() > $limit]", smart_strings=False)
_LONG_NAMES = etree.XPath(
    "//*[string-length(local-name()) > $limit or @*[string-length(local-name()) > $limit]]"
)

_PARSER_DEPTH = 256


def _refuse_document_type(octets: bytes, body: int) -> None:
    """Refuse a document type before the parser reads any of it: entities cost even when unused."""
    if _DOCUMENT_TYPE not in octets:
        return
    # One by one: a group that repeats would remember each of them, to give it back.
    while found := _BEFORE_IT.match(octets, body):
        body = found.end()
    if octets.startswith(_DOCUMENT_TYPE, body):
        raise _document_type()


def _may_be_crowded(octets: bytes, limits: DocumentLimits) -> bool:
    """Return True if there can be too many nodes: each `<` begins one, and ends a text at most."""
    if len(octets) <= min(limits.elements, limits.nodes):
        return False
    marks = octets.count(b"<")
    return marks > limits.elements or 2 * marks + octets.count(b"=") > limits.nodes


def _refuse_crowds(octets: bytes, limits: DocumentLimits) -> None:
    """Count elements and comments without parsing, so that no tree of millions is ever built.

    A `<` is markup everywhere but in comments and CDATA sections, so for a well-formed document
    these counts are exact. What is not well-formed, the parser will refuse.
    """
    visible, hidden = _HIDDEN.subn(b"", octets)
    elements = visible.count(b"<") - visible.count(b"</") - visible.count(b"<?")
    # A CDATA section is not a node of its own; comments hide no `--`, so none hides another.
    comments = 0 if b"<![CDATA[" in octets else hidden
    if elements > limits.elements or elements + comments > limits.nodes:
        raise _crowded()


def _check_sizes(root: etree._Element, octets: bytes, limits: DocumentLimits) -> None:
    """Check the lengths and counts within one tag.

    Each attribute and each declaration has a `=`. A piece reaches from one `<` to the next; its
    last `>` ends the tag, or is text. So the longest such bounds every name, value and URI, and
    how many attributes an element has.
    """
    if limits.depth < _PARSER_DEPTH and _TOO_DEEP(root, limit=limits.depth):
        raise _too_complex("the document is nested too deeply")
    few, short = octets.count(b"=") <= limits.few_attributes, limits.short_tag
    # Where there are few attributes, no tag has too many, and their length alone is left.
    if (
        few
        and len(octets) <= limits.scope_octets
        and not _may_have_long_tag(octets, limits.short_part)
    ):
        return
    pieces = octets.split(b"<")
    longest = max([piece.rfind(b">") for piece in pieces if len(piece) > short], default=0)
    if (
        longest > limits.attributes * _SHORTEST_ATTRIBUTE
        and any(piece.count(b"=") > limits.attributes for piece in pieces)
        and _TOO_WIDE(root, limit=limits.attributes)
    ):
        raise _too_complex("an element has too many attributes")
    if longest > limits.attribute_value:
        for value in _found(_LONG_VALUES, root, limits.attribute_value // 4):
            if len(value.encode()) > limits.attribute_value:
                raise _too_complex("an attribute's value is too long")
    if longest > limits.name:
        for element in _found(_LONG_NAMES, root, limits.name // 4):
            _check_names(element, limits)
    few = few or octets.count(b"xmlns") <= min(
        limits.namespaces_in_scope, limits.namespaces_declared
    )
    if (
        not few
        or longest > min(limits.uri, limits.name)
        or (
            len(octets) > limits.scope_octets
            and sum(piece.rfind(b">") for piece in pieces if b"xmlns" in piece)
            > limits.scope_octets
        )
    ):
        _check_namespaces(root, limits)


def _may_have_long_tag(octets: bytes, length: int) -> bool:
    """False only if no more than *length* octets stand between a `<` and the last `>` before the
    next. More would fill a window of half their length, in which there is no `<`."""
    if len(octets) <= length:
        return False
    window = max(1, length // 2)
    start, last = 0, len(octets) - window
    while start <= last:
        if octets.find(b"<", start, start + window) >= 0:
            start += window
            continue
        begin, end = octets.rfind(b"<", 0, start), octets.find(b"<", start + window)
        end = len(octets) if end < 0 else end
        if octets.rfind(b">", max(begin, 0), end) - begin > length:
            return True
        start = end  # All between was text.
    return False


def _found(xpath: etree.XPath, root: etree._Element, limit: int) -> Any:
    return xpath(root, limit=limit)


def _check_names(element: etree._Element, limits: DocumentLimits) -> None:
    for name in (element.tag, *element.attrib):
        local = etree.QName(name).localname
        if len(local.encode()) > limits.name:
            raise _too_complex("a name is too long")


def _check_namespaces(root: etree._Element, limits: DocumentLimits) -> None:
    """Walk the declarations alone, with the namespaces in scope at each."""
    scope: dict[str, str] = {}
    replaced: list[tuple[str, str | None]] = []
    declared = octets = 0
    for event, declaration in etree.iterwalk(root, events=("start-ns", "end-ns")):
        if event == "start-ns":
            prefix, uri = declaration
            declared += 1
            before = scope.get(prefix)
            replaced.append((prefix, before))
            scope[prefix] = uri
            octets += _weight(prefix, uri) - _weight(prefix, before)
            if (
                declared > limits.namespaces_declared
                or len(scope) > limits.namespaces_in_scope
                or octets > limits.scope_octets
                or len(uri.encode()) > limits.uri
                or len(prefix.encode()) > limits.name
            ):
                raise _too_complex("the document has too many namespaces, or too long ones")
        else:
            prefix, before = replaced.pop()
            octets -= _weight(prefix, scope.pop(prefix)) - _weight(prefix, before)
            if before is not None:
                scope[prefix] = before


def _weight(prefix: str, uri: str | None) -> int:
    """The octets that one declaration adds to those in scope."""
    return 0 if uri is None else len(prefix.encode()) + len(uri.encode())


def _not_xml(why: str = "") -> FilterError:
    text = "the document is not well-formed XML 1.0"
    return FilterError(Reason.NOT_XML, f"{text}: {why}" if why else text)


def _said(error: etree.XMLSyntaxError) -> str:
    """Return the parser's own words for what is wrong, and the place. They may hold names of the
    document, so they are cut to a length, and characters that would not show are replaced."""
    words = _FUNCTION.sub("", _PLACE.sub("", " ".join(str(error.msg).split())))
    words = words.replace("xmlChar value", "character")
    shown = "".join(character if character.isprintable() else "?" for character in words)
    shown = shown if len(shown) <= MOST_SAID else f"{shown[:MOST_SAID]}..."
    line, column = error.position
    return f"line {line}, column {column}: {shown}" if shown else f"line {line}, column {column}"


def _document_type() -> FilterError:
    return FilterError(Reason.DTD, "the document has a document type declaration")


def _crowded() -> FilterError:
    return _too_complex("the document has too many elements, attributes, texts or comments")


def _too_complex(text: str) -> FilterError:
    return FilterError(Reason.TOO_COMPLEX, text)
