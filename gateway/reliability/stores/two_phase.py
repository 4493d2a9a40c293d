"""The store that commits together with other databases: two-phase commit, presumed abort.

1. Each participant prepares: it promises that it can commit, whatever happens.
2. A last resource, which cannot prepare, commits.
3. The store commits its own changes, and in the same transaction the decision: one row of its log,
   flushed. From here on the whole is committed.
4. Each participant commits. The row may go when all have.

After a crash, what a participant has prepared is looked up in the log: where the row is, it is
committed, else undone. Whoever undoes writes that to the log first: a transaction that is still
alive, and meets such a row at step 3, is undone as a whole. So recovery may run at any time, in
any process that has the log.
"""

import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, bindparam, delete, insert, or_, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gateway.reliability.storage import (
    Conflict,
    IncomingSequences,
    InDoubt,
    InvokerBuffers,
    OutgoingSequences,
    StorageUnavailable,
)
from gateway.reliability.stores.database import DatabaseStore, DatabaseTransaction
from gateway.reliability.stores.engines import changed_nothing, first_line, translated
from gateway.reliability.stores.participants import Branch, CannotPrepare, ConnectionManager
from gateway.reliability.stores.queries import DatabaseLook
from gateway.reliability.stores.tables import decisions, schema

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

PATIENCE = 5.0
"""Seconds that recovery leaves to the process that prepared it; from preparing to the decision it
takes milliseconds."""
KEPT = 86_400.0
"""Seconds for which the log keeps what was undone: no transaction that may still meet the row lives
as long."""
FORGET = 32
"""Rows of the log that are removed together, in the transaction of another message."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,30}")
_COMMIT, _ROLLBACK = "commit", "rollback"

_ROWS = 10_000
"""Rows of the log that one recovery looks at."""
_REMOVE = delete(decisions).where(decisions.c.gtrid == bindparam("own"))

Step = Callable[[str], None]


class TwoPhaseStore:
    """Sequences in a database, with other databases that take part.

    Args:
        database: As of `DatabaseStore`; it holds the log of decisions, too. Itself it commits in
            one phase, so it may be SQLite, or PostgreSQL without prepared transactions.
        participants: All databases that may take part, those of transactions before a restart
            included: only the ones named here are recovered.
        node: The beginning of the names of transactions here; a node leaves those of others alone.
            None: a name that the database has, so that all nodes that share it recover for one
            another.
        step: Is called with the name of each step, before or after it; tests end the process there.

    Raises:
        CannotPrepare: A participant is not set up for it.
        StorageUnavailable: The database cannot be opened.
        ValueError: A name does not fit, two participants have the same, or two cannot prepare.
    """

    def __init__(
        self,
        database: Engine | str,
        participants: Collection[ConnectionManager],
        *,
        node: str | None = None,
        create: bool = True,
        step: Step | None = None,
    ) -> None:
        self._participants = {one.name: one for one in participants}
        _check_names([*(one.name for one in participants), *([node] if node else [])])
        if len(self._participants) < len(participants):
            raise ValueError("two participants have the same name")
        if sum(not one.prepares for one in participants) > 1:
            raise ValueError("one participant at most may be a last resource")
        self._store = DatabaseStore(database, create=create)
        self._step = step or (lambda what: None)
        self._live: set[str] = set()
        self._done: list[str] = []
        self._lock = threading.Lock()
        self.unreachable: tuple[str, ...] = ()
        """The participants that the last recovery did not reach."""
        try:
            self.node = node or self._own_name()
            for one in participants:
                with _outage_suppressed():
                    one.check()
        except BaseException:
            self.close()
            raise
        with suppress(StorageUnavailable):
            self.recover(0.0)

    @property
    def engine(self) -> Engine:
        """The engine of the store's own database."""
        return self._store.engine

    @property
    def commits(self) -> int:
        """How many transactions this store committed."""
        return self._store.commits

    @contextmanager
    def transaction(self) -> "Iterator[TwoPhaseTransaction]":
        """Begin a transaction: see `gateway.reliability.storage.StorageManager`."""
        with self._store.begun() as own:
            transaction = TwoPhaseTransaction(self, own)
            try:
                yield transaction
                transaction._commit()
            except Exception as error:
                # Of an application's driver; SQLAlchemy's are known to the store.
                if getattr(error, "sqlstate", None) in ("40001", "40P01"):
                    raise Conflict(first_line(error)) from error
                lost = transaction._lost()
                if lost and not isinstance(error, StorageUnavailable):
                    raise StorageUnavailable(f"{lost}: {first_line(error)}") from error
                raise
            finally:
                transaction._end()
            self._store.commits += 1

    @contextmanager
    def look(self) -> Iterator[DatabaseLook]:
        """Look at due work."""
        with self._store.look() as look:
            yield look

    def recover(self, patience: float = PATIENCE) -> int:
        """End what a crash left prepared, wherever participants can be reached.

        Args:
            patience: Seconds that something may be prepared before it counts as left. What another
                process is about to commit may be undone where they are few; never a part of it.

        Returns:
            How many transactions it ended.

        Raises:
            StorageUnavailable: The log cannot be read.
        """
        decided = (
            self._decided()
        )  # First: a transaction in it is prepared, so that it is seen below.
        ended: set[str] = set()
        prepared: set[str] = set()
        unreachable: list[str] = []
        for participant in self._participants.values():
            try:
                found = [one for one in participant.recover() if self._is_own(one.gtrid)]
                prepared |= {one.gtrid for one in found}
                for one in found:
                    if self._is_alive(one.gtrid) or (one.age is not None and one.age < patience):
                        continue
                    if self._decision(one.gtrid) == _COMMIT:
                        participant.commit(one.gtrid)
                    else:
                        participant.rollback(one.gtrid)
                    ended.add(one.gtrid)
            except StorageUnavailable:
                unreachable.append(participant.name)
        self.unreachable = tuple(unreachable)
        reached = {*self._participants} - {*unreachable}
        self._remove(
            gtrid
            for gtrid, names in decided.items()
            if names <= reached and gtrid not in prepared and not self._is_alive(gtrid)
        )
        return len(ended)

    def oldest_prepared(self) -> float:
        """The age in seconds of the oldest transaction of this node that is prepared somewhere; 0
        where there is none. A participant that cannot be reached is left out."""
        ages = [0.0]
        for participant in self._participants.values():
            with _outage_suppressed():
                ages += [one.age or 0.0 for one in participant.recover() if self._is_own(one.gtrid)]
        return max(ages)

    def close(self) -> None:
        """Close the connections, but for those of engines that were given."""
        with suppress(StorageUnavailable):
            self._remove(self._take_done(1))
        for participant in self._participants.values():
            participant.close()
        self._store.close()

    # -------------------------------------------------------------------------------- recovery

    def _is_alive(self, gtrid: str) -> bool:
        with self._lock:
            return gtrid in self._live

    def _decision(self, gtrid: str) -> str:
        """Read the decision about a transaction; if there is none yet, decide now to undo it."""
        known = select(decisions.c.decision).where(decisions.c.gtrid == gtrid)
        for _ in range(2):
            with suppress(Conflict), self._store.begun() as own:
                found = own.execute(known).scalar()
                if found is not None:
                    return str(found)
                own.execute(insert(decisions), _row(gtrid, _ROLLBACK, ()))
                own.commit()
                return _ROLLBACK
        raise StorageUnavailable("the log of decisions cannot be read")

    def _decided(self) -> dict[str, set[str]]:
        """The decisions of this node that may leave the log if no participant has them prepared,
        with the names of their participants."""
        columns = decisions.c
        old = columns.decided_at < time.time() - KEPT
        rows = (
            select(columns.gtrid, columns.participants)
            # The same as `_is_own`: keys are compared by code points, and ";" follows ":".
            .where(columns.gtrid >= f"{self.node}:", columns.gtrid < f"{self.node};")
            .where(or_(columns.decision == _COMMIT, old))
            .order_by(columns.decided_at, columns.gtrid)
            .limit(_ROWS)
        )
        with self._store.begun() as own:
            found: Sequence[Any] = own.execute(rows).all()
        return {gtrid: set(json.loads(names)) for gtrid, names in found}

    def _remove(self, gtrids: Iterable[str]) -> None:
        gone = [{"own": gtrid} for gtrid in gtrids]
        if gone:
            with self._store.begun() as own:
                for one in gone:
                    own.execute(_REMOVE, one)
                own.commit()

    def _is_own(self, gtrid: str) -> bool:
        return gtrid.startswith(f"{self.node}:")

    def _take_done(self, least: int) -> list[str]:
        """Take the transactions that all participants have committed, if there are at least so
        many. The caller removes them from the log; if that fails, recovery does."""
        with self._lock:
            if len(self._done) < least:
                return []
            done, self._done = self._done, []
            return done

    def _own_name(self) -> str:
        try:
            with self.engine.connect() as connection:
                return str(connection.execute(select(schema.c.node)).scalar_one())
        except SQLAlchemyError as error:
            raise translated(error) from error


class TwoPhaseTransaction:
    """One transaction. Participants take part from `enlist` on.

    Attributes:
        connection: Of the store's own database.
    """

    def __init__(self, store: TwoPhaseStore, own: DatabaseTransaction) -> None:
        self._store = store
        self._own = own
        self._gtrid: str | None = None
        self._branches: dict[str, Branch] = {}
        self.connection: Any = own.connection
        self.incoming: IncomingSequences = own.incoming
        self.invoker: InvokerBuffers = own.invoker
        self.outgoing: OutgoingSequences = own.outgoing

    def enlist(self, participant: Any) -> Any:
        """Let a participant take part.

        Args:
            participant: One of the store's participants, or its name.

        Returns:
            Its connection, whose changes are committed together with the messages.

        Raises:
            StorageUnavailable: It cannot be reached.
        """
        self._own.check_open()
        name = participant if isinstance(participant, str) else participant.name
        manager = self._store._participants.get(name)
        if manager is None or participant not in (name, manager):
            raise ValueError(f"the store was not made with the participant {name!r}")
        if name not in self._branches:
            if self._gtrid is None:
                self._gtrid = f"{self._store.node}:{secrets.token_hex(12)}"
            self._branches[name] = manager.begin(self._gtrid)
        return self._branches[name].connection

    def session(self, participant: Any = None, **options: Any) -> "Session":
        """A session on the store's own connection, or on that of a *participant* by SQLAlchemy; as
        of `DatabaseTransaction.session`."""
        if participant is not None:
            options["bind"] = self.enlist(participant)
        return self._own.session(**options)

    def _lost(self) -> str | None:
        """The name of a participant whose connection broke."""
        return next((name for name, branch in self._branches.items() if branch.lost()), None)

    def _commit(self) -> None:
        gtrid = self._gtrid
        if gtrid is None:
            self._own.commit()
            return
        store = self._store
        with store._lock:
            store._live.add(gtrid)
        try:
            self._finish(gtrid, self._decide(gtrid))
        finally:
            with store._lock:
                store._live.discard(gtrid)

    def _decide(self, gtrid: str) -> dict[str, Branch]:
        """Let all prepare, and commit the decision; those who have to commit now come back."""
        step, participants = self._store._step, self._store._participants
        self._own.flush()
        last = None
        for name, branch in self._branches.items():
            if participants[name].prepares:
                step(f"prepare {name}")
                branch.prepare()
            else:
                last = name
        step("prepared")
        names = [name for name in self._branches if participants[name].prepares]
        self._own.execute(insert(decisions), _row(gtrid, _COMMIT, names))
        for done in self._store._take_done(FORGET):
            self._own.execute(_REMOVE, {"own": done})
        if last is not None:
            _commit_last(last, self._branches.pop(last))
            step(f"committed {last}")
        # From here on only a reader of the log may undo anything.
        decided, self._branches = self._branches, {}
        try:
            self._own.commit()
        except InDoubt:
            _leave(decided)
            raise
        except (StorageUnavailable, DBAPIError) as error:  # Nothing was changed.
            self._branches = decided
            if last is None:
                raise
            raise InDoubt(f"only {last} was committed: {error}") from error
        except BaseException:
            _leave(decided)
            raise
        return decided

    def _finish(self, gtrid: str, decided: dict[str, Branch]) -> None:
        """Let all commit. What cannot is left to recovery."""
        step, store = self._store._step, self._store
        all_have = True
        try:
            step("decided")
            for name in list(decided):
                try:
                    decided.pop(name).commit()
                except StorageUnavailable:
                    all_have = False
                step(f"committed {name}")
        finally:
            _leave(decided)
        if all_have:
            with store._lock:
                store._done.append(gtrid)

    def _end(self) -> None:
        """Undo the parts that are not committed."""
        for branch in self._branches.values():
            try:
                branch.rollback()
            except StorageUnavailable:
                branch.close()
        self._branches.clear()
        self._own.end()


def _commit_last(name: str, branch: Branch) -> None:
    """Commit a last resource.

    Raises:
        InDoubt: Nobody knows whether it was committed; nothing else is.
        StorageUnavailable: Nothing was changed.
    """
    try:
        branch.commit()
    except StorageUnavailable as error:
        if isinstance(error, Conflict) or _changed_nothing(error.__cause__):
            raise
        raise InDoubt(f"nobody knows whether {name} was committed: {error}") from error


def _changed_nothing(cause: BaseException | None) -> bool:
    return changed_nothing(getattr(cause, "orig", None) or cause)


def _leave(branches: dict[str, Branch]) -> None:
    """Leave prepared parts as they are: recovery will know."""
    for branch in branches.values():
        branch.close()


@contextmanager
def _outage_suppressed() -> Iterator[None]:
    """Go on where a participant does not answer; not where it says that it cannot prepare."""
    try:
        yield
    except CannotPrepare:
        raise
    except StorageUnavailable:
        pass


def _row(gtrid: str, decision: str, participants: Sequence[str]) -> dict[str, Any]:
    return {
        "gtrid": gtrid,
        "decision": decision,
        "participants": json.dumps(list(participants)),
        "decided_at": time.time(),
    }


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name[:60]!r} is no name of a participant or node: "
                "letters, digits, '.', '_' and '-', at most 30"
            )
