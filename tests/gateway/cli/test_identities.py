"""``dragoman users``, ``keys`` and ``rights``: in the file, and in the store of a gateway, by the same
words."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli import app
from gateway.identities.file_editing import create_identities
from tests.rigs.gateways import running


@dataclass
class Commands:
    """Runs commands for one place."""

    place: list[str]
    stored: bool
    file: str

    async def run(self, *words: str, fails: str = "", said: str | None = None) -> str:
        """What a command prints; *fails*: what it says where it must fail."""
        done = await asyncio.to_thread(CliRunner().invoke, app, [*words, *self.place], input=said)
        if fails:
            assert done.exit_code != 0, done.output
            assert fails in f"{done.output} {done.exception}", (done.output, done.exception)
        else:
            assert done.exit_code == 0, (words, done.output, done.exception)
        return done.output

    async def listed(self, group: str) -> list[dict[str, object]]:
        printed = await self.run(group, "list", "--output", "json")
        return [json.loads(one) for one in printed.splitlines()]


@pytest.fixture(params=["file", "store"])
async def commands(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Commands]:
    file = tmp_path / "identities.toml"
    key = create_identities(file)
    file.write_text(file.read_text() + '\n[[tenants]]\nname = "acme"\n')
    if request.param == "file":
        yield Commands(["--file", str(file)], False, str(file))
        return
    monkeypatch.setenv("DRAGOMAN_API_KEY", key)
    async with running(tmp_path / "data", identities=file) as run:
        yield Commands(["--stored", "--gateway", run.url], True, str(file))


async def test_users_keys_and_rules(commands: Commands) -> None:
    run = commands.run
    assert await run("users", "add", "maria", "--role", "nurses") == "added maria\n"
    await run("users", "add", "camera", "--password-file", "-", "--digest", said="secret\n")
    await run("users", "add", "pump", "--tenant", "acme")
    await run("users", "add", "eve", "--tenant", "nowhere", fails="no tenant")
    key = (await run("keys", "add", "maria", "--may", "publish", "--days", "30")).strip()
    assert re.fullmatch(r"drg_[\w-]{43}", key)
    await run("keys", "add", "pump", "--tenant", "default", fails="pump")
    await run("keys", "add", "nobody", fails="nobody")
    wanted = ("--who", "role:nurses", "--may", "publish", "--topic", "w:ward//.", "--ns", "w=urn:w")
    rule = (await run("rights", "add", *wanted)).removeprefix("added ").strip()
    await run("rights", "add", "--who", "mole", "--may", "publish", fails="who")
    users = {str(one["name"]): one for one in await commands.listed("users")}
    assert users.keys() == {"administrator", "camera", "maria", "pump"}
    assert users["camera"]["proofs"] == ["password", "digest"]
    assert (users["maria"]["roles"], users["pump"]["tenant"]) == (["nurses"], "acme")
    [mine] = [one for one in await commands.listed("keys") if one["user"] == "maria"]
    assert (mine["may"], mine["state"]) == (["publish"], "valid")
    place = "store" if commands.stored else "file"
    assert {users["maria"]["kept_in"], mine["kept_in"]} == {place}
    rules = {str(one["id"]): one for one in await commands.listed("rights")}
    assert rules[rule]["topics"] == ["w:ward//."]
    assert rules[rule]["namespaces"] == {"w": "urn:w"}
    assert rules["file-1"]["who"] == ["user:administrator"]
    said = await run("rights", "check", "maria", "publish", "{urn:w}ward/3")
    assert f"rule {rule if commands.stored else 2} lets role:nurses publish" in said
    denied = await run("rights", "check", "maria", "subscribe", "a", fails="1")
    assert denied.startswith("no: ")
    shown = await run("users", "list")
    assert ("KEPT IN" in shown) is commands.stored and "maria" in shown
    fresh = (await run("keys", "rotate", str(mine["id"]), "--hours", "2")).strip()
    assert fresh != key
    assert len([one for one in await commands.listed("keys") if one["user"] == "maria"]) == 2
    await run("rights", "remove", rule)
    await run("rights", "remove", rule, fails="rule")
    await run("users", "remove", "maria", "camera", "pump")
    assert len(await commands.listed("keys")) == 1, "a user's keys go with it"


async def test_what_is_in_the_file_is_changed_there_alone(commands: Commands) -> None:
    if not commands.stored:
        return
    [key] = await commands.listed("keys")
    for words in (
        ("users", "remove", "administrator"),
        ("users", "add", "administrator", "--role", "a"),
        ("keys", "remove", str(key["id"])),
        ("keys", "rotate", str(key["id"])),
    ):
        await commands.run(*words, fails="in the file of identities")
    await commands.run("users", "list", "--file", commands.file, fails="give one of them")
    await commands.run("rights", "check", commands.file, "publish", fails="takes names")
