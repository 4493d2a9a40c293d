"""Several pieces of work in one transaction, which share its commit (group commit)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from gateway.reliability.party import Party
from gateway.reliability.steps import begin, sharing
from gateway.reliability.storage import (
    Conflict,
    StorageUnavailable,
    Transaction,
    in_key_order,
)

T = TypeVar("T")

ATTEMPTS = 5
"""How often something runs that comes in the way of other transactions."""
ROUNDS = 3
"""How often others share a transaction, without those that failed in one."""
MISSES = 3
"""After how many answers of a store that it is not available others are not tried."""


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A piece of work, which begins its transactions by `steps.begin`. It may run twice.

    Attributes:
        incoming, invoker, outgoing: The keys of all that it looks at and that is there.
        alone: What runs instead where it has a transaction of its own.
    """

    work: Callable[[], T]
    incoming: tuple[str, ...] = ()
    invoker: tuple[str, ...] = ()
    outgoing: tuple[str, ...] = ()
    alone: Callable[[], T] | None = None


class _Broken(Exception):
    """One of several pieces of work failed, and with it the transaction of all."""


def together(party: Party, now: float, parts: Sequence[Part[T]]) -> list[T | Exception]:
    """Run *parts* in one transaction, one after the other; those by themselves that need something
    which another transaction has, or which is not there. Where the transaction fails, each runs by
    itself, so that none spoils it for another.

    Returns:
        What came of each, or the exception that it raised.
    """
    done: dict[int, T | Exception] = {}
    missed: list[StorageUnavailable] = []
    shared = list(range(len(parts)))
    for _ in range(ROUNDS):
        if len(shared) < 2:
            break
        try:
            with begin(party, now) as step:
                ready, inner = _ready(step.tx, parts, shared), replace(step, shared=True)
                for at in ready:
                    with sharing(inner):
                        done[at] = _result(parts[at].work)
                    if step.failures:
                        shared.remove(at)
                        raise _Broken
            break
        except _Broken:
            done.clear()
        except StorageUnavailable as error:
            done.clear()
            if not isinstance(error, Conflict):
                missed.append(error)
            break
    for at, part in enumerate(parts):
        if at in done:
            continue
        if len(missed) >= MISSES:  # It is away, and to wait for it takes long.
            done[at] = missed[-1]
            continue
        done[at] = found = outcome(party, part.alone or part.work)
        if isinstance(found, StorageUnavailable) and not isinstance(found, Conflict):
            missed.append(found)
    return [done[at] for at in range(len(parts))]


def outcome(party: Party, work: Callable[[], T]) -> T | Exception:
    """What *work* returns, or the exception that it raises; it is run again where another
    transaction was in its way."""
    for attempt in range(1, ATTEMPTS):
        try:
            return work()
        except Conflict:
            party.pause(0.01 * 2**attempt)
        except Exception as error:
            return error
    return _result(work)


def _result(work: Callable[[], T]) -> T | Exception:
    try:
        return work()
    except Exception as error:
        return error


def _ready(tx: Transaction, parts: Sequence[Part[T]], places: Sequence[int]) -> list[int]:
    """Lock what the parts at *places* look at, in the lock order; those that have all of it."""
    some = [parts[at] for at in places]
    incoming = take_all(tx.incoming, (key for part in some for key in part.incoming))
    invoker = take_all(tx.invoker, (key for part in some for key in part.invoker))
    outgoing = take_all(tx.outgoing, (key for part in some for key in part.outgoing))
    return [
        at
        for at in places
        if incoming.issuperset(parts[at].incoming)
        and invoker.issuperset(parts[at].invoker)
        and outgoing.issuperset(parts[at].outgoing)
    ]


def take_all(manager: Any, keys: Iterable[str]) -> frozenset[str]:
    """Lock those of *keys* that are there and that no other transaction has."""
    ordered = in_key_order(keys)
    at_once = getattr(manager, "take_all", None)
    if at_once is not None and len(ordered) > 1:
        return frozenset(at_once(ordered))
    return frozenset(key for key in ordered if manager.take(key) is not None)
