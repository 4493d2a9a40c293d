"""``dragoman tail``."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Annotated, Any

import typer

from gateway.cli.options import (
    GATEWAY,
    Form,
    GatewayOption,
    OutputOption,
    connecting,
    read_namespaces,
)
from gateway.cli.output import json_line, line, moment, note, payload_text
from gateway.client import Administration, Record


def tail(
    *,
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC]", help="A topic expression: storms//. is all below."),
    ] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", metavar="XPATH", help="Over the payload.")
    ] = None,
    ns: Annotated[
        list[str] | None,
        typer.Option("--ns", metavar="PREFIX=URI", help="A prefix of both; repeatable."),
    ] = None,
    sample: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Of the messages: 0.1 is every tenth.", min=0, max=1),
    ] = 1.0,
    payload: Annotated[bool, typer.Option("--payload", help="Show payloads, too.")] = False,
    count: Annotated[
        int | None, typer.Option(metavar="N", help="End after so many messages.", min=1)
    ] = None,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Watch what passes a gateway, as it passes.

    Of each message when it came, its topic, its size, its publisher's id, how many subscriptions it
    matched and what became of it. Nothing is consumed; payloads are shown with --payload alone.

    \b
    Examples:
      dragoman tail
      dragoman tail 'storms//.' --filter '/w:storm[@level > 3]' --ns w=urn:w
      dragoman tail --sample 0.1 --output json | jq 'select(.matched == 0)'
    """
    wanted: dict[str, Any] = {
        "topic": topic,
        "xpath": filter_,
        "ns": [f"{prefix}={uri}" for prefix, uri in read_namespaces(ns).items()],
        "sample": str(sample),
        "payload": "true" if payload else "",
    }

    async def run() -> None:
        printed = 0
        async with (
            Administration(gateway, **connecting(context)) as administration,
            aclosing(administration.tap(**wanted)) as events,
        ):
            async for event, record in events:
                if event == "message":
                    _print(record, output)
                    printed += 1
                else:
                    _say_lost(record)
                if printed == count:
                    return

    asyncio.run(run())


def _print(record: Record, output: Form) -> None:
    if output is Form.JSON:
        json_line(record)
        return
    by = f" from {record['by']}" if record["by"] else ""
    topic = record["topic"] or "(no topic)"
    became = ", ".join(_became(record))
    line(
        f"{moment(record['at'])} {topic} {record['bytes']} B{by} {record['id']}"
        f" -> {record['matched']} matched{': ' + became if became else ''}"
    )
    for attempt in record["attempts"]:
        if attempt["error"]:
            line(f"    {attempt['subscription']}: {attempt['error']}")
    if record["payload"] is not None:
        line(payload_text(record["payload"]["text"].encode()))


def _became(record: Record) -> Iterator[str]:
    for name in ("delivered", "expired", "cancelled", "under_way"):
        if record[name]:
            yield f"{record[name]} {name.replace('_', ' ')}"


def _say_lost(record: Record) -> None:
    """Say what was not shown; what `--sample` left out is no loss."""
    if record["dropped"]:
        note(f"dragoman: {record['dropped']} messages were dropped: they come faster than is read")
    if record["not_evaluated"]:
        note(f"dragoman: the XPath costs too much on {record['not_evaluated']} messages")
