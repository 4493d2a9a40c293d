"""Each server is started by one worker, and `make quick` starts none."""

import pytest

from tests.rigs import workers


def test_each_server_belongs_to_one_worker(request: pytest.FixtureRequest) -> None:
    servers = {*workers.SERVERS, *workers.OTHERS.values()}
    for item in request.session.items:
        group, server = item.get_closest_marker("xdist_group"), item.get_closest_marker("server")
        assert group is not None
        if server is None:
            assert group.args == (item.nodeid.partition("::")[0],)
        else:
            assert group.args == server.args
            assert server.args[0] in servers
        if request.config.getoption("loadgroup", False):
            name = workers.name_of(item.nodeid)
            added = f"@{group.args[0]}"
            assert item.nodeid == name + added and not name.endswith(added)


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("tests/a.py::test[x@y]", "tests/a.py::test[x@y]"),
        ("tests/a.py::test[x@y]@tests/a.py", "tests/a.py::test[x@y]"),
        ("tests/a.py::test@rabbitmq", "tests/a.py::test"),
    ],
)
def test_a_test_keeps_its_name(nodeid: str, name: str) -> None:
    assert workers.name_of(nodeid) == name
