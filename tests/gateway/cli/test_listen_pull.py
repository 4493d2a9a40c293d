"""``dragoman listen --pull`` and ``dragoman mailboxes``, as processes."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mediation.client import SPECS
from tests.rigs.ports import free_ports
from tests.rigs.programs import Program, RunningGateway, run

SPECIFICATIONS = [version.value for version in SPECS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pulling")


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[RunningGateway]:
    with RunningGateway(cwd=folder) as running:
        yield running
        assert running.stop(signal.SIGTERM) == 0


def listen(gateway: RunningGateway, *arguments: str, cwd: Path) -> Program:
    """A listener that has subscribed."""
    program = Program("listen", "--pull", "--gateway", gateway.url, *arguments, cwd=cwd)
    program.wait_for("Subscribed to ", lines=program.err)
    return program


def publish(gateway: RunningGateway, topic: str, *payloads: str, cwd: Path) -> None:
    for payload in payloads:
        options = ("--gateway", gateway.url, "--topic", topic, "-")
        assert run("publish", *options, cwd=cwd, stdin=payload.encode()).returncode == 0


def boxes(gateway: RunningGateway, cwd: Path) -> list[dict[str, object]]:
    listed = run("mailboxes", "list", "--gateway", gateway.url, "--output", "json", cwd=cwd)
    assert listed.returncode == 0, listed.stderr
    found: list[dict[str, object]] = json.loads(listed.stdout)
    return found


@pytest.mark.parametrize("spec", SPECIFICATIONS)
def test_what_it_prints(gateway: RunningGateway, folder: Path, spec: str) -> None:
    topic = f"pulled-{spec.replace('.', '-')}"
    options = ("--topic", topic, "--spec", spec, "--count", "2")
    with listen(gateway, *options, cwd=folder) as listener:
        publish(gateway, topic, "<n>1</n>", "<n>2</n>", cwd=folder)
        assert listener.end() == 0
        assert listener.out == [topic, "<n>1</n>", topic, "<n>2</n>"]
        assert f"Notifications are fetched from a mailbox at {gateway.url}" in listener.err
        assert listener.err[-1] == "Unsubscribed."
    assert boxes(gateway, folder) == []


def test_whole_envelopes(gateway: RunningGateway, folder: Path) -> None:
    options = ("--topic", "whole", "--whole", "--count", "1", "--output", "json")
    with listen(gateway, *options, cwd=folder) as listener:
        publish(gateway, "whole", "<n>1</n>", cwd=folder)
        assert listener.end() == 0
        record = json.loads(listener.out[0])
        assert (record["topic"], record["payload"]) == ("whole", "<n>1</n>")
        assert record["envelope"].startswith("<") and "<n>1</n>" in record["envelope"]
        assert record["message_id"] in record["envelope"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_how_it_ends(gateway: RunningGateway, folder: Path, number: signal.Signals) -> None:
    """Politely, in the midst of a long poll: nothing of it is left."""
    with listen(gateway, "--topic", "nothing", cwd=folder) as listener:
        [box] = boxes(gateway, folder)
        assert box["kind"] == "mailbox"
        assert listener.stop(number) == 0
        assert listener.err[-1] == "Unsubscribed."
    assert boxes(gateway, folder) == []


def test_operators(gateway: RunningGateway, folder: Path) -> None:
    """They see the box, and when they delete it the listener says so."""
    there = ("--gateway", gateway.url)
    with listen(gateway, "--topic", "operated", cwd=folder) as listener:
        [box] = boxes(gateway, folder)
        id_ = str(box["id"])
        table = run("mailboxes", "list", *there, cwd=folder).stdout.splitlines()
        assert table[0].split() == ["ID", "KIND", "OWNER", "MESSAGES", "BYTES", "DROPPED", "USED"]
        assert table[1].startswith(id_)
        shown = run("mailboxes", "show", id_, *there, cwd=folder).stdout
        assert "messages  0" in shown
        deleted = run("mailboxes", "delete", id_, "0123", *there, cwd=folder)
        assert (deleted.returncode, deleted.stdout) == (1, f"deleted {id_}\n")
        assert deleted.stderr == "dragoman: 0123: There is no such mailbox\n"
        assert listener.end() == 1
        assert "There is no such mailbox." in listener.err[-1]
    nothing = run("mailboxes", "list", *there, cwd=folder)
    assert (nothing.returncode, nothing.stderr) == (0, "There are no mailboxes.\n")
    missed = run("mailboxes", "show", id_, *there, cwd=folder)
    assert (missed.returncode, missed.stdout) == (1, "")


def test_what_it_refuses(gateway: RunningGateway, folder: Path) -> None:
    refused = run("listen", "--pull", "--host", "127.0.0.1", cwd=folder)
    assert refused.returncode == 2 and "--pull listens nowhere" in refused.stderr
    away = run("listen", "--pull", "--gateway", "http://127.0.0.1:1", cwd=folder)
    assert away.returncode == 1 and "cannot reach" in away.stderr
    broken = run("listen", "--pull", "--gateway", gateway.url, "--xpath", "/a[", cwd=folder)
    assert broken.returncode == 1 and len(broken.stderr.splitlines()) == 1
    assert boxes(gateway, folder) == []


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.nightly), signal.SIGKILL]
)
def test_the_gateway_restarts(tmp_path: Path, number: signal.Signals) -> None:
    """What was published before and after is printed once, in order."""
    (free,) = free_ports(1)  # One that nobody else is given while it is away.
    port = str(free)
    with RunningGateway("--port", port, cwd=tmp_path) as first:
        options = ("--topic", "again", "--count", "6")
        with listen(first, *options, cwd=tmp_path) as listener:
            publish(first, "again", "<n>1</n>", "<n>2</n>", "<n>3</n>", cwd=tmp_path)
            listener.wait_for("<n>3</n>")
            first.stop(number)
            listener.wait_for("trying again", lines=listener.err)
            with RunningGateway("--port", port, cwd=tmp_path) as second:
                assert second.url == first.url
                # What is published ends the listener's long poll, which ends by itself much later.
                publish(second, "again", "<n>4</n>", "<n>5</n>", "<n>6</n>", cwd=tmp_path)
                listener.wait_for("is back", lines=listener.err)
                assert listener.end() == 0
                payloads = [line for line in listener.out if line.startswith("<n>")]
                assert payloads == [f"<n>{number}</n>" for number in range(1, 7)]
                assert second.stop(signal.SIGTERM) == 0
