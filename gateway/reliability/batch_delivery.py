"""Give the messages of many sequences to applications in one transaction."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, cast

from gateway.reliability.invoker import Invoker
from gateway.reliability.party import Party
from gateway.reliability.shared_transactions import result_or_error, take_all
from gateway.reliability.steps import Step, begin
from gateway.reliability.storage import (
    Conflict,
    InDoubt,
    OutOfOrder,
    StorageUnavailable,
    in_key_order,
)


def deliver_some(
    party: Party,
    waiting: deque[str],
    now: float,
    *,
    limit: int = 64,
    at_once: int = 1,
    goes_on: Callable[[], bool] = lambda: True,
    looked_at: dict[str, Exception | None] | None = None,
) -> dict[str, Exception | None]:
    """Deliver waiting messages of several sequences to applications in one transaction, with a
    savepoint for each message. A store without savepoints delivers those of one sequence, in a
    transaction for each message.

    Args:
        waiting: The sequences; those that are looked at are taken out of it.
        limit: The most messages.
        at_once: The number of sequences that are locked and read at once. All wait for one function
            that takes long.
        goes_on: Returns whether there is time for one more: deliveries wait for their commit.
        looked_at: Gets what is returned, for who has to know the sequences also where this raises:
            what is no `Exception` ends it wherever it is.

    Returns:
        The sequences that were looked at, with what kept their messages from being delivered.
    """
    found = {} if looked_at is None else looked_at
    if not getattr(party.storage, "has_savepoints", False):
        identifier = _next_of(waiting)
        if identifier is not None:
            found[identifier] = None
        return _deliver_each_alone(party, found, now)
    batch = _Batch(party, now, waiting, limit, at_once, goes_on, found)
    try:
        with begin(party, now) as step:
            batch.deliver(step)
    except (Conflict, InDoubt):
        return _deliver_each_alone(party, found, now)
    except StorageUnavailable as error:
        found.update(dict.fromkeys(found, error.with_traceback(None)))
        return found
    except Exception:  # Of the commit: a constraint of an application, say.
        return _deliver_each_alone(party, found, now)
    if batch.failed is not None:
        (identifier, invoker, failure), batch.failed = batch.failed, None
        if isinstance(failure, Conflict):
            found[identifier] = _deliver_alone(party, identifier, now)
        else:
            taken = result_or_error(party, partial(invoker.take_failure, failure))
            found[identifier] = taken if isinstance(taken, Exception) else None
    return found


@dataclass(slots=True)
class _Batch:
    """The deliveries of one transaction."""

    party: Party
    now: float
    waiting: deque[str]
    limit: int
    at_once: int
    goes_on: Callable[[], bool]
    looked_at: dict[str, Exception | None]
    failed: tuple[str, Invoker, Exception] | None = None
    """The sequence and the invoker whose message ended it, and why."""

    def deliver(self, step: Step) -> None:
        in_order = True
        while in_order and self._may_go_on():
            some = list(islice(iter(partial(_next_of, self.waiting), None), self.at_once))
            if not some:
                break
            try:
                some = self._locked(step, some)
                while some and in_order:
                    in_order = self._deliver_from(step, some[0])
                    if in_order:
                        del some[0]
            except OutOfOrder:
                in_order = False
            except BaseException:
                self.looked_at.update(dict.fromkeys(some))
                raise
            self.waiting.extendleft(reversed(some))  # They go first in another transaction.

    def _may_go_on(self) -> bool:
        return self.limit > 0 and self.failed is None and self.goes_on()

    def _locked(self, step: Step, some: list[str]) -> list[str]:
        """Lock several sequences, and read their next messages. Those that another transaction has
        are left alone until the next look."""
        if len(some) == 1:
            return some
        buffers: Any = step.tx.invoker
        taken = take_all(buffers, some)
        self.looked_at.update((each, None) for each in some if each not in taken)
        ordered = in_key_order(taken)
        read_ahead = getattr(buffers, "read_ahead", None)
        if read_ahead is not None and len(ordered) > 1:
            read_ahead(ordered)
        return ordered

    def _deliver_from(self, step: Step, identifier: str) -> bool:
        """Deliver the messages of one sequence; False: it goes first in another transaction."""
        if not self._may_go_on():
            return False
        self.looked_at[identifier] = None
        invoker = Invoker(self.party, identifier, self.now)
        try:
            failure = self._deliver_all(step, invoker)
        except OutOfOrder:
            del self.looked_at[identifier]
            return False
        if failure is not None:
            self.failed = identifier, invoker, failure
        return True

    def _deliver_all(self, step: Step, invoker: Invoker) -> Exception | None:
        """Deliver the messages of one sequence as long as there is time; return the exception that
        ended it, if one did."""
        savepoint = cast(Any, step.tx).savepoint
        try:
            while True:
                with savepoint():
                    left = invoker.deliver_in(step)
                self.limit -= 1
                if not left or not self._may_go_on():
                    return None
        except OutOfOrder:
            raise
        except Exception as error:
            return error


def _next_of(waiting: deque[str]) -> str | None:
    try:
        return waiting.popleft()
    except IndexError:  # Other threads take from it, too.
        return None


def _deliver_each_alone(
    party: Party, looked_at: dict[str, Exception | None], now: float
) -> dict[str, Exception | None]:
    """Deliver the messages of all sequences in *looked_at*, and note there what ended it."""
    for each in looked_at:
        looked_at[each] = _deliver_alone(party, each, now)
    return looked_at


def _deliver_alone(party: Party, identifier: str, now: float) -> Exception | None:
    """Deliver the messages of one sequence in a transaction each; return the exception that ended
    it, if one did."""
    found = result_or_error(party, Invoker(party, identifier, now).deliver)
    return found if isinstance(found, Exception) else None
