"""``dragoman topics``: what a gateway knows, and what entities of topic discovery do."""

from gateway.cli.commands import add, group, help_alone
from gateway.cli.topics.finding import discover
from gateway.cli.topics.granting import delegate, hand_on, publish
from gateway.cli.topics.keys import keys
from gateway.cli.topics.listing import list_, show
from gateway.cli.topics.making import advertise, create, withdraw

topics = group(
    "topics", "List, find and make topics that are provably somebody's; make keys of entities."
)
topics.callback()(help_alone)
add(topics, list_, "list")
add(topics, show)
add(topics, keys)
add(topics, create)
add(topics, advertise)
add(topics, discover)
add(topics, delegate)
add(topics, hand_on)
add(topics, publish)
add(topics, withdraw)
