"""``dragoman keys``: in the file of identities, or in the store of a gateway."""

from typing import Annotated

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.identities import (
    RIGHTS,
    FileOption,
    StoredOption,
    TenantOption,
    place_of,
    print_rows,
)
from gateway.cli.options import GATEWAY, Form, GatewayOption, OutputOption
from gateway.cli.output import line, moment

keys = group(
    "keys", "List, add, rotate and remove API keys in the file of identities, or in the store."
)
keys.callback()(help_alone)


def list_keys(
    context: typer.Context,
    file: FileOption = None,
    stored: StoredOption = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the API keys: their ids, users, rights, and when they expire.

    \b
    Examples:
      dragoman keys list
      dragoman keys list --stored
    """
    rows = place_of(context, file, gateway, stored=stored).keys()
    if output is Form.TEXT:
        for row in rows:
            row["may"] = " ".join(row["may"] or ()) or "all of the user"
            row["expires"] = moment(row["expires"]) if row["expires"] else "-"
    print_rows(rows, ("id", "user", "may", "expires", "state"), output, stored=stored)


def add_one_key(
    context: typer.Context,
    user: Annotated[str, typer.Argument(metavar="USER")],
    may: Annotated[
        list[str] | None,
        typer.Option(
            "--may", metavar="RIGHT", help=f"{RIGHTS}; may be repeated. [all that the user may]"
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option("--days", min=1, help="Days after which it expires. [never]")
    ] = None,
    tenant: TenantOption = None,
    file: FileOption = None,
    stored: StoredOption = False,
    gateway: GatewayOption = GATEWAY,
) -> None:
    r"""Add an API key of a user, and print it. It is not kept, and not shown again.

    With --tenant it is made only where the user belongs to that tenant.

    \b
    Examples:
      dragoman keys add north-mole --may publish --days 365
      dragoman keys add pump-3 --tenant acme
      dragoman keys add maria --stored
    """
    line(place_of(context, file, gateway, stored=stored).add_key(user, may or (), days, tenant))


def rotate_one_key(
    context: typer.Context,
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
    hours: Annotated[
        int,
        typer.Option("--hours", min=0, help="Hours for which the old one is taken, too."),
    ] = 24,
    file: FileOption = None,
    stored: StoredOption = False,
    gateway: GatewayOption = GATEWAY,
) -> None:
    r"""Print a new key in place of another, which expires after some hours.

    \b
    Examples:
      dragoman keys rotate 3f2a91c07d15 --hours 48
    """
    line(place_of(context, file, gateway, stored=stored).rotate_key(key_id, hours))


def remove_keys(
    context: typer.Context,
    key_ids: Annotated[list[str], typer.Argument(metavar="ID", help="As `list` shows it.")],
    file: FileOption = None,
    stored: StoredOption = False,
    gateway: GatewayOption = GATEWAY,
) -> None:
    r"""Remove API keys: within a second they are not taken any more.

    \b
    Examples:
      dragoman keys remove 3f2a91c07d15
    """
    place = place_of(context, file, gateway, stored=stored)
    for key_id in key_ids:
        place.remove_key(key_id)
        line(f"removed {key_id}")


add(keys, list_keys, "list")
add(keys, add_one_key, "add")
add(keys, rotate_one_key, "rotate")
add(keys, remove_keys, "remove")
