"""XML indented for people. lxml is imported when some is shown, so that commands that show none
start quickly."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml import etree


def pretty(octets: bytes) -> str:
    """An XML document, indented where white space means nothing; what cannot be read stays as
    it came."""
    from lxml import etree

    from filters import Refused, parse_document

    try:
        root = parse_document(octets)
    except Refused:
        return octets.decode("utf-8", "replace")
    _indent(root)
    return etree.tostring(root, encoding="unicode")


def _indent(root: "etree._Element") -> None:
    from lxml import etree

    for element in root.iter(etree.Element):
        if len(element) and not _has_text(element):
            element.text = None
            for child in element:
                child.tail = None
    etree.indent(root)


def _has_text(element: "etree._Element") -> bool:
    parts = [element.text, *(child.tail for child in element)]
    return any(part and part.strip() for part in parts)
