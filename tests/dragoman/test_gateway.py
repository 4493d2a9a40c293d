"""The real gateway in a process of its own, started by a program."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from dragoman.client import WseClient
from dragoman.gateway import Gateway, GatewayFailed
from tests.rigs.waiting import until

pytestmark = pytest.mark.slow
pytest_plugins = ["pytester"]


async def test_it_serves_beside_folders_of_the_same_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gateway", "filters", "mediation", "adapters"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not mine')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("DRAGOMAN_PORT", "none")
    async with (
        Gateway("memory:", data=tmp_path / "data") as gateway,
        WseClient(gateway.url) as client,
        client.listen(topic="storms") as events,
    ):
        await client.publish("<a/>", topic="storms")
        assert (await anext(events)).payload == b"<a/>"
    assert (tmp_path / "data").is_dir()


def test_one_that_does_not_start_says_why() -> None:
    with pytest.raises(GatewayFailed, match="no adapter has the scheme 'none'"), Gateway("none:"):
        pass


def test_without_dragoman_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    with pytest.raises(GatewayFailed, match="needs Dragoman itself"), Gateway():
        pass


async def test_it_ends_with_a_program_that_is_killed() -> None:
    script = (
        "import time; from dragoman.gateway import Gateway; gateway = Gateway().__enter__();"
        "print(gateway._process.pid, flush=True); time.sleep(600)"
    )
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=PIPE)
    assert program.stdout is not None
    pid = int(await program.stdout.readline())
    program.kill()
    await program.wait()
    await until(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_fixture_for_pytest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from dragoman.sync import WsnClient

        def test_storms(dragoman_gateway):
            with WsnClient(dragoman_gateway.url) as client, client.listen(topic="a") as events:
                client.publish("<a/>", topic="a")
                assert next(events).topic == "a"

        def test_it_is_the_same(dragoman_gateway):
            assert dragoman_gateway.url.startswith("http://127.0.0.1:")
        """
    )
    pytester.runpytest_subprocess("-p", "dragoman.testing").assert_outcomes(passed=2)
