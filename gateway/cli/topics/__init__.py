"""``dragoman topics``: what a gateway knows, and what entities of topic discovery do."""

from gateway.cli.commands import add, group, help_alone
from gateway.cli.resources import TOPICS, add_list, add_show
from gateway.cli.topics.finding import discover
from gateway.cli.topics.granting import delegate, hand_on, publish, revoke
from gateway.cli.topics.keys import keys
from gateway.cli.topics.making import advertise, create, withdraw

topics = group(
    "topics", "List, find and make topics that are provably somebody's; make keys of entities."
)
topics.callback()(help_alone)
add_list(
    topics,
    TOPICS,
    r"""List the topics that a gateway knows: those that are advertised, then those of topic
    sets and those that were published on.

    \b
    Examples:
      dragoman topics list
      dragoman topics list --output json | jq '.[] | select(.owner.institution == "Harbour Office")'
    """,
)
add_show(
    topics,
    TOPICS,
    r"""Show a topic: what it is about, whose it is, and until when.

    \b
    Example:
      dragoman topics show 7d3f0c52-91ab-4e0e-8f5d-2a6b1c9e4d70
    """,
)
add(topics, keys)
add(topics, create)
add(topics, advertise)
add(topics, discover)
add(topics, delegate)
add(topics, revoke)
add(topics, hand_on)
add(topics, publish)
add(topics, withdraw)
