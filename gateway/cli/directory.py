"""``dragoman directory``."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.errors import CommandFailed
from gateway.cli.options import Form, OutputOption
from gateway.cli.output import json_line, line, note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.channels.directory import Directory, Found
    from gateway.settings.tables import Directory as DirectorySettings

directory = group(
    "directory", "Put the gateway's channel into a directory, and see which are there."
)
directory.callback()(help_alone)


def bind(
    location: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The address of the channel.  [public_url, and /soap behind it]"
        ),
    ] = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Write the entry of the gateway's channel, once.

    A gateway with a directory does so itself, when it starts and every few minutes. The directory
    is that of the table [directory] in dragoman.toml, or of DRAGOMAN_DIRECTORY__URL and so on.

    \b
    Examples:
      dragoman directory bind
      dragoman directory bind --location https://proxy.example.org/relay/5d41402abc4b2a76
    """
    from mediation.grid_events import channel_reference

    there, asked = _directory()
    to = location or asked.location or _public()
    made = asyncio.run(there.bind(asked.name, channel_reference(to)))
    if output is Form.JSON:
        json_line({"name": asked.name, "location": to, "new": made})
    else:
        line(f"{'made' if made else 'renewed'} {asked.name}: {to}")


def lookup(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="A distinguished name.  [that of our channel's parent]"
        ),
    ] = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Print the reference of a channel: of the parent of ours, or of a name.

    \b
    Examples:
      dragoman directory lookup
      dragoman directory lookup cn=event-channel,o=iu
    """
    from gateway.channels.directory import parent_of
    from mediation.grid_events import write_port

    there, asked = _directory()
    wanted = name or parent_of(asked.name)
    if wanted is None:
        raise CommandFailed(f"{asked.name} is at the top: it has no parent")
    found = asyncio.run(there.lookup(wanted))
    if found is None:
        raise CommandFailed(f"{wanted}: there is no channel of that name")
    port = write_port(found).decode()
    if output is Form.JSON:
        json_line({"name": wanted, "location": found.address, "port": port})
    else:
        line(port)


def children(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A distinguished name.  [that of our entry]"),
    ] = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the children of a channel: those of the same name, one level lower.

    With direction = "up" in [directory], the gateway subscribes at those of its own.

    \b
    Examples:
      dragoman directory children
      dragoman directory children cn=event-channel,o=iu
    """
    there, asked = _directory()
    _print_found(asyncio.run(there.children(name or asked.name)), output)


def tree(
    base: Annotated[
        str | None,
        typer.Argument(metavar="[BASE]", help="Where it begins.  [the organisation of our entry]"),
    ] = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the channels at and below a name, those above first.

    \b
    Examples:
      dragoman directory tree
      dragoman directory tree ou=cs,o=iu --output json
    """
    there, asked = _directory()
    entries = asyncio.run(there.tree(base or asked.name.rpartition(",")[2]))
    levels = sorted(entries, key=lambda one: list(reversed(one.name.lower().split(","))))
    _print_found(levels, output)


def _print_found(entries: "Sequence[Found]", output: Form) -> None:
    rows = [
        {
            "name": one.name,
            "location": None if one.reference is None else one.reference.address,
            "skipped": one.why_not or None,
        }
        for one in entries
    ]
    if output is Form.JSON:
        json_line(rows)
        return
    if not rows:
        note("There are no channels.")
    for row in rows:
        line(f"{row['name']}  {row['location'] or 'skipped: ' + str(row['skipped'])}")


def _directory() -> "tuple[Directory, DirectorySettings]":
    from gateway.channels.directory import Directory, DirectoryOptions
    from gateway.settings.settings import read_settings

    asked = read_settings().directory
    if asked is None:
        raise CommandFailed(
            "no directory is set: add a table [directory] with url and name to dragoman.toml"
        )
    options = DirectoryOptions(
        asked.url,
        asked.start_tls,
        asked.ca,
        asked.user,
        asked.password.get_secret_value(),
        asked.password_file,
    )
    return Directory(options), asked


def _public() -> str:
    from gateway.settings.settings import read_settings

    public = read_settings().public_url
    if public is None:
        raise CommandFailed("the channel's address is not known: set public_url, or --location")
    return f"{public.rstrip('/')}/soap"


add(directory, bind)
add(directory, lookup)
add(directory, children)
add(directory, tree)
