"""The filters of a job: read by the driver, sent to each worker once, built there once.

A built set holds compiled expressions, which cannot be pickled; so what travels are definitions. A
worker process keeps the set that it built last, by a hash of the definitions.
"""

import hashlib
import json
import pickle
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from filters.compiling.compiled import compile
from filters.compiling.topic_expressions import parse_expression
from filters.dialects import TOPIC_FULL
from filters.filter import Expression, Filter
from filters.filterset.filterset import FilterSet
from filters.reasons import FilterError
from filters.spark.id_columns import Places
from filters.spark.subscriptions import OtherView, filter_of, subscriptions_in
from filters.topics.topics import DEFAULT_TOPIC, Step

MAX_LINE = 64 * 1024
"""Bytes of one definition."""
MAX_DEFINITIONS = 5_000_000
MAX_EXPORT = 512 * 2**20
"""Bytes of a file with the subscriptions of a gateway."""
KEPT = 2
"""Built sets that one worker process keeps."""
KEYS = ("id", "xpath", "topic", "namespaces", "filter")
"""The keys of a filter; ``filter``, as a gateway's subscriptions have it, is instead of ``xpath``
and ``topic``."""
_NO_KEYS = ("action", "properties")
"""What columns are given for, and no filter asks about."""
_MISSPELT, _ALIKE = ("xpath", "topic", "namespaces"), 0.75
"""Keys of which misspelt ones are known, and how much alike these are at least."""
EXAMPLE = '{"id": "fast", "xpath": "/storm[speed > 100]"}'
"""A filter for error messages."""

_EXPORT = re.compile(rb'\s*(\[\s*[{\]]|\{\s*"subscriptions"\s*:)')
_CLARK = re.compile(r"\{([^{}]*)\}")


class DefinitionError(ValueError):
    """A filter that cannot be used; the text names it."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A filter, and its owner's name for it."""

    id: str
    filter: Filter


@dataclass(frozen=True)
class Definitions:
    """The filters of one job, each id once; checked, so that workers build without errors.

    Args:
        engine: As for `FilterSet`.
    """

    rows: tuple[Definition, ...]
    engine: str | None = None
    left_out: tuple[str, ...] = ()
    """The ids of subscriptions that ask about more than a row of an archive has."""

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def digest(self) -> str:
        """Two with the same digest build the same set."""
        hashed = hashlib.sha256(repr(self.engine).encode())
        for row in self.rows:
            hashed.update(repr(row).encode())
        return hashed.hexdigest()

    def roots(self) -> frozenset[Step] | None:
        """Return the first steps of all topics that can match, None if they cannot be listed."""
        found: set[Step] = set()
        for topics in {row.filter.topics for row in self.rows}:
            known = [
                roots for one in topics if (roots := parse_expression(one).roots()) is not None
            ]
            if not known:
                return None
            found |= frozenset.intersection(*known)
        return frozenset(found)

    def needing_topic(self) -> str | None:
        """Return the id of a filter that can match no event without a topic; None if none is so."""
        for row in self.rows:
            if not all(parse_expression(one).matches(DEFAULT_TOPIC) for one in row.filter.topics):
                return row.id
        return None


def make_definition(
    id: str, *, xpath: str | None, topic: str | None, namespaces: Mapping[str, str]
) -> Definition:
    """A filter as a person writes it: an expression over the payload, a topic expression, or both.

    Args:
        topic: A Full topic expression, whose namespaces are prefixes or, in braces, URIs.

    Raises:
        DefinitionError: It is not valid, or an expression is ``""``: that would match everything,
            which None says on purpose.
    """
    for name, text in (("xpath", xpath), ("topic", topic)):
        if text == "":
            raise DefinitionError(
                f"{id}: {name} is empty; give an expression, or leave it out, which matches any"
            )
    scope = dict(namespaces)

    def prefixed(found: re.Match[str]) -> str:
        known = [prefix for prefix, uri in scope.items() if uri == found[1] and prefix]
        prefix = known[0] if known else f"dragoman-{len(scope)}"
        scope[prefix] = found[1]
        return f"{prefix}:"

    topics: tuple[Expression, ...] = ()
    if topic:
        text = _CLARK.sub(prefixed, topic)
        topics = (Expression(text, TOPIC_FULL, tuple(sorted(scope.items()))),)
    contents: tuple[Expression, ...] = ()
    if xpath:
        contents = (Expression(xpath, namespaces=tuple(sorted(namespaces.items()))),)
    made = Filter(topics, contents)
    try:
        compile(made)
    except FilterError as error:
        raise DefinitionError(f"{id}: {error.text}") from error
    return Definition(id, made)


def read_definitions(path: Path, *, engine: str | None = None) -> Definitions:
    """Read JSON lines, each ``{"id": ..., "xpath": ..., "topic": ..., "namespaces": {...}}``;
    what is left out, or null, does not restrict. Or read the subscriptions of a gateway, as its API
    has them (`filters.spark.subscriptions`).

    Raises:
        DefinitionError: A line is none, has a key that is not one of `KEYS`, or a filter that is
            not valid; the text has its number.
        OSError: The file cannot be read.
    """
    rows: dict[str, Definition] = {}
    with path.open("rb") as file:
        if _EXPORT.match(file.peek(MAX_LINE)):
            return _read_export(path, file.read(MAX_EXPORT + 1), engine)
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            if len(rows) == MAX_DEFINITIONS:
                raise DefinitionError(f"{where}: over {MAX_DEFINITIONS:,} filters")
            try:
                row = _row(line)
            except (ValueError, TypeError) as error:
                raise DefinitionError(f"{where}: {error}") from error
            if row.id in rows:
                raise DefinitionError(f"{where}: the id {row.id!r} is there already")
            rows[row.id] = row
    if not rows:
        raise DefinitionError(f"{path}: no filters")
    return Definitions(tuple(rows.values()), engine)


def collect_definitions(
    records: Iterable[Mapping[str, Any] | Definition],
    *,
    engine: str | None = None,
    of_table: bool = False,
) -> Definitions:
    """The filters of *records*: rows as `definition_of` takes them. Those of subscriptions that ask
    about more than a payload, a topic, an action and properties are left out, and named.

    Args:
        of_table: As for `definition_of`.

    Raises:
        DefinitionError: One is not valid, two have one id, or there are none.
    """
    rows: dict[str, Definition] = {}
    left_out: list[str] = []
    for number, record in enumerate(records, 1):
        where = f"filter {number}"
        try:
            row = _of_record(record, where, of_table)
        except _LeftOut as error:
            left_out.append(error.id)
            continue
        if row.id in rows:
            raise DefinitionError(f"{where}: the id {row.id!r} is there already")
        rows[row.id] = row
    if not rows:
        raise DefinitionError("there are no filters")
    return Definitions(tuple(rows.values()), engine, tuple(left_out))


def _of_record(record: Any, where: str, of_table: bool) -> Definition:
    if isinstance(record, Definition):
        return record
    if not isinstance(record, Mapping):
        raise DefinitionError(
            f"{where} is of the type {type(record).__name__}; give a dictionary, such as {EXAMPLE}"
        )
    return definition_of(record, where, of_table=of_table)


def _read_export(path: Path, content: bytes, engine: str | None) -> Definitions:
    try:
        if len(content) > MAX_EXPORT:
            raise ValueError(f"over {MAX_EXPORT:,} bytes")
        return collect_definitions(subscriptions_in(json.loads(content)), engine=engine)
    except ValueError as error:
        raise DefinitionError(f"{path}: {error}") from error


class _LeftOut(DefinitionError):
    def __init__(self, id: str, why: str) -> None:
        super().__init__(why)
        self.id = id


class Portable:
    """Definitions on their way to workers: small, and unpacked only where they are not known.

    Neither a broadcast nor a context is needed, which sessions of Spark Connect have not.
    """

    def __init__(self, definitions: Definitions) -> None:
        self.digest = definitions.digest
        self._packed = zlib.compress(pickle.dumps(definitions), 1)

    def load(self) -> Definitions:
        """The definitions."""
        loaded: Definitions = pickle.loads(zlib.decompress(self._packed))  # noqa: S301  # Ours.
        return loaded


def _row(line: bytes) -> Definition:
    if len(line) >= MAX_LINE:
        raise ValueError("the line is too long")
    try:
        values: Any = json.loads(line)
    except ValueError:
        raise ValueError("not JSON") from None
    if not isinstance(values, dict):
        raise ValueError("not an object")
    return definition_of(values)


def definition_of(
    values: Mapping[str, Any], where: str = "", *, of_table: bool = False
) -> Definition:
    """The filter of a row with ``id``, ``xpath``, ``topic`` and ``namespaces``; or, of a row of a
    gateway's subscriptions, ``id`` and ``filter``.

    Args:
        of_table: Its further values are columns of a table. Else keys that a person may have meant
            as ours are refused, and so is a filter with keys none of which says what it matches: a
            misspelt ``xptah`` would match everything. What else is noted beside a filter, such as
            where it comes from, may be.

    Raises:
        DefinitionError: It is not valid; the text begins with *where*.
    """
    try:
        return _definition_of(values, of_table)
    except OtherView as error:
        raise _LeftOut(str(values["id"]), f"{where}: {error}" if where else str(error)) from error
    except (ValueError, TypeError) as error:
        raise DefinitionError(f"{where}: {error}" if where else str(error)) from error


def _definition_of(values: Mapping[str, Any], of_table: bool) -> Definition:
    if values.get("id") in (None, ""):
        raise ValueError("there is no id")
    if values.get("filter") is not None:
        if any(values.get(name) is not None for name in ("xpath", "topic")):
            raise ValueError(
                f"{values['id']}: it has a filter beside xpath or topic; give one or the other"
            )
        return Definition(str(values["id"]), filter_of(values["filter"]))
    mistaken = None if of_table else _mistaken_key(values)
    if mistaken is not None:
        raise ValueError(
            f"{values['id']}: there is no {mistaken!r}; a filter has id, xpath, topic and "
            "namespaces, or id and filter"
        )
    namespaces = values.get("namespaces") or {}
    texts = (values.get("xpath"), values.get("topic"))
    if not all(text is None or isinstance(text, str) for text in texts):
        raise ValueError("xpath and topic are strings")
    if not isinstance(namespaces, dict) or not all(
        isinstance(uri, str) for uri in namespaces.values()
    ):
        raise ValueError("namespaces maps prefixes to URIs")
    return make_definition(str(values["id"]), xpath=texts[0], topic=texts[1], namespaces=namespaces)


def _mistaken_key(values: Mapping[str, Any]) -> str | None:
    """The first of the keys that may be meant as one of ours, or as what a filter can ask for."""
    unknown = [name for name in values if name not in KEYS]
    if unknown and not {"xpath", "topic", "filter"} & values.keys():
        return unknown[0]
    for name in unknown:
        meant = name.lower()
        if meant in (*KEYS, *_NO_KEYS) or get_close_matches(meant, _MISSPELT, 1, _ALIKE):
            return name
    return None


# In the worker.


@dataclass(frozen=True, slots=True)
class NumberedFilters:
    """A set whose keys are the places of their ids in *ids*, an array of Arrow's. Numbers become a
    column of many ids in half the time that strings do, each of which lies elsewhere in memory."""

    filters: FilterSet[int]
    ids: Any
    places: Places | None
    """Of filters that are one expression over the payload each; None where some are more."""


_Built = FilterSet[str] | NumberedFilters
_built: OrderedDict[tuple[str, Callable[[Definitions], _Built]], _Built] = OrderedDict()
_builds = 0


def filter_set(digest: str, load: Callable[[], Definitions]) -> FilterSet[str]:
    """The set of the definitions with *digest*, its keys their ids; documents have been checked.

    Definitions are loaded, and the set is built, when a process first wants it.
    """
    return _kept(digest, load, build)


def numbered_filters(digest: str, load: Callable[[], Definitions]) -> NumberedFilters:
    """As `filter_set`, for a column; documents are checked here."""
    return _kept(digest, load, _build_numbered)


def build(definitions: Definitions) -> FilterSet[str]:
    """A new set, its keys the ids of *definitions*."""
    made: FilterSet[str] = FilterSet(engine=definitions.engine)
    for row in definitions.rows:
        made.add(row.id, row.filter)
    return made


def builds() -> int:
    """Return the number of sets that this process has built since it started."""
    return _builds


def _build_numbered(definitions: Definitions) -> NumberedFilters:
    import pyarrow

    made: FilterSet[int] = FilterSet(engine=definitions.engine, checked=False)
    for number, row in enumerate(definitions.rows):
        made.add(number, row.filter)
    ids = pyarrow.array([row.id for row in definitions.rows], pyarrow.string())
    held = made.keys_by_number()
    return NumberedFilters(made, ids, None if held is None else Places.of(held))


Made = TypeVar("Made", FilterSet[str], NumberedFilters)


def _kept(
    digest: str, load: Callable[[], Definitions], make: Callable[[Definitions], Made]
) -> Made:
    global _builds
    kept: Any = _built.get((digest, make))
    if kept is None:
        _builds += 1
        while len(_built) >= KEPT:
            _built.popitem(last=False)
        kept = _built[digest, make] = make(load())
    _built.move_to_end((digest, make))
    return kept  # type: ignore[no-any-return]
