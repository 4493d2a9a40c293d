"""``dragoman spool``."""

import asyncio
import sys
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Annotated

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.deadletters import NumberArguments
from gateway.cli.errors import ASKED_WRONGLY, CommandFailed
from gateway.cli.options import GATEWAY, Form, GatewayOption, OutputOption, connecting
from gateway.cli.output import json_line, line
from gateway.cli.resources import SPOOL, list_all, show_each
from gateway.client import Administration

spool = group("spool", "Look at, try again or discard what the messaging system does not take.")
spool.callback()(help_alone)


class State(Enum):
    """What becomes of a message in the spool."""

    WAITING = "waiting"
    REFUSED = "refused"


def list_(
    context: typer.Context,
    gateway: GatewayOption = GATEWAY,
    state: Annotated[
        State | None, typer.Option("--state", help="Those that wait, or that are refused.")
    ] = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List what waits for the messaging system, and what it refuses for good.

    \b
    Examples:
      dragoman spool list
      dragoman spool list --state refused --output json
    """
    listed = partial(Administration.spool, state=state.value if state else None)
    list_all(context, gateway, output, replace(SPOOL, listed=listed))


def show(
    context: typer.Context,
    numbers: Annotated[list[int], typer.Argument(metavar="NUMBER", min=1)],
    whole: Annotated[
        bool, typer.Option("--whole", help="Print the payload whole, however large.")
    ] = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Show a message of the spool, why the messaging system refuses it, and its payload.

    \b
    Examples:
      dragoman spool show 17
      dragoman spool show 17 --whole --output json | jq -r .payload.text
    """
    found = partial(Administration.spooled, whole=whole)
    resource = replace(SPOOL, found=found)
    show_each(context, gateway, output, resource, numbers, documents=("payload",))


EveryOption = Annotated[bool, typer.Option("--all", help="All that are refused.")]


def retry(
    context: typer.Context,
    numbers: NumberArguments = None,
    every: EveryOption = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Publish messages that the messaging system refused once more.

    Mend the reason first, a permission or a limit: what is refused again is set aside again.

    \b
    Examples:
      dragoman spool retry 17 18
      dragoman spool retry --all
    """
    chosen = _chosen("retry", numbers, every)

    async def run() -> int:
        async with Administration(gateway, **connecting(context)) as administration:
            return await administration.retry_spooled(chosen)

    _report("retried", asyncio.run(run()), output)


def discard(
    context: typer.Context,
    numbers: NumberArguments = None,
    every: EveryOption = False,
    gateway: GatewayOption = GATEWAY,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before all are discarded.")
    ] = False,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Forget messages of the spool for ever: also one that waits, if its number is named.

    With --all those that are refused; then a person at a terminal is asked first.

    \b
    Examples:
      dragoman spool discard 17 18
      dragoman spool discard --all --yes
    """
    chosen = _chosen("discard", numbers, every)
    if every and not yes and sys.stdin.isatty():
        typer.confirm(f"Forget all refused messages of {gateway}?", abort=True, err=True)

    async def run() -> int:
        async with Administration(gateway, **connecting(context)) as administration:
            return await administration.discard_spooled(chosen)

    _report("discarded", asyncio.run(run()), output)


def _chosen(command: str, numbers: list[int] | None, every: bool) -> list[int] | None:
    """The numbers that a command is about; None for all that are refused.

    Raises:
        CommandFailed: None are named, or in two ways.
    """
    if bool(numbers) is every:
        raise CommandFailed(
            f"say which messages to {command}: their numbers, or --all", ASKED_WRONGLY
        )
    return None if every else numbers


def _report(done: str, number: int, output: Form) -> None:
    if output is Form.JSON:
        json_line({done: number})
    else:
        line(f"{done} {number} message{'' if number == 1 else 's'}")


add(spool, list_, "list")
add(spool, show)
add(spool, retry)
add(spool, discard)
