"""Runs a test for each row of a table: within one item, where a table is large and a row is quick, for
pytest takes 2 ms for each item, in each worker once more to collect it; or for few rows of a product by
day, and for the others by night.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, TypeVar, cast

import pytest
from _pytest.mark.structures import ParameterSet

Test = TypeVar("Test", bound=Callable[..., Any])


def for_each(
    names: str | Sequence[str],
    rows: Iterable[Any],
    ids: Iterable[object] | Callable[[Any], object] | None = None,
) -> Callable[[Test], Test]:
    """Call the test once for each of *rows*, as ``pytest.mark.parametrize`` would.

    All rows are tried; an `ExceptionGroup` has the failures, each with a note that names its row by
    its values, and by its id, where it has one.
    Several of these multiply. Fixtures are made once for all rows.
    """
    split = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    given_rows = list(rows)
    table = [_values(row, len(split)) for row in given_rows]
    assert table, "no rows"
    labels = [_id_of(row) for row in given_rows]
    if callable(ids):
        labels = [" ".join(str(ids(value)) for value in row) for row in table]
    elif ids is not None:
        labels = [str(one) for one in ids]

    def decorate(test: Test) -> Test:
        calls = [
            (label, dict(zip(split, row, strict=True)))
            for label, row in zip(labels, table, strict=True)
        ]

        @functools.wraps(test)
        def run(*given: Any, **named: Any) -> None:
            with _collected() as failures:
                for label, call in calls:
                    with _kept(failures, label, call):
                        test(*given, **call, **named)

        @functools.wraps(test)
        async def run_async(*given: Any, **named: Any) -> None:
            with _collected() as failures:
                for label, call in calls:
                    with _kept(failures, label, call):
                        await test(*given, **call, **named)

        signature = inspect.signature(test)
        assert set(split) <= signature.parameters.keys(), split
        rest = [each for name, each in signature.parameters.items() if name not in split]
        chosen: Any = run_async if inspect.iscoroutinefunction(test) else run
        chosen.__signature__ = signature.replace(parameters=rest)  # What pytest reads.
        return cast(Test, chosen)

    return decorate


def each_value_once(**axes: Mapping[str, object]) -> pytest.MarkDecorator:
    """Parametrize a test by all combinations of the values of *axes*, which are named by ids.

    As many run by day as it takes to have each value at least once; the others are nightly.
    """
    rows = list(axes.values())
    firsts = range(max(len(axis) for axis in rows))
    chosen = {tuple([*axis][first % len(axis)] for axis in rows) for first in firsts}
    return pytest.mark.parametrize(
        list(axes),
        [
            pytest.param(
                *(axis[name] for axis, name in zip(rows, names, strict=True)),
                id="-".join(names),
                marks=() if names in chosen else pytest.mark.nightly,
            )
            for names in product(*rows)
        ],
    )


@contextmanager
def _collected() -> Iterator[list[Exception]]:
    failures: list[Exception] = []
    yield failures
    if failures:
        raise ExceptionGroup(f"{len(failures)} rows fail", failures)


@contextmanager
def _kept(failures: list[Exception], label: str, call: Mapping[str, Any]) -> Iterator[None]:
    """Add what is raised meanwhile to *failures*, with a note that names the row."""
    try:
        yield
    except Exception as failure:
        words = (f"{name}={getattr(value, 'name', value)!r}" for name, value in call.items())
        failure.add_note(
            f"{label}: with {', '.join(words)}" if label else f"with {', '.join(words)}"
        )
        failures.append(failure)


def _id_of(row: Any) -> str:
    return str(row.id) if isinstance(row, ParameterSet) and row.id is not None else ""


def _values(row: Any, count: int) -> Sequence[Any]:
    if isinstance(row, ParameterSet):
        assert not row.marks, "a mark is of an item"
        row = row.values if count > 1 else row.values[0]
    return list(row) if count > 1 else [row]
