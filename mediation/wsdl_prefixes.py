"""One prefix for each namespace of a description, declared once, on its root.

That is more than XML asks for: a prefix may mean something else on each element. But readers of
descriptions keep prefixes by document (node-soap takes what a prefix means last for what it means
everywhere, and then knows no message of any operation).
"""

from collections.abc import Iterator, Mapping
from itertools import chain, count

from lxml import etree

from filters.documents import parse_own
from mediation import names

_QUALIFIED: Mapping[str, frozenset[str]] = {
    names.XSD: frozenset(
        {"base", "itemType", "memberTypes", "ref", "refer", "substitutionGroup", "type"}
    ),
    names.WSDL: frozenset({"binding", "element", "message", "type"}),
    names.WSDL_SOAP_1_1: frozenset({"message"}),
    names.WSDL_SOAP_1_2: frozenset({"message"}),
}
"""To each vocabulary its attributes whose values are qualified names, or lists of them."""


def declare_namespaces_once(description: bytes, preferred: Mapping[str, str]) -> bytes:
    """Return *description* with every namespace declared on its root, by one prefix.

    *preferred* has the prefixes of some namespaces; others keep the first that the description has
    for them, with a number where that is taken.
    """
    root = parse_own(description)
    prefixes = _one_for_each(root, preferred)
    for element in root.iter(etree.Element):
        _rename_values(element, prefixes)
    declared = {prefix: namespace for namespace, prefix in prefixes.items()}
    etree.cleanup_namespaces(root, top_nsmap=declared, keep_ns_prefixes=list(declared))
    return etree.tostring(root)


def _one_for_each(root: etree._Element, preferred: Mapping[str, str]) -> Mapping[str, str]:
    prefixes = dict(preferred)
    for prefix, namespace in _declarations(root):
        if namespace in prefixes:
            continue
        first, taken = prefix or "n", set(prefixes.values())
        numbered = (f"{first}{number}" for number in count(2))
        prefixes[namespace] = next(name for name in chain((first,), numbered) if name not in taken)
    return prefixes


def _declarations(root: etree._Element) -> Iterator[tuple[str | None, str]]:
    for element in root.iter(etree.Element):
        yield from element.nsmap.items()


def _rename_values(element: etree._Element, prefixes: Mapping[str, str]) -> None:
    qualified = _QUALIFIED.get(etree.QName(element).namespace or "", frozenset())
    for attribute in qualified.intersection(element.attrib.keys()):
        values = str(element.attrib[attribute]).split()
        element.attrib[attribute] = " ".join(_renamed(name, element, prefixes) for name in values)


def _renamed(name: str, element: etree._Element, prefixes: Mapping[str, str]) -> str:
    prefix, colon, local = name.rpartition(":")
    namespace = element.nsmap.get(prefix if colon else None)
    # What XML calls xml is declared everywhere, and nowhere.
    return name if namespace is None else f"{prefixes[namespace]}:{local}"
