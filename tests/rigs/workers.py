"""What each test needs from outside Python: which of its servers are started, and on which worker.

`make test` runs on one worker more than there are cores (pytest-xdist). A server takes seconds to
start, so all tests of one server are a group, which one worker runs: each server is started once.
Every other file is a group of its own, so that a module's fixtures are made once.
"""

import os
from collections.abc import Iterable, Mapping

import pytest
from _pytest.nodeid import NodeId

SERVERS: Mapping[str, frozenset[str]] = {
    "rabbitmq": frozenset({"needs_rabbitmq"}),
    "activemq": frozenset({"needs_activemq"}),
    "spark": frozenset({"spark", "require_spark_here", "pyspark"}),
    "postgresql": frozenset({"needs_postgresql", "postgresql_url"}),
}
"""To each server the names that a module imports, or a test asks for, that uses it. A test of
several belongs to the first."""

OTHERS: Mapping[str, str] = {
    "tests/examples/test_nats_adapter.py": "nats",
}
"""Files with a server of their own."""

PROCESSES = frozenset({"GatewayProcess", "gateway_process", "Program", "RunningGateway"})
"""Names of what starts Dragoman as a process, which takes a second each time."""

LONG = (
    "tests/filters/matching/",
    "tests/filters/queries/",
    "tests/filters/spark/",
    "tests/filters/test_workloads.py",
    "tests/examples/test_queued_transactions.py",
    "tests/gateway/cli/topics/test_page.py",
    "tests/gateway/client/reliable/",
    "tests/gateway/client/test_client.py",
    "tests/gateway/delivery/test_dispatcher.py",
    "tests/gateway/delivery/test_gateway.py",
    "tests/foreign/test_gsoap.py",
    "tests/gateway/discovery/test_killed.py",
    "tests/gateway/http/test_old_clients.py",
    "tests/gateway/channels/test_directory.py",
    "tests/gateway/cli/test_match.py",
    "tests/foreign/",
    "tests/helm/",
    "tests/gateway/sources/",
    "tests/gateway/reliability/stores/",
    "tests/gateway/subscriptions/test_management.py",
    "tests/gateway/soap/test_management.py",
    "tests/gateway/egress/mail/",
    "tests/gateway/egress/test_lanes.py",
    "tests/gateway/delivery/test_probation.py",
    "tests/gateway/http/test_hardening.py",
    "tests/gateway/tcp/test_listener.py",
    "tests/gateway/web/test_json.py",
    "tests/gateway/http/test_upgrade.py",
    "tests/gateway/publishing/test_spool.py",
    "tests/gateway/publishing/test_refusals_brokers.py",
    "tests/gateway/publishing/test_spool_refusals.py",
    "tests/adapters/filtering/test_slow_filters.py",
    "tests/mediation/matrix/test_round_trips.py",
    "tests/mediation/matrix/test_corpus.py",
    "tests/test_build.py",
    "tests/test_distribution.py",
    "tests/test_documentation.py",
)
"""Files and folders of many tests that take five seconds or more together."""


def count() -> int:
    """How many workers run the tests.

    A test of a gateway waits for half of its time: for the disk, a server, a process, a deadline.
    One worker more than there are cores keeps all cores busy; two more would also be in the way of
    tests that have deadlines.
    """
    return len(os.sched_getaffinity(0)) + 1


def mark(items: list[pytest.Item]) -> None:
    """Give each test its group, and mark the ones that `make quick` leaves out.

    What takes longest is put first: servers, then processes, then what only computes.
    """
    for item in items:
        server = server_of(item)
        path = item.nodeid.partition("::")[0]
        if server is not None:
            item.add_marker(pytest.mark.server(server))
        if path.startswith(LONG) or PROCESSES.intersection(_names(item)):
            item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.xdist_group(server or path))
    items.sort(key=_place)


def name_groups(items: Iterable[pytest.Item]) -> None:
    """Add to each test's name that of its group, by which pytest-xdist's scheduler knows it.

    pytest-xdist 3.8 does so where pytest 9.2 no longer looks, and then sends each test anywhere:
    https://github.com/pytest-dev/pytest-xdist/issues/1386
    """
    for item in items:
        group = item.get_closest_marker("xdist_group")
        assert group is not None
        item._id = NodeId.parse(f"{item.nodeid}@{group.args[0]}")


def name_of(nodeid: str) -> str:
    """*nodeid* without the group that pytest-xdist adds to it."""
    name, found, group = nodeid.rpartition("@")
    path = nodeid.partition("::")[0]
    return name if found and group in {*SERVERS, *OTHERS.values(), path} else nodeid


def server_of(item: pytest.Item) -> str | None:
    """The server that a test belongs to; None where it needs none."""
    names = set(_names(item))
    for server, used in SERVERS.items():
        if names & used:
            return server
    return OTHERS.get(item.nodeid.partition("::")[0])


def _names(item: pytest.Item) -> Iterable[str]:
    """The names in a test's module, its fixtures, and the store that it runs on."""
    if isinstance(item, pytest.Function):
        yield from vars(item.module)
        yield from item.fixturenames
        if hasattr(item, "callspec") and item.callspec.params.get("store_url") == "postgresql":
            yield "postgresql_url"


def _place(item: pytest.Item) -> tuple[int, int]:
    """Where a test stands in the order of the run; tests of one place keep their order."""
    marker = item.get_closest_marker("server")
    if marker is not None:
        return 0, [*SERVERS, *OTHERS.values()].index(marker.args[0])
    return 1, 0 if item.nodeid.startswith("tests/gateway") else 1
