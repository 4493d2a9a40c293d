"""``dragoman listen --reliable``, as a process."""

import signal
from pathlib import Path

import pytest

from tests.rigs.programs import Program, RunningGateway, run

ARGUMENTS = ("--adapter", "embedded:", "--data", "own")


@pytest.mark.slow
def test_what_it_prints(tmp_path: Path) -> None:
    with RunningGateway(*ARGUMENTS, cwd=tmp_path) as gateway:
        options = ("--topic", "storms", "--count", "2", "--gateway", gateway.url)
        with Program("listen", "--reliable", *options, cwd=tmp_path) as listener:
            listener.wait_for("Subscribed to storms", lines=listener.err)
            for payload in (b"<n>1</n>", b"<n>2</n>"):
                sent = ("--gateway", gateway.url, "--topic", "storms", "-")
                assert run("publish", *sent, cwd=tmp_path, stdin=payload).returncode == 0
            assert listener.end() == 0
            assert listener.out == ["storms", "<n>1</n>", "storms", "<n>2</n>"]
            assert listener.err[-1] == "Unsubscribed."
        assert gateway.stop(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--pull",), "sent to a listener over HTTP"),
        (("--gateway", "soap.tcp://127.0.0.1:9"), "sent to a listener over HTTP"),
        (("--spec", "wsn-1.0"), "cannot be asked for in wsn-1.0"),
        (("--spec", "cloudevents"), "cannot be asked for in cloudevents"),
    ],
)
def test_what_goes_with_it(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    refused = run("listen", "--reliable", *options, cwd=tmp_path)
    assert refused.returncode == 2
    assert says in " ".join(refused.stderr.replace("│", " ").split())
