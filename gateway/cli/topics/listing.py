"""``dragoman topics list`` and ``show``."""

from collections.abc import Iterable

import typer

from gateway.cli.options import GATEWAY, Form, GatewayOption, IdArguments, OutputOption
from gateway.cli.output import moment
from gateway.cli.resources import list_all, show_each
from gateway.client import Administration, Record

_COLUMNS = ("id", "origin", "topic", "owner", "institution", "expires")


def list_(
    context: typer.Context,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the topics that a gateway knows: those that are advertised, then those of topic
    sets and those that were published on.

    \b
    Examples:
      dragoman topics list
      dragoman topics list --output json | jq '.[] | select(.owner.institution == "Harbour Office")'
    """
    list_all(
        context,
        gateway,
        output,
        Administration.topics,
        columns=_COLUMNS,
        row=_row,
        none="There are no topics.",
    )


def show(
    context: typer.Context,
    ids: IdArguments,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Show a topic: what it is about, whose it is, and until when.

    \b
    Example:
      dragoman topics show 7d3f0c52-91ab-4e0e-8f5d-2a6b1c9e4d70
    """
    show_each(context, gateway, ids, output, Administration.topic, shown=_shown)


def _row(record: Record) -> list[object]:
    owner = record.get("owner") or {}
    shown = {
        **record,
        "owner": owner.get("name") or owner.get("id"),
        "institution": owner.get("institution"),
        "expires": moment(record.get("expires")),
    }
    return [shown.get(name) for name in _COLUMNS]


def _shown(record: Record) -> Iterable[tuple[str, object]]:
    for name, value in record.items():
        if name == "owner" and isinstance(value, dict):
            yield "owner", value.get("id")
            yield "name", value.get("name")
            yield "institution", value.get("institution")
        else:
            yield name, value
