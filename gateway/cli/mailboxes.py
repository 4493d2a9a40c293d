"""``dragoman mailboxes``."""

from gateway.cli.commands import group, help_alone
from gateway.cli.resources import MAILBOXES, add_delete, add_list, add_show

mailboxes = group("mailboxes", "List, show and delete mailboxes.")
mailboxes.callback()(help_alone)

add_list(
    mailboxes,
    MAILBOXES,
    r"""List the mailboxes of a gateway, with what lies in them.

    DROPPED are messages that went to the dead letters, because the mailbox was full or nobody
    took them; USED is when somebody last did. Those with most of them come first.

    \b
    Examples:
      dragoman mailboxes list
      dragoman mailboxes list --output json | jq '.[] | select(.dropped > 0)'
    """,
)
add_show(
    mailboxes,
    MAILBOXES,
    r"""Show what lies in a mailbox.

    \b
    Example:
      dragoman mailboxes show 5b1f0c9a3e77
    """,
)
add_delete(
    mailboxes,
    "delete",
    MAILBOXES,
    r"""Delete mailboxes with all that lies in them, and end what fills them.

    \b
    Example:
      dragoman mailboxes delete 5b1f0c9a3e77 90cc41d2ab05
    """,
)
