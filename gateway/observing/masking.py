"""Hides the contents of named fields of messages from operators."""

import json
from collections.abc import Iterable
from typing import Any

from lxml import etree

from filters import Refused, parse_document
from mediation.packaging.json_text import read_json

HIDDEN = "***"
"""What is shown in place of what is masked."""
SECRETS = ("security", "secret", "credential", "password", "token", "authorization")
"""Names of elements and members of requests that prove who somebody is: their contents are never
shown."""
_ALWAYS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key"})
"""Header fields that are masked always."""


class Mask:
    """Masks by names, whatever their case: of XML elements and attributes without their namespaces,
    of members of JSON, of header fields.

    Attributes:
        names: Case-folded.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = frozenset(name.casefold() for name in names)

    def with_names(self, names: Iterable[str]) -> "Mask":
        """A mask that hides *names*, too."""
        return Mask((*self.names, *names))

    def text(self, text: str) -> str:
        """A text of a peer, which may be the beginning of a document: all of it is hidden where it
        cannot be read."""
        if not self.names or not text:
            return text
        masked = self.document(text.encode())
        return HIDDEN if masked is None else masked.decode()

    def header(self, name: str, value: str) -> str:
        """The *value* of a header field, or what is shown in its place."""
        known = name.casefold()
        return HIDDEN if known in _ALWAYS or known in self.names else value

    def document(self, octets: bytes) -> bytes | None:
        """A document without the contents that are masked, written anew where any may be; None
        where it cannot be read, so that nothing of it may be shown. It takes time for a large
        one."""
        if not self.names:
            return octets
        try:
            if octets.lstrip()[:1] in (b"{", b"["):
                return json.dumps(self._member(read_json(octets)), ensure_ascii=False).encode()
            root = parse_document(octets)
        except Refused:
            return None
        self._mask_elements(root)
        return etree.tostring(root, encoding="utf-8")

    def _mask_elements(self, root: etree._Element) -> None:
        for element in list(root.iter(etree.Element)):
            for name in element.attrib:
                if etree.QName(name).localname.casefold() in self.names:
                    element.set(name, HIDDEN)
            if etree.QName(element).localname.casefold() in self.names:
                tail = element.tail
                element.clear()
                element.text, element.tail = HIDDEN, tail

    def _member(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._member(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {
            name: HIDDEN if name.casefold() in self.names else self._member(one)
            for name, one in value.items()
        }
