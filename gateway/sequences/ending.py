"""End a publisher's sequence, whose answer is the last word on the messages received."""

import time
from collections.abc import Callable

from gateway.reliability.destination import Destination, Outcome
from gateway.reliability.party import Party
from gateway.reliability.steps import Step, begin
from gateway.sequences import register
from gateway.sequences.delivering import is_busy


def end_sequence(
    party: Party,
    identifier: str,
    last: int | None,
    destination: Callable[[Step], Destination],
    change: Callable[[Destination, str, int | None], Outcome],
    *,
    waits: bool = False,
) -> Outcome | None:
    """Close or terminate a sequence, unless messages of it wait that could be published.

    Such a message may be with the messaging system already, whose confirmation was lost, or be
    published by another gateway: it cannot be dropped, nor may the publisher hear that it was not
    received (Final), since it would be sent again in another sequence. 1.0 has no Final.

    Args:
        destination: Makes the one of the peer who ends it.
        change: `Destination.close` or `Destination.terminate`.
        waits: Change it although messages wait: nothing is answered.

    Returns:
        None where nothing is changed, because messages wait.
    """
    now = time.time()
    with begin(party, now) as step:
        mine = destination(step)
        before = mine.find(identifier)
        final = before is not None and mine.may_use(before) and before.wire.rm.rules.closes
        if final and not waits and is_busy(step, identifier):
            return None
        outcome = change(mine, identifier, last)
    with begin(party, now) as step:  # It counts rows, which are written where a part ends.
        register.follow(step, before)
    return outcome
