"""The commands of docs/discovery-commands.md, as written, with a node of its own."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from mediation.discovery import Role, identifier_of, read_authorities
from tests.conftest import ROOT
from tests.rigs.discovery import SCHEMA
from tests.rigs.programs import DRAGOMAN, SECONDS, Program, RunningGateway, environment

PAGE = (ROOT / "docs" / "discovery-commands.md").read_text()
BLOCKS = [
    re.sub("(?m)^    ", "", block) for block in re.findall(r"(?m)(?:^    .*\n|^\n(?=    ))+", PAGE)
]
ENTITY = re.compile("e-[0-9a-f]{32}")


def shell(commands: str, folder: Path, **variables: str) -> str:
    """Run *commands*; what they print."""
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, (commands, done.stderr)
    return done.stdout + done.stderr


def run_to_failure(command: str, folder: Path, **variables: str) -> str:
    """Run a command that ends with 1; what it says."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1, (command, done.stderr)
    return done.stderr


@pytest.mark.nightly
@pytest.mark.slow
def test_the_commands_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "dragoman"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(DRAGOMAN)} "$@"\n')
    program.chmod(0o755)
    home = tmp_path / "harbour"
    home.mkdir()
    keys, certificates, settings, serve, make, find, *more = BLOCKS
    shape, give, listen, publish, revoke, withdraw, hide, reveal = more

    places = {"PATH": f"{program.parent}:{environment()['PATH']}"}
    shell(keys, home, **places)
    shell(certificates, home)
    [museum] = read_authorities((home / "museum" / "entity.pem").read_bytes())
    (home / "node" / "dragoman.toml").write_text(settings)
    folder, _, command = serve.strip().partition(" && dragoman serve ")
    assert folder == "cd node"
    with RunningGateway(*shlex.split(command), cwd=home / "node") as gateway:
        to = {"DRAGOMAN_GATEWAY": gateway.url}

        def run(commands: str, who: str) -> str:
            return shell(commands, home / who, **places, **to)

        made = run(make, "mole")
        id_ = re.findall(r"^id +(\S+)$", made, re.MULTILINE)[0]
        assert f"advertised {id_} (wind.xml)" in made
        assert re.search(rf"^tdn-[0-9a-f]{{32}} keeps {id_}$", made, re.MULTILINE)
        found = run(find, "museum")
        assert re.search("^institution +Harbour Office$", found, re.MULTILINE)
        assert json.loads(found.splitlines()[-1])["id"] == id_
        right = run(ENTITY.sub(identifier_of(museum, Role.ENTITY), give), "mole")
        assert re.search("^rights +subscribe$", right, re.MULTILINE)
        listening = shlex.split(listen)[1:]
        with Program(*listening, cwd=home / "museum", **to) as listener:
            listener.wait_for("Subscribed to 1 topic", lines=listener.err)
            assert any(re.fullmatch("name +North mole", text) for text in listener.err)
            run(publish, "mole")
            listener.wait_for("<knots>12</knots>")
            assert listener.stop() == 0
            assert listener.err[-1] == "Unsubscribed."
        kept = (home / "museum" / "delegation.xml").read_text()
        [id_of_right] = set(re.findall("dlg-[0-9a-f-]{36}", kept))
        said = run(revoke, "mole")
        assert f"revoked {id_of_right}\n" in said
        assert re.search(rf"^tdn-[0-9a-f]{{32}} keeps {id_}, and obeys.$", said, re.MULTILINE)
        assert [one.name for one in (home / "mole/wind.xml.revoked").iterdir()] == [
            f"{id_of_right}.xml"
        ]
        run("dragoman topics advertise wind.xml", "mole")
        assert "is revoked" in run_to_failure(listen, home / "museum", **places, **to)
        (home / "mole" / "gale.xsd").write_text(SCHEMA)
        run(f"{shape}\ndragoman topics advertise gale.xml", "mole")
        told = json.loads(run("dragoman topics discover gales --output json", "mole"))
        assert told["schema"] == {"type": "application/xml", "text": SCHEMA}
        assert "schema text" in run(f"dragoman topics show {told['id']}", "mole")
        other = run_to_failure(f"dragoman topics withdraw {id_}", home / "museum", **places, **to)
        assert f"still keeps {id_}: only who made a topic can withdraw it" in other
        assert f"withdrawn {id_}" in run(withdraw, "mole")
        again = run_to_failure("dragoman topics advertise wind.xml", home / "mole", **places, **to)
        assert f"No node keeps {id_}: withdrawn, expired" in again
        assert run(find.strip().splitlines()[0], "museum") == "No topic was found.\n"

        hidden = run(hide, "mole")
        [secret] = re.findall(r"^id +(\S+)$", hidden, re.MULTILINE)
        assert re.search(rf"^tdn-[0-9a-f]{{32}} keeps {secret}$", hidden, re.MULTILINE)
        [mole] = read_authorities((home / "mole" / "entity.pem").read_bytes())
        reveal = ENTITY.sub(identifier_of(mole, Role.ENTITY), reveal)
        without, _, _ = reveal.partition(" --topic-key")
        assert "Storm" not in (seen := run(without, "museum"))
        assert re.search("^encrypted +yes$", seen, re.MULTILINE)
        assert re.search("^texts +.*Storms, before", run(reveal, "museum"), re.MULTILINE)
        assert "Storms, before" in run(f"dragoman topics discover id={secret}", "mole"), "its own"
