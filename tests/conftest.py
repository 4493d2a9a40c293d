"""What all tests share: how Hypothesis runs, on which worker each runs, where reference material
lies.

Reference material is not part of the repository. The same test functions run with samples of our
own (`tests/rigs/samples.py`, `tests/rigs/sample_messages.py`) and, where it is, with the material,
which adds size: thousands of published documents to three families of our own, 90 examples of the
specifications' pages to 98 of ours, headers and bodies of Axis2, Savan and ServiceMix as these wrote
them, the official schemas of envelopes and of brokers to schemas of our own. One comparison has no
sample: that the schemas handed out are still the official files, whose digests
`tests/gateway/soap/test_wsdl.py` holds.
"""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from filters.matching.engines.choice import engine_note
from tests.rigs import (
    accepted_connections,
    fork_server,
    open_streams,
    samples,
    servers,
    temporary_folders,
    workers,
)
from tests.rigs.durations import Recorder
from tests.rigs.event_loops import take_held
from tests.rigs.examples import NIGHT
from tests.rigs.hang_watch import HangWatch
from tests.rigs.ports import free_ports
from tests.rigs.repeats import repeated
from tests.rigs.stalls import stalled

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("DRAGOMAN_SHARED") or ROOT.parent / "shared")
NO_REFERENCE = f"reference material not found: {SHARED} (DRAGOMAN_SHARED names another folder)"
WITHOUT_REFERENCE = "skipped without reference material"

_recorder = Recorder()

# A run says the same each time and on any machine, however slow. At night each property has four
# times the examples (`tests.rigs.examples`); `explore` looks further: HYPOTHESIS_PROFILE=explore make test
settings.register_profile(
    "default",
    max_examples=50,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("default"), database=None)
settings.register_profile(NIGHT, settings.get_profile("default"), max_examples=200, database=None)
settings.register_profile(
    "explore", settings.get_profile("default"), derandomize=False, max_examples=2000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference material; a test asks for `material`, which has samples, too."""
    if not SHARED.is_dir():
        pytest.skip(NO_REFERENCE)
    return SHARED


@pytest.fixture(scope="session", params=["samples", "reference"])
def material(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of messages and filters: of our own making, and that of reference."""
    if request.param == "samples":
        return samples.write(tmp_path_factory.mktemp("samples"))
    folder: Path = request.getfixturevalue("shared")
    return folder


@pytest.fixture
def unused_tcp_port() -> int:
    """As pytest-asyncio's, but that the system gives it to nobody else."""
    (port,) = free_ports(1)
    return port


@pytest.fixture(scope="session", autouse=True)
def _share_servers(tmp_path_factory: pytest.TempPathFactory) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        servers.share_in(tmp_path_factory.getbasetemp().parent / "servers")


@pytest.fixture(scope="session", autouse=True)
def _start_gateways_by_forking() -> Iterator[None]:
    with fork_server.installed():
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--stalls", action="store_true", help="stop event loops for moments, as a busy machine does"
    )
    parser.addoption("--repeats", action="store_true", help="run each operation of a store twice")


@pytest.fixture(autouse=True)
def _stall(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("stalls") and not request.node.get_closest_marker("holds_loop"):
        with stalled(request.node.nodeid):
            yield
    else:
        yield


@pytest.fixture(autouse=True)
def _repeat(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("repeats") and not request.node.get_closest_marker("runs_once"):
        with repeated():
            yield
    else:
        yield


def pytest_configure(config: pytest.Config) -> None:
    accepted_connections.close_forgotten()
    open_streams.watch()
    temporary_folders.choose()
    config.pluginmanager.register(HangWatch())
    # Who starts the tests in a shell's background, or by nohup, has all that they start ignore these.
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have Python's collector leave alone what collecting tests makes.

    Two million objects live as long as the run. The collector would walk over them a dozen times
    while they are made, for almost half of the time that it takes, and later again and again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return workers.count()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    workers.mark(items)
    if config.getoption("loadgroup", False):
        workers.name_groups(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Call a test by its own name, to which that of its group was added for pytest-xdist."""
    if "PYTEST_XDIST_WORKER" not in os.environ:  # A worker compares it with the test's.
        report.nodeid = workers.name_of(report.nodeid)
        _recorder.add(report)


def pytest_sessionstart(session: pytest.Session) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ and not session.config.getoption("xmlpath"):
        workers.tell_less(session.config)


def pytest_sessionfinish() -> None:
    """Record how long each file took, where ``RECORD_DURATIONS`` names a file."""
    if (target := os.environ.get("RECORD_DURATIONS")) and "PYTEST_XDIST_WORKER" not in os.environ:
        _recorder.write(Path(target))


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Count what misses the reference material apart: each by name would hide the other skips."""
    if report.skipped and NO_REFERENCE in str(report.longrepr):
        return WITHOUT_REFERENCE, "s", "SKIPPED"
    return None


def pytest_report_header() -> str | None:
    """Say first, and last (`pytest_terminal_summary`), that the compiled filter engine is missing:
    the reference engine passes the same tests, at several times the cost, and tells nobody."""
    note = engine_note()
    return f"WITHOUT THE COMPILED FILTER ENGINE: {note}" if note else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if note := engine_note():
        terminalreporter.write_line(f"WITHOUT THE COMPILED FILTER ENGINE: {note}", red=True)
    if skipped := terminalreporter.stats.get(WITHOUT_REFERENCE):
        terminalreporter.write_line(f"{len(skipped)} tests were skipped: {NO_REFERENCE}")


@pytest.fixture(autouse=True)
def _streams_are_closed() -> Iterator[None]:
    """Fail a test that leaves one of asyncio's streams open."""
    open_streams.take_open()
    yield
    left = open_streams.take_open()
    assert not left, f"left open: {', '.join(left)}"


@pytest.fixture(autouse=True)
def _nobody_holds_the_event_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which a gateway held its event loop for too long; ``holds_loop(reason)`` marks
    one that may."""
    take_held()
    yield
    held = take_held()
    if request.node.get_closest_marker("holds_loop") is None:
        assert not held, "; ".join(held)
