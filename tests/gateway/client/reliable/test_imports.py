"""An application needs no server's libraries."""

import subprocess
import sys
import tomllib

from tests.conftest import ROOT

SERVERS = (
    "alembic",
    "fastapi",
    "httptools",
    "prometheus_client",
    "pydantic",
    "pydantic_settings",
    "starlette",
    "structlog",
    "typer",
    "uvicorn",
    "uvloop",
)
_PROGRAM = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


def run(program: str, *blocked: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _PROGRAM + program, *blocked]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)


def test_it_is_imported_and_works_without_a_server() -> None:
    done = run(
        """
from gateway.client.reliable import Receiver, ReliableClient
with ReliableClient("memory:") as client, Receiver("memory:") as receiver:
    client.send("http://127.0.0.1:9/", b"<tea/>", action="urn:tea")
    print(client.waiting())
""",
        *SERVERS,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1\n"


def test_what_is_missing_is_named() -> None:
    done = run("import gateway.client.reliable", "sqlalchemy")
    assert done.returncode != 0
    assert "the extra reliable" in done.stderr


def test_the_contract_of_imports_names_the_same() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    [contract] = [
        each
        for each in tools["importlinter"]["contracts"]
        if "gateway.client.reliable" in each.get("source_modules", ())
    ]
    assert set(contract["forbidden_modules"]) <= set(SERVERS)
