"""`Step`: one transaction of one side, and the notices that people get once it is committed."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import field, replace
from types import TracebackType

from gateway.reliability.party import Party
from gateway.reliability.storage import StorageUnavailable, Transaction
from gateway.reliability.values import Notice, NoticeKind
from mediation.model.values import checked_dataclass


class NotShared(Exception):
    """A piece of work has to have a transaction of its own."""


@checked_dataclass(frozen=True, slots=True)
class Step:
    """One transaction of one side, and its time.

    Attributes:
        called: The sequences of whose ends a function of the program was told in it.
        shared: Several pieces of work have it: functions of the program are not for it.
        failures: The exceptions that ended some of them.
    """

    party: Party
    tx: Transaction
    now: float
    notices: list[Notice] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    shared: bool = False
    failures: list[type[BaseException]] = field(default_factory=list)

    def call(self, sequence: str) -> None:
        """Note that a function of the program is told of the end of *sequence*.

        Raises:
            NotShared: The transaction is that of others, too.
        """
        if self.shared:
            raise NotShared
        self.called.append(sequence)

    def tell(
        self, kind: NoticeKind, sequence: str, text: str = "", number: int | None = None
    ) -> None:
        """Tell people, if this is committed."""
        self.notices.append(Notice(kind, sequence, text or kind.value, number))


_shared = threading.local()


class begin:
    """Begin a transaction; committed where the block ends, rolled back where it raises. Where this
    thread is within `sharing`, it is a part of that one.

    Raises:
        StorageUnavailable: As `StorageManager.transaction`.
    """

    # A generator would take twice as long, for each message several times.
    __slots__ = ("_now", "_party", "_shared", "_step", "_transaction")

    def __init__(self, party: Party, now: float) -> None:
        self._party = party
        self._now = now
        shared: Step | None = getattr(_shared, "step", None)
        self._shared = shared if shared is not None and shared.party is party else None

    def __enter__(self) -> Step:
        shared = self._shared
        if shared is not None:
            return shared if shared.now == self._now else replace(shared, now=self._now)
        self._transaction = self._party.storage.transaction()
        self._step = Step(self._party, self._transaction.__enter__(), self._now)
        return self._step

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shared is not None:
            if kind is not None:
                self._shared.failures.append(kind)
            return
        self._transaction.__exit__(kind, error, traceback)
        if error is None:
            for notice in self._step.notices:
                self._party.notify(notice)


@contextlib.contextmanager
def begin_with_callback(party: Party, now: float) -> Iterator[Step]:
    """Begin a transaction as `begin`, to take a message that may end a sequence. Where a function
    of the program is told of that end, and raises, the message counts as lost: nothing of it is
    committed, and the sequence asks for it again, later.

    Raises:
        StorageUnavailable: As `StorageManager.transaction`.
    """
    called: list[str] = []
    try:
        with begin(party, now) as step:
            called = step.called
            yield step
    except StorageUnavailable:
        raise
    except Exception as error:
        if not called:
            raise
        postpone_callback(party, called[-1], now, error)


def postpone_callback(party: Party, key: str, now: float, error: Exception) -> None:
    """Tell the program later of an end that it could not be told of now."""
    with begin(party, now) as step:
        sequence = step.tx.outgoing.find(key)
        if sequence is not None:
            pause = party.policy.retry_after(max(sequence.tries, 1), party.random())
            step.tx.outgoing.put(replace(sequence, due_at=now + pause))
            step.tell(
                NoticeKind.FAILED, sequence.identifier or key, f"{type(error).__name__}: {error}"
            )


class sharing:
    """Let transactions that this thread begins be parts of that of *step*. Where one of them fails,
    all have to be rolled back: see `Step.failures`."""

    __slots__ = ("_step",)

    def __init__(self, step: Step) -> None:
        self._step = step if step.shared else replace(step, shared=True)

    def __enter__(self) -> None:
        _shared.step = self._step

    def __exit__(self, *raised: object) -> None:
        _shared.step = None


def due_now(due_at: float | None, now: float) -> float:
    """Return when an object that is due *now* and was due at *due_at* is due. An earlier time
    stays, since a new one is a change of the store's index of due times."""
    return due_at if due_at is not None and due_at <= now else now


def soonest(*times: float | None) -> float | None:
    """The earliest of *times*; None stands for never."""
    known = [time for time in times if time is not None]
    return min(known) if known else None
