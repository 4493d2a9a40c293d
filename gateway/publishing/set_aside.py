"""Messages of publishers that cannot be taken, because their topic cannot be read: they lie in the
dead letters, until an operator says what is missing and has them published."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog
from sqlalchemy import Connection

from filters import Refused
from gateway.model.dead_letter_reasons import NOBODY, Death, DeathReason
from gateway.security.networks import Networks
from gateway.security.principals import Principal
from gateway.store import Store, dead_lettering
from mediation.model.messages import Notification
from mediation.model.requests import SetAside, TopicRules
from mediation.notification.reading_notify import read_set_aside

PEER_PROPERTY = "dragoman_peer"
"""The property of a message that was set aside with the network address of its sender."""
ADVICE = (
    "Say in [[prefixes]] what an undeclared prefix stands for, start the gateway anew and redrive "
    "the message, or purge it."
)
_log = structlog.get_logger("dragoman.publishing")


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a prefix stands for that topics have without declaring it, of senders in *peers*; None:
    of all."""

    prefix: str
    namespace: str
    peers: Networks | None = None


class TopicReading:
    """Says how the topics of a sender are read."""

    def __init__(self, prefixes: Sequence[Prefix] = (), *, set_aside: bool = True) -> None:
        self._prefixes = tuple(prefixes)
        self._set_aside = set_aside
        self._alike = TopicRules(
            tuple((one.prefix, one.namespace) for one in self._prefixes), set_aside
        )
        self._same_for_all = all(one.peers is None for one in self._prefixes)

    def rules_for(self, address: str) -> TopicRules:
        """The rules for who sends from *address*; of two rows of one prefix the last that holds
        counts."""
        if self._same_for_all:
            return self._alike
        pairs = tuple(
            (one.prefix, one.namespace)
            for one in self._prefixes
            if one.peers is None or address in one.peers
        )
        return TopicRules(pairs, self._set_aside)


class SetAsideMessages:
    """Keeps what cannot be taken with the dead letters, and publishes it once it can.

    Args:
        publish: Checks and publishes events that are read now; they are durable on return.
    """

    def __init__(
        self,
        store: Store,
        reading: TopicReading,
        publish: Callable[[tuple[Notification, ...]], Awaitable[None]],
    ) -> None:
        self._store = store
        self._reading = reading
        self._publish = publish

    async def keep(self, messages: Sequence[SetAside], principal: Principal) -> None:
        """Lay *messages* of *principal* to the dead letters; they are durable on return."""
        now = time.time()
        letters = [
            (_from(one.notification, principal), _death(one, principal, now)) for one in messages
        ]
        await self._store.submit(partial(_bury, letters=letters))
        for one in messages:
            _log.warning(
                "event.set-aside", message=one.notification.id, by=principal.source, why=one.why
            )

    async def publish_again(self, kept: Notification) -> bool:
        """Publish what *kept* says, should it be readable now; whether it is published."""
        properties = dict(kept.properties)
        rules = self._reading.rules_for(properties.pop(PEER_PROPERTY, ""))
        try:
            # In a thread: it may take work for each element.
            events = await asyncio.to_thread(read_set_aside, kept, rules.prefixes)
            await self._publish(tuple(replace(one, properties=properties) for one in events))
        except Refused as refused:
            _log.warning("event.still-set-aside", message=kept.id, why=refused.text)
            return False
        return True


def _from(notification: Notification, principal: Principal) -> Notification:
    properties = {**notification.properties, PEER_PROPERTY: principal.address}
    return replace(notification, properties=properties)


def _bury(connection: Connection, letters: Sequence[tuple[Notification, Death]]) -> None:
    for notification, death in letters:
        dead_lettering.bury(connection, notification, death)


def _death(message: SetAside, principal: Principal, now: float) -> Death:
    return Death(
        subscription=NOBODY,
        owner=principal.owner,
        delivery_id=message.notification.id,
        topic=None,
        reason=DeathReason.UNKNOWN_TOPIC,
        status=None,
        failure=f"{message.why[:1].upper()}{message.why[1:].rstrip('.')}. {ADVICE}",
        answer="",
        attempts=0,
        since=message.notification.time.timestamp(),
        died=now,
    )
