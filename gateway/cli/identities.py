"""``dragoman users``, ``keys`` and ``rights``: the file of identities."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from filters import FilterError, Refused, parse_clark
from filters.topics import Topic
from gateway.cli.commands import add, group, help_alone
from gateway.cli.documents import read_document
from gateway.cli.errors import CommandFailed
from gateway.cli.options import Form, OutputOption
from gateway.cli.output import json_line, line, moment, note, table
from gateway.identities.file_editing import (
    add_key,
    add_user,
    create_identities,
    remove_key,
    remove_user,
    rotate_key,
)
from gateway.security.api_key_hashes import api_key_id
from gateway.security.identities import (
    Identities,
    Key,
    is_expired,
    load_identities,
)
from gateway.security.principals import Identity
from gateway.security.rights import NOBODY_IN_PARTICULAR, Right
from mediation.certificates import read_certificates

users = group("users", "List, add and remove users in the file of identities.")
users.callback()(help_alone)
keys = group("keys", "List, add, rotate and remove API keys in the file of identities.")
keys.callback()(help_alone)
rights = group("rights", "Say who may do what, by the file of identities.")
rights.callback()(help_alone)

FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="The file of identities. [that of the settings]",
    ),
]
TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="The tenant of the user, of `[[tenants]]`."),
]
RIGHTS = "publish, subscribe, manage, operate, read or everything"


def _file(given: Path | None) -> Path:
    """The file of identities.

    Raises:
        CommandFailed: None is named, and the settings have none.
    """
    if given is not None:
        return given
    from gateway.settings.settings import read_settings

    found = read_settings().identities
    if found is None:
        raise CommandFailed("there is no file of identities: name one with --file")
    return found


@contextmanager
def _said() -> Iterator[None]:
    """Say in one line what is wrong with the file."""
    try:
        yield
    except Refused as error:
        raise CommandFailed(error.text) from error


def _read(given: Path | None) -> Identities:
    with _said():
        return load_identities(_file(given))


def _changed(given: Path | None) -> Path:
    """The file that a command changes; one is made where there is none, with an administrator."""
    path = _file(given)
    if not path.exists():
        try:
            with _said():
                key = create_identities(path)
        except FileExistsError:  # A gateway that starts just now was first.
            return path
        note(f"Made {path}. The key of its administrator is not shown again: {key}")
    return path


# Users.


def list_users(file: FileOption = None, output: OutputOption = Form.TEXT) -> None:
    r"""List the users, how they prove who they are, and their roles.

    \b
    Examples:
      dragoman users list
    """
    found = _read(file)
    rows: list[dict[str, Any]] = [
        {
            "name": user.name,
            "password": user.password is not None,
            "keys": sum(key.user == user.name for key in found.keys),
            "certificates": sum(row.user == user.name for row in found.certificates),
            "roles": user.roles,
            "tenant": user.tenant,
        }
        for user in found.users
    ]
    if output is Form.JSON:
        for row in rows:
            json_line(row)
        return
    columns = ["name", "password", "keys", "certificates", "roles"]
    if found.tenants:
        columns.append("tenant")
    for text in table(columns, [[row[name] for name in columns] for row in rows]):
        line(text)


def add_one_user(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="Where its password is; - is standard input. [the user has none]",
        ),
    ] = None,
    role: Annotated[
        list[str] | None, typer.Option("--role", metavar="NAME", help="A role; may be repeated.")
    ] = None,
    digest: Annotated[
        bool,
        typer.Option(
            "--digest",
            help="It may prove the password by a digest of WS-Security, as devices do: it is kept, "
            "encrypted.",
        ),
    ] = False,
    tenant: TenantOption = None,
    file: FileOption = None,
) -> None:
    r"""Add a user, or give one that there is another password, or other roles.

    A user without a password has keys (`dragoman keys add`) or a certificate, or is one of an
    issuer of tokens. What it may do is said in `[[rights]]` of the file.

    \b
    Examples:
      dragoman users add north-mole --role harbour
      dragoman users add pump-3 --tenant acme
      pwgen 24 1 | tee /dev/tty | dragoman users add camera-7 --password-file -
    """
    password = _password(password_file) if password_file is not None else None
    if digest and password is None:
        raise CommandFailed("--digest is of a password: give --password-file, too")
    path = _changed(file)
    with _said():
        add_user(path, name, password, role or (), digest=digest, tenant=tenant)
    line(f"added {name}")


def _password(path: Path) -> str:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"--password-file: {error}") from error
    found = text.rstrip("\r\n")
    if not found:
        raise CommandFailed("--password-file: there is no password in it")
    return found


def remove_users(
    names: Annotated[list[str], typer.Argument(metavar="NAME")], file: FileOption = None
) -> None:
    r"""Remove users, with their keys and certificates.

    \b
    Examples:
      dragoman users remove north-mole
    """
    for name in names:
        with _said():
            remove_user(_file(file), name)
        line(f"removed {name}")


# Keys.


def list_keys(file: FileOption = None, output: OutputOption = Form.TEXT) -> None:
    r"""List the API keys: their ids, users, rights, and when they expire.

    \b
    Examples:
      dragoman keys list
    """
    found = _read(file).keys
    if output is Form.JSON:
        for key in found:
            json_line(_key_record(key))
        return
    cells = [
        [api_key_id(key.hash), key.user, " ".join(key.may or ()) or "all of the user",
         moment(key.expires.isoformat()) if key.expires else "-",
         "expired" if is_expired(key.expires) else "valid"]
        for key in found
    ]  # fmt: skip
    for text in table(("id", "user", "may", "expires", "state"), cells):
        line(text)


def _key_record(key: Key) -> dict[str, object]:
    return {
        "id": api_key_id(key.hash),
        "user": key.user,
        "may": key.may,
        "expires": key.expires.isoformat() if key.expires else None,
        "expired": is_expired(key.expires),
    }


MayOption = Annotated[
    list[str] | None,
    typer.Option(
        "--may", metavar="RIGHT", help=f"{RIGHTS}; may be repeated. [all that the user may]"
    ),
]


def add_one_key(
    user: Annotated[str, typer.Argument(metavar="USER")],
    may: MayOption = None,
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="Days after which it expires. [never]")
    ] = None,
    tenant: TenantOption = None,
    file: FileOption = None,
) -> None:
    r"""Add an API key of a user, and print it. It is not kept, and not shown again.

    With --tenant it is made only where the user belongs to that tenant.

    \b
    Examples:
      dragoman keys add north-mole --may publish --days 365
      dragoman keys add pump-3 --tenant acme
    """
    expires = _in(days) if days is not None else None
    path = _changed(file)
    with _said():
        line(add_key(path, user, may or (), expires, tenant=tenant))


def rotate_one_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
    hours: Annotated[
        int, typer.Option("--hours", min=0, help="Hours for which the old one is taken, too.")
    ] = 24,
    file: FileOption = None,
) -> None:
    r"""Print a new key in place of another, which expires after some hours.

    \b
    Examples:
      dragoman keys rotate 3f2a91c07d15 --hours 48
    """
    with _said():
        line(rotate_key(_file(file), key_id, _in(hours / 24)))


def remove_keys(
    key_ids: Annotated[list[str], typer.Argument(metavar="ID", help="As `list` shows it.")],
    file: FileOption = None,
) -> None:
    r"""Remove API keys: within a second they are not taken any more.

    \b
    Examples:
      dragoman keys remove 3f2a91c07d15
    """
    for key_id in key_ids:
        with _said():
            remove_key(_file(file), key_id)
        line(f"removed {key_id}")


def _in(days: float) -> datetime:
    return (datetime.now(UTC) + timedelta(days=days)).replace(microsecond=0)


# Rights.


def check_right(
    principal: Annotated[
        str,
        typer.Argument(
            metavar="PRINCIPAL",
            help="user:NAME, cert:SUBJECT, ca:NAME, anonymous, a user's name, or the file of a "
            "certificate (PEM).",
        ),
    ],
    right: Annotated[str, typer.Argument(metavar="RIGHT", help=f"{RIGHTS[:-14]}.")],
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="To publish or to subscribe on.")
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="NAME", help="A role that its token says; repeatable."),
    ] = None,
    tenant: TenantOption = None,
    file: FileOption = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Say whether a principal may do something, and which rule says so.

    The exit code is 0 if it may, else 1.

    \b
    Examples:
      dragoman rights check user:north-mole publish weather/storms
      dragoman rights check mole.pem publish weather/storms
      dragoman rights check anonymous subscribe '{http://example.org/weather}weather/storms'
    """
    asked = _right(right)
    found = _read(file)
    shown = _proved(principal, found, _file(file).parent)
    owner = shown.owner if shown else _owner(principal)
    known = found.user_of_name.get(owner.removeprefix("user:"))
    if known is not None and tenant not in (None, known.tenant):
        known = None  # Somebody else, who is called so in another tenant.
    roles = [*(known.roles if known else ()), *(role or ())]
    if tenant is None:
        tenant = known.tenant if known else ""
    authorities = shown.authorities if shown else frozenset[str]()
    names = Identity(owner, frozenset(roles), tenant=tenant, authorities=authorities).names
    if shown is not None and output is Form.TEXT:
        line(f"{principal} proves {', '.join(sorted(names))}")
    rule = found.policy.grants(names).rule_for(asked, _topic(topic))
    if output is Form.JSON:
        json_line({"allowed": rule is not None, "rule": rule.number if rule else None})
    elif rule is not None:
        row = found.rights[rule.number - 1]
        topics = f" on {' '.join(row.topics)}" if row.topics else ""
        line(f"yes: rule {rule.number} lets {', '.join(row.who)} {', '.join(row.may)}{topics}")
    else:
        line(f"no: none of {len(found.rights)} rules lets {principal} {asked.value} that")
    raise typer.Exit(0 if rule is not None else 1)


def _proved(principal: str, found: Identities, folder: Path) -> Identity | None:
    """Whom the certificate in the file *principal* proves; None where there is no such file."""
    if ":" in principal or not Path(principal).is_file():
        return None
    from cryptography.hazmat.primitives.serialization import Encoding

    from gateway.security.certificate_proofs import CertificateProofs

    try:
        first = read_certificates(read_document(principal, principal))[0]
    except ValueError as error:
        raise CommandFailed(f"{principal}: no certificate in PEM") from error
    proved = CertificateProofs(found, folder).identity(first.public_bytes(Encoding.DER))
    if proved is None:
        raise CommandFailed(f"{principal}: the certificate has no subject")
    return proved


def _owner(principal: str) -> str:
    if ":" in principal or principal == NOBODY_IN_PARTICULAR:
        return principal
    return f"user:{principal}"


def _right(text: str) -> Right:
    try:
        return Right(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no right; there are {RIGHTS[:-14]}") from error


def _topic(text: str | None) -> Topic | None:
    if text is None:
        return None
    try:
        return parse_clark(text)
    except FilterError as error:
        raise typer.BadParameter(f"TOPIC: {error.text}") from error


add(users, list_users, "list")
add(users, add_one_user, "add")
add(users, remove_users, "remove")
add(keys, list_keys, "list")
add(keys, add_one_key, "add")
add(keys, rotate_one_key, "rotate")
add(keys, remove_keys, "remove")
add(rights, check_right, "check")
