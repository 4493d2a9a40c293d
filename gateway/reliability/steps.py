"""A transaction of the runtime: `Step`, and what it tells people once it is committed."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.reliability.party import Party
from gateway.reliability.storage import Transaction
from gateway.reliability.values import Notice, NoticeKind


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction of one side, and its time.

    Attributes:
        called: The sequences of whose ends a function of the program was told in it.
    """

    party: Party
    tx: Transaction
    now: float
    notices: list[Notice] = field(default_factory=list)
    called: list[str] = field(default_factory=list)

    def tell(
        self, kind: NoticeKind, sequence: str, text: str = "", number: int | None = None
    ) -> None:
        """Tell people, if this is committed."""
        self.notices.append(Notice(kind, sequence, text or kind.value, number))


@contextlib.contextmanager
def begin(party: Party, now: float) -> Iterator[Step]:
    """Begin a transaction; committed where the block ends, rolled back where it raises.

    Raises:
        StorageUnavailable: As `StorageManager.transaction`.
    """
    with party.storage.transaction() as tx:
        step = Step(party, tx, now)
        yield step
    for notice in step.notices:
        party.notify(notice)


def soonest(*times: float | None) -> float | None:
    """The earliest of *times*; None stands for never."""
    known = [time for time in times if time is not None]
    return min(known) if known else None
