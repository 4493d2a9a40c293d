"""``dragoman deadletters``."""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.errors import ASKED_WRONGLY, CommandFailed
from gateway.cli.instants import instant
from gateway.cli.option_groups import OptionGroup
from gateway.cli.options import (
    GATEWAY,
    Form,
    GatewayOption,
    OutputOption,
    connecting,
    read_namespaces,
)
from gateway.cli.output import json_line, line, note
from gateway.cli.resources import DEAD_LETTERS, list_all, show_each
from gateway.client import Administration, Changed, Letters, Record

deadletters = group("deadletters", "Look at, deliver again or forget what could not be delivered.")
deadletters.callback()(help_alone)

SAID_EVERY = 1.0
"""Seconds from one line about progress to the next."""
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
RateOption = Annotated[
    float | None,
    typer.Option("--rate", metavar="N", min=0.1, max=10_000.0, help="How many a second, at most."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say how many and of which reasons; change nothing.")
]


def _select(
    subscription: SubscriptionOption = None,
    topic: TopicOption = None,
    ns: NamespaceOption = None,
    reason: ReasonOption = None,
    since: SinceOption = None,
    message: MessageOption = None,
) -> Letters:
    """The dead letters for which all options hold.

    Raises:
        CommandFailed: An option is empty, or not a time.
    """
    if "" in (subscription, topic, reason, message):
        raise CommandFailed("an option that chooses dead letters is empty", ASKED_WRONGLY)
    return Letters(
        subscription=subscription,
        topic=topic,
        namespaces=read_namespaces(ns) or None,
        reason=reason,
        since=None if since is None else instant("--since", since).isoformat(),
        message=message,
    )


LettersOptions = Annotated[Letters, OptionGroup(_select)]


def list_(
    *,
    context: typer.Context,
    selected: LettersOptions,
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
    everything = not _selects(selected)
    letters = replace(selected, all=True) if everything else selected
    listed = partial(Administration.dead_letters, letters=letters)
    none = DEAD_LETTERS.none if everything else "There are no such dead letters."
    list_all(context, gateway, output, replace(DEAD_LETTERS, listed=listed, none=none))


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
    found = partial(Administration.dead_letter, whole=whole)
    resource = replace(DEAD_LETTERS, found=found)
    show_each(context, gateway, output, resource, numbers, documents=("payload", "envelope"))


def redrive(
    *,
    context: typer.Context,
    numbers: NumberArguments = None,
    every: AllOption = False,
    selected: LettersOptions,
    rate: RateOption = None,
    dry_run: DryRunOption = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Deliver dead letters again, with the same message ids, or put them back into mailboxes.

    Name them by number, by what all of them have in common, or say --all. Those of subscriptions
    and mailboxes that have ended stay where they are. With --rate, a consumer that was away for
    long is not run over by what waited for it.

    \b
    Examples:
      dragoman deadletters redrive 17 18
      dragoman deadletters redrive --subscription 5b1f0c9a3e77 --since 12h
      dragoman deadletters redrive --all --rate 50
      dragoman deadletters redrive --all --dry-run
    """
    letters = _chosen("redrive", numbers, every, selected)

    async def run() -> Changed:
        async with Administration(gateway, **connecting(context)) as administration:
            progress = _progress("counted" if dry_run else "redriven")
            return await administration.redrive(
                letters, dry_run=dry_run, progress=progress, rate=None if dry_run else rate
            )

    _report("redriven", asyncio.run(run()), output, dry_run)


def purge(
    *,
    context: typer.Context,
    numbers: NumberArguments = None,
    every: AllOption = False,
    selected: LettersOptions,
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
    letters = _chosen("purge", numbers, every, selected)
    if every and not (yes or dry_run) and sys.stdin.isatty():
        typer.confirm(f"Forget all dead letters of {gateway}?", abort=True, err=True)

    async def run() -> Changed:
        async with Administration(gateway, **connecting(context)) as administration:
            progress = _progress("counted" if dry_run else "purged")
            return await administration.purge(letters, dry_run=dry_run, progress=progress)

    _report("purged", asyncio.run(run()), output, dry_run)


def _chosen(command: str, numbers: list[int] | None, every: bool, selected: Letters) -> Letters:
    """The dead letters that a command is about.

    Raises:
        CommandFailed: None are named, or in two ways.
    """
    ways = bool(numbers) + every + _selects(selected)
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
    return replace(selected, numbers=numbers or None, all=every)


def _selects(letters: Letters) -> bool:
    """Whether an option chooses; a prefix for a topic that is not there does not."""
    return replace(letters, namespaces=None) != Letters()


def _progress(done: str) -> Callable[[int], None]:
    """Says on standard error how many it are by now, once a second; a short run says nothing."""
    said = time.monotonic()

    def say(number: int) -> None:
        nonlocal said
        if time.monotonic() - said >= SAID_EVERY:
            said = time.monotonic()
            note(f"{done} {number} so far")

    return say


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
