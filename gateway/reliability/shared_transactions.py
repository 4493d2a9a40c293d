"""Run several pieces of work in one transaction (`gateway.group_commit` says for whom)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

from gateway.reliability.party import Party
from gateway.reliability.steps import begin, sharing
from gateway.reliability.storage import (
    Conflict,
    StorageUnavailable,
    Transaction,
    in_key_order,
    retried,
)
from mediation.model.values import checked_dataclass

T = TypeVar("T")

ROUNDS = 3
"""Attempts to share a transaction, each without the parts that failed in the one before."""
MISSES = 3
"""Answers of a store that it is not available, after which no other part is tried."""


@checked_dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A piece of work, which begins its transactions by `steps.begin`. It may run twice.

    Attributes:
        incoming, invoker, outgoing: The keys of all that it looks at and that is there.
        alone: Runs instead of *work* where it has a transaction of its own.
    """

    work: Callable[[], T]
    incoming: tuple[str, ...] = ()
    invoker: tuple[str, ...] = ()
    outgoing: tuple[str, ...] = ()
    alone: Callable[[], T] | None = None


class _Broken(Exception):
    """One piece of work failed, and with it the transaction of all."""


def run_together(
    party: Party,
    now: float,
    parts: Sequence[Part[T]],
    first: Callable[[Transaction, Sequence[int]], None] | None = None,
) -> list[T | Exception]:
    """Run *parts* in one transaction, one after the other; in a second one those that need
    something which another transaction had, for which that one waits; those by themselves that need
    something which is not there. Where a transaction fails, each runs by itself, so that none
    spoils it for another.

    Args:
        first: Is given the places of those parts that run in the transaction, before they do: it
            may read for all of them at once.

    Returns:
        What came of each, or the exception that it raised.
    """
    done: dict[int, T | Exception] = {}
    missed: list[StorageUnavailable] = []
    failed: set[int] = set()
    for waits in (False, True):
        shared = [at for at in range(len(parts)) if at not in done and at not in failed]
        if len(shared) < 2 or missed:
            break
        try:
            did = _shared(party, now, parts, shared, failed, first, waits=waits)
            done.update(did)
        except _Broken:
            break
        except StorageUnavailable as error:
            if not isinstance(error, Conflict):
                missed.append(error.with_traceback(None))
            break
    for at, part in enumerate(parts):
        if at in done:
            continue
        if len(missed) >= MISSES:  # It is away, and to wait for it takes long.
            done[at] = missed[-1]
            continue
        done[at] = found = result_or_error(party, part.alone or part.work)
        if isinstance(found, StorageUnavailable) and not isinstance(found, Conflict):
            missed.append(found)
    return [done[at] for at in range(len(parts))]


def _shared(
    party: Party,
    now: float,
    parts: Sequence[Part[T]],
    places: list[int],
    failed: set[int],
    first: Callable[[Transaction, Sequence[int]], None] | None,
    *,
    waits: bool,
) -> dict[int, T | Exception]:
    """Run those of the parts at *places* that can share a transaction; return the result of each,
    or the exception that it raised.

    Args:
        failed: Gets the places of those that failed in it.

    Raises:
        _Broken: Several times one of them failed.
        StorageUnavailable: They have to run by themselves.
    """
    for _ in range(ROUNDS):
        done: dict[int, T | Exception] = {}
        try:
            with begin(party, now) as step:
                ready, inner = _ready(step.tx, parts, places, waits), replace(step, shared=True)
                if first is not None and len(ready) > 1:
                    first(step.tx, ready)
                for at in ready:
                    with sharing(inner):
                        done[at] = _result_once(parts[at].work)
                    if step.failures:
                        failed.add(at)
                        raise _Broken
            return done
        except _Broken:
            places = [at for at in places if at not in failed]
            if len(places) < 2:
                break
    raise _Broken


def result_or_error(party: Party, work: Callable[[], T]) -> T | Exception:
    """Run *work*, again where another transaction was in its way; return its result, or the
    exception that it raised."""
    return _result_once(partial(retried, work, pause=party.pause))


def _result_once(work: Callable[[], T]) -> T | Exception:
    try:
        return work()
    except Exception as error:
        return error


def _ready(
    tx: Transaction, parts: Sequence[Part[T]], places: Sequence[int], waits: bool
) -> list[int]:
    """Lock the objects that the parts at *places* need, in the lock order; return the places of the
    parts that have all of theirs."""
    some = [parts[at] for at in places]
    lock = find_all if waits else take_all
    incoming = lock(tx.incoming, (key for part in some for key in part.incoming))
    invoker = lock(tx.invoker, (key for part in some for key in part.invoker))
    outgoing = lock(tx.outgoing, (key for part in some for key in part.outgoing))
    return [
        at
        for at in places
        if incoming.issuperset(parts[at].incoming)
        and invoker.issuperset(parts[at].invoker)
        and outgoing.issuperset(parts[at].outgoing)
    ]


def take_all(manager: Any, keys: Iterable[str]) -> frozenset[str]:
    """Lock the objects with these keys that exist and that no other transaction has."""
    ordered = in_key_order(keys)
    at_once = getattr(manager, "take_all", None)
    if at_once is not None and len(ordered) > 1:
        return frozenset(at_once(ordered))
    return frozenset(key for key in ordered if manager.take(key) is not None)


def find_all(manager: Any, keys: Iterable[str]) -> frozenset[str]:
    """Lock the objects with these keys that exist, waiting for other transactions that have them,
    where the store can do that in one go."""
    ordered = in_key_order(keys)
    at_once = getattr(manager, "find_all", None)
    if at_once is None:
        return take_all(manager, ordered)
    return frozenset(at_once(ordered) if ordered else ())
