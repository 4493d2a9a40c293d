"""``dragoman deadletters``."""

import asyncio
import sys
from typing import Annotated

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.options import GATEWAY, Form, GatewayOption, OutputOption, tls
from gateway.cli.output import facts, json_line, line, moment, note, table
from gateway.client import Administration, Record

deadletters = group("deadletters", "Look at, deliver again or forget what could not be delivered.")
deadletters.callback()(help_alone)

NumberArguments = Annotated[
    list[int] | None,
    typer.Argument(metavar="NUMBER", min=1, help="As `list` shows them; all, without any."),
]
_COLUMNS = ("number", "subscription", "topic", "reason", "status", "attempts", "died")


def list_(
    context: typer.Context,
    gateway: GatewayOption = GATEWAY,
    subscription: Annotated[
        str | None, typer.Option(metavar="ID", help="Those of one subscription.")
    ] = None,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the notifications that could not be delivered.

    \b
    Examples:
      dragoman deadletters list
      dragoman deadletters list --subscription 5b1f0c9a3e77 --output json
    """

    async def run() -> list[Record]:
        async with Administration(gateway, tls=tls(context)) as administration:
            return [record async for record in administration.dead_letters(subscription)]

    records = asyncio.run(run())
    if output is Form.JSON:
        json_line(records)
        return
    if not records:
        note("There are no dead letters.")
        return
    for text in table(_COLUMNS, map(_row, records)):
        line(text)


def show(
    context: typer.Context,
    numbers: Annotated[list[int], typer.Argument(metavar="NUMBER", min=1)],
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Show why a notification could not be delivered.

    \b
    Example:
      dragoman deadletters show 17
    """

    async def run() -> list[Record]:
        async with Administration(gateway, tls=tls(context)) as administration:
            return [await administration.dead_letter(number) for number in numbers]

    for position, record in enumerate(asyncio.run(run())):
        if output is Form.JSON:
            json_line(record)
            continue
        if position:
            line()
        for text in facts(record.items()):
            line(text)


def redrive(
    context: typer.Context,
    numbers: NumberArguments = None,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Deliver dead letters again, with the same message ids, or put them back into mailboxes.

    Those of subscriptions and mailboxes that have ended stay where they are.

    \b
    Examples:
      dragoman deadletters redrive 17 18
      dragoman deadletters redrive
    """

    async def run() -> int:
        async with Administration(gateway, tls=tls(context)) as administration:
            return await administration.redrive(numbers or None)

    _report("redriven", asyncio.run(run()), output)


def purge(
    context: typer.Context,
    numbers: NumberArguments = None,
    gateway: GatewayOption = GATEWAY,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before all are purged.")] = False,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Forget dead letters for ever; they stay counted.

    Without numbers, a person at a terminal is asked first.

    \b
    Examples:
      dragoman deadletters purge 17 18
      dragoman deadletters purge --yes
    """
    if not numbers and not yes and sys.stdin.isatty():
        typer.confirm(f"Forget all dead letters of {gateway}?", abort=True, err=True)

    async def run() -> int:
        async with Administration(gateway, tls=tls(context)) as administration:
            return await administration.purge(numbers or None)

    _report("purged", asyncio.run(run()), output)


def _row(record: Record) -> list[object]:
    shown = {**record, "died": moment(record.get("died"))}
    return [shown.get(name) for name in _COLUMNS]


def _report(done: str, number: int, output: Form) -> None:
    if output is Form.JSON:
        json_line({done: number})
    else:
        line(f"{done} {number} dead letter{'' if number == 1 else 's'}")


add(deadletters, list_, "list")
add(deadletters, show)
add(deadletters, redrive)
add(deadletters, purge)
