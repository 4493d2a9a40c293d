"""What the commands share that delete things by their ids."""

import asyncio
from collections.abc import Awaitable, Callable

import typer

from gateway.cli.errors import CommandFailed
from gateway.cli.options import Form, tls
from gateway.cli.output import json_line, line
from gateway.client import Administration, GatewayError


def delete_each(
    context: typer.Context,
    gateway: str,
    ids: list[str],
    output: Form,
    delete: Callable[[Administration, str], Awaitable[None]],
) -> None:
    """Delete each of *ids* and say so.

    Raises:
        CommandFailed: Some are not there; the others are deleted.
    """
    deleted, missed = asyncio.run(_delete(context, gateway, ids, delete))
    if output is Form.JSON:
        json_line({"deleted": deleted})
    else:
        for id_ in deleted:
            line(f"deleted {id_}")
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
    async with Administration(gateway, tls=tls(context)) as administration:
        for id_ in dict.fromkeys(ids):
            try:
                await delete(administration, id_)
                deleted.append(id_)
            except GatewayError as error:
                if error.status != 404:
                    raise
                missed.append(str(error).rstrip("."))
    return deleted, missed
