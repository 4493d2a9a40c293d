"""``dragoman listen --discover``: topics that are found, and subscribed to."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from gateway.cli.documents import read_document
from gateway.cli.entities import (
    Files,
    Reaching,
    asked,
    chosen,
    described,
    for_people,
    ourselves,
    read_keys,
)
from gateway.cli.errors import CommandFailed
from gateway.cli.output import counted, facts, note
from gateway.cli.printing import Printing, print_all
from gateway.cli.receiving import Receiving, end_text, say_trouble, whereabouts
from gateway.client import GatewayError, RenewedSubscription, shown

if TYPE_CHECKING:
    from gateway.client.discovery import Entity, Found, Offer
    from mediation.discovery import Query, TopicAdvertisement

_SHOWN = ("id", "texts", "name", "institution", "creator", "issuer", "created", "expires", "mark")
"""What is shown of a topic before it is subscribed to."""


@dataclass(frozen=True, slots=True)
class Discovering:
    """Options of what is to be found, and of who asks."""

    query: str
    files: Files
    reaching: Reaching
    nodes: list[str] | None
    issuer: str | None
    delegations: tuple[Path, ...]
    keys: tuple[Path, ...] = ()


async def listen_to_found(wanted: Discovering, receiving: Receiving, printing: Printing) -> None:
    """Find topics, say whose they are, and print what is published on those that we have the right
    to.

    Raises:
        CommandFailed: There is none, or the gateway ended a subscription.
    """
    query, rights = asked(wanted.query, "--discover"), _rights(wanted.delegations)
    keys = read_keys(wanted.keys)
    held: list[RenewedSubscription] = []
    ended = None
    async with ourselves(wanted.files, wanted.reaching) as entity, receiving as consumer:
        count = 0
        try:
            async with AsyncExitStack() as stack:
                async for found, opened in _found(entity, query, wanted, keys):
                    count += 1
                    right = rights.get(found.topic_id)
                    try:
                        subscription = entity.subscribed(
                            opened or found, consumer.address, delegation=right,
                            troubled=say_trouble,
                        )  # fmt: skip
                        held.append(await stack.enter_async_context(subscription))
                    except GatewayError as error:
                        note(f"dragoman: {found.topic_id}: {error}")
                _check(count, held)
                note(whereabouts(consumer, wanted.reaching.gateway))
                topics = counted(len(held), "topic")
                note(f"Subscribed to {topics} at {shown(wanted.reaching.gateway)}; Ctrl-C ends.")
                ended = await print_all(consumer, printing)
                for each in held:
                    each.is_over = ended is not None
        finally:
            if held and ended is None:
                note(end_text(next((one for one in held if not one.is_over), held[0])))
    if ended is not None:
        raise CommandFailed(f"the gateway ended the subscription: {ended.reason}")


async def _found(
    entity: "Entity", query: "Query", wanted: Discovering, keys: tuple[bytes, ...]
) -> "AsyncIterator[tuple[Found, TopicAdvertisement | None]]":
    """What is found and believed, and what it says, where that can be read; each is shown."""
    from filters import Refused
    from mediation.discovery import Purpose

    offers: tuple[Offer, ...] = ()
    if wanted.nodes or wanted.issuer:
        offers = await chosen(entity, Purpose.DISCOVER, wanted.nodes, wanted.issuer, 1.0)
    several: list[Found] = []
    async with aclosing(entity.discover(query, offers=offers)) as found:
        async for one in found:
            several.append(one)
    for one in several:
        try:
            opened = entity.open(one, *keys)
            pairs = dict(described(one, opened))
        except Refused as refused:
            note(f"dragoman: {one.topic_id} is not believed: {refused.text}")
            continue
        for text in facts(for_people((name, pairs.get(name)) for name in _SHOWN)):
            note(text)
        yield one, opened
    if found.more:
        note("Not all topics were looked at, or answered: narrow the query.")


def _rights(paths: tuple[Path, ...]) -> dict[UUID, bytes]:
    """The delegations in files, by their topics.

    Raises:
        CommandFailed: One is none.
    """
    from filters import Refused
    from mediation.discovery import Delegation, read_as

    rights = {}
    for path in paths:
        octets = read_document(str(path), str(path))
        try:
            rights[read_as(Delegation, octets).value.topic_id] = octets
        except Refused as refused:
            raise CommandFailed(f"{path}: no delegation: {refused.text}") from refused
    return rights


def _check(count: int, held: list[RenewedSubscription]) -> None:
    if not count:
        raise CommandFailed("no topic was found")
    if not held:
        raise CommandFailed(
            f"{counted(count, 'topic')} found, and no right to any: the creator gives one, with "
            "dragoman topics delegate"
        )
