"""The compiled engine: takes plans, and finds what is true in one walk over libxml2's tree.

It has octets parsed by the libxml2 that lxml carries, as `filters.documents` has, but for what lxml
adds; where lxml does not show that library's functions, lxml parses.
"""

import os
import threading
from array import array
from contextlib import suppress

from lxml import etree

from filters.documents import DEFAULT_LIMITS, end_of_declaration
from filters.filter import Expression, Namespaces
from filters.matching import _kernel
from filters.matching.engines.index import Found
from filters.matching.planning.plan import Plan
from filters.matching.planning.templates import plan_of
from filters.reasons import FilterError, Reason

Names = _kernel.Names


def unfit() -> str | None:
    """Say why the compiled engine must not be used with the lxml that runs; None if it may.

    It reads libxml2's tree in memory, whose layout is that of the headers it was compiled with.
    """
    found = (etree.__version__, ".".join(map(str, etree.LIBXML_VERSION)))
    if found != _kernel.BUILT_FOR:
        return (
            "the compiled engine was built for lxml {} with libxml2 {}, this is lxml {} with"
            " libxml2 {}: install Dragoman again".format(*_kernel.BUILT_FOR, *found)
        )
    # The version is the same, but the build may differ: try a filter.
    index = NativeIndex()
    number = index.add(Expression("/a[p:b[@c='1' and .='x']]//d", namespaces=(("p", "urn:p"),)))
    octets = b"<a><b xmlns='urn:p' c='1'>x</b><e><d/></e></a>"
    if etree._Element.__basicsize__ == _kernel.ELEMENT_SIZE:
        seen = index.find(etree.fromstring(octets))
        parsed = index.find_in(octets, checked=True)
        if all(list(one.true) == [number] for one in (seen, parsed) if one is not None):
            return None
    return "the compiled engine does not understand this build of lxml: install Dragoman again"


__all__ = ["Names", "NativeIndex", "parses", "unfit"]

_LXML = os.fsencode(etree.__file__)
_LIMITS = _kernel.Limits(
    elements=DEFAULT_LIMITS.elements,
    nodes=DEFAULT_LIMITS.nodes,
    attributes=DEFAULT_LIMITS.attributes,
    declarations=min(DEFAULT_LIMITS.namespaces_in_scope, DEFAULT_LIMITS.namespaces_declared),
    scope_octets=DEFAULT_LIMITS.scope_octets,
    short=DEFAULT_LIMITS.short_tag,
    part=DEFAULT_LIMITS.short_part,
)


class _Parsers(threading.local):
    """The parser of each thread, which keeps a bounded number of the names that it meets."""

    def __init__(self) -> None:
        self.parser: _kernel.Parser | None = None
        with suppress(LookupError):  # This build of lxml may hide them.
            self.parser = _kernel.Parser(_LXML)


_parsers = _Parsers()


def parses() -> bool:
    """Return whether the engine parses documents itself, with lxml's libxml2."""
    return _parsers.parser is not None


class NativeIndex:
    """See `filters.matching.engines.index.Index`."""

    def __init__(self) -> None:
        self._kernel = _kernel.Kernel()
        self._scopes: dict[Namespaces, int] = {}
        self._namespaces: list[Namespaces] = []
        self._users: list[int] = []
        """The number of expressions with the namespaces of each scope."""
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._kernel)

    def add(self, expression: Expression) -> int:
        # Surrogates are refused with the plan.
        text = expression.text.encode(errors="surrogatepass")
        namespaces = used_namespaces(expression)
        scope = self._scopes.get(namespaces)
        if scope is not None:
            number = self._kernel.find_filter(text, scope)
            if number >= 0:
                self._kernel.keep(number)
                return number
        plan = _plan(text, expression)
        scope = self._keep_scope(namespaces)
        try:
            return self._kernel.add(text, scope, plan)
        except BaseException as exc:
            self._let_go_scope(scope)
            if isinstance(exc, UnicodeEncodeError):
                raise FilterError(Reason.FILTER_INVALID, "a namespace is not characters") from None
            raise

    def remove(self, number: int) -> None:
        if not self._kernel.has(number):
            raise KeyError(number)
        scope = self._kernel.scope(number)
        if self._kernel.let_go(number):
            self._let_go_scope(scope)

    def find(self, root: etree._Element) -> Found:
        return self._decided(*self._kernel.find(root))

    def find_in(self, octets: bytes, *, checked: bool) -> Found | None:
        if (parser := _parsers.parser) is None:
            return None
        if checked:
            found = self._kernel.find_in(parser, octets, 0, None)
        else:
            body = end_of_declaration(octets) if octets.startswith(b"<?") else 0
            if body is None or len(octets) > DEFAULT_LIMITS.octets:
                return None
            found = self._kernel.find_in(parser, octets, body, _LIMITS)
        if found is None or not found[2]:
            return None if found is None else Found(found[0], found[1])
        try:
            return self._decided(*found)
        finally:
            self._kernel.let_go_document()

    def _decided(self, true: "array[int]", doubtful: list[int], unprogrammed: list[int]) -> Found:
        """Decide what the engine had no program for; the document must still be there."""
        for number in unprogrammed:
            program = _plan(self._kernel.text(number), self.expression(number)).program
            verdict = None if program is None else self._kernel.decide(number, program)
            if verdict is None:
                doubtful.append(number)
            elif verdict:
                true.append(number)
        return Found(true, doubtful)

    def expression(self, number: int) -> Expression:
        if not self._kernel.has(number):
            raise KeyError(number)
        namespaces = self._namespaces[self._kernel.scope(number)]
        return Expression(self._kernel.text(number).decode(), namespaces=namespaces)

    def _keep_scope(self, namespaces: Namespaces) -> int:
        scope = self._scopes.get(namespaces)
        if scope is None:
            if self._free:
                scope = self._free.pop()
                self._namespaces[scope] = namespaces
            else:
                scope = len(self._namespaces)
                self._namespaces.append(namespaces)
                self._users.append(0)
            self._scopes[namespaces] = scope
        self._users[scope] += 1
        return scope

    def _let_go_scope(self, scope: int) -> None:
        self._users[scope] -= 1
        if not self._users[scope]:
            del self._scopes[self._namespaces[scope]]
            self._namespaces[scope] = ()
            self._free.append(scope)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of all tables that expressions or messages make grow."""
        return {"scopes": len(self._scopes), **self._kernel.sizes()}


def _plan(text: bytes, expression: Expression) -> Plan:
    """Make the plan of *expression*, whose text in UTF-8 is *text*.

    Raises:
        FilterError: As `plan_of`.
    """
    return _kernel.plan_of_chain(text, expression.namespaces) or plan_of(expression)


def used_namespaces(expression: Expression) -> Namespaces:
    """Return the bindings whose prefixes occur in the text: no others can matter."""
    if not expression.namespaces:
        return ()
    text = expression.text
    return tuple(
        binding for binding in expression.namespaces if binding[0] and f"{binding[0]}:" in text
    )
