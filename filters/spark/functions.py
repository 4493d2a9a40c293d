"""Functions for columns of XML: which filters match, whether an expression holds, what it yields.

They take columns, or names of columns, and keep all others; they work in batches and streams, with
a session of this process and over Spark Connect::

    from filters.spark import functions as X

    filters = [{"id": "fast", "xpath": "/storm[speed > 100]"}, {"id": "all", "topic": "storms//."}]
    df.withColumn("filters", X.matches("payload", filters, topic="topic"))
    df.where(X.xpath_matches("payload", "/w:storm", {"w": "http://example.org/weather"}))

A payload is a string, or the bytes of a document in any charset that `filters.charsets` has. One
that is null, is not XML, or exceeds the limits of a message at a gateway (2 MiB, no document type,
no processing instruction) gives null, never an error: count them by ``is_xml``. Expressions are
XPath 1.0 as subscriptions have it, the payload's root element their context node.

Workers need Dragoman installed, as they need pyarrow. A worker process compiles filters once, and
keeps them (`filters.spark.definitions`).
"""

import errno
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

from filters.charsets import in_utf_8
from filters.compiling.compiled import compile
from filters.documents import parse_document
from filters.events import Event
from filters.filter import Expression, Filter, Namespaces
from filters.filterset.filterset import FilterSet
from filters.matching.engines.choice import check_engine
from filters.matching.fallback.cost import DocumentSize, bound
from filters.querying import MAX_VISITS
from filters.reasons import FilterError
from filters.spark.arguments import Signature, require_columns, require_expression, shown
from filters.spark.definitions import (
    EXAMPLE,
    KEYS,
    Definition,
    DefinitionError,
    Definitions,
    NumberedFilters,
    Portable,
    collect_definitions,
    numbered_filters,
    read_definitions,
)
from filters.spark.id_columns import IdColumn
from filters.spark.session import require_packages
from filters.topics.topics import DEFAULT_TOPIC, parse_clark
from filters.xpath import compile_value
from filters.xpath.parser import parse_text

COMPILED = 256
"""Single expressions that one worker process keeps compiled."""
TOPICS = 4096
"""Topics that one keeps, read."""
COLUMNS = ("payload", "topic", "action", "properties")
"""What `matches` takes, in the order of its SQL."""
EXPRESSION = ("payload", "expression", "namespaces")
"""What `xpath_matches` and `xpath_value` take in SQL."""
NOT_A_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG})
"""What the system says of a path that is something else, such as an XPath."""

Key = TypeVar("Key")

Wanted = Definitions | str | Path | Iterable[Mapping[str, Any] | Definition]
"""Filters as `matches` takes them: what `read_definitions` made; the path of a file of JSON lines,
read by the driver; rows with ``id``, ``xpath``, ``topic`` and ``namespaces``, of which all but the
id may be missing, or with ``id`` and ``filter``, as a gateway's table of subscriptions has them; a
DataFrame with these columns, ``id`` and one of ``xpath``, ``topic`` and ``filter`` at least, and
whatever others, which is collected."""


def matches(
    payload: Any,
    definitions: Wanted | Any,
    *,
    topic: Any = None,
    action: Any = None,
    properties: Any = None,
    engine: str | None = None,
) -> Any:
    """Return a column with the ids of the filters that match each row: ``array<string>``, empty
    where none does, in no particular order; null where the payload is null, or the payload or the
    topic cannot be read. Without *topic*, filters that ask for one match no row: a warning says so.

    Args:
        payload: A column of XML, or its name.
        definitions: As `Wanted`.
        topic: A column of topics: paths, or in Clark notation; null is no topic.
        action: A column of action URIs.
        properties: A column of type ``map<string,string>``.
        engine: As for `filters.FilterSet`.

    Raises:
        DefinitionError: A filter is not valid, or there is no such engine; the text names it.
        OSError: The file of filters cannot be read.
        SparkUnavailable: A package is missing.
        TypeError: A column is neither a column nor a name. Of a column's type a worker says so.
    """
    made = as_definitions(definitions, engine=engine)
    if topic is None and (asking := made.needing_topic()) is not None:
        warnings.warn(
            f"matches: filters with a topic, such as {asking!r}, match no row without topic=; "
            "give the column of topics",
            stacklevel=2,
        )
    given = dict(zip(COLUMNS[1:], (topic, action, properties), strict=True))
    others = {name: column for name, column in given.items() if column is not None}
    columns = {"payload": payload, **others}
    match = partial(_match_batch, Portable(made), tuple(columns))
    return _column("matches", match, "array<string>", columns)


def xpath_matches(
    payload: Any, expression: str, namespaces: Mapping[str, str] | None = None
) -> Any:
    """Return a column that says whether *expression* is true of each payload: ``boolean``; null
    where that cannot be read.

    Args:
        namespaces: What the prefixes in *expression* stand for.

    Raises:
        DefinitionError: The expression is not valid.
        SparkUnavailable, TypeError: As for `matches`.
    """
    scope = _checked("xpath_matches", expression, namespaces)
    found = partial(_each, _is_true, expression, scope)
    return _column("xpath_matches", found, "boolean", {"payload": payload})


def xpath_value(payload: Any, expression: str, namespaces: Mapping[str, str] | None = None) -> Any:
    """Return a column with the value of *expression* over each payload as text: ``string``. Of
    several nodes it is that of the first. Null where there is no node, where the payload cannot be
    read, or where the evaluation would take longer than 20 ms.

    Raises:
        DefinitionError: The expression is not valid.
        SparkUnavailable, TypeError: As for `matches`.
    """
    scope = _checked("xpath_value", expression, namespaces)
    found = partial(_each, _value, expression, scope)
    return _column("xpath_value", found, "string", {"payload": payload})


def is_xml(payload: Any) -> Any:
    """Return a column that says whether each payload can be read: ``boolean``, null for null.
    ``count_if(NOT is_xml(payload))`` counts the others.

    Raises:
        SparkUnavailable, TypeError: As for `matches`.
    """
    return _column("is_xml", _are_xml, "boolean", {"payload": payload})


def register(spark: Any, definitions: Wanted | Any = None) -> None:
    """Register the functions for SQL: ``xpath_matches(payload, expression[, namespaces])``,
    ``xpath_value(payload, expression[, namespaces])``, ``is_xml(payload)`` and, with *definitions*,
    ``matches(payload[, topic[, action[, properties]]])``. ``namespaces`` is ``map('w', 'http:…')``.
    Another number of arguments, or another type, ends a query with a TypeError that says so.

    Raises:
        DefinitionError, OSError, SparkUnavailable: As for `matches`.
    """
    functions: dict[Signature, tuple[Callable[..., Any], str]] = {
        Signature("xpath_matches", EXPRESSION, 2): (partial(_each_row, _is_true), "boolean"),
        Signature("xpath_value", EXPRESSION, 2): (partial(_each_row, _value), "string"),
        Signature("is_xml", ("payload",), 1): (_are_xml, "boolean"),
    }
    if definitions is not None:
        match = partial(_match_positions, Portable(as_definitions(definitions)))
        functions[Signature("matches", COLUMNS, 1)] = (match, "array<string>")
    for signature, (function, type) in functions.items():
        checked = partial(signature.checked, function)
        spark.udf.register(signature.function, arrow_function(signature.function, checked, type))


def as_definitions(definitions: Any, *, engine: str | None = None) -> Definitions:
    """The filters of `matches`, as `Wanted`, checked.

    Raises:
        DefinitionError: One is not valid, two have one id, or there are none; they are of another
            type than `Wanted`; or there is no such engine here.
        OSError: Their file cannot be read.
    """
    if isinstance(definitions, Definitions):
        made = definitions if engine is None else replace(definitions, engine=engine)
        _check_engine(made.engine)
        return made
    _check_engine(engine)
    if isinstance(definitions, str | Path):
        made = _read_file(definitions, engine)
    elif hasattr(definitions, "toLocalIterator"):  # A DataFrame, of either kind of session.
        _check_table(definitions.columns)
        rows = (row.asDict(recursive=True) for row in definitions.toLocalIterator())
        made = collect_definitions(rows, engine=engine, of_table=True)
    elif isinstance(definitions, Iterable) and not isinstance(definitions, Mapping | bytes):
        made = collect_definitions(definitions, engine=engine)
    else:
        raise DefinitionError(
            f"matches: definitions is {shown(definitions)}; give a list of filters: [{EXAMPLE}]"
        )
    if made.left_out:
        few = ", ".join(made.left_out[:3]) + (", ..." if len(made.left_out) > 3 else "")
        said = "filters that ask about more than a payload, a topic, an action and properties"
        warnings.warn(f"{said} are left out ({len(made.left_out):,}): {few}", stacklevel=3)
    return made


def _check_engine(engine: str | None) -> None:
    try:
        check_engine(engine)
    except ValueError as error:
        raise DefinitionError(f"matches: {error}") from error


def _read_file(path: str | Path, engine: str | None) -> Definitions:
    try:
        return read_definitions(Path(path), engine=engine)
    except OSError as error:
        if error.errno not in NOT_A_FILE:
            raise
        raise FileNotFoundError(
            f"matches: {str(path)!r} is not a file of filters; give the path of one, "
            "or use xpath_matches for a single XPath"
        ) from error


def _check_table(columns: Sequence[str]) -> None:
    """Check that a table of filters has what they say: all rows of one without would match
    everything."""
    for name in columns:
        # Spark takes them for the same, our rows do not.
        if name not in KEYS and name.lower() in KEYS:
            raise DefinitionError(
                f"matches: the filters have a column {name!r}; rename it to {name.lower()!r}"
            )
    if "id" not in columns or not {"xpath", "topic", "filter"} & {*columns}:
        raise DefinitionError(
            f"matches: the filters have the columns {', '.join(columns)}; "
            "give id, and xpath, topic or filter"
        )


def _column(name: str, function: Callable[..., Any], type: str, columns: Mapping[str, Any]) -> Any:
    """Return a column of *type* by *function* from *columns*, by the names of their parameters."""
    require_packages("pyspark", "pyarrow")
    require_columns(name, columns)
    signature = Signature(name, tuple(columns), len(columns))
    return arrow_function(name, partial(signature.checked, function), type)(*columns.values())


def arrow_function(name: str, function: Callable[..., Any], type: str) -> Any:
    """Return what makes a column of *type* (Spark's DDL) from columns: *function* takes Arrow's
    arrays, one for each column, and gives one. Spark shows *name* in plans and names of columns.
    Workers run the interpreter that runs this.

    Raises:
        SparkUnavailable: A package is missing.
    """
    require_packages("pyspark", "pyarrow")
    import pyarrow
    from pyspark.sql.functions import arrow_udf

    _use_this_python()

    def evaluate(*columns: Any, **named: Any) -> Any:
        if named:  # In SQL: function(payload => ...).
            raise TypeError(f"{name} takes no named arguments; give them in their order")
        return function(*columns)

    # Spark asks for these, and Arrow is imported only here.
    evaluate.__annotations__ = dict.fromkeys(("columns", "named", "return"), pyarrow.Array)
    evaluate.__name__ = name
    return arrow_udf(evaluate, type)


def _use_this_python() -> None:
    """Have workers on this machine run this interpreter, unless somebody chose another: Spark takes
    the first ``python3`` in the path, which has no Dragoman where nobody activated the environment.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    if is_remote() or "PYSPARK_PYTHON" in os.environ:
        return
    session = SparkSession.getActiveSession()
    if session is not None and session.conf.get("spark.pyspark.python", None) is None:
        context = session.sparkContext
        if context.master.startswith("local"):
            context.pythonExec = sys.executable


def _checked(name: str, expression: str, namespaces: Mapping[str, str] | None) -> Namespaces:
    """Check what the function *name* is given; return *namespaces* as filters have them."""
    require_expression(name, expression, namespaces)
    scope = tuple(sorted((namespaces or {}).items()))
    try:
        compile(Filter((), (Expression(expression, namespaces=scope),)))
    except FilterError as error:
        raise DefinitionError(f"{expression}: {error.text}") from error
    return scope


# In the workers: each function takes Arrow's arrays, one for each column, and gives one.


def _match_batch(portable: Portable, names: Sequence[str], *columns: Any) -> Any:
    numbered = numbered_filters(portable.digest, portable.load)
    given = dict(zip(names, columns, strict=True))
    documents = _documents(given.pop("payload"))
    if given or numbered.places is None:
        return _match_rows(numbered, documents, given)
    found = IdColumn(numbered.ids, numbered.places)
    for document in documents:
        seen = None if document is None else numbered.filters.find_numbers(document)
        if seen is None:
            found.add_null()
        else:
            found.add(*seen)
    return found.finish()


def _match_rows(
    numbered: NumberedFilters, documents: Iterable[bytes | None], others: Mapping[str, Any]
) -> Any:
    """Match row by row, because a topic or something else is asked for beside the payload."""
    found = IdColumn(numbered.ids)
    # One that is not given has no value in any row; payloads say how many there are.
    values = (others[name].to_pylist() if name in others else repeat(None) for name in COLUMNS[1:])
    for document, topic, action, properties in zip(documents, *values, strict=False):
        matched = _match(numbered.filters, document, topic, action, properties)
        if matched is None:
            found.add_null()
        else:
            found.add(matched)
    return found.finish()


def _match_positions(portable: Portable, *columns: Any) -> Any:
    return _match_batch(portable, COLUMNS[: len(columns)], *columns)


def _match(
    filters: FilterSet[Key],
    document: bytes | None,
    topic: str | None,
    action: str | None,
    properties: Iterable[tuple[str, str | None]] | None,
) -> list[Key] | None:
    if document is None:
        return None
    try:
        place = _topic(topic) if topic else DEFAULT_TOPIC
    except ValueError:
        return None
    said = {name: value for name, value in properties if value is not None} if properties else None
    matching = filters.begin(Event(document, topic=place, action=action, properties=said))
    # Where no filter had to look, the answer must not depend on that.
    readable = filters.reads(document) if matching.read is None else matching.read
    if not readable:
        return None
    return filters.finish(matching)


_topic = lru_cache(TOPICS)(parse_clark)


def _documents(payloads: Any) -> Iterator[bytes | None]:
    """Each payload in UTF-8; None where there is none, or its charset is not known."""
    from pyarrow import types

    charset = None
    if not types.is_binary(payloads.type) and not types.is_large_binary(payloads.type):
        # As bytes, in place: a string of Python's would be decoded, and encoded again.
        payloads, charset = payloads.cast("binary"), "UTF-8"
    for payload in payloads.to_pylist():
        document = None
        if payload is not None:
            with suppress(FilterError):
                document = in_utf_8(payload, charset)
        yield document


def _each(
    evaluate: Callable[[bytes, str, Namespaces], Any],
    expression: str,
    scope: Namespaces,
    payloads: Any,
) -> Any:
    import pyarrow

    type = pyarrow.bool_() if evaluate is _is_true else pyarrow.string()
    found = [
        None if document is None else evaluate(document, expression, scope)
        for document in _documents(payloads)
    ]
    return pyarrow.array(found, type)


def _each_row(
    evaluate: Callable[[bytes, str, Namespaces], Any],
    payloads: Any,
    expressions: Any,
    namespaces: Any = None,
) -> Any:
    """As `_each`, with an expression for each row, as SQL gives them.

    Raises:
        DefinitionError: An expression is not valid.
    """
    import pyarrow

    texts = expressions.to_pylist()
    scopes = [()] * len(texts) if namespaces is None else namespaces.to_pylist()
    type = pyarrow.bool_() if evaluate is _is_true else pyarrow.string()
    found: list[Any] = []
    for document, text, scope in zip(_documents(payloads), texts, scopes, strict=True):
        if document is None or text is None:
            found.append(None)
        else:
            found.append(evaluate(document, text, tuple(scope or ())))
    return pyarrow.array(found, type)


def _is_true(document: bytes, expression: str, scope: Namespaces) -> bool | None:
    found = _one(expression, scope).find_numbers(document)
    return None if found is None else any(map(bool, found))


def _value(document: bytes, expression: str, scope: Namespaces) -> str | None:
    tree, value, string = _compiled(expression, scope)
    try:
        root = parse_document(document)
    except FilterError:
        return None
    if bound(tree, DocumentSize.of(root)) > MAX_VISITS or value(root) == []:
        return None
    return str(string(root))


def _are_xml(payloads: Any) -> Any:
    import pyarrow

    documents = list(_documents(payloads))
    read = [one is not None and _is_true(one, "/*", ()) is not None for one in documents]
    return pyarrow.array(
        read, pyarrow.bool_(), mask=payloads.is_null().to_numpy(zero_copy_only=False)
    )


@lru_cache(COMPILED)
def _one(expression: str, scope: Namespaces) -> FilterSet[str]:
    """A set of one filter."""
    made: FilterSet[str] = FilterSet(checked=False)
    try:
        made.add(expression, Filter((), (Expression(expression, namespaces=scope),)))
    except FilterError as error:
        raise DefinitionError(f"{expression}: {error.text}") from error
    return made


@lru_cache(COMPILED)
def _compiled(expression: str, scope: Namespaces) -> Any:
    """The syntax tree of *expression*, and what evaluates it, as it is and as text."""
    try:
        return (parse_text(expression, scope), *compile_value(expression, scope))
    except FilterError as error:
        raise DefinitionError(f"{expression}: {error.text}") from error
