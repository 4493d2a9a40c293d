"""``dragoman listen --check``: how far a listener has come, and what is in the way."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.programs import Program, RunningGateway, run

BLOCKED = "127.0.0.9"
CONFIGURATION = f"""
[[consumers]]
address = "{BLOCKED}"
via = "http://127.0.0.1:1"
"""
"""What is sent to this address is forwarded to where nobody listens."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("checking")
    (made / "dragoman.toml").write_text(CONFIGURATION)
    return made


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[RunningGateway]:
    with RunningGateway(cwd=folder) as running:
        yield running


def listen(gateway: RunningGateway, topic: str, *options: str, cwd: Path) -> Program:
    there = ("--gateway", gateway.url, "--topic", topic)
    return Program("listen", *there, *options, cwd=cwd)


def publish(gateway: RunningGateway, topic: str, cwd: Path) -> None:
    options = ("--gateway", gateway.url, "--topic", topic, "-")
    assert run("publish", *options, cwd=cwd, stdin=b"<n>1</n>").returncode == 0


def boxes(gateway: RunningGateway, cwd: Path) -> str:
    return run("mailboxes", "list", "--gateway", gateway.url, cwd=cwd).stdout


def test_something_is_in_the_way(gateway: RunningGateway, folder: Path) -> None:
    options = ("--check", "0.1", "--host", BLOCKED, "--spec", "cloudevents")
    with listen(gateway, "blocked", *options, cwd=folder) as listener:
        listener.wait_for("[..] delivery: nothing is sent; looking whether", lines=listener.err)
        publish(gateway, "blocked", folder)
        line = listener.wait_for("[no] delivery: something is in the way", lines=listener.err)
        assert f"does not reach http://{BLOCKED}:" in line
        assert "[ok] first message: seen, but only where it was fetched" in listener.err
        assert listener.out == []
        assert listener.stop() == 0
    assert boxes(gateway, folder) == ""


@pytest.mark.parametrize("options", [(), ("--pull",)])
def test_nothing_is_in_the_way(
    gateway: RunningGateway, folder: Path, options: tuple[str, ...]
) -> None:
    with listen(gateway, "free", "--check", "60", *options, cwd=folder) as listener:
        listener.wait_for("[ok] subscription: accepted", lines=listener.err)
        assert f"[ok] broker: {gateway.url} answers" in listener.err
        publish(gateway, "free", folder)
        listener.wait_for("[ok] first message: seen", lines=listener.err)
        listener.wait_for("[ok] delivery: ", lines=listener.err)
        listener.wait_for("<n>1</n>")
        assert listener.stop() == 0
    assert boxes(gateway, folder) == ""


def test_no_subscription(gateway: RunningGateway, folder: Path) -> None:
    away = run("listen", "--check", "5", "--gateway", "http://127.0.0.1:1", cwd=folder)
    assert away.returncode == 1
    assert away.stderr.startswith("[no] broker: cannot reach http://127.0.0.1:1: ")
    there = ("--gateway", gateway.url)
    refused = run("listen", "--check", "5", *there, "--topic", "a|", cwd=folder)
    assert refused.returncode == 1
    lines = refused.stderr.splitlines()
    assert lines[0] == f"[ok] broker: {gateway.url} answers"
    assert lines[1].startswith(f"[no] subscription: {gateway.url} refused: ")
