"""Names as a reader of an expression knows them: with the expression's own prefixes."""

from collections.abc import Sequence

from filters.explaining.explanation import shortened
from filters.filter import Namespaces
from filters.xpath.syntax import KindTest, NameTest, Step

MOST = 6
_MAX_URI = 80
ANY = "*"


class Names:
    """Names in the words of an expression with *namespaces*."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._prefixes = {uri: prefix for prefix, uri in reversed(namespaces) if prefix and uri}

    def of(self, clark: str) -> str:
        """``p:a``, or what says the same where no prefix is declared for it."""
        namespace, local = _split(clark)
        if not namespace:
            return shortened(local)
        prefix = self._prefixes.get(namespace)
        return f"{prefix}:{local}" if prefix else f"{{{shortened(namespace, _MAX_URI)}}}{local}"

    def listed(self, names: Sequence[str]) -> str:
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        return ", ".join(map(self.of, names[:MOST])) + more

    def of_test(self, step: Step) -> str:
        """Name what *step* looks for: ``element p:a``, ``attribute b``, ``text()``."""
        kind = _kind(step)
        test = step.test
        if isinstance(test, KindTest):
            return f"{test.kind}()"
        if test.namespace is None:
            return kind
        return f"{kind} {self.of(f'{{{test.namespace}}}{test.local or ANY}')}"

    def counted(self, step: Step, number: int) -> str:
        """``1 element``, ``2 p:a``, ``3 @b``."""
        kind, named, name = self.of_test(step).partition(" ")
        if named:
            return f"{number} {'@' if step.axis == 'attribute' else ''}{name}"
        plural = "" if number == 1 or kind.endswith(")") else "s"
        return f"{number} {kind}{plural}"

    def hint(self, test: NameTest, present: Sequence[str]) -> str:
        """Guess what is wrong if *test* found none of the names that are *present*."""
        if test.local is None:
            return ""
        for clark in present:
            namespace, local = _split(clark)
            if local == test.local and namespace != test.namespace:
                asked = "no namespace, as names without a prefix do"
                if test.namespace:
                    asked = _named(test.namespace)
                return f"{local} exists in {_named(namespace)}; the expression asks for {asked}"
        for clark in present:
            if _split(clark)[1].lower() == test.local.lower():
                return "Capital and small letters differ"
        return ""


def _kind(step: Step) -> str:
    return "attribute" if step.axis == "attribute" else "element"


def _split(clark: str) -> tuple[str, str]:
    namespace, _, local = clark.rpartition("}")
    return namespace[1:], local


def _named(namespace: str) -> str:
    return f"namespace {shortened(namespace, _MAX_URI)}" if namespace else "no namespace"
