"""No name keeps an exception alive: with its traceback it holds the frame that has the name, and that
all there was in the frame, until the collector looks for cycles, which is rarely (`gateway.server`).
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [
    path for floor in ("filters", "mediation", "adapters", "gateway", "examples")
    for path in sorted((ROOT / floor).rglob("*.py"))
]  # fmt: skip
_KEEPING = frozenset(
    {"append", "appendleft", "add", "insert", "put", "put_nowait", "setdefault", "set_exception"}
)
"""Methods after which something keeps their arguments."""
_CHAINED = frozenset({"__cause__", "__context__", "refused", "exceptions"})
"""Attributes of exceptions that are exceptions."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_no_name_keeps_an_exception_behind_its_handler() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in SOURCES
        for line in kept_exceptions(path.read_text())
    ]
    assert not found, f"answer within the handler, or keep error.with_traceback(None): {found}"


def test_no_function_raises_what_a_name_of_its_own_keeps() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in SOURCES
        for line in raised_names(path.read_text())
    ]
    assert not found, f"raise a new one, or delete the name in a finally: {found}"


@pytest.mark.parametrize(
    "handler",
    [
        "kept = error",
        "kept: Exception = error",
        "kept, other = error, 1",
        "kept = first or error",
        "kept = error if late else None",
        "self.failure = error",
        "by_name[1] = error",
        "kept = error.refused",
        "kept = [error] * 3",
        "kept.append(error)",
        "future.set_exception(error)",
        "kept.append((1, error))",
        "if (kept := error): pass",
    ],
)
def test_what_keeps_an_exception_is_seen(handler: str) -> None:
    source = f"try:\n    work()\nexcept ValueError as error:\n    {handler}\n"
    assert list(kept_exceptions(source)) == [4]


@pytest.mark.parametrize(
    "handler",
    [
        "kept = error.with_traceback(None)",
        "kept = str(error)",
        "kept = error.errno",
        "kept = Answer(error.status)",
        "log(error)",
        "raise Other() from error",
        "return error",
        "late = isinstance(error, TimeoutError)",
    ],
)
def test_what_keeps_none_is_not_taken_for_it(handler: str) -> None:
    source = f"def f():\n  try:\n    work()\n  except ValueError as error:\n    {handler}\n"
    assert not list(kept_exceptions(source))


def test_a_raised_name_is_seen_unless_it_is_deleted() -> None:
    assert list(raised_names("def f(error):\n    raise error\n")) == [2]
    assert list(raised_names("def f(entry):\n    raise entry.error\n")) == [2]
    deleted = "def f(error):\n  try:\n    raise error\n  finally:\n    del error\n"
    assert not list(raised_names(deleted))
    again = "def f():\n  try:\n    work()\n  except ValueError as error:\n    raise error\n"
    assert not list(raised_names(again))
    assert not list(raised_names("def f():\n    raise _Broken\n"))
    assert not list(raised_names("def f():\n    raise typer.Exit\n"))


def kept_exceptions(source: str) -> Iterator[int]:
    """The lines of *source* on which something keeps the exception of the handler around it."""
    for handler in ast.walk(ast.parse(source)):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        for node in ast.walk(handler):
            values: list[ast.expr] = []
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
                values = [node.value] if node.value is not None else []
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in _KEEPING
            ):
                values = node.args
            if any(_is_exception(value, handler.name) for value in values):
                assert isinstance(node, ast.stmt | ast.expr)
                yield node.lineno


def _is_exception(value: ast.expr, name: str) -> bool:
    """Whether *value* is, or holds, the exception with *name* and its traceback."""
    match value:
        case ast.Name():
            return value.id == name
        case ast.Attribute():
            return value.attr in _CHAINED and _is_exception(value.value, name)
        case ast.Subscript() | ast.Starred():
            return _is_exception(value.value, name)
        case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(_is_exception(part, name) for part in parts)
        case ast.Dict(values=parts):
            return any(_is_exception(part, name) for part in parts)
        case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
            return _is_exception(one, name) or _is_exception(other, name)
    return False


def raised_names(source: str) -> Iterator[int]:
    """The lines of *source* where a function raises what a name of its own goes on to hold."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _raised(function.body, frozenset())


def _raised(body: list[ast.stmt], gone: frozenset[str]) -> Iterator[int]:
    """Those of *body*; the names of *gone* are deleted when it is left."""
    for statement in body:
        if isinstance(statement, Function | ast.ClassDef):
            continue
        if isinstance(statement, ast.Raise) and (name := _own_name(statement.exc)) is not None:
            if name not in gone:
                yield statement.lineno
            continue
        inner = gone
        if isinstance(statement, ast.Try):
            inner |= {
                target.id
                for last in statement.finalbody
                if isinstance(last, ast.Delete)
                for target in last.targets
                if isinstance(target, ast.Name)
            }
            for handler in statement.handlers:
                yield from _raised(handler.body, inner | {handler.name or ""})
        for field in ("body", "orelse", "finalbody"):
            if isinstance(getattr(statement, field, None), list):
                yield from _raised(getattr(statement, field), inner)
        for case in getattr(statement, "cases", ()):
            yield from _raised(case.body, inner)


def _own_name(raised: ast.expr | None) -> str | None:
    """The name that goes on to hold what is *raised*; None where there is none."""
    while isinstance(raised, ast.Attribute):
        if raised.attr[:1].isupper():  # A class.
            return None
        raised = raised.value
    if not isinstance(raised, ast.Name) or raised.id.lstrip("_")[:1].isupper():
        return None
    return raised.id
