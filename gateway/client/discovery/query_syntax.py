"""Read queries as people write them.

| written                    | finds topics                                     | asked as |
|----------------------------|--------------------------------------------------|----------|
| ``harbour wind``           | with all these words                             | words    |
| ``text~REGEX``             | with a text, path, keyword ... that matches      | RE2      |
| ``keyword=wind``           | with this keyword                                | XPath    |
| ``path=Weather/Europe``    | described by this path                           | XPath    |
| ``property=station=16622`` | with this property                               | SQL      |
| ``creator=e-...``          | of the entity with this identifier, or this name | XPath    |
| ``id=UUID``                | with this id                                     | XPath    |
| ``sql:CONDITION``          | of whose properties the condition holds          | SQL      |
| ``xpath:EXPRESSION``       | of whose advertisement it holds                  | XPath    |
| ``xquery:EXPRESSION``      | of whose advertisement it holds                  | XQuery   |
"""

import re
from collections.abc import Callable, Mapping
from uuid import UUID

from mediation.discovery import Dialect, Query
from mediation.names import TDN

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
_ENTITY = re.compile("e-[0-9a-f]{32}")
_WRITTEN = re.compile(r"\s*([a-z]+)\s*([~=:])\s*(.*\S)\s*", re.DOTALL)


def read_query(text: str) -> Query:
    """Read a query as people write it.

    Raises:
        ValueError: It is not a query; the text says what is wrong.
    """
    if not text.strip():
        raise ValueError("the query is empty")
    written = _WRITTEN.fullmatch(text)
    if written is not None:
        name, sign, value = written.groups()
        form = _FORMS.get(name + sign)
        if form is not None:
            return form(value)
        if sign != ":":  # Else they are words, such as "note: wind".
            raise ValueError(
                f"'{name}{sign}' does not begin a query; use {', '.join(_FORMS)}, or words alone"
            )
    return Query(Dialect.STRING.value, text.strip())


def _property(text: str) -> Query:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals) or '"' in name:
        raise ValueError("write a property with its value: property=station=16622")
    ways = ["'" + value.replace("'", "''") + "'"]
    if _NUMBER.fullmatch(value):
        ways.append(value)
    elif value in ("true", "false"):
        ways.append(value.upper())
    return Query(Dialect.SQL.value, " OR ".join(f'"{name}" = {way}' for way in ways))


def _id(text: str) -> Query:
    try:
        topic_id = UUID(text)
    except ValueError:
        raise ValueError(f"{text!r} is not the id of a topic, a UUID") from None
    return _equal("TopicId", f"urn:uuid:{topic_id}")


def _creator(text: str) -> Query:
    name = "EntityId" if _ENTITY.fullmatch(text) else "Name"
    return _equal("Creator", name, text)


def _equal(*parts: str) -> Query:
    """XPath for the children with these names, below the advertisement; the last is the value."""
    *names, value = parts
    path = "/".join(f"*[local-name()='{name}' and namespace-uri()='{TDN}']" for name in names)
    quote = '"' if "'" in value else "'"
    if quote in value:
        raise ValueError(f"{value!r} has both single and double quotes: use one kind")
    return Query(Dialect.XPATH.value, f"{path} = {quote}{value}{quote}")


def _as_it_is(dialect: Dialect) -> Callable[[str], Query]:
    return lambda text: Query(dialect.value, text)


_FORMS: Mapping[str, Callable[[str], Query]] = {
    "text~": _as_it_is(Dialect.REGEX),
    "keyword=": lambda text: _equal("Descriptors", "Keyword", text),
    "path=": lambda text: _equal("Descriptors", "Path", text),
    "property=": _property,
    "creator=": _creator,
    "id=": _id,
    "sql:": _as_it_is(Dialect.SQL),
    "xpath:": _as_it_is(Dialect.XPATH),
    "xquery:": _as_it_is(Dialect.XQUERY),
}
