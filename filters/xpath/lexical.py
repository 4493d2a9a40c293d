"""Names in an expression compared as they are written, prefix included.

YFilter, with which WS-Messenger (Apache Airavata 0.11) filters, knows no namespaces: ``/p:a`` is
true of documents that use the prefix ``p``, and ``/a`` also of an element in a default namespace.
What it takes of XPath is a small part; expressions outside it have no lexical form.
"""

from dataclasses import replace

from filters.dialects import XPATH_1_0, XPATH_LEXICAL
from filters.filter import Expression
from filters.reasons import FilterError
from filters.xpath.parser import UndeclaredPrefix, parse
from filters.xpath.tokens import tokenize

_BEFORE_NAMES = frozenset({"", "/", "//", "[", "@"})
"""Tokens behind which a name, or ``*``, is a name test."""
_PLAIN = frozenset({"/", "//", "[", "]", "@", "*", "=", "!=", "<", "<=", ">", ">=", "(", ")"})
_CALLS = frozenset({"text", "position"})


def as_lexical(expression: Expression) -> Expression:
    """*expression* in the dialect `XPATH_LEXICAL`, its text as it is; unchanged where it has no
    lexical form, or is not XPath."""
    if expression.dialect != XPATH_1_0 or _with_lexical_names(expression) is expression:
        return expression
    return replace(expression, dialect=XPATH_LEXICAL)


def translate_lexical(expression: Expression) -> Expression:
    """The XPath that means what *expression* says in the dialect `XPATH_LEXICAL`."""
    return _with_lexical_names(replace(expression, dialect=XPATH_1_0))


def _with_lexical_names(expression: Expression) -> Expression:
    """*expression*, which is also true where it is with names taken lexically; as it is, where it
    has no lexical form, or is not XPath."""
    try:
        lexical = _lexical(expression.text)
        if lexical is None:
            return expression
        try:
            parse(expression)
        except UndeclaredPrefix:
            either = replace(expression, text=lexical)
        else:
            either = replace(expression, text=f"({expression.text}) or ({lexical})")
        parse(either)
    except FilterError:  # It is refused when it is compiled, or as a whole too long.
        return expression
    return either


def _lexical(text: str) -> str | None:
    """*text* with lexical name tests; None where it has others than YFilter's constructs.

    Raises:
        FilterError: As `tokenize`.
    """
    words = tokenize(text).words
    written: list[str] = []
    before = ""
    for place, word in enumerate(words):
        if not word:
            break
        if word == "*" and before not in _BEFORE_NAMES:
            return None  # A product.
        if word in _PLAIN or word[0] in "\"'" or word[0].isdigit():
            written.append(word)
        elif not (word[0].isalpha() or word[0] == "_") or before not in _BEFORE_NAMES:
            return None
        elif words[place + 1] == "(":
            if word not in _CALLS or words[place + 2] != ")":
                return None
            written.append(word)
        else:
            written.append(_name_test(word, attribute=before == "@"))
        before = word
    return "".join(written)


def _name_test(name: str, *, attribute: bool) -> str:
    prefix, colon, local = name.rpartition(":")
    if local == "*":
        return f"*[starts-with(name(),'{prefix}:')]"
    if attribute:
        return f"*[name()='{name}']" if colon else name
    # The local name alone is what the engines decide; so few documents need the whole name.
    return f"*[local-name()='{local}' and name()='{name}']"
