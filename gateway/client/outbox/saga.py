"""Sagas: steps that are transactions of their own, each with a compensation that undoes it when a
later one fails (H. Garcia-Molina, K. Salem, "Sagas", SIGMOD 1987).

A row says which step is next. It changes in the transaction of each step, so a process may be
killed anywhere: what was committed is not done again, and what was not is.
"""

import asyncio
import inspect
import json
import logging
import time
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from sqlalchemy import select, update

from gateway.client.application_calls import FUNCTION, contained
from gateway.client.outbox.backoff import Backoff
from gateway.client.outbox.databases import (
    AnyDatabase,
    AsyncEngineDatabase,
    database_of,
    has_undone_all,
    run_in,
)
from gateway.client.outbox.message import Fault
from gateway.client.outbox.payloads import json_text
from gateway.client.outbox.records import check_name
from gateway.client.outbox.runner import Runner
from gateway.client.outbox.tables import (
    COMPENSATED,
    COMPENSATING,
    DONE,
    RUNNING,
    WAITING,
    digest,
    sagas,
)
from gateway.client.outbox.transaction_enlistment import store_in
from gateway.client.outbox.transactions import ConnectionTransaction, Transaction

log = logging.getLogger("dragoman.outbox")

POLL = 0.5
"""Seconds between two looks for sagas that other processes started, or that become due."""
WORKERS = 4
PAUSES = Backoff(0.1, 10.0)


class Wait(Enum):
    """What a step returns that has asked another program, and goes on with its reply."""

    FOR_REPLY = "for a reply"


@dataclass(slots=True)
class SagaRun:
    """A saga that runs, as its steps and compensations get it.

    Attributes:
        id: That of the saga.
        data: What it was started with. A step may change it: it is stored with the step.
        reason: Why it is undone; empty while it is not.
        attempt: Of this step: 1 at first.
        session, connection: As of `Message`: what changes through them is committed with the step.
    """

    id: str
    data: dict[str, Any]
    reason: str
    attempt: int
    session: Any = None
    connection: Any = None


Function = Callable[[SagaRun], Any]


class Step:
    """A step: its function, and what undoes it."""

    def __init__(self, function: Function) -> None:
        self.name = function.__name__
        self.function = function
        self.undo: Function | None = None

    def compensation(self, function: Function) -> Function:
        """Have the function that this decorates undo the step when a later one fails."""
        self.undo = function
        return function


@dataclass(frozen=True, slots=True)
class _Row:
    """A saga in its table."""

    position: int
    id: str
    state: str
    step: str
    data: str
    attempts: int
    error: str | None


class Saga(Runner):
    """A saga: its steps run in their order, each in a transaction; where one fails, the
    compensations of those before it run backwards.

    ::

        trip = Saga(engine, "trip")

        @trip.step
        def book_flight(run):
            run.session.add(Flight(trip=run.id, to=run.data["to"]))

        @book_flight.compensation
        def cancel_flight(run):
            run.session.query(Flight).filter_by(trip=run.id).delete()

        with trip, Session(engine) as session, session.begin():
            trip.begin({"to": "Genoa"}, session)

    A step that raises is tried again *retries* times, and then the saga is undone; one that raises
    `Fault` has it undone at once. Compensations are tried until they succeed. A step that asks
    another program (`Outbox.request`) returns ``Wait.FOR_REPLY``; the function that gets the reply
    calls `resume` or `fail`.

    Args:
        database: As of `Outbox`.
        name: Of this kind of saga; it stays the same from one version of the program to the next,
            as the names of steps do.
        retries, backoff: As of `Inbox.on`.
    """

    def __init__(
        self, database: AnyDatabase, name: str, *, retries: int = 5, backoff: float | Backoff = 1.0
    ) -> None:
        super().__init__(database_of(database))
        check_name("name of a saga", name)
        self._name = name
        self._steps: list[Step] = []
        self._retries = retries
        self._backoff = backoff if isinstance(backoff, Backoff) else Backoff(backoff)
        self._workers = 1 if self._database.is_sqlite else WORKERS

    def step(self, function: Function) -> Step:
        """Have the function that this decorates run after the steps before it.

        Raises:
            ValueError: A step has its name.
        """
        if any(each.name == function.__name__ for each in self._steps):
            raise ValueError(f"the saga has a step {function.__name__!r}")
        self._steps.append(Step(function))
        return self._steps[-1]

    def begin(self, data: Any, session: Any = None, *, id: str | None = None) -> str:
        """Start a saga in a transaction: it runs when that is committed.

        Args:
            data: A dictionary that becomes JSON.
            session: As of `Outbox.publish`.
            id: Makes it idempotent: with an id that was started before nothing is.

        Returns:
            Its id.
        """
        its_id = str(uuid.uuid4()) if id is None else id
        now = time.time()
        row = {
            "digest": digest(self._name, its_id),
            "id": its_id,
            "name": self._name,
            "state": RUNNING,
            "step": self._steps[0].name,
            "data": json_text(dict(data)),
            "created_at": now,
            "due_at": now,
            "attempts": 0,
            "error": None,
        }
        store_in(
            self._database,
            session,
            lambda transaction: transaction.insert_new(sagas, [row]),
            self.wake,
        )
        return its_id

    def resume(self, id: str, session: Any = None, **data: Any) -> None:
        """Go on with a saga that waits for a reply, in a transaction, with more *data*."""
        store_in(self._database, session, partial(self._answered, id, data, ""), self.wake)

    def fail(self, id: str, reason: str, session: Any = None) -> None:
        """Undo a saga that waits for a reply, the step that asked too, in a transaction."""
        store_in(self._database, session, partial(self._answered, id, {}, reason), self.wake)

    def state(self, id: str, session: Any) -> str:
        """The state of a saga, in a transaction: ``running``, ``waiting``, ``done``,
        ``compensating``, ``compensated``; empty where there is none."""
        found = select(sagas.c.state).where(sagas.c.digest == digest(self._name, id))
        return str(session.execute(found).scalar() or "")

    def _answered(
        self, id: str, data: dict[str, Any], reason: str, transaction: Transaction
    ) -> None:
        own = sagas.c
        found = select(own.position, own.step, own.data).where(
            own.digest == digest(self._name, id), own.state == WAITING
        )
        for position, step, text in transaction.rows(found.with_for_update()):
            values = {"data": json_text({**json.loads(text), **data}), "due_at": time.time()}
            ahead = self._after(step)
            if reason:
                values.update(state=COMPENSATING, error=reason)
            else:
                values.update(step=ahead, state=RUNNING if ahead else DONE)
            changed = update(sagas).where(own.position == position)
            transaction.change(changed.values(**values, attempts=0))

    # ------------------------------------------------------------------------- it runs

    async def _begin(self) -> list[Coroutine[Any, Any, None]]:
        return [self._work() for _ in range(self._workers)]

    async def _work(self) -> None:
        failures = 0
        while not self.stopping:
            self.clear()
            try:
                found = await self._run_step()
                failures = 0
                if not found:
                    await self.rest(POLL)
            except Exception as error:
                failures += 1
                log.warning("sagas wait: %s", str(error).partition("\n")[0])
                await self.pause(PAUSES.seconds(failures))

    async def _run_step(self) -> bool:
        """Run one step, or one compensation; whether there was one."""
        claimed: list[_Row] = []
        try:
            if isinstance(self._database, AsyncEngineDatabase):
                await self._run_async(self._database, claimed)
            else:
                run = partial(run_in, self._database.begin, partial(self._run_in, claimed))
                await asyncio.get_running_loop().run_in_executor(None, run)
        except Exception as error:
            if self._database.is_outage(error) or not claimed:
                raise
            await self._database.run(partial(self._failed, claimed[0], error))
        return bool(claimed)

    def _run_in(self, claimed: list[_Row], transaction: Transaction) -> None:
        """Run a step in the caller's transaction; an exception rolls that back."""
        row = self._claim(transaction)
        if row is None:
            return
        claimed.append(row)
        database: Any = self._database
        try:
            with database.part(transaction) as (session, connection):
                run = self._made(row, session, connection)
                function = self._function(row)
                returned = None if function is None else self._calls.call(function, run)
        except Exception as error:
            if has_undone_all(error):
                raise
            self._failed(row, error, transaction)
        else:
            self._finished(row, run.data, returned, transaction)

    async def _run_async(self, database: AsyncEngineDatabase, claimed: list[_Row]) -> None:
        async with database.begin() as connection:
            row = await connection.run_sync(lambda each: self._claim(ConnectionTransaction(each)))
            if row is None:
                return
            claimed.append(row)
            try:
                async with database.part(connection) as session:
                    run = self._made(row, session, connection)
                    function = self._function(row)
                    with contained():
                        returned = None if function is None else function(run)
                        if inspect.isawaitable(returned):
                            async with asyncio.timeout(FUNCTION):
                                returned = await returned
                end = partial(self._finished, row, run.data, returned)
            except Exception as error:
                if has_undone_all(error):
                    raise
                end = partial(self._failed, row, error.with_traceback(None))
            await connection.run_sync(lambda each: end(ConnectionTransaction(each)))

    def _claim(self, transaction: Transaction) -> _Row | None:
        """Lock a saga whose step is due."""
        own = sagas.c
        found = select(
            own.position, own.id, own.state, own.step, own.data, own.attempts, own.error
        ).where(
            own.state.in_((RUNNING, COMPENSATING)),
            own.name == self._name,
            own.due_at <= time.time(),
            own.step.in_([each.name for each in self._steps]),
        )
        found = found.order_by(own.due_at).limit(1).with_for_update(skip_locked=True)
        rows = transaction.rows(found)
        return _Row(*rows[0]) if rows else None

    def _made(self, row: _Row, session: Any, connection: Any) -> SagaRun:
        reason = "" if row.state == RUNNING else row.error or ""
        data = json.loads(row.data)
        return SagaRun(row.id, data, reason, row.attempts + 1, session, connection)

    def _function(self, row: _Row) -> Function | None:
        step = self._steps[self._at(row.step)]
        return step.function if row.state == RUNNING else step.undo

    def _finished(
        self, row: _Row, data: dict[str, Any], returned: Any, transaction: Transaction
    ) -> None:
        """Store that a step, or a compensation, has ended."""
        values: dict[str, Any] = {"data": json_text(data), "attempts": 0, "due_at": time.time()}
        if row.state == COMPENSATING:
            before = self._before(row.step)
            values.update(step=before, state=COMPENSATING if before else COMPENSATED)
        elif returned is Wait.FOR_REPLY:
            values.update(state=WAITING)
        else:
            ahead = self._after(row.step)
            values.update(step=ahead, state=RUNNING if ahead else DONE, error=None)
        transaction.change(update(sagas).where(sagas.c.position == row.position).values(**values))

    def _failed(self, row: _Row, error: Exception, transaction: Transaction) -> None:
        """Store that a step failed: it is tried again, or what was done before it is undone."""
        text = str(error) if isinstance(error, Fault) else f"{type(error).__name__}: {error}"[:4000]
        log.warning("saga %s: %s failed: %s", row.id, row.step, text)
        values: dict[str, Any] = {"attempts": row.attempts + 1}
        values["due_at"] = time.time() + self._backoff.seconds(row.attempts + 1)
        if row.state == RUNNING:
            values["error"] = text
            if isinstance(error, Fault) or row.attempts >= self._retries:
                before = self._before(row.step)
                values.update(attempts=0, due_at=time.time(), step=before)
                values.update(state=COMPENSATING if before else COMPENSATED)
        unchanged = (sagas.c.position == row.position) & (sagas.c.attempts == row.attempts)
        transaction.change(
            update(sagas).where(unchanged, sagas.c.step == row.step).values(**values)
        )

    def _at(self, name: str) -> int:
        return next(at for at, each in enumerate(self._steps) if each.name == name)

    def _after(self, name: str) -> str:
        """The name of the step after one; empty: it is the last."""
        at = self._at(name) + 1
        return self._steps[at].name if at < len(self._steps) else ""

    def _before(self, name: str) -> str:
        """The name of the step before one; empty: it is the first."""
        at = self._at(name)
        return self._steps[at - 1].name if at else ""
