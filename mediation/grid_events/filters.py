"""Filters by example: an event as a pattern becomes a filter of the engine.

    field of the pattern    becomes
    ----------------------  --------------------------------------------------------------------
    eventType               a topic expression: the topic of that type, and all below it
    eventNamespace          the namespace of that topic; and a condition over the payload
    all others              a condition over the payload each

``resdata.machine`` takes ``resdata.machine.utilization``, and not ``resdata.machinery``: topics are
compared level by level. A pattern's fields without a value, its handback, and numbers that are 0
say nothing. What came in another specification has a topic, but none of the fields of an event.
"""

import re
from collections.abc import Iterator

from filters import EVERYTHING, Expression, Filter, dialects
from filters.documents import parse_own
from mediation import names
from mediation.grid_events.encoding import TypeName, type_of
from mediation.grid_events.events import Event, Further, steps_of, topic_namespace
from mediation.grid_events.types import BASE, EVENT_TYPES, NUMBERS, class_of

_PREFIXES = {"ev": names.GRID_EVENT, "r": names.GRID_RESOURCE_EVENT}
_SCOPE = tuple(sorted({**_PREFIXES, "xsi": names.XSI}.items()))
_ROOT = {namespace: prefix for prefix, namespace in _PREFIXES.items()}
_IS_EVENT = " or ".join(f"/{_ROOT[name.namespace]}:{name.local}" for name in EVENT_TYPES)
_ZERO = re.compile(r"[+-]?(?:0++(?:\.0*+)?|\.0++)(?:[eE][+-]?\d++)?", re.ASCII)


def filter_of(pattern: Event | None) -> Filter:
    """The filter that takes what *pattern* is an example of; None takes everything."""
    if pattern is None:
        return EVERYTHING
    contents = tuple(Expression(text, namespaces=_SCOPE) for text in _conditions(pattern))
    return Filter(_topics(pattern), contents)


def _topics(pattern: Event) -> tuple[Expression, ...]:
    if not pattern.type:
        return ()
    path = "/".join(steps_of(pattern.type))
    if not pattern.namespace:
        return (Expression(path, dialects.TOPIC_SYNAPSE),)
    namespace = topic_namespace(pattern.namespace) or ""
    return (Expression(f"t:{path}//.", dialects.TOPIC_FULL, (("t", namespace),)),)


def _conditions(pattern: Event) -> Iterator[str]:
    """The conditions over the payload."""
    if pattern.namespace:
        yield _namespace(pattern.namespace, on_topic=bool(pattern.type))
    if pattern.source:
        yield _source(pattern.source)
    if pattern.message:
        yield f"/*/message = {_literal(pattern.message)}"
    if pattern.timestamp:
        yield f"/*/timestamp = '{pattern.timestamp}'"
    if pattern.number:
        yield f"/*/seqNo = '{pattern.number}'"
    yield from _types(pattern.type_name)
    for field in pattern.further:
        if field.text is not None and not _is_zero(pattern, field):
            # A field may be in a namespace; so its name is compared, not looked up.
            said = _literal(field.text)
            yield f"/*/*[local-name() = {_literal(field.name)}] = {said}"


def _namespace(namespace: str, *, on_topic: bool) -> str:
    """The condition that an event's namespace is *namespace*: what is not an event of ours has the
    one of its topic, where that is looked at, else its own."""
    same = f"/*/eventNamespace = {_literal(namespace)}"
    if "#" in namespace:
        return same
    others = "" if on_topic else f" and namespace-uri(/*) = {_literal(namespace)}"
    return f"{same} or not({_IS_EVENT}){others}"


def _source(source: str) -> str:
    """The condition that an event comes from *source*; of a domain, with a leading dot, that it
    comes from within. Case does not count."""
    cases: dict[str, str] = {}
    wanted = ""
    for character in source:
        lower = character.lower()
        if len(lower) != 1:
            lower = character
        wanted += lower
        cases |= {one: lower for one in (character, lower.upper()) if len(one) == 1}
    others = "".join(one for one in cases if one != cases[one])
    text = "/*/source"
    if others:
        text = f"translate(/*/source, '{others}', '{''.join(cases[one] for one in others)}')"
    if not source.startswith("."):
        return f"{text} = {_literal(wanted)}"
    begin = f"string-length(/*/source) - {len(wanted) - 1}"
    return f"substring({text}, {begin}) = {_literal(wanted)}"


def _types(name: TypeName) -> Iterator[str]:
    if name == BASE.name:
        return
    if name in EVENT_TYPES:
        yield f"boolean(/{_ROOT[name.namespace]}:{name.local})"
        return
    own = "/ev:Event/@xsi:type"
    if name.namespace == names.SOAPRMI_TYPES:
        local = class_of(name.local)
        tail = f".{local}"
        ending = f"substring({own}, string-length({own}) - {len(tail) - 1}) = {_literal(tail)}"
        yield f"{own} = {_literal('t:' + local)} or {ending}"
    else:
        yield f"{own} = {_literal('t:' + name.local)}"
    yield f"/ev:Event/namespace::t = {_literal(name.namespace)}"


def _is_zero(pattern: Event, field: Further) -> bool:
    """Return whether a field is a number that is 0."""
    if not _ZERO.fullmatch(field.text or ""):
        return False
    known = pattern.known_type
    kind = dict(known.fields).get(field.name) if known is not None else None
    if kind is None and field.octets:
        said = type_of(parse_own(field.octets))
        kind = said.local if said is not None else "long"
    return kind in NUMBERS


def _literal(text: str) -> str:
    """*text* as a string of XPath."""
    if "'" not in text:
        return f"'{text}'"
    if '"' not in text:
        return f'"{text}"'
    parts = (f'"{part}"' if part == "'" else f"'{part}'" for part in re.split("(')", text) if part)
    return f"concat({', '.join(parts)})"
