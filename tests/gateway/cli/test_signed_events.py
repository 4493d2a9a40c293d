"""``dragoman publish --sign-key`` and ``listen --signers``, as processes."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from mediation.client import Received
from tests.rigs.event_signatures import credentials, key_pem, now, pem, signer
from tests.rigs.programs import Program, RunningGateway, run

MOLE = ("--sign-key", "mole.key", "--sign-certificate", "mole.pem")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mole.key").write_bytes(key_pem(credentials()))
    (tmp_path / "mole.pem").write_bytes(pem(credentials()))
    (tmp_path / "harbour.pem").write_bytes(pem())
    return tmp_path


@pytest.mark.nightly  # 16 s: each command is a process.
def test_who_signed_is_printed(folder: Path) -> None:
    with RunningGateway(
        "--adapter", "embedded:", "--data", "own", "--wsrm", "offered", cwd=folder
    ) as gateway:
        to = ("--gateway", gateway.url, "--topic", "storms")
        listening = ("listen", *to, "--signers", "harbour.pem", "--count", "4")
        with (
            Program(*listening, cwd=folder) as listener,
            Program(*listening, "--output", "json", cwd=folder) as program,
        ):
            listener.wait_for("Subscribed to storms", lines=listener.err)
            program.wait_for("Subscribed to storms", lines=program.err)
            for options in (MOLE, (*MOLE, "--spec", "cloudevents"), (*MOLE, "--reliable"), ()):
                published = run("publish", *to, *options, "-", cwd=folder, stdin=b"<n>1</n>")
                assert published.returncode == 0, published.stderr
            assert (listener.end(), program.end()) == (0, 0)
        said = ["signed by North mole"] * 3 + ["NOT signed"]
        assert listener.out == [line for one in said for line in ("storms", one, "<n>1</n>")]
        signatures = [json.loads(line)["signature"] for line in program.out]
        assert [one["state"] for one in signatures] == ["valid"] * 3 + ["none"]
        assert signatures[0]["signed_by"] == "North mole"
        assert gateway.stop(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("publish", "--sign-key", "mole.key", "-"), "go together"),
        (("publish", "--sign-key", "none", "--sign-certificate", "mole.pem", "-"), "No such file"),
        (
            ("publish", "--sign-key", "mole.pem", "--sign-certificate", "mole.pem", "-"),
            "private key",
        ),
        (("listen", "--signers", "none"), "No such file"),
        (("listen", "--signers", "mole.key"), "--signers: mole.key"),
    ],
)
def test_what_cannot_be_read_is_one_line(folder: Path, words: tuple[str, ...], says: str) -> None:
    failed = run(*words, cwd=folder, stdin=b"<n>1</n>")
    assert failed.returncode == 1
    assert says in failed.stderr and failed.stderr.count("\n") == 1


def test_what_is_invalid_is_said(folder: Path) -> None:
    from gateway.cli.signatures import read_check

    signature = signer().sign(b"<n>1</n>", id="urn:uuid:1", topic=None, time=now())
    properties: Mapping[str, str] = {"eventsignature": signature}
    found = read_check(folder / "harbour.pem").of(
        Received(None, b"<n>2</n>", None, None, properties=properties)
    )
    assert found.text == "signature invalid: the event is not what was signed"
    assert found.record == {"state": "invalid", "why": "the event is not what was signed"}
