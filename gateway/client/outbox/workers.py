"""Workers of an inbox: each gives messages of one lane after the other to functions."""

import asyncio
import inspect
import logging
from functools import partial
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from gateway.client.application_calls import FUNCTION, Calls, contained
from gateway.client.outbox.backoff import Backoff
from gateway.client.outbox.databases import AsyncEngineDatabase, has_undone_all, run_in
from gateway.client.outbox.delivery import MOST, Arrived, Outcomes, claim
from gateway.client.outbox.handlers import Function, Handler, Handlers
from gateway.client.outbox.message import Fault, Message
from gateway.client.outbox.replies import Replies
from gateway.client.outbox.runner import Runner
from gateway.client.outbox.tracing import traced
from gateway.client.outbox.transactions import ConnectionTransaction, Transaction
from gateway.reliability.storage import StorageUnavailable

log = logging.getLogger("dragoman.outbox")

POLL = 0.5
"""Seconds between two looks for messages that other processes stored, or that become due."""
PAUSES = Backoff(0.1, 10.0)


class DeliveryWorker:
    """Gives messages to functions until its runner stops.

    Args:
        runner: It works as long as that.
        database: Where the inbox is.
        calls: Calls functions of the program.
    """

    def __init__(
        self, runner: Runner, database: Any, handlers: Handlers, replies: Replies, calls: Calls
    ) -> None:
        self._runner = runner
        self._database = database
        self._handlers = handlers
        self._replies = replies
        self._calls = calls
        self._claimed: list[Arrived] = []
        self._failures = 0
        self._alone = 0
        """How many messages more are delivered each in a transaction of its own."""

    async def run(self) -> None:
        """Deliver until the runner stops."""
        while not self._runner.stopping:
            self._runner.clear()
            try:
                count = await self._deliver(1 if self._alone else MOST)
                self._alone = max(0, self._alone - 1)
                self._failures = 0
                if not count:
                    await self._runner.rest(POLL)
            except Exception as error:
                self._failures += 1
                if isinstance(error, (SQLAlchemyError, StorageUnavailable, OSError)):
                    log.warning("the database of the inbox: %s", str(error).partition("\n")[0])
                else:
                    log.exception("messages could not be delivered")
                await self._runner.pause(PAUSES.seconds(self._failures))

    async def _deliver(self, most: int) -> int:
        """Deliver messages in one transaction; how many. Where its commit fails for one of them,
        each is delivered by itself, and a failure is that message's."""
        self._claimed = []
        try:
            if isinstance(self._database, AsyncEngineDatabase):
                return await self._deliver_async(self._database, most)
            done: int = await self._database.on_thread(lambda: self._deliver_now(most))
            return done
        except Exception as error:
            if self._database.is_outage(error) or not self._claimed:
                raise
            if most > 1:
                self._alone = MOST
                return await self._deliver(1)
            await self._database.run(partial(self._fail, self._claimed[0], error))
            return 1

    def _deliver_now(self, most: int) -> int:
        return run_in(self._database.begin, lambda transaction: self._deliver_in(transaction, most))

    def _deliver_in(self, transaction: Transaction, most: int) -> int:
        self._claimed = claim(transaction, list(self._handlers), most)
        outcomes = Outcomes()
        for row in self._claimed:
            if not outcomes.may_take(row):
                continue
            handler = self._handlers[row.topic]
            try:
                with self._database.part(transaction) as (session, connection):
                    message = Message(
                        row, session=session, connection=connection, transaction=transaction
                    )
                    with traced(f"process {row.topic}", message.attributes):
                        function = self._function(handler, message, transaction)
                        returned = self._calls.call(function, message)
                    self._replies.send(message, returned, transaction)
                outcomes.done(row)
            except Exception as error:
                if has_undone_all(error):
                    raise
                self._failed(transaction, row, handler, error, outcomes)
        outcomes.write(transaction)
        return outcomes.count

    async def _deliver_async(self, database: AsyncEngineDatabase, most: int) -> int:
        topics = list(self._handlers)
        async with database.begin() as connection:
            self._claimed = await connection.run_sync(
                lambda each: claim(ConnectionTransaction(each), topics, most)
            )
            outcomes = Outcomes()
            for row in self._claimed:
                if not outcomes.may_take(row):
                    continue
                handler = self._handlers[row.topic]
                try:
                    await self._call_async(database, connection, row, handler)
                    outcomes.done(row)
                except Exception as error:
                    if has_undone_all(error):
                        raise
                    failed = partial(self._failed_on, row, handler, error, outcomes)
                    await connection.run_sync(failed)
            await connection.run_sync(lambda each: outcomes.write(ConnectionTransaction(each)))
            return outcomes.count

    async def _call_async(
        self, database: AsyncEngineDatabase, connection: Any, row: Arrived, handler: Handler
    ) -> None:
        async with database.part(connection) as session:
            message = Message(row, session=session, connection=connection)
            function = await connection.run_sync(
                lambda each: self._function(handler, message, ConnectionTransaction(each))
            )
            with traced(f"process {row.topic}", message.attributes), contained():
                returned = function(message)
                if inspect.isawaitable(returned):
                    async with asyncio.timeout(FUNCTION):
                        returned = await returned
            await connection.run_sync(
                lambda each: self._replies.send(message, returned, ConnectionTransaction(each))
            )

    def _function(self, handler: Handler, message: Message, transaction: Transaction) -> Function:
        if self._replies.topic and message.topic == self._replies.topic:
            return self._replies.function_of(message, transaction)
        return handler.function

    def _failed(
        self,
        transaction: Transaction,
        row: Arrived,
        handler: Handler,
        error: Exception,
        outcomes: Outcomes,
    ) -> None:
        """Note that a function failed, or refused its message; who asked is told."""
        message = Message(row)
        if isinstance(error, (Fault, *handler.faults)):
            self._replies.refuse(message, str(error), transaction)
            outcomes.done(row)
        elif outcomes.failed(row, handler, error):
            log.error("message %s of %s is a dead letter", row.id, row.topic, exc_info=error)
            self._replies.refuse(message, "The message failed.", transaction)
        else:
            log.warning("message %s of %s failed: %r", row.id, row.topic, error)

    def _failed_on(
        self,
        row: Arrived,
        handler: Handler,
        error: Exception,
        outcomes: Outcomes,
        connection: Connection,
    ) -> None:
        self._failed(ConnectionTransaction(connection), row, handler, error, outcomes)

    def _fail(self, row: Arrived, error: Exception, transaction: Transaction) -> None:
        outcomes = Outcomes()
        self._failed(transaction, row, self._handlers[row.topic], error, outcomes)
        outcomes.write(transaction)
