"""Shared by the commands that list and delete resources with an id."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import typer

from gateway.cli.errors import CommandFailed
from gateway.cli.options import Form, connecting
from gateway.cli.output import facts, json_line, line, note, table
from gateway.client import Administration, GatewayError, Record


def list_all(
    context: typer.Context,
    gateway: str,
    output: Form,
    records_of: Callable[[Administration], AsyncIterator[Record]],
    *,
    columns: Sequence[str],
    row: Callable[[Record], list[object]],
    none: str,
    order: Callable[[Record], Any] | None = None,
    only: Callable[[Record], bool] | None = None,
) -> None:
    """Print a table of all records, or *none* where there are none.

    Args:
        order: What they are sorted by; they stay in their order without one.
        only: Whether a record is shown at all.
    """

    async def run() -> list[Record]:
        async with Administration(gateway, **connecting(context)) as administration:
            return [record async for record in records_of(administration)]

    records = [one for one in asyncio.run(run()) if only is None or only(one)]
    if order is not None:
        records.sort(key=order)
    if output is Form.JSON:
        json_line(records)
        return
    if not records:
        note(none)
        return
    for text in table(columns, map(row, records)):
        line(text)


def show_each(
    context: typer.Context,
    gateway: str,
    ids: list[str],
    output: Form,
    find: Callable[[Administration, str], Awaitable[Record]],
    *,
    shown: Callable[[Record], Iterable[tuple[str, object]]] = lambda record: record.items(),
) -> None:
    """Print each of *ids*: for people what *shown* makes of a record, a line each."""

    async def run() -> list[Record]:
        async with Administration(gateway, **connecting(context)) as administration:
            return [await find(administration, id_) for id_ in ids]

    for number, record in enumerate(asyncio.run(run())):
        if output is Form.JSON:
            json_line(record)
            continue
        if number:
            line()
        for text in facts(shown(record)):
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
    ids: list[str],
    output: Form,
    delete: Callable[[Administration, str], Awaitable[None]],
    *,
    done: str = "deleted",
) -> None:
    """Delete each of *ids* and say so: that they are *done*.

    Raises:
        CommandFailed: Some are not there; the others are deleted.
    """
    deleted, missed = asyncio.run(_delete(context, gateway, ids, delete))
    if output is Form.JSON:
        json_line({done: deleted})
    else:
        for id_ in deleted:
            line(f"{done} {id_}")
    if missed:
        raise CommandFailed("; ".join(missed))


async def _delete(
    context: typer.Context,
    gateway: str,
    ids: list[str],
    delete: Callable[[Administration, str], Awaitable[None]],
) -> tuple[list[str], list[str]]:
    """The ids that are gone now, and what is wrong with the others."""
    deleted, missed = [], []
    async with Administration(gateway, **connecting(context)) as administration:
        for id_ in dict.fromkeys(ids):
            try:
                await delete(administration, id_)
                deleted.append(id_)
            except GatewayError as error:
                if error.status != 404:
                    raise
                missed.append(str(error).rstrip("."))
    return deleted, missed
