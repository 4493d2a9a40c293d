"""The events of the log are those of their page; none has a payload or a secret for a field."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

METHODS = {"debug", "info", "warning", "error", "exception", "critical"}
LEVELS = {"exception": "error"}
LOGGERS = {"_log", "logger", "say", "structlog.get_logger('dragoman')"}
FORBIDDEN = re.compile(
    r"payload|body|content|envelope|password|secret|token|key|authorization|cookie"
)
"""Fields that would have what peers wrote to each other, or what only they may know."""
_NAME = re.compile(r"[a-z][a-z-]*\.[a-z_-]+")
_ROW = re.compile(r"^\| `([^`]+)` \| ([a-z, ]+) \|([^|]*)\| \S", re.MULTILINE)
NUMBERS = {("identity.read", "keys")}
"""Fields that say how many there are."""
CLIENTS = ("gateway/client/", "filters/spark/")
"""Programs, which say what they do in sentences."""


@dataclass
class Event:
    levels: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)


@cache
def in_sources() -> dict[str, Event]:
    """The events that the gateway and its adapters log, by name."""
    found: dict[str, Event] = defaultdict(Event)
    for floor in ("gateway", "adapters", "mediation", "filters"):
        for path in sorted((ROOT / floor).rglob("*.py")):
            if not str(path.relative_to(ROOT)).startswith(CLIENTS):
                _read(path, found)
    return dict(found)


def _read(path: Path, found: dict[str, Event]) -> None:
    tree = ast.parse(path.read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    direct = {
        name for call in calls if _level(call) is not None for name in _constants(call.args[0])
    }
    for call in calls:
        level = _level(call)
        if level is None:
            continue
        first = call.args[0]
        if isinstance(first, ast.Name):  # One of several that the module names elsewhere.
            names = [one for one in _constants(tree) if _NAME.fullmatch(one) and one not in direct]
        else:
            names = list(_constants(first))
        for name in names:
            found[name].levels |= level
            found[name].fields |= set(_fields(call))


def _level(call: ast.Call) -> set[str] | None:
    """The levels that a call logs at; None of another call."""
    function = call.func
    if isinstance(function, ast.Name) and function.id == "say" and len(call.args) == 1:
        return {"info", "warning"}
    if not isinstance(function, ast.Attribute) or function.attr not in METHODS or not call.args:
        return None
    if ast.unparse(function.value) not in LOGGERS:
        return None
    return {LEVELS.get(function.attr, function.attr)}


def _constants(tree: ast.AST) -> Iterator[str]:
    named = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("get_logger", "getLogger"))
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in named:
            yield node.value


def _fields(call: ast.Call) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
            yield from (
                str(key.value) for key in keyword.value.keys if isinstance(key, ast.Constant)
            )
        elif keyword.arg not in (None, "exc_info", "extra"):
            yield str(keyword.arg)


def documented() -> dict[str, Event]:
    page = (ROOT / "docs" / "log-events.md").read_text()
    return {
        name: Event(set(levels.split(", ")), set(re.findall(r"`(\w+)`", fields)))
        for name, levels, fields in _ROW.findall(page)
    }


def test_every_event_is_on_the_page_and_no_other() -> None:
    page, sources = documented(), in_sources()
    assert len(sources) > 150
    assert {"not documented": set(sources) - set(page), "not logged": set(page) - set(sources)} == {
        "not documented": set(),
        "not logged": set(),
    }


def test_levels_and_fields_are_those_of_the_page() -> None:
    page, wrong = documented(), []
    for name, event in in_sources().items():
        if not (page[name].levels and page[name].levels <= event.levels):
            wrong.append(f"{name}: {sorted(event.levels)}")
        if missing := event.fields - page[name].fields:
            wrong.append(f"{name}: fields {sorted(missing)}")
    assert wrong == []


def test_events_have_stable_names() -> None:
    assert [name for name in in_sources() if not _NAME.fullmatch(name)] == []


def test_no_field_is_a_payload_or_a_secret() -> None:
    fields = {(name, one) for name, event in in_sources().items() for one in event.fields} - NUMBERS
    assert [one for one in sorted(fields) if FORBIDDEN.search(one[1])] == []
