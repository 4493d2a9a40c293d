"""``dragoman users``: in the file of identities, or in the store of a gateway."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.errors import CommandFailed
from gateway.cli.identities import (
    FileOption,
    StoredOption,
    TenantOption,
    place_of,
    print_rows,
)
from gateway.cli.options import GATEWAY, Form, GatewayOption, OutputOption
from gateway.cli.output import line
from gateway.client import Record

users = group("users", "List, add and remove users in the file of identities, or in the store.")
users.callback()(help_alone)


def list_users(
    context: typer.Context,
    file: FileOption = None,
    stored: StoredOption = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the users, how they prove who they are, and their roles.

    \b
    Examples:
      dragoman users list
      dragoman users list --stored --gateway https://events.example.org:8090
    """
    rows = place_of(context, file, gateway, stored=stored).users()
    columns = ["name", "password", "keys", "certificates", "roles"]
    if any(row["tenant"] for row in rows):
        columns.append("tenant")
    print_rows(rows, columns, output, stored=stored)


def add_one_user(
    context: typer.Context,
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
            help="It may prove the password by a digest, of WS-Security or of HTTP (RFC 7616), as "
            "devices do: it is kept, encrypted.",
        ),
    ] = False,
    tenant: TenantOption = None,
    file: FileOption = None,
    stored: StoredOption = False,
    gateway: GatewayOption = GATEWAY,
) -> None:
    r"""Add a user, or give one that there is another password, or other roles.

    A user without a password has keys (`dragoman keys add`) or a certificate, or is one of an
    issuer of tokens. What it may do is said by rules (`dragoman rights add`).

    \b
    Examples:
      dragoman users add north-mole --role harbour
      dragoman users add pump-3 --tenant acme
      dragoman users add maria --role nurses --stored
      pwgen 24 1 | tee /dev/tty | dragoman users add camera-7 --password-file -
    """
    wanted: Record = {}
    if password_file is not None:
        wanted["password"] = _password(password_file)
        wanted["digest"] = digest
    elif digest:
        raise CommandFailed("--digest is of a password: give --password-file, too")
    if role:
        wanted["roles"] = role
    if tenant is not None:
        wanted["tenant"] = tenant
    place_of(context, file, gateway, stored=stored).keep_user(name, wanted)
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
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME")],
    file: FileOption = None,
    stored: StoredOption = False,
    gateway: GatewayOption = GATEWAY,
) -> None:
    r"""Remove users, with their keys and certificates.

    \b
    Examples:
      dragoman users remove north-mole
      dragoman users remove maria --stored
    """
    place = place_of(context, file, gateway, stored=stored)
    for name in names:
        place.remove_user(name)
        line(f"removed {name}")


add(users, list_users, "list")
add(users, add_one_user, "add")
add(users, remove_users, "remove")
