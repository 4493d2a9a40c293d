"""What each test needs from outside Python, on which worker it runs, in what order, and which runs.

`make test` runs on three workers a core (pytest-xdist). All tests of a file are a
group, which one worker runs, so that a module's fixtures are made once. Brokers and PostgreSQL are
shared by all workers (`tests.rigs.servers`). What cannot be shared, a broker that is stopped and a
Spark, takes seconds to start: all its tests are one group, too.
"""

import functools
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import pytest
from _pytest.nodeid import NodeId

from tests.rigs.durations import seconds_of

SERVERS: Mapping[str, frozenset[str]] = {
    "rabbitmq": frozenset({"needs_rabbitmq"}),
    "activemq": frozenset({"needs_activemq"}),
    "spark": frozenset({"spark", "require_spark_here", "pyspark"}),
    "postgresql": frozenset({"needs_postgresql", "postgresql_url"}),
    "mariadb": frozenset({"needs_mariadb"}),
}
"""To each server the names that a module imports, or a test asks for, that uses it. A test of
several is marked with the first."""

OTHERS: Mapping[str, str] = {
    "tests/examples/test_nats_adapter.py": "nats",
}
"""Files with a server of their own."""

TOGETHER: Mapping[str, frozenset[str]] = {
    "rabbitmq": frozenset({"own_rabbitmq"}),
    "activemq": frozenset({"own_activemq"}),
    "spark": SERVERS["spark"],
}
"""To each group of more than one file the names that a module imports, or a test asks for, that
belongs to it."""

SQL = (
    "tests/gateway/store/",
    "tests/gateway/reliability/stores/",
    "tests/gateway/replicas/",
)
"""Where SQL is the subject. Elsewhere a test that runs on both databases says the same of both, and
PostgreSQL's half waits for the night."""

NOT_TOLD = 0.005
"""Seconds of a setup or teardown of which a worker may say nothing: `tests/durations.json` has tenths."""

QUICK = 2.0
"""Seconds that the tests of a file which `make quick` runs take at most, together."""


def count() -> int:
    """How many workers run the tests.

    A test of a gateway waits for two thirds of its time: for the disk, a server, a process, a
    deadline. Two workers a core left the cores idle for 40 % of a run.
    """
    return 3 * len(os.sched_getaffinity(0))


def mark(items: list[pytest.Item]) -> None:
    """Give each test its group and its marks, and put the groups that take longest first."""
    for item in items:
        path = _path(item)
        server = server_of(item)
        if server is not None:
            item.add_marker(pytest.mark.needs_server(server))
        if seconds_of(path).light > QUICK:
            item.add_marker(pytest.mark.long)
        if _store_of(item) == "postgresql" and not path.startswith(SQL):
            item.add_marker(pytest.mark.nightly)
        item.add_marker(pytest.mark.xdist_group(_group_of(item)))
    _put_longest_first(items)


def name_groups(items: Iterable[pytest.Item]) -> None:
    """Add to each test's name that of its group, by which pytest-xdist's scheduler knows it.

    pytest-xdist 3.8 does so where pytest 9.2 no longer looks, and then sends each test anywhere:
    https://github.com/pytest-dev/pytest-xdist/issues/1386
    """
    for item in items:
        item._id = NodeId.parse(f"{item.nodeid}@{_marked_group(item)}")


def name_of(nodeid: str) -> str:
    """*nodeid* without the group that pytest-xdist adds to it."""
    name, found, group = nodeid.rpartition("@")
    path = nodeid.partition("::")[0]
    return name if found and group in {*TOGETHER, path} else nodeid


def tell_less(config: pytest.Config) -> None:
    """Have a worker not report a quick setup or teardown that passed, of which nothing is shown: to
    write and read three reports takes as long as the rest of a quick test."""
    (worker,) = (
        one
        for one in config.pluginmanager.get_plugins()
        if type(one).__name__ == "WorkerInteractor"
    )
    tell: Any = worker.sendevent

    def tell_what_is_shown(name: str, **values: Any) -> None:
        report = values.get("data") if name == "testreport" else None
        shown = (
            report is None
            or report["when"] == "call"
            or report["outcome"] != "passed"
            or report["duration"] >= NOT_TOLD
            or report["sections"]
        )
        if shown:
            tell(name, **values)

    worker.sendevent = tell_what_is_shown


def server_of(item: pytest.Item) -> str | None:
    """The server that a test needs; None where it needs none."""
    return _first(SERVERS, item) or OTHERS.get(_path(item))


def _group_of(item: pytest.Item) -> str:
    return _first(TOGETHER, item) or _path(item)


def _first(table: Mapping[str, frozenset[str]], item: pytest.Item) -> str | None:
    if not isinstance(item, pytest.Function):
        return None
    asked = {*item.fixturenames, *(["postgresql_url"] if _store_of(item) == "postgresql" else [])}
    imported = _names_in(item.module)
    return next((key for key, used in table.items() if used & asked or used & imported), None)


@functools.cache
def _names_in(module: ModuleType) -> frozenset[str]:
    """The names in a test's module, which has hundreds of tests."""
    return frozenset(vars(module))


def _store_of(item: pytest.Item) -> object:
    """The kind of database that a test runs on, where it runs on each."""
    return item.callspec.params.get("store_url") if hasattr(item, "callspec") else None


def _put_longest_first(items: list[pytest.Item]) -> None:
    """Sort *items* by the recorded seconds of their groups; those of one group keep their order."""
    files: defaultdict[str, set[str]] = defaultdict(set)
    for item in items:
        files[_marked_group(item)].add(_path(item))
    seconds = {group: sum(seconds_of(path).all for path in paths) for group, paths in files.items()}
    items.sort(key=lambda item: (-seconds[_marked_group(item)], _marked_group(item)))


def _marked_group(item: pytest.Item) -> str:
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    return str(marker.args[0])


def _path(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
