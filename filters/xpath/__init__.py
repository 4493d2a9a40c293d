"""XPath 1.0: the part of it that is supported, its syntax tree, and its compilation by libxml2."""

from filters.xpath.admission import (
    check,
    compile_value,
    compile_xpath,
    is_false,
    names_payload_root,
    prefixes_in,
)
from filters.xpath.lexical import as_lexical, translate_lexical
from filters.xpath.limits import XPathLimits
from filters.xpath.parser import UndeclaredPrefix, parse
from filters.xpath.relocation import relocate

__all__ = [
    "UndeclaredPrefix",
    "XPathLimits",
    "as_lexical",
    "check",
    "compile_value",
    "compile_xpath",
    "is_false",
    "names_payload_root",
    "parse",
    "prefixes_in",
    "relocate",
    "translate_lexical",
]
