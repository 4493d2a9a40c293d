"""All tests of a file, and of what workers cannot share, are on one worker."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.rigs import durations, workers

ROOT = Path(__file__).parents[2]


def test_a_group_is_a_file_or_what_cannot_be_shared(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        group = item.get_closest_marker("xdist_group")
        assert group is not None
        if group.args[0] != item.nodeid.partition("::")[0]:
            assert group.args[0] in workers.TOGETHER
            assert item.get_closest_marker("needs_server") is not None
        if request.config.getoption("loadgroup", False):
            name = workers.name_of(item.nodeid)
            added = f"@{group.args[0]}"
            assert item.nodeid == name + added and not name.endswith(added)


def test_no_folder_or_file_is_called_like_a_mark_by_which_tests_are_chosen(
    request: pytest.FixtureRequest,
) -> None:
    names = {part.removesuffix(".py") for path in _tests() for part in path.parts}
    assert not names & durations.MARKS
    marks = {line.partition(":")[0].partition("(")[0] for line in request.config.getini("markers")}
    assert marks >= durations.MARKS


def _tests() -> Iterable[Path]:
    return (path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))


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
