"""``dragoman attempts``."""

import asyncio
from typing import Annotated

import typer

from gateway.cli.options import GATEWAY, Form, GatewayOption, OutputOption, connecting
from gateway.cli.output import json_line, line, moment, note, table
from gateway.client import Administration, Record


def attempts(
    context: typer.Context,
    id_: Annotated[
        str, typer.Argument(metavar="ID", help="As `dragoman subscriptions list` shows it.")
    ],
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the last attempts to deliver to a subscription.

    The latest of 50 comes first: when it ended, how long it took, its status, what went wrong and
    what the consumer said. A gateway remembers those that it made itself, until it stops.

    \b
    Examples:
      dragoman attempts 5b1f0c9a3e77
      dragoman attempts 5b1f0c9a3e77 --output json | jq '.attempts[0].answer'
    """

    async def run() -> list[Record]:
        async with Administration(gateway, **connecting(context)) as administration:
            return await administration.attempts(id_)

    found = asyncio.run(run())
    if output is Form.JSON:
        json_line({"attempts": found})
        return
    if not found:
        note("There are no attempts since the gateway started.")
        return
    columns = ("ended", "seconds", "verdict", "status", "message", "error", "answer")
    rows = [
        (moment(one["ended"]), f"{one['seconds']:.3f}", *(one[name] for name in columns[2:]))
        for one in found
    ]
    for text in table(columns, rows):
        line(text)
