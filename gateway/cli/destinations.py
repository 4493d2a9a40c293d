"""``dragoman destinations``."""

from gateway.cli.commands import group, help_alone
from gateway.cli.resources import DESTINATIONS, add_list

destinations = group(
    "destinations", "See where deliveries fail, which hosts agreed, and what they are shown."
)
destinations.callback()(help_alone)
add_list(
    destinations,
    DESTINATIONS,
    r"""List destinations to which attempts failed, and those whose hosts are on probation.

    The settings egress_agreed and egress_forbidden approve of a host, and forbid it.

    \b
    Examples:
      dragoman destinations list
      dragoman destinations list --output json
    """,
)
