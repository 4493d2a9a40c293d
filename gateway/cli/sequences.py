"""``dragoman sequences``."""

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.options import GATEWAY, Form, GatewayOption, IdArguments, OutputOption
from gateway.cli.output import moment
from gateway.cli.resources import delete_each, list_all, show_each
from gateway.client import Administration, Record

sequences = group("sequences", "List, show and terminate sequences of reliable messages.")
sequences.callback()(help_alone)

_COLUMNS = ("id", "direction", "state", "owner", "version", "published", "waiting", "last message")


def list_(
    context: typer.Context,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the sequences of a gateway, from publishers and to subscribers, those too that ended
    within the last hour; those first for which most waits.

    \b
    Examples:
      dragoman sequences list
      dragoman sequences list --output json | jq '.[] | select(.waiting > 0)'
    """
    list_all(
        context,
        gateway,
        output,
        Administration.sequences,
        columns=_COLUMNS,
        row=_row,
        none="There are no sequences.",
        order=lambda record: -(record.get("waiting") or 0),
    )


def show(
    context: typer.Context,
    ids: IdArguments,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Show a sequence: what came of it, or was acknowledged, and what waits.

    \b
    Example:
      dragoman sequences show 5b1f0c9a3e77
    """
    show_each(context, gateway, ids, output, Administration.sequence)


def terminate(
    context: typer.Context,
    ids: IdArguments,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Terminate sequences: their publishers have to begin new ones. With one to a subscriber its
    subscription ends.

    \b
    Example:
      dragoman sequences terminate 5b1f0c9a3e77
    """
    delete_each(context, gateway, ids, output, Administration.terminate_sequence, done="terminated")


def _row(record: Record) -> list[object]:
    shown = {**record, "last message": moment(record.get("last_message"))}
    return [shown.get(name) for name in _COLUMNS]


add(sequences, list_, "list")
add(sequences, show)
add(sequences, terminate)
