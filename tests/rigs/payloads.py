"""Payloads of any kind, as Hypothesis draws them."""

from hypothesis import strategies as st

from tests.rigs.mediation import WSNT

PREFIXES = ["", "p", "q", "s", "wsa", "wsnt", "soap", "n", "d", "t0"]
URIS = ["urn:one", "urn:two", "http://schemas.xmlsoap.org/ws/2004/08/addressing", WSNT, "urn:x&y"]
LOCALS = ["a", "Message", "Envelope", "Body", "Topic", "ä"]
TEXTS = st.text(alphabet=" \n\tp:q<>&\"']ä€😀", max_size=6)


@st.composite
def elements(draw: st.DrawFn, scope: dict[str, str] | None = None, depth: int = 0) -> str:
    """An element that declares, overrides and undeclares namespaces, with QNames in its content."""
    scope = dict(scope or {})
    declared = draw(st.dictionaries(st.sampled_from(PREFIXES), st.sampled_from(URIS), max_size=3))
    if scope.get("") and "" not in declared and draw(st.booleans()):
        declared[""] = ""
    scope.update(declared)
    bound = [prefix for prefix, uri in scope.items() if uri and prefix] + [""]
    prefix = draw(st.sampled_from(bound))
    local = draw(st.sampled_from(LOCALS))
    name = f"{prefix}:{local}" if prefix else local
    attributes = "".join(
        f" xmlns{':' + key if key else ''}={quoted(uri)}" for key, uri in declared.items()
    )
    if draw(st.booleans()):
        value = draw(st.sampled_from(bound))
        attributes += f" kind={quoted(f'{value}:name')}"
        if value:
            attributes += f' {value}:kind="1"'
    inner = _escaped(draw(TEXTS))
    if depth < 3:
        for _ in range(draw(st.integers(0, 2))):
            inner += draw(elements(scope, depth + 1)) + _escaped(draw(TEXTS))
    if draw(st.integers(0, 5)) == 0:
        inner += "<!-- a comment --><![CDATA[<&]]>"
    return f"<{name}{attributes}>{inner}</{name}>"


def quoted(text: str) -> str:
    """*text* as the value of an attribute."""
    return '"' + _escaped(text).replace('"', "&quot;") + '"'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
