"""Workers of an inbox: each gives messages of one lane after the other to functions."""

import asyncio
import inspect
import logging
from functools import partial
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from gateway.client.application_calls import FUNCTION, Calls
from gateway.client.outbox.backoff import Backoff
from gateway.client.outbox.databases import AsyncEngineDatabase, has_undone_all, run_in
from gateway.client.outbox.delivery import MOST, Arrived, Outcomes, claim
from gateway.client.outbox.functions import Function, Functions, Taker
from gateway.client.outbox.message import Fault, Message
from gateway.client.outbox.replies import Replies
from gateway.client.outbox.runner import Runner
from gateway.client.outbox.tracing import traced
from gateway.client.outbox.work import ConnectionWork, Work
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
        self, runner: Runner, database: Any, functions: Functions, replies: Replies, calls: Calls
    ) -> None:
        self._runner = runner
        self._database = database
        self._functions = functions
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
        return run_in(self._database.begin, lambda work: self._deliver_in(work, most))

    def _deliver_in(self, work: Work, most: int) -> int:
        self._claimed = claim(work, list(self._functions), most)
        outcomes = Outcomes()
        for row in self._claimed:
            if not outcomes.may_take(row):
                continue
            taker = self._functions[row.topic]
            try:
                with self._database.part(work) as (session, connection):
                    message = Message(row, session=session, connection=connection, work=work)
                    with traced(f"process {row.topic}", message.attributes):
                        function = self._function(taker, message, work)
                        returned = self._calls.call(function, message)
                    self._replies.send(message, returned, work)
                outcomes.done(row)
            except Exception as error:
                if has_undone_all(error):
                    raise
                self._failed(work, row, taker, error, outcomes)
        outcomes.write(work)
        return outcomes.count

    async def _deliver_async(self, database: AsyncEngineDatabase, most: int) -> int:
        topics = list(self._functions)
        async with database.begin() as connection:
            self._claimed = await connection.run_sync(
                lambda each: claim(ConnectionWork(each), topics, most)
            )
            outcomes = Outcomes()
            for row in self._claimed:
                if not outcomes.may_take(row):
                    continue
                taker = self._functions[row.topic]
                try:
                    await self._call_async(database, connection, row, taker)
                    outcomes.done(row)
                except Exception as error:
                    if has_undone_all(error):
                        raise
                    failed = partial(self._failed_on, row, taker, error, outcomes)
                    await connection.run_sync(failed)
            await connection.run_sync(lambda each: outcomes.write(ConnectionWork(each)))
            return outcomes.count

    async def _call_async(
        self, database: AsyncEngineDatabase, connection: Any, row: Arrived, taker: Taker
    ) -> None:
        async with database.part(connection) as session:
            message = Message(row, session=session, connection=connection)
            function = await connection.run_sync(
                lambda each: self._function(taker, message, ConnectionWork(each))
            )
            with traced(f"process {row.topic}", message.attributes):
                returned = function(message)
                if inspect.isawaitable(returned):
                    async with asyncio.timeout(FUNCTION):
                        returned = await returned
            await connection.run_sync(
                lambda each: self._replies.send(message, returned, ConnectionWork(each))
            )

    def _function(self, taker: Taker, message: Message, work: Work) -> Function:
        if self._replies.topic and message.topic == self._replies.topic:
            return self._replies.function_of(message, work)
        return taker.function

    def _failed(
        self, work: Work, row: Arrived, taker: Taker, error: Exception, outcomes: Outcomes
    ) -> None:
        """Note that a function failed, or refused its message; who asked is told."""
        message = Message(row)
        if isinstance(error, (Fault, *taker.faults)):
            self._replies.refuse(message, str(error), work)
            outcomes.done(row)
        elif outcomes.failed(row, taker, error):
            log.error("message %s of %s is a dead letter", row.id, row.topic, exc_info=error)
            self._replies.refuse(message, "The message failed.", work)
        else:
            log.warning("message %s of %s failed: %r", row.id, row.topic, error)

    def _failed_on(
        self,
        row: Arrived,
        taker: Taker,
        error: Exception,
        outcomes: Outcomes,
        connection: Connection,
    ) -> None:
        self._failed(ConnectionWork(connection), row, taker, error, outcomes)

    def _fail(self, row: Arrived, error: Exception, work: Work) -> None:
        outcomes = Outcomes()
        self._failed(work, row, self._functions[row.topic], error, outcomes)
        outcomes.write(work)
