"""``dragoman destinations``."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from gateway.cli.commands import add, group, help_alone
from gateway.cli.options import GATEWAY, Form, GatewayOption, OutputOption
from gateway.cli.resources import DESTINATIONS, add_list, change_each
from gateway.client import Administration

destinations = group(
    "destinations", "See where deliveries fail and which hosts agreed; approve or forbid hosts."
)
destinations.callback()(help_alone)
HostArguments = Annotated[
    list[str], typer.Argument(metavar="HOST", help="A host, or a destination as `list` shows it.")
]

add_list(
    destinations,
    DESTINATIONS,
    r"""List destinations to which attempts failed, and hosts that are on probation, did not agree,
    or were approved or forbidden.

    The settings egress_agreed and egress_forbidden approve of a host, and forbid it, too.

    \b
    Examples:
      dragoman destinations list
      dragoman destinations list --output json
    """,
)


def _add_decision(
    name: str, change: Callable[[Administration, str], Awaitable[object]], done: str, about: str
) -> None:
    """Make *name*, which decides about hosts, a command."""

    def decide(
        context: typer.Context,
        hosts: HostArguments,
        gateway: GatewayOption = GATEWAY,
        output: OutputOption = Form.TEXT,
    ) -> None:
        change_each(context, gateway, output, hosts, change, done)

    decide.__doc__ = about
    add(destinations, decide, name)


_add_decision(
    "approve",
    Administration.approve_destination,
    "approved",
    r"""Have hosts count as ones that agreed: what waits for them on probation is sent.

    \b
    Example:
      dragoman destinations approve consumer.example.org
    """,
)
_add_decision(
    "forbid",
    Administration.forbid_destination,
    "forbade",
    r"""Let nothing be sent to hosts any more, at any port, and nobody subscribe them.

    Attempts that are under way end. What waits is held, and becomes a dead letter when it has
    waited for too long.

    \b
    Example:
      dragoman destinations forbid victim.example.org 192.0.2.7
    """,
)
_add_decision(
    "reset",
    Administration.reset_destination,
    "reset",
    r"""Forget what was decided about hosts: they are approved and forbidden no longer.

    \b
    Example:
      dragoman destinations reset consumer.example.org
    """,
)
