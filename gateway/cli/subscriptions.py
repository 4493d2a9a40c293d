"""``dragoman subscriptions``."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.errors import ASKED_WRONGLY, CommandFailed
from gateway.cli.instants import instant, read_position
from gateway.cli.option_groups import OptionGroup
from gateway.cli.options import (
    GATEWAY,
    Form,
    GatewayOption,
    IdArguments,
    OutputOption,
    check_xpath,
    connecting,
    read_namespaces,
)
from gateway.cli.output import json_line, line, note
from gateway.cli.resources import SUBSCRIPTIONS, change_each, delete_each, list_all, show_each
from gateway.client import Administration, GatewayError, Record
from gateway.client.administration import ELSEWHERE

if TYPE_CHECKING:
    from gateway.client.management import Management

subscriptions = group("subscriptions", "List, show, pause, renew, replay and end subscriptions.")
subscriptions.callback()(help_alone)

TopicOption = Annotated[
    str | None,
    typer.Option(metavar="TOPIC", help="Those that cover it: storms/coast, {urn:w}storms."),
]
ConsumerOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Its address begins so; with * or ? it is like this."),
]
SpecOption = Annotated[
    str | None, typer.Option(metavar="VERSION", help="That the subscriber spoke: wsn-1.3.")
]
StateOption = Annotated[
    str | None, typer.Option(metavar="STATE", help="active, failing, paused, expired or unknown.")
]
OwnerOption = Annotated[
    str | None, typer.Option(metavar="OWNER", help="As `list` shows it with --output json.")
]


class Order(Enum):
    """What a list of subscriptions is sorted by."""

    TROUBLE = "trouble"
    WAITING = "waiting"
    DEAD = "dead"
    CONSUMER = "consumer"
    EXPIRES = "expires"
    CREATED = "created"
    ID = "id"


def _count(record: Record, name: str) -> int:
    return (record.get("counts") or {}).get(name) or 0


def _waits(record: Record) -> bool:
    return _count(record, "waiting") > 0


_ORDERS: dict[Order, Callable[[Record], Any]] = {
    Order.TROUBLE: lambda one: (
        one["state"] != "failing",
        -_count(one, "waiting"),
        -_count(one, "dead"),
        one["consumer"],
    ),
    Order.WAITING: lambda one: -_count(one, "waiting"),
    Order.DEAD: lambda one: -_count(one, "dead"),
    Order.CONSUMER: lambda one: one["consumer"],
    Order.EXPIRES: lambda one: one["expires"] or "9999",
    Order.CREATED: lambda one: one["created"],
    Order.ID: lambda one: one["id"],
}


def _selection_options(
    topic: TopicOption = None,
    consumer: ConsumerOption = None,
    spec: SpecOption = None,
    state: StateOption = None,
    owner: OwnerOption = None,
) -> None:
    """Options that choose subscriptions: all of them must hold."""


SelectionOptions = Annotated[Mapping[str, str | None], OptionGroup(_selection_options, dict)]


def list_(
    *,
    context: typer.Context,
    selected: SelectionOptions,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Those for which deliveries wait.")
    ] = False,
    sort: Annotated[
        Order, typer.Option("--sort", help="What comes first.", show_default=True)
    ] = Order.TROUBLE,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the subscriptions of a gateway: all, or those for which all options hold.

    Those that fail come first, then those for which most waits.

    \b
    Examples:
      dragoman subscriptions list
      dragoman subscriptions list --state failing --waiting
      dragoman subscriptions list --topic storms/coast --sort consumer
      dragoman subscriptions list --consumer 'http://10.0.*'
      dragoman subscriptions list --output json | jq -r '.[].consumer'
    """
    listed = partial(_listed, context=context, gateway=gateway, selected=selected)
    resource = replace(SUBSCRIPTIONS, listed=listed, order=_ORDERS[sort])
    list_all(context, gateway, output, resource, only=_waits if waiting else None)


def _managing(context: typer.Context, gateway: str, error: GatewayError) -> "Management":
    """What lists and ends subscriptions in SOAP, where *error* says that the administration is
    elsewhere.

    Raises:
        GatewayError: It says anything else.
    """
    if error.code != ELSEWHERE:
        try:
            raise error
        finally:
            del error
    from gateway.client.management import Management

    note(
        f"dragoman: {error}; going on with the SOAP operations, which say less, and to those who "
        "are not trusted only of their own"
    )
    return Management(gateway, **connecting(context))


async def _listed(
    administration: Administration,
    *,
    context: typer.Context,
    gateway: str,
    selected: Mapping[str, str | None],
) -> AsyncIterator[Record]:
    try:
        async for record in administration.subscriptions(**selected):
            yield record
    except GatewayError as error:
        async with _managing(context, gateway, error) as management:
            async for record in management.subscriptions(**selected):
                yield record


async def _found(
    administration: Administration, id_: str, *, context: typer.Context, gateway: str
) -> Record:
    try:
        return await administration.subscription(id_)
    except GatewayError as error:
        async with _managing(context, gateway, error) as management:
            return await management.subscription(id_)


async def _deleted(
    administration: Administration, id_: str, *, context: typer.Context, gateway: str
) -> None:
    try:
        await administration.delete_subscription(id_)
    except GatewayError as error:
        async with _managing(context, gateway, error) as management:
            await management.delete_subscription(id_)


def show(
    context: typer.Context,
    ids: IdArguments,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Show a subscription, with what became of its deliveries.

    \b
    Example:
      dragoman subscriptions show 5b1f0c9a3e77
    """
    found = partial(_found, context=context, gateway=gateway)
    show_each(context, gateway, output, replace(SUBSCRIPTIONS, found=found), ids)


def pause(
    context: typer.Context,
    ids: IdArguments,
    hold: Annotated[
        bool | None,
        typer.Option(
            "--hold/--no-hold",
            help="What is published meanwhile waits for it; without it as the setting says.",
        ),
    ] = None,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Pause subscriptions: nothing is sent to them until they are resumed.

    What waits already is kept. What is published meanwhile passes them by, or waits for them with
    --hold, within the bounds of any backlog.

    \b
    Examples:
      dragoman subscriptions pause 5b1f0c9a3e77
      dragoman subscriptions pause 5b1f0c9a3e77 90cc41d2ab05 --hold
    """
    change_each(context, gateway, output, ids, lambda one, id_: one.pause(id_, hold), "paused")


def resume(
    context: typer.Context,
    ids: IdArguments,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Resume subscriptions: what waits for them is sent, in its order.

    \b
    Example:
      dragoman subscriptions resume 5b1f0c9a3e77
    """
    change_each(context, gateway, output, ids, lambda one, id_: one.resume(id_), "resumed")


def renew(
    context: typer.Context,
    ids: IdArguments,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="A duration, PT2H, or an instant; by default the gateway's."
        ),
    ] = None,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Move the end of subscriptions' leases.

    \b
    Examples:
      dragoman subscriptions renew 5b1f0c9a3e77
      dragoman subscriptions renew 5b1f0c9a3e77 --expires PT12H
    """
    change_each(context, gateway, output, ids, lambda one, id_: one.renew(id_, expires), "renewed")


def send_again(
    context: typer.Context,
    id_: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
    message: Annotated[
        str, typer.Argument(metavar="MESSAGE", help="As `dragoman attempts` shows it.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Although its filter does not take the message.")
    ] = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Make one delivery once more, as it was, and say how that ended.

    It has the same message id, is one attempt, and has no consequence for the subscription: what
    waits still waits. The message must wait for it, have died, or be one of the last that the
    gateway keeps (the setting console_messages).

    \b
    Example:
      dragoman subscriptions send-again 5b1f0c9a3e77 urn:uuid:11111111-2222-3333-4444-555555555555
    """

    async def run() -> Record:
        async with Administration(gateway, **connecting(context)) as administration:
            return await administration.send_again(id_, message, force=force)

    attempt = asyncio.run(run())
    if output is Form.JSON:
        json_line(attempt)
        return
    status = f" ({attempt['status']})" if attempt["status"] else ""
    line(f"{attempt['verdict']}{status} in {attempt['seconds']:.3f} s")
    for text in (attempt["error"], attempt["answer"]):
        if text:
            line(text)


def replay(
    *,
    context: typer.Context,
    id_: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WHEN",
            help="What came then or later: 2026-03-01T12:00:00Z; 12h ago; a position that was "
            "shown. Without it nothing begins, and how far the last one is is shown.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="WHEN", help="What came before; by default now.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="EXPR", help="On the topics of an expression: storms//.")
    ] = None,
    xpath: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Of which an XPath holds: /storm[@speed>9].")
    ] = None,
    ns: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX=URI", help="A prefix for --topic and --xpath; repeatable."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(metavar="N", min=0.01, max=10_000.0, help="How many a second, at most."),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Read no further.")] = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Deliver what the archive has of a range to a subscription again, or say how far that is.

    The gateway must have an archive. Of the range goes what the subscription's own filter takes,
    and --topic and --xpath, behind what waits for it already. The replay goes on when this command
    ends, and after a restart of the gateway.

    \b
    Examples:
      dragoman subscriptions replay 5b1f0c9a3e77 --from 12h --rate 50
      dragoman subscriptions replay 5b1f0c9a3e77 --from 2026-03-01 --to 2026-03-02 --topic storms//.
      dragoman subscriptions replay 5b1f0c9a3e77
      dragoman subscriptions replay 5b1f0c9a3e77 --cancel
    """
    others = (until, topic, xpath, ns, rate)
    if since is None and any(one is not None for one in others):
        raise CommandFailed("say from when to replay: --from", ASKED_WRONGLY)
    if since is not None and cancel:
        raise CommandFailed("--cancel ends a replay: it takes no --from", ASKED_WRONGLY)
    namespaces = read_namespaces(ns)
    check_xpath(xpath, namespaces)
    wanted: Record = {
        "from": None if since is None else read_position("--from", since),
        "to": None if until is None else instant("--to", until).isoformat(),
        "topic": topic,
        "xpath": xpath,
        "namespaces": namespaces or None,
        "rate": rate,
    }

    async def run() -> Record:
        async with Administration(gateway, **connecting(context)) as administration:
            if cancel:
                return await administration.cancel_replay(id_)
            if since is None:
                return await administration.replay(id_)
            given = {name: value for name, value in wanted.items() if value is not None}
            return await administration.begin_replay(id_, given)

    said = asyncio.run(run())
    if output is Form.JSON:
        json_line(said)
        return
    detail = f" ({said['detail']})" if said["detail"] else ""
    line(
        f"{said['state']}{detail}: replayed {said['replayed']} of {said['read']} messages read; "
        f"at {said['position']} of {said['to']}"
    )


def delete(
    *,
    context: typer.Context,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="As `list` shows it.")
    ] = None,
    selected: SelectionOptions,
    every: Annotated[bool, typer.Option("--all", help="All subscriptions.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say which would end; change nothing.")
    ] = False,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""End subscriptions: by id, by options that must all hold, or all of them.

    A subscriber that asked to be told is told.

    \b
    Examples:
      dragoman subscriptions delete 5b1f0c9a3e77 90cc41d2ab05
      dragoman subscriptions delete --consumer 'http://10.0.7.*' --dry-run
      dragoman subscriptions delete --state failing --spec wse-2004-08
    """
    chosen = any(value is not None for value in selected.values())
    if bool(ids) + chosen + every != 1:
        raise CommandFailed("say which subscriptions in one way: IDs, a selection, or --all", 2)
    if ids:
        if dry_run:
            raise CommandFailed("--dry-run is for a selection, or --all", 2)
        deleted = partial(_deleted, context=context, gateway=gateway)
        delete_each(context, gateway, output, replace(SUBSCRIPTIONS, deleted=deleted), ids)
        return

    async def run() -> list[str]:
        async with Administration(gateway, **connecting(context)) as administration:
            try:
                ending = administration.delete_subscriptions(all=every, dry_run=dry_run, **selected)
                return [id_ async for id_ in ending]
            except GatewayError as error:
                async with _managing(context, gateway, error) as management:
                    ending = management.delete_subscriptions(all=every, dry_run=dry_run, **selected)
                    return [id_ async for id_ in ending]

    ended = asyncio.run(run())
    if output is Form.JSON:
        json_line({"dry_run": True, "ids": ended} if dry_run else {"deleted": ended})
        return
    for id_ in ended:
        line(f"would delete {id_}" if dry_run else f"deleted {id_}")
    if not ended:
        note("There are no such subscriptions.")


add(subscriptions, list_, "list")
add(subscriptions, show)
add(subscriptions, pause)
add(subscriptions, resume)
add(subscriptions, renew)
add(subscriptions, send_again, "send-again")
add(subscriptions, replay)
add(subscriptions, delete)
