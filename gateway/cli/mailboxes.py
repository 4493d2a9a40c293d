"""``dragoman mailboxes``."""

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.options import GATEWAY, Form, GatewayOption, IdArguments, OutputOption
from gateway.cli.output import moment
from gateway.cli.resources import delete_each, list_all, show_each
from gateway.client import Administration, Record

mailboxes = group("mailboxes", "List, show and delete mailboxes.")
mailboxes.callback()(help_alone)

_COLUMNS = ("id", "kind", "owner", "messages", "bytes", "dropped", "used")


def list_(
    context: typer.Context,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""List the mailboxes of a gateway, with what lies in them.

    DROPPED are messages that went to the dead letters, because the mailbox was full or nobody
    took them; USED is when somebody last did. Those with most of them come first.

    \b
    Examples:
      dragoman mailboxes list
      dragoman mailboxes list --output json | jq '.[] | select(.dropped > 0)'
    """
    list_all(
        context,
        gateway,
        output,
        Administration.mailboxes,
        columns=_COLUMNS,
        row=_row,
        none="There are no mailboxes.",
        order=lambda record: (-record["dropped"], -record["messages"]),
    )


def show(
    context: typer.Context,
    ids: IdArguments,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Show what lies in a mailbox.

    \b
    Example:
      dragoman mailboxes show 5b1f0c9a3e77
    """
    show_each(context, gateway, ids, output, Administration.mailbox)


def delete(
    context: typer.Context,
    ids: IdArguments,
    gateway: GatewayOption = GATEWAY,
    output: OutputOption = Form.TEXT,
) -> None:
    r"""Delete mailboxes with all that lies in them, and end what fills them.

    \b
    Example:
      dragoman mailboxes delete 5b1f0c9a3e77 90cc41d2ab05
    """
    delete_each(context, gateway, ids, output, Administration.delete_mailbox)


def _row(record: Record) -> list[object]:
    shown = {**record, "used": moment(record.get("used"))}
    return [shown.get(name) for name in _COLUMNS]


add(mailboxes, list_, "list")
add(mailboxes, show)
add(mailboxes, delete)
