"""The exchanges, queues and bindings in the broker, and how they are brought up to date without a
gap.

    dragoman ──┐ bindings: the interests                          ┌─> dragoman.00 ─┐
     (topic)   ├───> dragoman.interests.a ──> dragoman.partitions ┼─> dragoman.01  ├─> gateway
    orders  ───┘        (fanout)             (x-consistent-hash)  └─> … .15       ─┘

AMQP cannot list bindings, so those of an earlier run cannot be removed one by one. The exchange
that carries them is replaced instead: the next of three names (a, b, c, a …) is declared, bound to
what is wanted now, joined to the partitions, and only then is its predecessor deleted. A message
that goes through both is one message in its queue, so no message is lost or doubled. After a crash
the leftover is known: of two that exist, the later is the unfinished one.

Gateways that share the queues share the exchange of interests, too (``interests.shared``). They
only add to it: a binding that one gateway does not need, another may.

The exclusive queue ``dragoman.lock`` lives as long as the connection: a second gateway of the same
name is refused before it touches anything.
"""

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from pika.exceptions import AMQPError

from adapters.broker.destinations import Destination, Destinations
from adapters.broker.reconnecting import because_of_name
from adapters.rabbitmq.connection import (
    ACCESS_REFUSED,
    COMMAND_INVALID,
    NOT_FOUND,
    PRECONDITION_FAILED,
    RESOURCE_LOCKED,
    Channel,
    Connection,
    Lost,
)

PARTITIONS = 16
SLOTS = "abc"
SHARED = "shared"

logger = logging.getLogger(__name__)


class NoHashing(Exception):
    """The broker has no exchange of the type x-consistent-hash: the plug-in is not enabled."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one gateway's exchanges and queues."""

    exchange: str
    name: str

    @property
    def lock(self) -> str:
        return f"{self.name}.lock"

    @property
    def partitions(self) -> str:
        return f"{self.name}.partitions"

    @property
    def queues(self) -> list[str]:
        return [f"{self.name}.{number:02}" for number in range(PARTITIONS)]

    def interests(self, slot: str) -> str:
        return f"{self.name}.interests.{slot}"


@dataclass(slots=True)
class Topology:
    """The topology as it is set up through one connection."""

    connection: Connection
    names: Names
    quorum: bool
    hashing: bool
    shared: bool = False
    gone: tuple[str, ...] = ()
    """The queues of an earlier run that were deleted since: what they held is lost, and what was
    published meanwhile."""
    _slot: str = ""
    _channel: Channel | None = field(default=None)

    async def set_up(self, exchanges: Collection[str], wanted: Collection[Destination]) -> None:
        """Make the broker's side equal to *wanted*.

        Raises:
            Lost: The broker refused something, or is gone.
            NoHashing: It cannot hash; the connection is closed.
        """
        names = self.names
        channel = self._channel = await self.connection.channel()
        if self.shared:
            await self._check_lock()
        else:
            await self._lock(channel)
        await declare_exchanges(self.connection, names.exchange, exchanges)
        self.gone = await self._gone()
        for queue in names.queues:
            await channel.ask(
                channel.raw.queue_declare, queue=queue, durable=True, arguments=self._arguments()
            )
        if self.hashing:
            await self._declare_hashing(channel)
            for queue in names.queues:
                await channel.ask(
                    channel.raw.queue_bind, queue=queue, exchange=names.partitions, routing_key="1"
                )
        if self.shared:
            await self._share_interests(channel, wanted)
        else:
            await self._replace_interests(channel, wanted)

    async def bind(self, patterns: Collection[Destination]) -> None:
        """Bind *patterns* too; they are in force on return, but for those of exchanges that we may
        not read.

        Raises:
            Lost: They may all not be read, or the broker is gone.
        """
        readable = await self._readable(patterns)
        if patterns and not readable:
            raise Lost("none of the exchanges may be read")
        patterns = readable
        channel = await self._open_channel()
        for pattern in patterns:
            await channel.ask(channel.raw.exchange_bind, **self._binding(pattern))

    async def unbind(self, patterns: Collection[Destination]) -> None:
        if self.shared:
            return
        channel = await self._open_channel()
        for pattern in patterns:
            await channel.ask(channel.raw.exchange_unbind, **self._binding(pattern))

    async def _open_channel(self) -> Channel:
        """Return an open channel: a refused request closes its channel, so the next one needs
        another."""
        if self._channel is None or self._channel.closed.done():
            self._channel = await self.connection.channel()
        return self._channel

    async def _check_lock(self) -> None:
        """Check that no gateway consumes all queues alone."""
        channel = await self.connection.channel()
        try:
            await self._lock(channel, passive=True)
        except Lost as exc:
            if exc.code != NOT_FOUND:
                raise

    async def _lock(self, channel: Channel, *, passive: bool = False) -> None:
        try:
            await channel.ask(
                channel.raw.queue_declare,
                queue=self.names.lock,
                exclusive=not passive,
                passive=passive,
            )
        except Lost as exc:
            if exc.code == RESOURCE_LOCKED:
                raise because_of_name(self.names.name, Lost("", exc.code)) from exc
            raise

    def _arguments(self) -> dict[str, object]:
        if not self.quorum:
            return {}
        arguments: dict[str, object] = {"x-queue-type": "quorum"}
        version = str((self.connection.raw.server_properties or {}).get("version", ""))
        if version.partition(".")[0].isdecimal() and int(version.partition(".")[0]) >= 4:
            # From 4.0 on a quorum queue drops what was delivered 20 times, restarts included.
            arguments["x-delivery-limit"] = -1
        return arguments

    async def _declare_hashing(self, channel: Channel) -> None:
        """Declare the exchange that deals messages to queues by a hash of their routing key, so
        that the messages of one topic keep their order."""
        try:
            await channel.ask(
                channel.raw.exchange_declare,
                exchange=self.names.partitions,
                exchange_type="x-consistent-hash",
                durable=True,
            )
        except Lost as exc:
            if exc.code == COMMAND_INVALID:
                raise NoHashing from exc
            raise

    async def _gone(self) -> tuple[str, ...]:
        """Return the queues that are missing, although an earlier run has left its exchanges."""
        slots = (SHARED,) if self.shared else SLOTS
        for slot in slots:
            if await exists(self.connection, self.names.interests(slot)):
                break
        else:
            return ()
        missing = [queue for queue in self.names.queues if not await self._has_queue(queue)]
        if missing:
            said = {"adapter": "rabbitmq", "queues": missing, "reason": "deleted in the broker"}
            effect = "what they held is lost, and what was published since"
            logger.warning("adapter.queues_gone", extra={**said, "effect": effect})
        return tuple(missing)

    async def _has_queue(self, queue: str) -> bool:
        channel = await self.connection.channel()
        try:
            await channel.ask(channel.raw.queue_declare, queue=queue, passive=True)
        except Lost as exc:
            if exc.code == NOT_FOUND:
                return False
            if exc.code == RESOURCE_LOCKED:  # Somebody else's alone: declaring it will say so.
                return True
            raise
        await channel.close()
        return True

    async def _replace_interests(self, channel: Channel, wanted: Collection[Destination]) -> None:
        existing = [
            slot for slot in SLOTS if await exists(self.connection, self.names.interests(slot))
        ]
        complete = [slot for slot in existing if _before(slot) not in existing] or existing
        self._slot = slot = _after(complete[0]) if complete else SLOTS[0]
        fresh = self.names.interests(slot)
        if slot in existing:
            await channel.ask(channel.raw.exchange_delete, exchange=fresh)
        await self._add_interests(channel, wanted)
        await self._delete_interests(channel, [former for former in existing if former != slot])

    async def _share_interests(self, channel: Channel, wanted: Collection[Destination]) -> None:
        """Set up the shared exchange of interests, and delete those of gateways that were alone."""
        self._slot = SHARED
        await self._add_interests(channel, wanted)
        await self._delete_interests(channel, SLOTS)

    async def _readable(self, wanted: Collection[Destination]) -> list[Destination]:
        """Bind one pattern of each exchange of others. Returns what is *wanted* of those that we
        may read: another one would take all other bindings with it."""
        refused = set()
        for pattern in {one.exchange: one for one in wanted if one.exchange is not None}.values():
            channel = await self.connection.channel()
            try:
                await channel.ask(channel.raw.exchange_bind, **self._binding(pattern))
                await channel.close()
            except Lost as exc:
                if exc.code not in (ACCESS_REFUSED, NOT_FOUND):
                    raise
                refused.add(pattern.exchange)
                _warn(str(pattern.exchange), str(exc))
        return [one for one in wanted if one.exchange not in refused]

    async def _add_interests(self, channel: Channel, wanted: Collection[Destination]) -> None:
        fresh = self.names.interests(self._slot)
        await channel.ask(
            channel.raw.exchange_declare,
            exchange=fresh,
            exchange_type="fanout",
            durable=True,
            internal=True,
        )
        wanted = await self._readable(wanted)
        try:
            for pattern in wanted:  # Without waiting for answers: there may be thousands.
                channel.raw.exchange_bind(**self._binding(pattern))
        except AMQPError as exc:
            raise Lost("the connection was lost while interests were bound") from exc
        if self.hashing:
            await channel.ask(
                channel.raw.exchange_bind, destination=self.names.partitions, source=fresh
            )
        else:
            await channel.ask(channel.raw.queue_bind, queue=self.names.queues[0], exchange=fresh)

    async def _delete_interests(self, channel: Channel, slots: Iterable[str]) -> None:
        """Delete the exchanges of *slots*; one that does not exist is not an error."""
        for slot in slots:
            await channel.ask(channel.raw.exchange_delete, exchange=self.names.interests(slot))

    def _binding(self, pattern: Destination) -> dict[str, Any]:
        return {
            "destination": self.names.interests(self._slot),
            "source": pattern.exchange or self.names.exchange,
            "routing_key": pattern.name,
        }


def _warn(exchange: str, reason: str) -> None:
    said = {"adapter": "rabbitmq", "exchange": exchange, "reason": reason}
    logger.warning("adapter.exchange_unreadable", extra=said)


async def declare_exchanges(connection: Connection, own: str, others: Collection[str]) -> None:
    """Declare the exchanges that are published to; of those that exist already, any type will do.
    One of *others* that is missing, and that we may not declare, is left out.

    Raises:
        Lost: The broker refused our own, or is gone.
    """
    missing = [name for name in others if not await exists(connection, name)]
    await _declare(connection, own)
    for name in missing:
        try:
            await _declare(connection, name)
        except Lost as exc:
            if exc.code not in (ACCESS_REFUSED, PRECONDITION_FAILED):
                raise


async def _declare(connection: Connection, name: str) -> None:
    channel = await connection.channel()
    await channel.ask(
        channel.raw.exchange_declare, exchange=name, exchange_type="topic", durable=True
    )
    await channel.close()


async def exists(connection: Connection, exchange: str) -> bool:
    """Return True if the exchange exists. If it does not, the broker closes the channel of the
    question."""
    channel = await connection.channel()
    try:
        await channel.ask(channel.raw.exchange_declare, exchange=exchange, passive=True)
    except Lost as exc:
        if exc.code == NOT_FOUND:
            return False
        raise
    await channel.close()
    return True


async def remove(connection: Connection, names: Names) -> None:
    """Delete all queues and exchanges with *names*; those that are missing are no error.

    Raises:
        Lost: The broker refused, or is gone.
    """
    channel = await connection.channel()
    for queue in names.queues:
        await channel.ask(channel.raw.queue_delete, queue=queue)
    interests = [names.interests(slot) for slot in (*SLOTS, SHARED)]
    for exchange in (*interests, names.partitions, names.exchange):
        await channel.ask(channel.raw.exchange_delete, exchange=exchange)
    await channel.close()


def _after(slot: str) -> str:
    return SLOTS[(SLOTS.index(slot) + 1) % len(SLOTS)]


def _before(slot: str) -> str:
    return SLOTS[SLOTS.index(slot) - 1]


def foreign_exchanges(destinations: Destinations) -> list[str]:
    """Return the exchanges that are not our own, once each."""
    return list(dict.fromkeys(row.exchange for row in destinations.rows if row.exchange))
