"""What a command imports before it does anything, and what it says when a library is missing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from gateway.cli import COMMANDS, app
from gateway.cli.options import VARIABLES
from gateway.settings.settings import Settings
from tests.rigs.programs import DRAGOMAN, environment, run

pytestmark = pytest.mark.slow  # Each starts a process.

HEAVY = (
    *("aiohttp", "alembic", "fastapi", "filters", "lxml", "mediation", "pydantic", "pyspark"),
    *("rich", "sqlalchemy", "starlette", "structlog", "uvicorn"),
)
"""Packages that take long to import, and that neither the version nor the help needs."""


def imported(*arguments: str) -> set[str]:
    """The packages that a command has imported when it ends."""
    script = (
        "import json, sys\n"
        "from gateway.cli import main\n"
        f"sys.argv = ['dragoman', *{arguments!r}]\n"
        "try:\n    main()\n"
        "finally:\n    print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})),"
        " file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    return set(json.loads(done.stderr))


@pytest.mark.parametrize("arguments", [("--version",), ("--help",)])
def test_little_is_imported(arguments: tuple[str, ...]) -> None:
    assert imported(*arguments) & set(HEAVY) == set()


def test_only_what_a_command_needs_is_imported() -> None:
    assert imported("serve", "--help") & {"aiohttp", "pyspark"} == set()
    assert imported("listen", "--help") & {"fastapi", "pyspark", "sqlalchemy"} == set()


def test_no_garbage_is_looked_for_among_what_is_imported() -> None:
    script = (
        "import gc, sys\n"
        "from gateway.cli import main\n"
        "before = gc.get_stats()\n"
        "sys.argv = ['dragoman', 'topics', '--help']\n"
        "try:\n    main()\n"
        "finally:\n"
        "    print([now['collections'] - then['collections']"
        " for now, then in zip(gc.get_stats(), before)][1:], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert done.stderr.strip() == "[0, 0]"


def test_the_help_lists_whole_sentences(tmp_path: Path) -> None:
    done = run("--help", cwd=tmp_path)
    words = " ".join(done.stdout.split())
    assert "..." not in words.partition(" Commands: ")[2]
    for name, command in COMMANDS.items():
        assert f" {name} {command.summary}" in words


def test_a_summary_is_the_first_sentence_of_the_help() -> None:
    line: Any = get_command(app)
    for name, command in COMMANDS.items():
        assert line.get_command(None, name).get_short_help_str() == command.summary


def variables(command: Any) -> set[str]:
    """Those of the environment that options of a command, and of those below it, are read from."""
    found = {parameter.envvar for parameter in command.params if parameter.envvar}
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            found |= variables(command.get_command(None, name))
    return {str(name) for name in found}


def test_the_variables_of_options_are_listed() -> None:
    settings = {f"DRAGOMAN_{name.upper()}" for name in Settings.model_fields}
    assert variables(get_command(app)) - settings == VARIABLES


def test_a_command_that_lacks_a_library_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "aiohttp.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'aiohttp'\", name='aiohttp')\n"
    )
    lacking = {**environment(), "PYTHONPATH": str(tmp_path)}
    for name in ("listen", "publish", "subscriptions", "mailboxes", "deadletters"):
        done = subprocess.run(
            [*DRAGOMAN, name],
            capture_output=True,
            text=True,
            env=lacking,
            cwd=tmp_path,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"dragoman: {name}: speaking to a gateway needs aiohttp")
        assert "the extra client" in done.stderr
        assert done.stderr.count("\n") == 1
    for name in ("serve", "match", "doctor", "backtest"):
        subprocess.run(
            [*DRAGOMAN, name, "--help"], capture_output=True, env=lacking, cwd=tmp_path, check=True
        )


OF_EXTRAS = (
    *("ldap3", "pandas", "pika", "psycopg", "pyarrow", "pymysql", "pyspark", "re2"),
    *("saxonche", "signxml", "stomp"),
)


def test_a_gateway_needs_no_extra(tmp_path: Path) -> None:
    for name in OF_EXTRAS:
        (tmp_path / f"{name}.py").write_text(
            f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n"
        )
    command = [*DRAGOMAN, "serve", "--port", "0", "--data", str(tmp_path / "data")]
    lacking = {**environment(), "PYTHONPATH": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=lacking,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        said = process.stdout.readline()
        process.terminate()
        assert "is ready" in said, process.stderr.read()
        assert process.wait(60) == 0


def completions(*words: str, folder: Path) -> list[str]:
    """What bash offers for the last of *words*, by the script that we give it."""
    # Typer looks for a shell among the ancestors, where a run in the background has none.
    named = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = subprocess.run(
        [*DRAGOMAN, "--show-completion", "bash"],
        capture_output=True,
        text=True,
        env={**environment(), **named},
        check=True,
    ).stdout
    bin_ = folder / "bin"
    bin_.mkdir(exist_ok=True)
    (bin_ / "dragoman").write_text(
        f'#!/bin/sh\nexec {" ".join(DRAGOMAN)} "$@"\n'.replace("exec", "exec", 1)
    )
    (bin_ / "dragoman").chmod(0o755)
    typed = " ".join(f"'{word}'" for word in ("dragoman", *words))
    program = (
        f"{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words)}\n"
        "function_=$(complete -p dragoman | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
        "$function_ dragoman; printf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    path = f"{bin_}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", program],
        capture_output=True,
        text=True,
        env={**environment(), "PATH": path},
        check=True,
        cwd=folder,
    )
    return done.stdout.split()


def test_bash_completes(tmp_path: Path) -> None:
    assert completions("", folder=tmp_path) == list(COMMANDS)
    assert completions("subs", folder=tmp_path) == ["subscriptions"]
    assert completions("subscriptions", "sh", folder=tmp_path) == ["show"]
    assert "--mailboxes-only" in completions("serve", "--m", folder=tmp_path)
