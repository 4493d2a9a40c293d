"""Sends the messages of an outbox, in their order, until each is taken: CloudEvents in batches, to
a gateway or straight to the inbox of another program.

A message is removed when it was taken, and whatever is sent begins with the first that was not. So
a process that is killed, or two that send at the same time, send some again and none out of order;
the inbox knows what comes again by its source and id.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import delete, select, update
from sqlalchemy.exc import SQLAlchemyError

from gateway.client.calling import Caller, shown
from gateway.client.errors import GatewayError
from gateway.client.outbox.backoff import Backoff
from gateway.client.outbox.runner import Runner
from gateway.client.outbox.tables import DEAD, WAITING, outbox, states
from gateway.client.outbox.transactions import Transaction
from gateway.reliability.storage import StorageUnavailable
from mediation.cloudevents import BATCH, Secret, signature
from mediation.cloudevents.events import json_member
from mediation.cloudevents.json_format import write_data

log = logging.getLogger("dragoman.outbox")

MOST = 500
"""Messages of a batch: as many as a gateway takes."""
MOST_BYTES = 1024 * 1024
"""Bytes of bodies in a batch of several messages: a gateway takes 2 MiB."""
POLL = 0.5
"""Seconds between two looks for messages that other processes stored, or that become due."""
LEASE = 5.0
"""Seconds that another process leaves a destination to the one that sends there."""
REFUSED = (400, 413, 415, 422)
"""Statuses that say that a message will never be taken."""
PAUSES = Backoff(0.25, 30.0)

_Row = Any


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the messages of some topics go.

    Attributes:
        url: Of the endpoint that takes CloudEvents.
        topics: Those; None: all that no other destination has.
        others: The topics of other destinations, where `topics` is None.
    """

    url: str
    topics: tuple[str, ...] | None = None
    others: tuple[str, ...] = ()


class _Found(NamedTuple):
    """What there was to send.

    Attributes:
        batch: What is sent next.
        are_some_dead: Some expired before that.
        leader: The other process that sends, and until when it has leave to.
    """

    batch: Sequence[_Row] = ()
    are_some_dead: bool = False
    leader: tuple[str, float] | None = None


class Relay:
    """Sends the messages for one destination.

    Args:
        runner: It works as long as that.
        database: Where the outbox is.
        source: The ``source`` of what is sent.
        secret: Signs what is sent (Standard Webhooks).
    """

    def __init__(
        self,
        runner: Runner,
        database: Any,
        caller: Caller,
        to: Destination,
        source: str,
        secret: Secret | None,
    ) -> None:
        self._runner = runner
        self._database = database
        self._caller = caller
        self._to = to
        self._source = f"{{{json_member('source', source)},"
        self._secret = secret
        self._owner = uuid.uuid4().hex
        self._lead = f"sends to {to.url}"[:255]
        self._has_led = False
        self._leader: tuple[str, float] | None = None
        self._sent: Sequence[int] = ()
        self._failures = 0
        self._why = ""

    async def run(self) -> None:
        """Send until the runner stops; then what is there, as long as it is taken."""
        ended = False
        while not ended:
            # Asked before the look: what was committed during it is seen by the next one only.
            stopping, goes_on = self._runner.stopping, False
            self._runner.clear()
            try:
                goes_on = await self._look()
            except (SQLAlchemyError, StorageUnavailable, OSError) as error:
                log.warning("the database of the outbox does not answer: %s", _line(error))
                await self._runner.pause(PAUSES.seconds(2))
            except Exception:
                log.exception("messages to %s could not be sent", shown(self._to.url))
                await self._runner.pause(PAUSES.seconds(4))
            ended = stopping and not goes_on
        if self._has_led:
            with suppress(SQLAlchemyError, StorageUnavailable, OSError):
                await self._database.run(self._give_up_lead)

    async def _look(self) -> bool:
        """Look for messages once, and send them.

        Returns:
            Whether there may be more that are taken now.
        """
        found = await self._database.run(self._next)
        self._sent = ()
        if found.batch:
            return await self._send(found.batch)
        if found.are_some_dead:
            return True
        if not self._runner.stopping:
            await self._runner.rest(POLL)
            return False
        if found.leader is None:
            return False
        # One that is alive extends its lease, and sends; one that was killed leaves it behind.
        is_alive, self._leader = self._leader not in (None, found.leader), found.leader
        await asyncio.sleep(POLL)
        return not is_alive

    def _next(self, transaction: Transaction) -> _Found:
        """Remove what was sent, and read what is next."""
        if self._sent:
            transaction.change(delete(outbox).where(outbox.c.position.in_(self._sent)))
        now = time.time()
        own = outbox.c
        found = select(
            own.position, own.attributes, own.body, own.content_type, own.expires_at
        ).where(own.state == WAITING, own.due_at <= now)
        if self._to.topics is not None:
            found = found.where(own.topic.in_(self._to.topics))
        elif self._to.others:
            found = found.where(own.topic.not_in(self._to.others))
        rows = transaction.rows(found.order_by(own.position).limit(MOST))
        # An outbox where nothing waits is not written to.
        if not rows:
            return _Found()
        if not self._leads(transaction, now):
            return _Found(leader=self._leader_in(transaction))
        late = [row[0] for row in rows if row[4] is not None and row[4] <= now]
        if late:
            _bury(late, "it expired before it was sent", transaction)
        return _Found(_fitting([row for row in rows if row[0] not in late]), bool(late))

    def _leads(self, transaction: Transaction, now: float) -> bool:
        """Whether this process sends to the destination, for `LEASE` seconds from now."""
        own = states.c
        values = {"value": self._owner, "until": now + LEASE}
        mine = (own.name == self._lead) & ((own.value == self._owner) | (own.until <= now))
        if not transaction.change(update(states).where(mine).values(values)):
            transaction.insert_new(states, [{"name": self._lead, **values}])
            holder = self._leader_in(transaction)
            if holder is None or holder[0] != self._owner:
                return False
        self._has_led = True
        return True

    def _leader_in(self, transaction: Transaction) -> tuple[str, float] | None:
        """Who sends to the destination, and until when."""
        own = states.c
        rows = transaction.rows(select(own.value, own.until).where(own.name == self._lead))
        return (str(rows[0][0]), float(rows[0][1])) if rows else None

    def _give_up_lead(self, transaction: Transaction) -> None:
        """Let another process send at once, such as the next run of the same program."""
        own = states.c
        mine = (own.name == self._lead) & (own.value == self._owner)
        transaction.change(update(states).where(mine).values(until=0.0))

    async def _send(self, batch: Sequence[_Row]) -> bool:
        """Post a batch once; pause where it is not taken.

        Returns:
            Whether some of it was taken, or will never be: then there may be more.
        """
        status = await self._post(batch)
        if status in REFUSED:
            return await self._send_each(batch)
        if status is None or status >= 300:
            await self._failed(batch[0])
            return False
        self._taken(batch)
        return True

    async def _send_each(self, batch: Sequence[_Row]) -> bool:
        """Post messages one by one: at least one of them is refused for good, and is dead."""
        taken: list[_Row] = []
        are_some_dead = False
        for row in batch:
            status = await self._post([row])
            if status is not None and status < 300:
                taken.append(row)
            elif status in REFUSED:
                are_some_dead = True
                log.error("message %s is dead: %s", row[0], self._why)
                await self._database.run(partial(_bury, [row[0]], self._why))
            else:
                await self._failed(row)
                break
        self._taken(taken)
        return bool(taken) or are_some_dead

    def _taken(self, rows: Sequence[_Row]) -> None:
        """Have messages removed that were taken."""
        self._sent = [row[0] for row in rows]
        if rows and self._failures:
            log.info("messages go to %s again", shown(self._to.url))
            self._failures = 0

    async def _failed(self, first: _Row) -> None:
        if not self._failures:
            log.warning("messages to %s wait: %s", shown(self._to.url), self._why)
        self._failures += 1
        own = outbox.c
        note = update(outbox).where(own.position == first[0])
        note = note.values(attempts=own.attempts + 1, error=self._why)
        await self._database.run(lambda transaction: transaction.change(note))
        await self._runner.pause(PAUSES.seconds(self._failures))

    async def _post(self, batch: Sequence[_Row]) -> int | None:
        """Post a batch; the status, or None."""
        events = [
            write_data(self._source + attributes[1:], bytes(body), content_type)
            for _, attributes, body, content_type, _ in batch
        ]
        body = b"[" + b",".join(events) + b"]"
        headers = {"Content-Type": BATCH}
        if self._secret is not None:
            headers.update(signature(self._secret, uuid.uuid4().hex, int(time.time()), body))
        try:
            answer = await self._caller.call("POST", self._to.url, body=body, headers=headers)
        except GatewayError as error:
            self._why = str(error)
            return None
        if answer.status >= 300:
            said = answer.body[:500].decode(errors="replace")
            self._why = f"{shown(self._to.url)} answered {answer.words}: {said}"
        return answer.status


def _bury(positions: Sequence[int], reason: str, transaction: Transaction) -> None:
    dead = update(outbox).where(outbox.c.position.in_(positions))
    transaction.change(dead.values(state=DEAD, error=reason, attempts=outbox.c.attempts + 1))


def _fitting(rows: list[_Row]) -> list[_Row]:
    """The first of *rows* that fit into one batch; at least one."""
    size = 0
    for at, row in enumerate(rows):
        size += len(row[1]) + len(row[2])
        if at and size > MOST_BYTES:
            return rows[:at]
    return rows


def _line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
