"""``dragoman sequences``."""

from gateway.cli.commands import group, help_alone
from gateway.cli.resources import SEQUENCES, add_delete, add_list, add_show

sequences = group("sequences", "List, show and terminate sequences of reliable messages.")
sequences.callback()(help_alone)

add_list(
    sequences,
    SEQUENCES,
    r"""List the sequences of a gateway, from publishers and to subscribers, those too that ended
    within the last hour; those first for which most waits.

    \b
    Examples:
      dragoman sequences list
      dragoman sequences list --output json | jq '.[] | select(.waiting > 0)'
    """,
)
add_show(
    sequences,
    SEQUENCES,
    r"""Show a sequence: what came of it, or was acknowledged, and what waits.

    \b
    Example:
      dragoman sequences show 5b1f0c9a3e77
    """,
)
add_delete(
    sequences,
    "terminate",
    SEQUENCES,
    r"""Terminate sequences: their publishers have to begin new ones. With one to a subscriber its
    subscription ends.

    \b
    Example:
      dragoman sequences terminate 5b1f0c9a3e77
    """,
)
