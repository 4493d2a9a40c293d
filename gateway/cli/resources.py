"""Commands that list, show and delete resources of a gateway: a table of the resources, and what is
the same for all of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from gateway.cli.commands import add
from gateway.cli.errors import CommandFailed
from gateway.cli.options import GATEWAY, Form, GatewayOption, IdArguments, OutputOption, connecting
from gateway.cli.output import document_lines, facts, json_line, line, moment, note, table
from gateway.client import Administration, GatewayError, Record


async def _not_offered(_: Administration, id_: object) -> Any:
    raise NotImplementedError(id_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind of resources.

    Attributes:
        none: The note in place of an empty list.
        columns: Of a list. A column has the value of *cells*, or of the member with its name.
        listed: Yields the records.
        found: Finds the record with an id.
        deleted: Deletes the resource with an id.
        done: The word for a resource that was deleted.
        moments: Columns with times.
        cells: Values of columns that are not members of the record.
        order: The key by which lists are sorted; without it they stay as they are listed.
        facts: Names and values that are shown of one record.
    """

    none: str
    columns: Sequence[str]
    listed: Callable[[Administration], AsyncIterator[Record]]
    found: Callable[[Administration, Any], Awaitable[Record]] = _not_offered
    deleted: Callable[[Administration, str], Awaitable[None]] = _not_offered
    done: str = "deleted"
    moments: Sequence[str] = ()
    cells: Callable[[Record], Record] | None = None
    order: Callable[[Record], Any] | None = None
    facts: Callable[[Record], Iterable[tuple[str, object]]] = lambda record: record.items()

    def sorted(self, records: Iterable[Record]) -> list[Record]:
        """*records* in the order of lists."""
        return list(records) if self.order is None else sorted(records, key=self.order)

    def row(self, record: Record) -> list[object]:
        """The cells of *record* in a list."""
        cells = self.cells(record) if self.cells is not None else {}
        values = [cells.get(name, record.get(name.replace(" ", "_"))) for name in self.columns]
        named = zip(self.columns, values, strict=True)
        return [moment(value) if name in self.moments else value for name, value in named]


def _subscription_cells(record: Record) -> Record:
    delivery = record.get("delivery") or {}
    failing = delivery.get("failures") or delivery.get("breaker_until")
    counts = record.get("counts") or {}
    return {**counts, "last error": delivery.get("last_error") if failing else None}


def _subscription_facts(record: Record) -> Iterator[tuple[str, object]]:
    """The facts of a subscription, with those of its deliveries behind them."""
    delivery, counts = record.get("delivery") or {}, record.get("counts") or {}
    for name, value in record.items():
        if name not in ("delivery", "counts", "mode", "filter"):
            yield name, value
    yield from _mode_facts(record.get("mode") or {})
    yield from delivery.items()
    yield from counts.items()


def _mode_facts(mode: Record) -> Iterator[tuple[str, object]]:
    """The options that a sink of WS-Management asked for, without those that it did not."""
    usual = {"oversize": mode.get("oversize"), "encoding": "utf-8", "bookmarks": False}
    if mode.get("max_envelope_size") is not None:
        del usual["oversize"]
    for name, value in mode.items():
        if value is not None and value != usual.get(name):
            yield name, value


def _failing(record: Record) -> object:
    """The last error of a source or a link, if its exchanges fail now."""
    return record.get("last_error") if record.get("failures") else None


def _troubled_first(record: Record) -> tuple[bool, bool]:
    return not record.get("failures"), record["state"] == "live"


def _taken(record: Record) -> str:
    """The events that a channel takes, or a link asks for, in a few words."""
    said = [f"{name}={value}" for name, value in record["example"].items()]
    said += [str(record[name]) for name in ("topic", "xpath") if record.get(name)]
    return ", ".join(said) or "everything"


def _quota_cells(record: Record) -> Record:
    """What a tenant has and may have, and how much was refused to it."""
    quotas = {name: quota for name, quota in record.items() if isinstance(quota, dict)}
    cells: Record = {"name": record["name"]}
    for name, quota in quotas.items():
        limit = "any" if quota["limit"] is None else f"{quota['limit']:.10g}"
        cells[name] = f"{limit}/s" if quota["used"] is None else f"{quota['used']}/{limit}"
    cells["refused"] = sum(quota["refused"] for quota in quotas.values())
    return cells


def _topic_cells(record: Record) -> Record:
    owner = record.get("owner") or {}
    named = owner.get("name") or owner.get("id")
    return {"owner": named, "institution": owner.get("institution")}


def _topic_facts(record: Record) -> Iterator[tuple[str, object]]:
    for name, value in record.items():
        if name == "owner" and isinstance(value, dict):
            yield "owner", value.get("id")
            yield "name", value.get("name")
            yield "institution", value.get("institution")
        elif name == "schema" and isinstance(value, dict):
            yield "schema", value.get("type")
            yield "schema text", value.get("text")
        else:
            yield name, value


SUBSCRIPTIONS = Resource(
    none="There are no subscriptions.",
    columns=(
        *("id", "spec", "consumer", "topics", "contents", "expires", "state", "waiting", "dead"),
        "last error",
    ),
    listed=Administration.subscriptions,
    found=Administration.subscription,
    deleted=Administration.delete_subscription,
    moments=("expires",),
    cells=_subscription_cells,
    facts=_subscription_facts,
)
MAILBOXES = Resource(
    none="There are no mailboxes.",
    columns=("id", "kind", "owner", "messages", "bytes", "dropped", "used"),
    listed=Administration.mailboxes,
    found=Administration.mailbox,
    deleted=Administration.delete_mailbox,
    moments=("used",),
    order=lambda record: (-record["dropped"], -record["messages"]),
)
SOURCES = Resource(
    none="There are no sources.",
    columns=("id", "state", "spec", "producer", "topic", "events", "last event", "last error"),
    listed=Administration.sources,
    found=Administration.source,
    deleted=Administration.remove_source,
    moments=("last event",),
    cells=lambda record: {"producer": record.get("url"), "last error": _failing(record)},
    order=_troubled_first,
)
CHANNELS = Resource(
    none="There are no channels with names, and no links.",
    columns=("channel", "subscriptions", "made by", "takes"),
    listed=Administration.channels,
    deleted=Administration.remove_channel,
    done="removed",
    cells=lambda record: {"channel": record["name"], "takes": _taken(record)},
)
LINKS = Resource(
    none="There are no links.",
    columns=("link", "state", "channel", "from", "wants", "made by", "last error"),
    listed=Administration.links,
    deleted=Administration.remove_link,
    done="unlinked",
    cells=lambda record: {
        "link": record["id"],
        "from": record["url"],
        "wants": _taken(record),
        "last error": _failing(record),
    },
    order=_troubled_first,
)
SEQUENCES = Resource(
    none="There are no sequences.",
    columns=(
        *("id", "direction", "state", "owner", "version", "published", "waiting"),
        "last message",
    ),
    listed=Administration.sequences,
    found=Administration.sequence,
    deleted=Administration.terminate_sequence,
    done="terminated",
    moments=("last message",),
    order=lambda record: -(record.get("waiting") or 0),
)
TOPICS = Resource(
    none="There are no topics.",
    columns=("id", "origin", "topic", "owner", "institution", "expires"),
    listed=Administration.topics,
    found=Administration.topic,
    moments=("expires",),
    cells=_topic_cells,
    facts=_topic_facts,
)
DEAD_LETTERS = Resource(
    none="There are no dead letters.",
    columns=(
        *("number", "subscription", "topic", "reason", "status", "attempts", "died", "message"),
        "failure",
    ),
    listed=Administration.dead_letters,
    found=Administration.dead_letter,
    moments=("died",),
    cells=lambda record: {"message": record.get("published_id")},
)
DESTINATIONS = Resource(
    none="No delivery has failed since the start, and no host is on probation.",
    columns=(
        *("destination", "agreement", "why", "credentials", "failures", "last failure"),
        "last error",
    ),
    listed=Administration.destinations,
    moments=("last failure",),
    cells=lambda record: {"credentials": ", ".join(record["credentials"])},
)

SPOOL = Resource(
    none="The spool is empty.",
    columns=("number", "state", "topic", "bytes", "since", "reason"),
    listed=Administration.spool,
    found=Administration.spooled,
    moments=("since",),
)


TENANTS = Resource(
    none="There are no tenants but the default one.",
    columns=(
        *("name", "subscriptions", "mailboxes", "disk", "backlog", "messages", "bytes"),
        "refused",
    ),
    listed=Administration.tenants,
    found=Administration.tenant,
    cells=_quota_cells,
    facts=lambda record: _quota_cells(record).items(),
)


def add_list(app: typer.Typer, resource: Resource, about: str) -> None:
    """Make ``list`` a command of *app*; *about* is its help."""

    def list_(
        context: typer.Context,
        gateway: GatewayOption = GATEWAY,
        output: OutputOption = Form.TEXT,
    ) -> None:
        list_all(context, gateway, output, resource)

    list_.__doc__ = about
    add(app, list_, "list")


def add_show(app: typer.Typer, resource: Resource, about: str) -> None:
    """Make ``show`` a command of *app*; *about* is its help."""

    def show(
        context: typer.Context,
        ids: IdArguments,
        gateway: GatewayOption = GATEWAY,
        output: OutputOption = Form.TEXT,
    ) -> None:
        show_each(context, gateway, output, resource, ids)

    show.__doc__ = about
    add(app, show)


def add_delete(app: typer.Typer, name: str, resource: Resource, about: str) -> None:
    """Make *name*, which deletes resources, a command of *app*; *about* is its help."""

    def delete(
        context: typer.Context,
        ids: IdArguments,
        gateway: GatewayOption = GATEWAY,
        output: OutputOption = Form.TEXT,
    ) -> None:
        delete_each(context, gateway, output, resource, ids)

    delete.__doc__ = about
    add(app, delete, name)


def list_all(
    context: typer.Context,
    gateway: str,
    output: Form,
    resource: Resource,
    *,
    only: Callable[[Record], bool] | None = None,
) -> None:
    """Print a table of all records, or a note where there are none.

    Args:
        only: Whether a record is shown at all.
    """

    async def run() -> list[Record]:
        async with Administration(gateway, **connecting(context)) as administration:
            return [record async for record in resource.listed(administration)]

    found = asyncio.run(run())
    records = resource.sorted(one for one in found if only is None or only(one))
    if output is Form.JSON:
        json_line(records)
        return
    if not records:
        note(resource.none)
        return
    for text in table(resource.columns, map(resource.row, records)):
        line(text)


def show_each(
    context: typer.Context,
    gateway: str,
    output: Form,
    resource: Resource,
    ids: Sequence[object],
    *,
    documents: Sequence[str] = (),
) -> None:
    """Print each of *ids*: for people its facts, a line each, and its members with *documents*
    behind them."""

    async def run() -> list[Record]:
        async with Administration(gateway, **connecting(context)) as administration:
            return [await resource.found(administration, id_) for id_ in ids]

    for number, record in enumerate(asyncio.run(run())):
        if output is Form.JSON:
            json_line(record)
            continue
        if number:
            line()
        parts = {name: record.pop(name, None) for name in documents}
        for text in facts(resource.facts(record)):
            line(text)
        for name, part in parts.items():
            line()
            for text in document_lines(name, part):
                line(text)


def make_one(
    context: typer.Context,
    gateway: str,
    output: Form,
    make: Callable[[Administration], Awaitable[Record]],
    said: Callable[[Record], str],
) -> None:
    """Make something, and print it: for people what is *said* of its record, in a line."""

    async def run() -> Record:
        async with Administration(gateway, **connecting(context)) as administration:
            return await make(administration)

    record = asyncio.run(run())
    if output is Form.JSON:
        json_line(record)
    else:
        line(said(record))


def read_lease(text: str) -> float | str:
    """A lease as the API takes it: seconds, or a duration, which it reads itself."""
    try:
        return float(text)
    except ValueError:
        return text


def delete_each(
    context: typer.Context,
    gateway: str,
    output: Form,
    resource: Resource,
    ids: list[str],
) -> None:
    """Delete each of *ids* and say so; raises as `change_each` does."""
    change_each(context, gateway, output, ids, resource.deleted, resource.done)


def change_each(
    context: typer.Context,
    gateway: str,
    output: Form,
    ids: list[str],
    change: Callable[[Administration, str], Awaitable[object]],
    done: str,
) -> None:
    """Change each of *ids*, and say that this is *done*: "paused".

    Raises:
        CommandFailed: Some are not there; the others are changed.
    """
    changed, missed = asyncio.run(_change(context, gateway, change, ids))
    if output is Form.JSON:
        json_line({done: changed})
    else:
        for id_ in changed:
            line(f"{done} {id_}")
    if missed:
        raise CommandFailed("; ".join(missed))


async def _change(
    context: typer.Context,
    gateway: str,
    change: Callable[[Administration, str], Awaitable[object]],
    ids: list[str],
) -> tuple[list[str], list[str]]:
    """The ids of what is changed now, and the errors of the others."""
    changed, missed = [], []
    async with Administration(gateway, **connecting(context)) as administration:
        for id_ in dict.fromkeys(ids):
            try:
                await change(administration, id_)
                changed.append(id_)
            except GatewayError as error:
                if error.status != 404:
                    raise
                missed.append(str(error).rstrip("."))
    return changed, missed
