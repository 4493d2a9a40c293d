"""``dragoman trace``."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from gateway.cli.options import GATEWAY, Form, GatewayOption, OutputOption, connecting
from gateway.cli.output import document_lines, facts, json_line, line, moment, note, table
from gateway.client import Administration, Record


def trace(
    context: typer.Context,
    id_: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Of the message, as its publisher or as its consumer knows it."
        ),
    ],
    content: Annotated[
        bool, typer.Option("--content", help="Show what is in it, too, where it is kept.")
    ] = False,
    recipients: Annotated[
        bool,
        typer.Option(
            "--recipients", help="Show what each subscription makes of it, where it is kept."
        ),
    ] = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Say what became of a message.

    That is when it was accepted and of whom, how many subscriptions it matched, and for whom it was
    delivered, waits or died.
    A gateway remembers the last 10,000 messages until it stops; of others it knows what waits or
    died. What is in a message is kept while it waits, where it died, and of as many of the last as
    the setting console_messages says.

    \b
    Examples:
      dragoman trace urn:uuid:11111111-2222-3333-4444-555555555555
      dragoman trace urn:example:order-17 --content --recipients
      dragoman trace urn:example:order-17 --output json | jq '.messages[].dead'
    """

    async def run() -> list[Record]:
        async with Administration(gateway, **connecting(context)) as administration:
            found = await administration.trace(id_, content=content)
            for record in found if recipients else ():
                asked = administration.recipients(record["id"])
                record["recipients"] = [one async for one in asked]
            return found

    found = asyncio.run(run())
    if output is Form.JSON:
        json_line({"messages": found})
        return
    for number, record in enumerate(found):
        if number:
            line()
        _show(record)
        if content:
            _show_content(record)
        for one in record.get("recipients") or ():
            _show_recipient(one)


def _show_content(record: Record) -> None:
    kept = record.get("content")
    if kept is None:
        note("What is in it is not kept.")
        return
    came = kept["came"]
    if came is not None:
        line()
        for name, value in came["headers"]:
            line(f"{name}: {value}")
        _print_document("as it came", came["body"])
    _print_document("payload", kept["understood"]["payload"])


_GETS = {True: "gets it", False: "does not get it", None: "may get it"}


def _show_recipient(one: Record) -> None:
    line()
    line(f"{one['subscription']} ({one['spec']}, {one['consumer']}) {_GETS[one['gets']]}")
    line(f"    {one['why']}")
    for detail in one["details"]:
        line(f"      {detail}")
    if one["sent"] is not None:
        _print_document("sent", one["sent"])


def _print_document(name: str, part: Record) -> None:
    line()
    for text in document_lines(name, part):
        line(text)


def _show(record: Record) -> None:
    deliveries = record.get("deliveries") or []
    waiting, dead = record.get("waiting") or [], record.get("dead") or []
    counts = ("matched", "delivered", "under_way", "expired", "cancelled")
    pairs: list[tuple[str, object]] = [(name, record.get(name)) for name in ("id", "topic")]
    pairs += [("accepted", moment(record.get("accepted"))), ("by", record.get("by"))]
    pairs += [(name.replace("_", " "), record.get(name)) for name in counts]
    for text in facts([*pairs, ("waiting", len(waiting)), ("dead", len(dead))]):
        line(text)
    rows: list[Sequence[object]] = [
        (one["subscription"], one["end"], None, None, None) for one in deliveries
    ]
    rows += [
        (one["subscription"], "waits", one["attempts"], moment(one["next_attempt"]), None)
        for one in waiting
    ]
    rows += [(one["subscription"], "died", None, moment(one["died"]), _why(one)) for one in dead]
    if rows:
        line()
        for text in table(("subscription", "delivery", "attempts", "when", "why"), rows):
            line(text)


def _why(letter: Record) -> str:
    """Why a delivery died, and where its dead letter is."""
    failure = f": {letter['failure']}" if letter.get("failure") else ""
    return f"{letter['reason']}{failure} (dead letter {letter['number']})"
