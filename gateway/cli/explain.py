"""``dragoman explain``."""

import asyncio
from typing import Annotated

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.documents import read_document
from gateway.cli.errors import CommandFailed
from gateway.cli.options import (
    GATEWAY,
    Form,
    GatewayOption,
    OutputOption,
    connecting,
    read_namespaces,
)
from gateway.cli.output import json_line, line
from gateway.client import Administration, Record

explain = group("explain", "Say why something happens, or does not.")
explain.callback()(help_alone)

_HOLDS = {True: "yes", False: "NO ", None: "?  "}


def subscription(
    context: typer.Context,
    id_: Annotated[
        str, typer.Argument(metavar="ID", help="As `dragoman subscriptions list` shows it.")
    ],
    message: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Would it get this payload? - is standard input."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="That --message is published on.")
    ] = None,
    ns: Annotated[
        list[str] | None,
        typer.Option("--ns", metavar="PREFIX=URI", help="A prefix for --topic; repeatable."),
    ] = None,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Say step by step why a subscription gets messages, or does not.

    Its lease, its filter and the topics published on last that it covers, who delivers for it,
    whether its consumer may be sent to, what went wrong last and when it is tried again. With
    --message, whether its filter takes that message, and why.

    \b
    Examples:
      dragoman explain subscription 5b1f0c9a3e77
      dragoman explain subscription 5b1f0c9a3e77 --message storm.xml --topic storms/coast
    """
    if topic is not None and message is None:
        raise CommandFailed("--topic needs --message: the message to explain", 2)
    payload = read_document(message, message) if message is not None else None
    namespaces = read_namespaces(ns)

    async def run() -> list[Record]:
        async with Administration(gateway, **connecting(context)) as administration:
            return await administration.explain(id_, payload, topic=topic, namespaces=namespaces)

    steps = asyncio.run(run())
    if output is Form.JSON:
        json_line(steps)
        return
    width = max((len(str(step.get("name"))) for step in steps), default=0)
    for step in steps:
        name = str(step.get("name")).ljust(width)
        line(f"{_HOLDS.get(step.get('holds'), '?  ')} {name}  {step.get('text')}")
        for detail in step.get("details") or ():
            line(f"      {detail}")


add(explain, subscription)
