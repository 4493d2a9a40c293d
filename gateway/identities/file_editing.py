"""Changes of the file of identities, which keep an operator's comments and order.

A change is checked before it is written, and replaces the file at once: a gateway, and a command
that runs at the same time, see the file before or after it.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Table

from filters import Reason, Refused
from gateway.atomic_files import create_file, replace_file
from gateway.security.api_key_hashes import api_key_id, hash_api_key, new_api_key
from gateway.security.identities import EVERYTHING, IdentitiesUnusable, key_file, parse_identities
from gateway.security.password_cipher import PasswordCipher
from gateway.security.passwords import hash_password

ADMINISTRATOR = "administrator"
_HEADER = """\
# Who there is, and who may do what. The gateway reads it again within a second after a change.
"""


class NoSuchIdentity(Refused):
    """There is no such user or key; the text says which."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason.RESOURCE_UNKNOWN, text)


def create_identities(path: Path) -> str:
    """Make a file with an administrator, who may everything. Returns the administrator's key.

    Raises:
        FileExistsError: There is one.
        IdentitiesUnusable: It cannot be written.
    """
    key = new_api_key()
    document = tomlkit.document()
    for line in _HEADER.splitlines():
        document.add(tomlkit.comment(line.removeprefix("# ")))
    _rows(document, "users").append(_table(name=ADMINISTRATOR))
    _rows(document, "keys").append(_table(user=ADMINISTRATOR, hash=hash_api_key(key)))
    _rows(document, "rights").append(_table(who=[f"user:{ADMINISTRATOR}"], may=[EVERYTHING]))
    try:
        create_file(path, tomlkit.dumps(document).encode())
    except FileExistsError:
        raise
    except OSError as error:
        raise IdentitiesUnusable(path, str(error.strerror or error)) from error
    return key


def add_user(
    path: Path,
    name: str,
    password: str | None,
    roles: Sequence[str],
    *,
    digest: bool = False,
    tenant: str | None = None,
) -> None:
    """Add a user, or give one that there is a new *password* and *roles*; None and nothing leave
    what it has.

    Args:
        digest: The user may prove the password by a digest, too, for which it is kept encrypted.
        tenant: That the user belongs to from now on; empty is the default tenant, None leaves it.

    Raises:
        IdentitiesUnusable: The file cannot be read, or written, or would not be valid.
    """

    def change(document: tomlkit.TOMLDocument) -> None:
        users = _rows(document, "users")
        row = next((row for row in users if row.get("name") == name), None)
        if row is None:
            row = _table(name=name)
            users.append(row)
            row = users[-1]
        if password is not None:
            row["password"] = hash_password(password)
            row.pop("digest", None)
            if digest:
                row["digest"] = PasswordCipher(key_file(path)).encrypt(password)
        if roles:
            row["roles"] = list(roles)
        if tenant is not None:
            row.pop("tenant", None)
            if tenant:
                row["tenant"] = tenant

    _change(path, change)


def remove_user(path: Path, name: str) -> None:
    """Remove a user, with its keys and certificates. Rules that name it stay: they grant nobody.

    Raises:
        NoSuchIdentity: There is none.
        IdentitiesUnusable: As `add_user`.
    """

    def change(document: tomlkit.TOMLDocument) -> None:
        if not _remove(document, "users", lambda row: row.get("name") == name):
            raise NoSuchIdentity(f"there is no user {name}")
        for table in ("keys", "certificates"):
            _remove(document, table, lambda row: row.get("user") == name)

    _change(path, change)


def add_key(
    path: Path,
    user: str,
    rights: Sequence[str] = (),
    expires: datetime | None = None,
    *,
    tenant: str | None = None,
) -> str:
    """Add a key of *user*, and return it: it cannot be had again.

    Args:
        tenant: That the user must belong to; None: any.

    Raises:
        NoSuchIdentity: There is no such user in *tenant*.
        IdentitiesUnusable: As `add_user`; there is no such user.
    """
    key = new_api_key()

    def change(document: tomlkit.TOMLDocument) -> None:
        if tenant is not None:
            rows = [row for row in _rows(document, "users") if row.get("name") == user]
            if not any(row.get("tenant", "") == tenant for row in rows):
                raise NoSuchIdentity(f"there is no user {user} in the tenant {tenant or 'default'}")
        _rows(document, "keys").append(_key_row(key, user, rights, expires))

    _change(path, change)
    return key


def rotate_key(path: Path, key_id: str, old_expires: datetime) -> str:
    """Add a key like the one with *key_id*, which expires itself then, and return it.

    Raises:
        NoSuchIdentity: There is none.
        IdentitiesUnusable: As `add_user`.
    """
    key = new_api_key()

    def change(document: tomlkit.TOMLDocument) -> None:
        keys = _rows(document, "keys")
        row = next((row for row in keys if _has_id(row, key_id)), None)
        if row is None:
            raise NoSuchIdentity(f"there is no key {key_id}")
        fresh = _key_row(key, str(row["user"]), list(row.get("may", ())), row.get("expires"))
        row["expires"] = old_expires
        keys.append(fresh)

    _change(path, change)
    return key


def remove_key(path: Path, key_id: str) -> None:
    """Remove a key.

    Raises:
        NoSuchIdentity: There is none.
        IdentitiesUnusable: As `add_user`.
    """

    def change(document: tomlkit.TOMLDocument) -> None:
        if not _remove(document, "keys", lambda row: _has_id(row, key_id)):
            raise NoSuchIdentity(f"there is no key {key_id}")

    _change(path, change)


def add_rule(path: Path, rule: Mapping[str, Any]) -> int:
    """Add a rule, with the members of a row of ``[[rights]]``, and return its place, from 1.

    Raises:
        IdentitiesUnusable: As `add_user`.
    """
    place = 0

    def change(document: tomlkit.TOMLDocument) -> None:
        nonlocal place
        rows = _rows(document, "rights")
        row = _table(**{name: value for name, value in rule.items() if name != "namespaces"})
        if rule.get("namespaces"):
            namespaces = tomlkit.inline_table()
            namespaces.update(rule["namespaces"])
            row.add("namespaces", namespaces)
        rows.append(row)
        place = len(rows)

    _change(path, change)
    return place


def remove_rule(path: Path, place: int) -> None:
    """Remove the rule at a *place*, from 1.

    Raises:
        NoSuchIdentity: There is none.
        IdentitiesUnusable: As `add_user`.
    """

    def change(document: tomlkit.TOMLDocument) -> None:
        rows = _rows(document, "rights")
        if not 0 < place <= len(rows):
            raise NoSuchIdentity(f"there is no rule {place}")
        del rows[place - 1]
        if not len(rows):
            del document["rights"]

    _change(path, change)


def _change(path: Path, change: Callable[[tomlkit.TOMLDocument], None]) -> None:
    """Change the file at *path*, if what comes of it is valid."""
    with _locked(path):
        try:
            document = tomlkit.parse(path.read_text())
        except (OSError, UnicodeDecodeError, TOMLKitError) as error:
            raise IdentitiesUnusable(path, _why(error)) from error
        change(document)
        text = tomlkit.dumps(document).encode()
        parse_identities(text, path)
        try:
            replace_file(path, text)
        except OSError as error:
            raise IdentitiesUnusable(path, _why(error)) from error


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one command at a time change the file at *path*. What is locked is its folder: the file
    itself is replaced."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise IdentitiesUnusable(path, _why(error)) from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _why(error: Exception) -> str:
    return str(error.strerror or error) if isinstance(error, OSError) else str(error)


def _rows(document: tomlkit.TOMLDocument, table: str) -> AoT:
    if not isinstance(document.get(table), AoT):
        document.add(table, tomlkit.aot())
    found = document[table]
    assert isinstance(found, AoT)
    return found


def _remove(document: tomlkit.TOMLDocument, table: str, which: Callable[[Any], bool]) -> int:
    """Remove rows, and return how many."""
    rows = _rows(document, table)
    found = [number for number, row in enumerate(rows) if which(row)]
    for number in reversed(found):
        del rows[number]
    if not len(rows):
        del document[table]
    return len(found)


def _table(**values: Any) -> Table:
    row = tomlkit.table()
    row.trivia.indent = "\n"  # An empty line in front of each.
    for name, value in values.items():
        row.add(name, value)
    return row


def _key_row(key: str, user: str, rights: Sequence[str], expires: datetime | None) -> Table:
    row = _table(user=user, hash=hash_api_key(key))
    if rights:
        row.add("may", list(rights))
    if expires is not None:
        row.add("expires", expires)
    return row


def _has_id(row: Any, key_id: str) -> bool:
    return api_key_id(str(row.get("hash", ""))) == key_id
