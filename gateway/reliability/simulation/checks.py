"""The promises of a run, checked while it goes on and at its end."""

from collections import Counter
from collections.abc import Sequence, Set

from gateway.reliability.simulation.disks import Disk, Row
from gateway.reliability.storage import StorageManager
from mediation.reliable_messaging import CreateSequenceResponse, ReliableMessage


class Broken(AssertionError):
    """A promise of reliable messaging was broken."""


class Witness:
    """Remembers messages on the wire that make a promise."""

    def __init__(self) -> None:
        self._made: dict[str, str] = {}
        """The sequence that each CreateSequence led to."""

    def check_said(self, message: ReliableMessage, storage: StorageManager) -> None:
        """Check a message that a side is sending against what it has committed.

        Raises:
            Broken: It acknowledges what it does not have, or makes a second sequence.
        """
        for said in message.acknowledgements:
            with storage.look() as look:
                page = look.incoming_page("", 10_000)
            found = [each for each in page if each.identifier == said.identifier]
            had = found[0].received if found else None
            if said.ranges and (had is None or (had | said.ranges) != had):
                raise Broken(f"{said.ranges} of {said.identifier} acknowledged, but {had} stored")
        if isinstance(message.body, CreateSequenceResponse):
            request, made = message.headers.relates_to or "", message.body.identifier
            if self._made.setdefault(request, made) != made:
                raise Broken(f"CreateSequence {request} made two sequences")


def check_rows(rows: Sequence[Row], what: str, *, in_order: bool = True) -> None:
    """Check that the application got each content once, and each sequence in order.

    Args:
        in_order: Each sequence came in order; replies without a sequence need not.

    Raises:
        Broken: It did not.
    """
    twice = [content for content, times in Counter(row[3] for row in rows).items() if times > 1]
    if twice:
        raise Broken(f"{what} got {', '.join(sorted(twice))} more than once")
    if not in_order:
        return
    numbers: dict[str, int] = {}
    for _, identifier, number, content in rows:
        if number <= numbers.get(identifier, 0):
            raise Broken(f"{what} got {content} out of order")
        numbers[identifier] = number
    order: dict[str, int] = {}
    for _, identifier, _, content in rows:
        place = int(content.split()[-1])
        if place < order.get(identifier, -1):
            raise Broken(f"{what} got {content} after a later one")
        order[identifier] = place


def check_same(
    wanted: set[str], rows: Sequence[Row], what: str, lost: Set[str] = frozenset()
) -> None:
    """Check that the application got all messages that were sent to it, and no others.

    Args:
        lost: Messages that may be missing: they were never acknowledged, and their sender knows.

    Raises:
        Broken: It did not.
    """
    got = {row[3] for row in rows}
    missing = wanted - got - lost
    if missing or got - wanted:
        text = ", ".join(sorted(missing)) or "nothing"
        raise Broken(f"{what} misses {text}; it has {sorted(got - wanted)} that was not sent")


def check_empty(disk: Disk, name: str) -> None:
    """Check that nothing of reliable messaging is kept.

    Raises:
        Broken: Something is.
    """
    if disk.is_empty():
        return
    with disk.storage.look() as look:
        incoming = [f"{each.identifier} {each.state}" for each in look.incoming_page("", 100)]
        outgoing = [f"{each.key} {each.state}" for each in look.outgoing_page("", 100)]
    raise Broken(f"{name} keeps {'; '.join(incoming + outgoing) or 'a buffer'}")
