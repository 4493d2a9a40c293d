"""``dragoman deadletters``."""

import asyncio
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.errors import CommandFailed
from gateway.cli.options import (
    GATEWAY,
    Form,
    GatewayOption,
    OutputOption,
    connecting,
    read_namespaces,
)
from gateway.cli.output import facts, json_line, line, moment, note, pretty
from gateway.cli.resources import list_all
from gateway.client import Administration, Changed, Letters, Record

deadletters = group("deadletters", "Look at, deliver again or forget what could not be delivered.")
deadletters.callback()(help_alone)

ASKED_WRONGLY = 2
"""The exit code of a command that was not told what to do."""
SAID_EVERY = 1.0
"""Seconds from one line about progress to the next."""
_COLUMNS = (
    *("number", "subscription", "topic", "reason", "status", "attempts", "died", "message"),
    "failure",
)


NumberArguments = Annotated[
    list[int] | None, typer.Argument(metavar="NUMBER", min=1, help="As `list` shows them.")
]
AllOption = Annotated[bool, typer.Option("--all", help="All of them.")]
SubscriptionOption = Annotated[
    str | None, typer.Option("--subscription", metavar="ID", help="Those of one subscription.")
]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", metavar="EXPR", help="Those on the topics of an expression: storms//."),
]
NamespaceOption = Annotated[
    list[str] | None,
    typer.Option("--ns", metavar="PREFIX=URI", help="A prefix for --topic; repeatable."),
]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", metavar="R", help="Those that died of it: rejected.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="WHEN",
        help="Those that died then or later: 2026-03-01, 2026-03-01T12:00:00Z; 12h, 7d ago.",
    ),
]
MessageOption = Annotated[
    str | None,
    typer.Option(
        "--message",
        metavar="ID",
        help="Those of the message with this id: the publisher's, or the consumer's.",
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say how many and of which reasons; change nothing.")
]


def list_(
    context: typer.Context,
    subscription: SubscriptionOption = None,
    topic: TopicOption = None,
    ns: NamespaceOption = None,
    reason: ReasonOption = None,
    since: SinceOption = None,
    message: MessageOption = None,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the notifications that could not be delivered: all, or those for which all options
    hold, as `redrive` and `purge` take them.

    \b
    Examples:
      dragoman deadletters list
      dragoman deadletters list --topic storms//. --reason rejected --since 12h
      dragoman deadletters list --subscription 5b1f0c9a3e77 --output json
    """
    common = (subscription, topic, reason, since, message)
    letters = _chosen("list", None, not any(one is not None for one in common), *common, ns)
    list_all(
        context,
        gateway,
        output,
        partial(Administration.dead_letters, letters=letters),
        columns=_COLUMNS,
        row=_row,
        none="There are no such dead letters." if any(common) else "There are no dead letters.",
    )


def show(
    context: typer.Context,
    numbers: Annotated[list[int], typer.Argument(metavar="NUMBER", min=1)],
    whole: Annotated[
        bool, typer.Option("--whole", help="Print payload and envelope whole, however large.")
    ] = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Show why a notification could not be delivered, its payload, and the envelope that was sent.

    \b
    Examples:
      dragoman deadletters show 17
      dragoman deadletters show 17 --whole --output json | jq -r .envelope.text
    """

    async def run() -> list[Record]:
        async with Administration(gateway, **connecting(context)) as administration:
            return [await administration.dead_letter(number, whole=whole) for number in numbers]

    for position, record in enumerate(asyncio.run(run())):
        if output is Form.JSON:
            json_line(record)
            continue
        if position:
            line()
        documents = {name: record.pop(name, None) for name in ("payload", "envelope")}
        for text in facts(record.items()):
            line(text)
        for name, part in documents.items():
            line()
            print_part(name, part)


def print_part(name: str, part: Record | None) -> None:
    """Print a document that the gateway shows, or that it shows none."""
    if part is None:
        line(f"{name}: not known any more" if name == "envelope" else f"{name}: in the envelope")
        return
    whole = part.get("whole")
    cut = "" if whole else ", the first of them here; --whole shows all"
    line(f"{name} ({part.get('bytes')} bytes{cut}):")
    text = str(part.get("text"))
    line(pretty(text.encode()) if whole else text)


def redrive(
    context: typer.Context,
    numbers: NumberArguments = None,
    every: AllOption = False,
    subscription: SubscriptionOption = None,
    topic: TopicOption = None,
    ns: NamespaceOption = None,
    reason: ReasonOption = None,
    since: SinceOption = None,
    message: MessageOption = None,
    dry_run: DryRunOption = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Deliver dead letters again, with the same message ids, or put them back into mailboxes.

    Name them by number, by what all of them have in common, or say --all. Those of subscriptions
    and mailboxes that have ended stay where they are.

    \b
    Examples:
      dragoman deadletters redrive 17 18
      dragoman deadletters redrive --subscription 5b1f0c9a3e77 --since 12h
      dragoman deadletters redrive --all --dry-run
    """
    letters = _chosen("redrive", numbers, every, subscription, topic, reason, since, message, ns)

    async def run() -> Changed:
        async with Administration(gateway, **connecting(context)) as administration:
            progress = _progress("counted" if dry_run else "redriven")
            return await administration.redrive(letters, dry_run=dry_run, progress=progress)

    _report("redriven", asyncio.run(run()), output, dry_run)


def purge(
    context: typer.Context,
    numbers: NumberArguments = None,
    every: AllOption = False,
    subscription: SubscriptionOption = None,
    topic: TopicOption = None,
    ns: NamespaceOption = None,
    reason: ReasonOption = None,
    since: SinceOption = None,
    message: MessageOption = None,
    dry_run: DryRunOption = False,
    gateway: GatewayOption = GATEWAY,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before all are purged.")] = False,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Forget dead letters for ever; they stay counted.

    Name them by number, by what all of them have in common, or say --all; then a person at a
    terminal is asked first.

    \b
    Examples:
      dragoman deadletters purge 17 18
      dragoman deadletters purge --topic storms//. --reason rejected
      dragoman deadletters purge --all --yes
    """
    letters = _chosen("purge", numbers, every, subscription, topic, reason, since, message, ns)
    if every and not (yes or dry_run) and sys.stdin.isatty():
        typer.confirm(f"Forget all dead letters of {gateway}?", abort=True, err=True)

    async def run() -> Changed:
        async with Administration(gateway, **connecting(context)) as administration:
            progress = _progress("counted" if dry_run else "purged")
            return await administration.purge(letters, dry_run=dry_run, progress=progress)

    _report("purged", asyncio.run(run()), output, dry_run)


def _chosen(
    command: str,
    numbers: list[int] | None,
    every: bool,
    subscription: str | None,
    topic: str | None,
    reason: str | None,
    since: str | None,
    message: str | None,
    ns: list[str] | None,
) -> Letters:
    """The dead letters that a command is about.

    Raises:
        CommandFailed: None are named, or in two ways.
    """
    common = [one for one in (subscription, topic, reason, since, message) if one is not None]
    ways = bool(numbers) + every + bool(common)
    if not ways:
        raise CommandFailed(
            f"say which dead letters to {command}: their numbers, --subscription, --topic, "
            "--reason, --since or --message, or --all",
            ASKED_WRONGLY,
        )
    if ways > 1:
        raise CommandFailed(
            "choose dead letters in one way: by number, by --subscription, --topic, --reason, "
            "--since and --message, or --all",
            ASKED_WRONGLY,
        )
    if "" in (subscription, topic, reason, message):
        raise CommandFailed("an option that chooses dead letters is empty", ASKED_WRONGLY)
    return Letters(
        numbers=numbers or None,
        subscription=subscription,
        topic=topic,
        namespaces=read_namespaces(ns) or None,
        reason=reason,
        since=None if since is None else _instant(since),
        message=message,
        all=every,
    )


_AGO = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _instant(text: str) -> str:
    """The instant that ``--since`` names: a date, a time, local where it says no zone, or an age.

    Raises:
        CommandFailed: It is none of these.
    """
    try:
        if ago := _AGO.fullmatch(text.strip()):
            at = datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        else:
            at = datetime.fromisoformat(text.strip()).astimezone()
        return at.isoformat()
    except (ValueError, OverflowError, OSError) as error:
        raise CommandFailed(
            f"--since: {text!r} is not a time: write 2026-03-01, 2026-03-01T12:00:00Z, or 12h",
            ASKED_WRONGLY,
        ) from error


def _progress(done: str) -> Callable[[int], None]:
    """Says on standard error how many it are by now, once a second; a short run says nothing."""
    said = time.monotonic()

    def say(number: int) -> None:
        nonlocal said
        if time.monotonic() - said >= SAID_EVERY:
            said = time.monotonic()
            note(f"{done} {number} so far")

    return say


def _row(record: Record) -> list[object]:
    died = moment(record.get("died"))
    shown = {**record, "died": died, "message": record.get("published_id")}
    return [shown.get(name) for name in _COLUMNS]


def _report(done: str, changed: Changed, output: Form, dry_run: bool) -> None:
    number = changed.number
    if output is Form.JSON:
        record: Record = {"dry_run": True, "number": number} if dry_run else {done: number}
        json_line({**record, "reasons": dict(changed.reasons)})
        return
    letters = f"{number} dead letter{'' if number == 1 else 's'}"
    kinds = ", ".join(f"{count} {reason}" for reason, count in changed.reasons.items())
    shown = f" ({kinds})" if kinds else ""
    line(f"{letters} would be {done}{shown}" if dry_run else f"{done} {letters}{shown}")


add(deadletters, list_, "list")
add(deadletters, show)
add(deadletters, redrive)
add(deadletters, purge)
