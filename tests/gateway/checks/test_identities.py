"""What ``doctor`` says of the file of identities, and where there is none."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.checks.findings import Verdict
from gateway.checks.identities import check_identities
from gateway.identities.file_editing import (
    ADMINISTRATOR,
    add_key,
    add_user,
    create_identities,
    remove_user,
)
from gateway.security.identities import key_file
from gateway.settings.settings import Settings


def said_of(**settings: Any) -> dict[Verdict, str]:
    return {found.verdict: found.text for found in check_identities(Settings(**settings))}


@pytest.mark.parametrize(
    ("settings", "verdict", "text"),
    [
        ({}, Verdict.OK, "everybody on this machine"),
        ({"host": "0.0.0.0"}, Verdict.FAIL, "does not start"),
        (
            {"host": "0.0.0.0", "without_identities": True},
            Verdict.WARN,
            "may publish and subscribe",
        ),
        ({"host": "0.0.0.0", "admin_host": "0.0.0.0"}, Verdict.FAIL, "does not start"),
        (
            {"host": "0.0.0.0", "admin_host": "0.0.0.0", "admin_without_identities": True},
            Verdict.WARN,
            "may operate",
        ),
        ({"identities": "nowhere.toml"}, Verdict.OK, "the first start makes it"),
    ],
)
def test_without_a_file(settings: dict[str, Any], verdict: Verdict, text: str) -> None:
    [(found, said)] = said_of(**settings).items()
    assert found is verdict and text in said


def spoil(path: Path) -> None:
    path.write_text("[[users]]")


def lose_the_key(path: Path) -> None:
    add_user(path, "camera", "secret", [], digest=True)
    key_file(path).unlink()


CHANGES: dict[str, tuple[Callable[[Path], object], Verdict, str]] = {
    "as it is made": (lambda path: None, Verdict.OK, "1 users, 1 keys, 1 rules"),
    "no TOML": (spoil, Verdict.FAIL, "users: row 1"),
    "without the key of digests": (lose_the_key, Verdict.FAIL, "identities.toml.key"),
    "for all to read": (lambda path: path.chmod(0o644), Verdict.WARN, "mode"),
    "a key that has expired": (
        lambda path: add_key(path, ADMINISTRATOR, (), datetime(2020, 1, 1, tzinfo=UTC)),
        Verdict.WARN,
        "1 keys have expired",
    ),
    "a tenant that may flood": (
        lambda path: path.write_text(f"{path.read_text()}\n[[tenants]]\nname = 'acme'\n"),
        Verdict.WARN,
        "without a quota of messages: acme",
    ),
    "a user by any authority, and rights by one": (
        lambda path: path.write_text(
            f"{path.read_text()}\n[[certificates]]\nsubject = 'CN=tug'\nuser = 'administrator'\n"
            "[[authorities]]\nname = 'port'\nfile = 'port.pem'\n"
            "[[rights]]\nwho = ['ca:port']\nmay = ['subscribe']\n"
        ),
        Verdict.WARN,
        "certificates row 1: rules of `ca:` let such users subscribe, and deliver nothing",
    ),
    "an authority without its file": (
        lambda path: path.write_text(
            f"{path.read_text()}\n[[authorities]]\nname = 'port'\nfile = 'port.pem'\n"
        ),
        Verdict.FAIL,
        "authorities: port: port.pem cannot be used",
    ),
    "nobody operates": (
        lambda path: path.write_text('[[rights]]\nwho = ["anonymous"]\nmay = ["publish"]'),
        Verdict.WARN,
        "nobody may operate",
    ),
}


@pytest.mark.parametrize(("change", "verdict", "text"), CHANGES.values(), ids=CHANGES.keys())
def test_a_file(
    tmp_path: Path, change: Callable[[Path], object], verdict: Verdict, text: str
) -> None:
    path = tmp_path / "identities.toml"
    create_identities(path)
    change(path)
    assert text in said_of(identities=path)[verdict]


def test_an_administrator_that_is_gone_still_has_a_rule(tmp_path: Path) -> None:
    path = tmp_path / "identities.toml"
    create_identities(path)
    remove_user(path, ADMINISTRATOR)
    assert Verdict.FAIL not in said_of(identities=path)
