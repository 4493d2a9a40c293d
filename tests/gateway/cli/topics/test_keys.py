"""``dragoman topics keys``: what it makes is believed by its fingerprint."""

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from filters import Refused
from mediation.discovery import Anchors, Role, Trust, Verifier, read_credentials, receive
from tests.rigs.discovery_entities import Speaker
from tests.rigs.programs import run


@pytest.mark.slow
def test_keys(tmp_path: Path) -> None:
    made = run("topics", "keys", "North mole", "--output", "json", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    said = json.loads(made.stdout)
    key, certificate = tmp_path / "entity.key", tmp_path / "entity.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    credentials = read_credentials(key.read_bytes(), certificate.read_bytes())
    assert credentials.identifier(Role.ENTITY) == said["identifier"]
    assert credentials.identifier(Role.NODE) == said["identifier as a node"]

    now = datetime.now(UTC)
    message = Speaker(credentials).look_for_nodes(now)
    anchors = Anchors(fingerprints=frozenset({said["fingerprint"]}))
    checked = receive(message, Verifier(Trust(entities=anchors)), {}, now=now)
    assert checked.message.head.sender == said["identifier"]
    with pytest.raises(Refused):
        receive(message, Verifier(Trust()), {}, now=now)

    again = run("topics", "keys", "North mole", cwd=tmp_path)
    assert again.returncode == 1
    assert again.stderr == ("dragoman: entity.pem: exists; name another file with --certificate.\n")
    renewed = run("topics", "keys", "North mole", "--certificate", "new.pem", cwd=tmp_path)
    assert said["identifier"] in renewed.stdout
    assert said["fingerprint"] not in renewed.stdout
    key.write_text("no key")
    other = run("topics", "keys", "North mole", "--certificate", "other.pem", cwd=tmp_path)
    assert other.stderr == "dragoman: entity.key: no key in PEM without a password.\n"
    assert not (tmp_path / "other.pem").exists()
