"""Changes of the file of identities keep what people wrote, and are whole or not at all."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.identities.file_editing import (
    ADMINISTRATOR,
    NoSuchIdentity,
    add_key,
    add_user,
    create_identities,
    remove_key,
    remove_user,
    rotate_key,
)
from gateway.security.api_key_hashes import api_key_id, hash_api_key
from gateway.security.identities import IdentitiesUnusable, load_identities
from gateway.security.rights import ALL_RIGHTS

SOON = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_identities(tmp_path / "identities.toml")
    return tmp_path / "identities.toml"


def test_the_first_file_has_an_administrator(tmp_path: Path) -> None:
    path = tmp_path / "identities.toml"
    key = create_identities(path)
    found = load_identities(path)
    assert [user.name for user in found.users] == [ADMINISTRATOR]
    assert found.key_of_hash[hash_api_key(key)].rights == ALL_RIGHTS
    assert found.policy.grants([f"user:{ADMINISTRATOR}"]).rights == ALL_RIGHTS
    assert path.stat().st_mode & 0o777 == 0o600
    assert key not in path.read_text()
    with pytest.raises(FileExistsError):
        create_identities(path)


def test_comments_and_order_stay(path: Path) -> None:
    path.write_text(path.read_text() + '\n# The mole.\n[[users]]\nname = "mole" # north\n')
    before = path.read_text()
    add_user(path, "camera", "secret", ["harbour"])
    after = path.read_text()
    assert "# The mole." in after and "# north" in after
    assert after.index("mole") < after.index("camera")
    remove_user(path, "camera")
    assert load_identities(path).users == load_identities(path).users
    assert "camera" not in path.read_text() and "# The mole." in path.read_text()
    assert len(path.read_text()) <= len(before) + 2


def test_a_user_again(path: Path) -> None:
    add_user(path, "mole", "one", ["harbour"])
    first = load_identities(path).user_of_name["mole"]
    add_user(path, "mole", "two", [])
    second = load_identities(path).user_of_name["mole"]
    assert second.roles == first.roles == ["harbour"]
    assert second.password != first.password


def test_a_user_of_a_tenant(path: Path) -> None:
    path.write_text(path.read_text() + '\n[[tenants]]\nname = "acme"\n')
    add_user(path, "pump", None, [], tenant="acme")
    assert load_identities(path).user_of_name["pump"].tenant == "acme"
    add_user(path, "pump", None, ["hall"])
    assert load_identities(path).user_of_name["pump"].tenant == "acme"
    add_key(path, "pump", tenant="acme")
    for other in ("", "umbrella"):
        with pytest.raises(NoSuchIdentity):
            add_key(path, "pump", tenant=other)
    with pytest.raises(IdentitiesUnusable):
        add_user(path, "pump", None, [], tenant="umbrella")
    add_user(path, "pump", None, [], tenant="")
    assert load_identities(path).user_of_name["pump"].tenant == ""


def test_keys_come_and_go(path: Path) -> None:
    key = add_key(path, ADMINISTRATOR, ["publish"], SOON)
    kept = load_identities(path).key_of_hash[hash_api_key(key)]
    assert (kept.may, kept.expires) == (["publish"], SOON)
    fresh = rotate_key(path, api_key_id(kept.hash), SOON - timedelta(days=1))
    rows = load_identities(path).key_of_hash
    assert rows[hash_api_key(fresh)].expires == SOON
    assert rows[hash_api_key(key)].expires == SOON - timedelta(days=1)
    remove_key(path, api_key_id(hash_api_key(key)))
    assert hash_api_key(key) not in load_identities(path).key_of_hash
    remove_user(path, ADMINISTRATOR)
    assert load_identities(path).keys == []


@pytest.mark.parametrize(
    "change",
    [
        lambda path: remove_user(path, "nobody"),
        lambda path: remove_key(path, "0" * 12),
        lambda path: rotate_key(path, "0" * 12, SOON),
        lambda path: add_key(path, "nobody"),
        lambda path: add_key(path, ADMINISTRATOR, ["fly"]),
        lambda path: add_user(path, "", None, []),
    ],
)
def test_what_cannot_be_done_changes_nothing(path: Path, change: object) -> None:
    before = path.read_bytes()
    with pytest.raises((NoSuchIdentity, IdentitiesUnusable)):
        change(path)  # type: ignore[operator]
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
