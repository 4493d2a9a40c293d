"""XPath 1.0 content filters: what of them we take, and their compilation by libxml2.

The parser knows all of the grammar and counts what costs. What it lets
through, libxml2 compiles, and its answers are the verdict.
"""

import re

from lxml import etree

from filters.filter import Namespaces
from filters.reasons import FilterError
from filters.topics.ncname import NCNAME
from filters.xpath.limits import DEFAULT_LIMITS, XPathLimits
from filters.xpath.parser import XML_PREFIX, parse_text
from filters.xpath.syntax import Call, Filtered, NameTest, Node, Path, walk
from filters.xpath.tokens import invalid

_NAME = re.compile(f"{NCNAME}+:?")
"""A name, whole, and the colon behind it."""


def check(text: str, namespaces: Namespaces, limits: XPathLimits = DEFAULT_LIMITS) -> None:
    """Refuse *text* unless it is an expression of XPath 1.0 within *limits*.

    Raises:
        FilterError: ``FILTER_COSTLY`` over a limit, else ``FILTER_INVALID``.
    """
    parse_text(text, namespaces, limits)


def compile_xpath(
    text: str, namespaces: Namespaces, limits: XPathLimits = DEFAULT_LIMITS
) -> etree.XPath:
    """Compile *text* into an expression with a boolean value, after `check`.

    Raises:
        FilterError: As `check`; ``FILTER_INVALID`` for what libxml2 refuses.
    """
    check(text, namespaces, limits)
    # Safe to wrap: what is an expression is one in parentheses too. So libxml2 converts, by the
    # rules of boolean().
    return _compiled(f"boolean({text})", namespaces)


def compile_value(text: str, namespaces: Namespaces) -> tuple[etree.XPath, etree.XPath]:
    """Compile *text* for its value, of any type, and for that value as a string, after `check`.

    Raises:
        FilterError: As `compile_xpath`.
    """
    check(text, namespaces)
    return _compiled(text, namespaces), _compiled(f"string({text})", namespaces)


def _compiled(text: str, namespaces: Namespaces) -> etree.XPath:
    try:
        return etree.XPath(text, namespaces=bindings(namespaces), regexp=False, smart_strings=False)
    except (etree.XPathError, ValueError) as exc:
        raise invalid("the expression is not XPath 1.0") from exc


def is_false(text: str, namespaces: Namespaces) -> bool:
    """Return True if *text* is false whatever the document is, because it is made of constants:
    ``false()``, ``1 = 2``. False for a text that is not an expression; compiling it says why."""
    try:
        if not all(map(_is_constant, walk(parse_text(text, namespaces, DEFAULT_LIMITS)))):
            return False
        return not compile_xpath(text, namespaces)(etree.Element("document"))
    except (FilterError, etree.XPathError):
        return False


def _is_constant(node: Node) -> bool:
    """Return whether *node* itself, apart from what it holds, asks nothing of the document."""
    match node:
        case Path() | Filtered():
            return False
        case Call(function=function, arguments=arguments):
            # Without an argument the others are about the context node; lang() always is.
            return function in ("true", "false") or (bool(arguments) and function != "lang")
        case _:
            return True


def prefixes_in(text: str) -> set[str]:
    """The prefixes in an expression, of any dialect; also what stands before other colons in it."""
    return {name.removesuffix(":") for name in _NAME.findall(text) if name.endswith(":")}


def names_payload_root(text: str) -> bool:
    """Return True if *text* is meant for the payload as a document of its own.

    True when some absolute path in it begins with the name of an element that is not ``Envelope``
    (``/c/b/a``, ``/o:Reading``): over an envelope that never matches. False for a text that is not
    an expression; compiling it says what is wrong.
    """
    # Which namespaces the prefixes stand for does not matter: each is its own.
    prefixes = prefixes_in(text[: DEFAULT_LIMITS.octets])
    try:
        tree = parse_text(text, tuple((prefix, prefix) for prefix in prefixes))
    except FilterError:
        return False
    return any(_begins_with_name(node) for node in walk(tree))


def _begins_with_name(node: Node) -> bool:
    if not (isinstance(node, Path) and node.absolute and node.steps):
        return False
    test = node.steps[0].test
    return (
        node.steps[0].axis == "child"
        and isinstance(test, NameTest)
        and test.local not in (None, "Envelope")
    )


def bindings(namespaces: Namespaces) -> dict[str, str]:
    """The prefixes as lxml takes them; XPath 1.0 has no default namespace."""
    return {prefix: uri for prefix, uri in namespaces if uri and prefix not in ("", XML_PREFIX)}
